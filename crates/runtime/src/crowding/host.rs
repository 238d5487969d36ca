//! What the kernel reports of this thread and of the host.

use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

use fairway_wire::Duration;

/// Returns the time for which this thread has waited for a core. Zero where the kernel does not
/// tell: then no host counts as crowded.
pub(super) fn waited() -> Duration {
    let mut text = [0; 64];
    parse_waited(read("/proc/thread-self/schedstat", &mut text)).unwrap_or(Duration::ZERO)
}

/// True if the host has a core for each thread that is running or waits for a core, and this
/// process may use all of its cores. False also if the kernel does not tell.
///
/// A process that is restricted to some cores, or to some share of their time, may wait for them
/// although others are idle.
pub(super) fn has_core_for_each() -> bool {
    let mut text = [0; 64];
    let busy = parse_busy(read("/proc/loadavg", &mut text));
    busy.zip(unrestricted_cores()).is_some_and(|(busy, cores)| busy <= cores)
}

/// Number of the host's cores; `None` if this process may not use all of them.
fn unrestricted_cores() -> Option<usize> {
    static CORES: OnceLock<Option<usize>> = OnceLock::new();
    *CORES.get_or_init(|| {
        // SAFETY: the call reads a number.
        let online = usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).ok()?;
        let usable = std::thread::available_parallelism().ok()?.get();
        (usable >= online).then_some(online)
    })
}

/// Reads the beginning of a file. It is not kept open, because it would belong to the parent after
/// a fork.
fn read<'a>(path: &str, text: &'a mut [u8]) -> &'a [u8] {
    let read = File::open(path).and_then(|mut file| file.read(text));
    &text[..read.unwrap_or(0)]
}

/// Reads the second of the numbers in `/proc/<pid>/schedstat`: nanoseconds spent waiting for a
/// core.
fn parse_waited(text: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(text).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_ns)
}

/// Reads the number of threads that are running or wait for a core, the first of the fourth field
/// of `/proc/loadavg`.
fn parse_busy(text: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(text).ok()?;
    text.split_ascii_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_time_is_the_second_number_of_the_kernels_file() {
        assert_eq!(parse_waited(b"1841757 2500 2\n"), Some(Duration::from_ns(2500)));
        assert_eq!(parse_waited(b""), None);
        let before = waited();
        assert!(waited() >= before && before < Duration::from_secs(1000), "{before:?}");
    }

    #[test]
    fn busy_threads_are_the_first_number_of_the_fourth_field() {
        assert_eq!(parse_busy(b"2.81 1.52 1.03 3/88 2105\n"), Some(3));
        assert_eq!(parse_busy(b"2.81 1.52 1.03\n"), None);
        assert_eq!(parse_busy(b""), None);
        let mut text = [0; 64];
        let busy = parse_busy(read("/proc/loadavg", &mut text));
        assert!(busy.is_some_and(|busy| busy >= 1), "this thread is running: {busy:?}");
    }
}
