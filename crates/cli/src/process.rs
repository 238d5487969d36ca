//! Process functions of the operating system: cores, signals, end of the parent.

use std::io::{self, Write};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// Set by SIGINT and SIGTERM once [`catch_signals`] was called.
static STOP: AtomicBool = AtomicBool::new(false);

/// A descriptor that is readable once [`STOP`] is set; -1 if there is none.
static STOPPED: AtomicI32 = AtomicI32::new(-1);

/// The signal that has set [`STOP`]; 0 if none has.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Time of the first signal, in milliseconds of the monotonic clock.
static FIRST_MS: AtomicU64 = AtomicU64::new(0);

/// True if further signals do not end the process.
static HELD: AtomicBool = AtomicBool::new(false);

/// Time after the first signal within which further ones are taken for the same: `timeout` sends a
/// signal to the process and then to its group, and a terminal may do the same.
const REPEATED_MS: u64 = 1000;

/// Makes SIGINT and SIGTERM set a flag instead of ending the process. A signal that comes more than
/// [`REPEATED_MS`] after the first ends it, unless [`hold_signals`] was called.
pub(crate) fn catch_signals() {
    extern "C" fn handle(signal: libc::c_int) {
        let now = now_ms();
        SIGNAL.store(signal, Ordering::Release);
        if STOP.swap(true, Ordering::AcqRel) {
            let first = FIRST_MS.load(Ordering::Acquire);
            if !HELD.load(Ordering::Acquire) && is_another(first, now) {
                // SAFETY: async-signal-safe, and never returns.
                unsafe { libc::_exit(128 + signal) };
            }
            return;
        }
        FIRST_MS.store(now, Ordering::Release);
        let one = 1_u64.to_ne_bytes();
        // SAFETY: async-signal-safe; 8 bytes of ours. Without a descriptor it fails, which is fine.
        unsafe { libc::write(STOPPED.load(Ordering::Acquire), one.as_ptr().cast(), one.len()) };
    }
    // SAFETY: numbers only.
    STOPPED.store(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) }, Ordering::Release);
    let handler = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only touches atomics, and calls what a handler may call.
        unsafe { libc::signal(signal, handler) };
    }
}

/// Makes further signals wait for the clean-up that the first one has requested, for commands that
/// would leave behind what they have made in the system.
pub(crate) fn hold_signals() {
    HELD.store(true, Ordering::Release);
}

/// True if a signal at `now` is another request, and not the first one repeated.
fn is_another(first_ms: u64, now_ms: u64) -> bool {
    // 0 while the first one is still being handled.
    first_ms != 0 && now_ms.saturating_sub(first_ms) > REPEATED_MS
}

/// Milliseconds of the monotonic clock, in a way that handlers of signals may use.
fn now_ms() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: async-signal-safe; there is room for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Makes a write past the longest length of a file (`ulimit -f`) fail with EFBIG instead of ending
/// the process. Programs that this process starts are ended by it as ever.
pub(crate) fn survive_file_limit() {
    extern "C" fn handle(_: libc::c_int) {}
    // A signal that is ignored would be so in other programs, too; a handler ends with this one.
    let handler = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGXFSZ, handler) };
}

/// Longest length of a file that this process may write, in bytes; `None` if any length.
pub(crate) fn file_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: there is room for the answer.
    let found = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    (found && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// The permissions that this process's umask removes from new files. Call it before other threads
/// exist, because a kernel that does not show the mask (before Linux 4.7) is asked by setting it.
pub(crate) fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    read_umask(&status).unwrap_or_else(|| {
        // SAFETY: plain numbers. Nothing is created between the calls.
        unsafe {
            let mask = libc::umask(0o777);
            libc::umask(mask);
            mask
        }
    })
}

/// Reads the umask from the text of `/proc/self/status`.
fn read_umask(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}

/// Sleeps for `span`, or until a signal requests the end of the process; true in that case.
pub(crate) fn stopped_within(span: Duration) -> bool {
    let since = Instant::now();
    let descriptor = STOPPED.load(Ordering::Acquire);
    let mut stopped = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    loop {
        let left = span.saturating_sub(since.elapsed());
        if stopping() || left.is_zero() {
            return stopping();
        }
        let ms = i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
        // SAFETY: one entry, which outlives the call; a negative descriptor is passed over.
        unsafe { libc::poll(&raw mut stopped, 1, ms) };
    }
}

/// Whether a signal has requested the end of the process.
pub(crate) fn stopping() -> bool {
    STOP.load(Ordering::Acquire)
}

/// Ends the process with the exit status of one that a signal has ended.
pub(crate) fn exit_by_signal() -> ! {
    std::process::exit(128 + SIGNAL.load(Ordering::Acquire))
}

/// Random bits from the system, for names that no other process can guess.
///
/// # Errors
/// If the system has none.
pub(crate) fn random() -> io::Result<u64> {
    let mut random = [0; 8];
    // SAFETY: there is room for a number of bytes.
    if unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) } != 8 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::from_ne_bytes(random))
}

/// The flag that [`stopping`] reads.
pub(crate) fn stop_flag() -> &'static AtomicBool {
    &STOP
}

/// Makes the heap grow in large steps, and shared by all threads: for commands that allocate all
/// their memory at first. By default glibc gives each thread a heap that grows by a system call for
/// every few pages. Call it before other threads exist.
pub(crate) fn grow_heap_in_large_steps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: plain numbers, which say how memory is taken from the system from now on.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_TOP_PAD, 4 << 20);
    }
}

