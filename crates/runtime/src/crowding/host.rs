//! What the kernel reports of this thread and of the host.

use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

use fairway_wire::Duration;

/// The time for which this thread has waited for a core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waited {
    /// Number of times that another thread has run on the core instead of this one, or that it has
    /// been idle; without that there is no wait. `None` before the first reading.
    switches: Option<i64>,
    time: Duration,
}

impl Waited {
    pub(super) const UNREAD: Waited = Waited { switches: None, time: Duration::ZERO };

    /// Returns the time up to now. Zero where the kernel does not tell: then no host counts as
    /// crowded. The file, which takes 10 to 20 times as long as the number of switches, is read
    /// only if that has changed.
    pub(super) fn read(&mut self) -> Duration {
        let switches = switches();
        if switches.is_none() || switches != self.switches {
            let mut text = [0; 64];
            let waited = parse_waited(read("/proc/thread-self/schedstat", &mut text));
            *self = Waited { switches, time: waited.unwrap_or(Duration::ZERO) };
        }
        self.time
    }
}

/// Number of times that this thread has left its core. `None` if the kernel does not tell.
fn switches() -> Option<i64> {
    // SAFETY: the structure consists of integers, for which zeros are a value, and the kernel
    // writes one such structure.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) == 0).then_some(usage)
    };
    usage.map(|usage| usage.ru_nvcsw.wrapping_add(usage.ru_nivcsw))
}

/// Returns the time for which other threads of this process have run. Zero if the kernel does not
/// tell.
pub(super) fn time_of_others() -> Duration {
    let read = |clock| {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes one time.
        let done = unsafe { libc::clock_gettime(clock, &raw mut time) } == 0;
        done.then(|| Duration::from_ns(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64))
    };
    let all = read(libc::CLOCK_PROCESS_CPUTIME_ID);
    let own = read(libc::CLOCK_THREAD_CPUTIME_ID);
    all.zip(own).map_or(Duration::ZERO, |(all, own)| all.saturating_sub(own))
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

/// Reads what is kept afterwards: that takes memory, and polls take none.
pub(super) fn prepare() {
    unrestricted_cores();
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
        let [mut first, mut second] = [Waited::UNREAD; 2];
        let (before, after) = (first.read(), second.read());
        assert!(after >= before && before < Duration::from_secs(1000), "{before:?}");
    }

    #[test]
    fn time_of_other_threads_grows_with_theirs() {
        let before = time_of_others();
        let works = || (0..1_000_000_u64).fold(0, |sum, number| std::hint::black_box(sum ^ number));
        std::thread::spawn(works).join().expect("it ends");
        assert!(time_of_others() > before);
    }

    #[test]
    fn waiting_time_is_read_again_after_the_thread_has_left_its_core() {
        let mut waited = Waited::UNREAD;
        waited.read();
        let false_time = Duration::from_secs(1_000_000);
        let unread = |waited: &mut Waited| {
            waited.time = false_time;
            waited.read() == false_time
        };
        // Other threads may run here in one of these short times, but not in all.
        assert!((0..1000).any(|_| unread(&mut waited)), "nothing can have changed");
        let leaves = |_| std::thread::spawn(|| ()).join().is_ok() && !unread(&mut waited);
        assert!((0..1000).any(leaves), "it has waited for another thread");
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
