//! Signal masks, so that a program's handlers run only on the program's own threads.

/// Signals that the kernel raises because of the thread's own instructions. If a thread blocks one
/// of them, the kernel ends the process even if there is a handler (`memory/guard.rs` has one).
const OWN_FAULTS: [libc::c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];

/// Calls `start`, which starts threads. These inherit a mask that blocks every signal except those
/// for faults of the thread itself, so no other handler of the program runs on them.
pub fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    // SAFETY: the sets are plain memory, filled before they are used; each call only concerns this
    // thread.
    let before = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        for signal in OWN_FAULTS {
            libc::sigdelset(&mut all, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        before
    };
    let result = start();
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the signals that this thread blocks, as the system shows them.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn threads_started_within_block_all_signals_but_faults_and_the_starter_does_not() {
        let before = blocked();
        let started = without_signals(|| std::thread::spawn(blocked));
        let bit = |signal: i32| 1_u64 << (signal - 1);
        let wanted = bit(libc::SIGTERM) | bit(libc::SIGINT) | bit(libc::SIGUSR1);
        let faults = OWN_FAULTS.into_iter().fold(0, |all, signal| all | bit(signal));
        assert_eq!(started.join().unwrap() & (wanted | faults), wanted);
        assert_eq!(blocked(), before);
    }
}