/// The cores on which this process may run.
pub(crate) fn cores() -> Vec<usize> {
    // SAFETY: a set is an array of integers, for which zero is a value; the kernel fills it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return Vec::new();
        }
        set
    };
    // SAFETY: every number is within the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&core| unsafe { libc::CPU_ISSET(core, &set) }).collect()
}

/// True if more threads are running, or wait for a core, than this process may use cores, this one
/// included. False if the kernel does not tell.
pub(crate) fn is_host_crowded() -> bool {
    let Ok(online) = std::thread::available_parallelism() else { return false };
    // Every host has something short to do once in a while.
    let running = (0..3).filter_map(|round| {
        if round > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        running_threads(&std::fs::read_to_string("/proc/loadavg").ok()?)
    });
    running.min().is_some_and(|running| running > online.get())
}

/// Reads the number of running threads from the text of `/proc/loadavg`.
fn running_threads(text: &str) -> Option<usize> {
    text.split_ascii_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// Pins this thread, and the threads that it starts later, to `core`.
pub(crate) fn pin(core: usize) -> Result<(), Failure> {
    let allowed = cores();
    if !allowed.contains(&core) {
        return Err(Failure::usage(format!(
            "--pin {core}: this process may not run on core {core}: choose from {allowed:?}, or none"
        )));
    }
    // SAFETY: as in `cores`; the core is within the set, because it came out of one.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if result == 0 {
        return Ok(());
    }
    Err(Failure::io(format!("pin to core {core}"), &io::Error::last_os_error()))
}

/// Makes the kernel kill this process when its parent, which must be `parent`, ends. The child
/// itself calls this function, so that nothing has to run between fork and exec.
pub(crate) fn end_with_parent(parent: u32) -> Result<(), Failure> {
    // SAFETY: plain numbers.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
        return Err(Failure::io("follow the parent process", &io::Error::last_os_error()));
    }
    // The parent may have ended before the call.
    if std::os::unix::process::parent_id() != parent {
        return Err(Failure::failed("the parent process has ended: start again"));
    }
    Ok(())
}

/// A child process that is killed when this value is dropped.
pub(crate) struct Helper(pub(crate) Child);

impl Helper {
    pub(crate) fn start(command: &mut Command) -> Result<Self, Failure> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.spawn().map(Helper).map_err(|error| Failure::io(format!("start {name}"), &error))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // The process may have ended by itself; then these calls have no effect.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Prints to standard output, and flushes it. A closed pipe is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::io("print the result", &error))
        }
        _ => Ok(()),
    }
}

/// Prints a line on standard error. A failure, for example because the log's disk is full or its
/// reader has ended, is ignored, because such lines only accompany what the command does.
pub(crate) fn say(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Memory of this host in bytes; `None` if the system does not report it.
pub(crate) fn memory_bytes() -> Option<u64> {
    let memory = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes = line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?;
    Some(kilobytes << 10)
}

/// Largest memory use of this process so far, in bytes; 0 if the system does not report it.
pub(crate) fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kilobytes.and_then(|number| number.trim().parse::<u64>().ok()).map_or(0, |number| number << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsRawFd;

    #[test]
    fn running_threads_are_read() {
        assert_eq!(running_threads("8.95 8.88 5.76 7/345 13232\n"), Some(7));
        assert_eq!(running_threads("8.95 8.88 5.76"), None);
        assert!(running_threads(&std::fs::read_to_string("/proc/loadavg").unwrap()) >= Some(1));
    }

    #[test]
    fn umask_is_read_in_octal() {
        assert_eq!(read_umask("Name:\tfairway\nUmask:\t0027\nState:\tR\n"), Some(0o27));
        assert_eq!(read_umask("Name:\tfairway\n"), None);
    }

    #[test]
    fn signal_within_a_second_is_the_first_one_repeated() {
        let repeated = [(5_000, 5_000), (5_000, 6_000), (0, 6_000)];
        assert!(repeated.iter().all(|(first, now)| !is_another(*first, *now)));
        assert!(is_another(5_000, 6_001));
    }

    /// Runs in a child process, because the flags belong to the process.
    #[test]
    fn held_signals_end_nothing_before_the_clean_up() {
        // SAFETY: the child calls only what may be called in a signal's handler, too.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            catch_signals();
            hold_signals();
            // SAFETY: likewise. The first signal seems to be of long ago.
            unsafe {
                libc::raise(libc::SIGTERM);
                FIRST_MS.store(1, Ordering::Release);
                libc::raise(libc::SIGTERM);
                libc::_exit(i32::from(!stopping()));
            }
        }
        let mut status = 0;
        // SAFETY: a child that has not been waited for; room for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
    }

    /// Runs in a child process, because the flag belongs to the process.
    #[test]
    fn a_signal_ends_a_sleep() {
        let (mut ready, report) = io::pipe().expect("a pipe");
        // SAFETY: the child calls only what may be called in a signal's handler, too.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: likewise. The alarm ends the child if the signal does not.
            unsafe {
                libc::alarm(60);
                catch_signals();
                libc::write(report.as_raw_fd(), [1_u8].as_ptr().cast(), 1);
                libc::_exit(i32::from(!stopped_within(Duration::from_secs(3600))));
            }
        }
        ready.read_exact(&mut [0]).expect("the child catches signals");
        let mut status = 0;
        // SAFETY: a child that has not been waited for; room for its status.
        unsafe {
            assert_eq!(libc::kill(child, libc::SIGTERM), 0);
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        }
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
    }
}
