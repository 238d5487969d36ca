//! The only module that reads the clock, and that draws random bytes.

use std::io;
use std::time::Duration;

use fairway_wire as wire;

use crate::error::SystemError;

/// Reads the monotonic clock, in the protocol's type.
pub fn now() -> wire::Instant {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is written and outlives the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    let ns = (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64);
    wire::Instant::from_ns(ns)
}

/// Reads the real-time clock, in nanoseconds; the kernel timestamps packets by it.
pub fn real_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is written and outlives the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Converts a span of the protocol to one of the standard library.
pub fn to_std(span: wire::Duration) -> Duration {
    Duration::from_nanos(span.as_ns())
}

/// Converts a span of the standard library to one of the protocol (at most 106 days).
pub fn from_std(span: Duration) -> wire::Duration {
    const LONGEST: u64 = i64::MAX as u64 / 1000;
    wire::Duration::from_ns(u64::try_from(span.as_nanos()).unwrap_or(LONGEST).min(LONGEST))
}

/// Returns random bytes, which no peer can predict.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], SystemError> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        // SAFETY: the kernel writes at most `N - filled` bytes behind the first `filled`.
        let count = unsafe { libc::getrandom(bytes[filled..].as_mut_ptr().cast(), N - filled, 0) };
        match usize::try_from(count) {
            Ok(count) => filled += count,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(SystemError::new("draw random bytes", error));
                }
            }
        }
    }
    Ok(bytes)
}

/// Returns a random number, which no peer can predict.
pub fn random() -> Result<u64, SystemError> {
    Ok(u64::from_ne_bytes(random_bytes()?))
}
