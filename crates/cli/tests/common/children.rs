//! Waits for programs that a test has started, for a limited time. Other crates' tests use it, too.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Sleeps until a child process has ended, at most for `longest`. `None` if it is still running
/// then.
pub fn ended_within(child: &mut Child, longest: Duration) -> Option<ExitStatus> {
    let since = Instant::now();
    if let Some(status) = child.try_wait().expect("a child of ours") {
        return Some(status);
    }
    // SAFETY: numbers only; the process is a child that has not been waited for.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    let opened = RawFd::try_from(opened).ok().filter(|descriptor| *descriptor >= 0);
    // SAFETY: just opened for us.
    let process = unsafe { OwnedFd::from_raw_fd(opened.expect("Linux 5.3 or later")) };
    let mut ended = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        let left = longest.saturating_sub(since.elapsed());
        // Rounded up, so that the last call does not return just before the time is over.
        let ms = i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
        // SAFETY: `poll` reads and writes one local `pollfd`.
        let is_over = unsafe { libc::poll(&raw mut ended, 1, ms) } >= 0;
        if is_over {
            return child.try_wait().expect("a child of ours");
        }
    }
}
