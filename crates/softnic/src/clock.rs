//! The one place that reads the clock, and the one that draws random bytes.

use std::io;
use std::time::Duration;

use fairway_engine::wire;

use crate::error::Error;

/// The monotonic clock as the engine counts it.
pub(crate) fn now() -> wire::Instant {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is written and outlives the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    let ns = (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64);
    wire::Instant::from_ns(ns)
}

/// The real-time clock, in nanoseconds: the one by which the kernel stamps packets.
pub(crate) fn real_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is written and outlives the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// A span of the engine's as one of the standard library's.
pub(crate) fn to_std(span: wire::Duration) -> Duration {
    Duration::from_nanos(span.as_ns())
}

/// A span of the standard library's as one of the engine's (at most 106 days).
pub(crate) fn from_std(span: Duration) -> wire::Duration {
    const LONGEST: u64 = i64::MAX as u64 / 1000;
    wire::Duration::from_ns(u64::try_from(span.as_nanos()).unwrap_or(LONGEST).min(LONGEST))
}

/// Bytes that nobody can foresee.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], Error> {
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
                    return Err(Error::io("draw random bytes", error));
                }
            }
        }
    }
    Ok(bytes)
}

/// A number that nobody can foresee.
pub(crate) fn random() -> Result<u64, Error> {
    Ok(u64::from_ne_bytes(random_bytes()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Memory, Rights};

    /// Has the system refuse random bytes to this thread.
    fn refuse_random_bytes() {
        let statement =
            |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
        let jump = libc::sock_filter {
            code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            jt: 0,
            jf: 1,
            k: libc::SYS_getrandom as u32,
        };
        let mut filter = [
            // The number of the call is what the kernel shows first.
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
            jump,
            statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
            statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the program outlives the calls, which change this thread alone.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            let (set, mode) = (libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER);
            let set = libc::prctl(set, mode, &raw const program);
            assert_eq!(set, 0, "{}", io::Error::last_os_error());
        }
    }

    /// Keys were zero where the system had no random bytes.
    #[test]
    fn without_random_bytes_there_are_errors_and_no_keys() {
        let builder = || Context::builder().bind(std::net::Ipv4Addr::LOCALHOST.into());
        let context = builder().build().expect("a context");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                refuse_random_bytes();
                assert!(random().is_err() && random_bytes::<32>().is_err());
                let memory = Memory::zeroed(64).expect("memory");
                assert!(
                    context.register(memory, Rights::READ_WRITE).is_err(),
                    "a key that is none"
                );
                assert!(builder().build().is_err(), "a node without secrets");
            });
        });
        let memory = Memory::zeroed(64).expect("memory");
        context.register(memory, Rights::READ_WRITE).expect("another thread has random bytes");
    }
}
