//! The only module that reads the clock, and that draws random bytes.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fairway_wire as wire;

use crate::error::SystemError;

/// Span within which a time that was read earlier still tells the days of an instant: one day.
const RECENT_PS: u64 = 86_400_000_000_000_000;

/// Reads the monotonic clock, in the protocol's type.
pub fn now() -> wire::Instant {
    wire::Instant::from_ns(now_ns())
}

/// Reads the monotonic clock, in nanoseconds.
fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is written and outlives the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Returns an instant of [`now`] in nanoseconds, as datapaths use them. These do not wrap, whereas
/// instants wrap after 213 days of uptime.
pub fn ns(at: wire::Instant) -> u64 {
    /// A time of the clock that was read within the last day; 0 if none was.
    static RECENT_NS: AtomicU64 = AtomicU64::new(0);
    let recent_ns = RECENT_NS.load(Ordering::Relaxed);
    if recent_ns != 0 && span_ps(recent_ns, at).unsigned_abs() < RECENT_PS {
        return ns_near(recent_ns, at);
    }
    let recent_ns = now_ns();
    RECENT_NS.store(recent_ns, Ordering::Relaxed);
    ns_near(recent_ns, at)
}

/// Returns an instant in nanoseconds, by a time of the clock within 106 days of it.
fn ns_near(recent_ns: u64, at: wire::Instant) -> u64 {
    recent_ns.saturating_add_signed(span_ps(recent_ns, at).div_euclid(1000))
}

/// Picoseconds from a time of the clock to an instant within 106 days of it.
fn span_ps(recent_ns: u64, at: wire::Instant) -> i64 {
    at.as_ps().wrapping_sub(wire::Instant::from_ns(recent_ns).as_ps()).cast_signed()
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

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_NS: u64 = 86_400_000_000_000;

    #[test]
    fn nanoseconds_of_instants_do_not_wrap() {
        // Instants wrap within the 214th day.
        for day in [0, 1, 213, 214, 427, 428, 10_000] {
            let recent_ns = 1 + day * DAY_NS;
            for later_ns in [0, 1, DAY_NS, 100 * DAY_NS] {
                let ns = recent_ns + later_ns;
                assert_eq!(ns_near(recent_ns, wire::Instant::from_ns(ns)), ns);
                assert_eq!(ns_near(ns, wire::Instant::from_ns(recent_ns)), recent_ns);
            }
        }
    }

    #[test]
    fn nanoseconds_of_the_present_are_those_of_the_clock() {
        let before = now_ns();
        let present = ns(now());
        assert!((before..=now_ns()).contains(&present));
        // An instant of another day is no mistake.
        let later = now() + wire::Duration::from_secs(3 * 86_400);
        assert_eq!(wire::Instant::from_ns(ns(later)), later);
    }
}
