//! What the tool asks of the operating system about processes: cores, signals, ends of parents.

use std::io::{self, Write};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

/// Set by SIGINT and SIGTERM once [`catch_signals`] was called.
static STOP: AtomicBool = AtomicBool::new(false);

/// Lets SIGINT and SIGTERM ask for an end instead of ending the process. A second one ends it.
pub(crate) fn catch_signals() {
    extern "C" fn handle(signal: libc::c_int) {
        if STOP.swap(true, Ordering::AcqRel) {
            // SAFETY: async-signal-safe, and never returns.
            unsafe { libc::_exit(128 + signal) };
        }
    }
    let handler = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only touches an atomic, and calls what a handler may call.
        unsafe { libc::signal(signal, handler) };
    }
}

/// True once the process was asked to end.
pub(crate) fn stopping() -> bool {
    STOP.load(Ordering::Acquire)
}

/// The flag behind [`stopping`].
pub(crate) fn stop_flag() -> &'static AtomicBool {
    &STOP
}

/// Has the heap grow in large steps and for all threads alike: for commands that take all their memory
/// at first, and then no more. By itself glibc gives each thread a heap that grows by a system call
/// for every few pages. To be called before there are other threads.
pub(crate) fn grow_heap_in_large_steps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: plain numbers, which say how memory is taken from the system from now on.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_TOP_PAD, 4 << 20);
    }
}

/// The cores this process may run on.
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

/// Pins this thread, and those it starts from now on, to `core`.
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

/// Ends this process when its parent, which must be `parent`, ends. Called by the child itself, so
/// that nothing has to run between fork and exec.
pub(crate) fn end_with_parent(parent: u32) -> Result<(), Failure> {
    // SAFETY: plain numbers.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
        return Err(Failure::io("follow the parent process", &io::Error::last_os_error()));
    }
    // It may have ended before the call.
    if std::os::unix::process::parent_id() != parent {
        return Err(Failure::failed("the parent process has ended: start again"));
    }
    Ok(())
}

/// A process that is ended, by its own number, when this value goes.
pub(crate) struct Helper(pub(crate) Child);

impl Helper {
    pub(crate) fn start(command: &mut Command) -> Result<Self, Failure> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.spawn().map(Helper).map_err(|error| Failure::io(format!("start {name}"), &error))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It may have ended by itself, and then there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Prints to standard output at once. A reader that has gone is no failure of ours.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::io("print the result", &error))
        }
        _ => Ok(()),
    }
}
