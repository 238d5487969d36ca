//! Signals, of which a program's handlers run on the program's own threads only.

/// Does something that starts threads. They inherit that every signal is blocked, so no handler of
/// the program ever runs on them.
pub fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    // SAFETY: the sets are plain memory, filled before they are used; each call only concerns this
    // thread.
    let before = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
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

    /// The signals that this thread blocks, as the system shows them.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn threads_started_within_block_every_signal_and_the_starter_does_not() {
        let before = blocked();
        let started = without_signals(|| std::thread::spawn(blocked));
        let bit = |signal: i32| 1_u64 << (signal - 1);
        let wanted = bit(libc::SIGTERM) | bit(libc::SIGINT) | bit(libc::SIGUSR1);
        assert_eq!(started.join().unwrap() & wanted, wanted);
        assert_eq!(blocked(), before);
    }
}
