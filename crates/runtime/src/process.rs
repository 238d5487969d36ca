//! Children of `fork`: they have the memory of their parent, but none of its threads.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of forks between the process that first called [`HomeProcess::this`] and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process in which a value was made.
///
/// A child of `fork` must not touch locks, threads and sockets of its parent: a thread that does
/// not exist in the child may hold the lock, and packets that the child sends break the parent's
/// connections. A comparison costs one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HomeProcess {
    forks: u32,
}

impl HomeProcess {
    /// Returns the current process.
    pub fn this() -> HomeProcess {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: the handler only uses an atomic. If the system has no memory to register it,
            // children are not recognised.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        HomeProcess { forks: FORKS.load(Ordering::Relaxed) }
    }

    /// False in a child that was forked after the value was made.
    pub fn is_this(self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what `work` returns in a child of this process.
    fn in_forked_child(work: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child only compares numbers, and ends without running anything else.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "the system has a process");
        if child == 0 {
            let status = i32::from(work());
            // SAFETY: has no conditions.
            unsafe { libc::_exit(status) };
        }
        let mut status = 0;
        // SAFETY: the status has room for the result.
        let waited = unsafe { libc::waitpid(child, &mut status, 0) };
        assert!(waited == child && libc::WIFEXITED(status), "the child ended by itself");
        libc::WEXITSTATUS(status) == 1
    }

    #[test]
    fn forked_child_is_another_process_and_the_parent_stays_the_same() {
        let home = HomeProcess::this();
        assert!(in_forked_child(|| !home.is_this() && HomeProcess::this().is_this()));
        assert!(home.is_this() && home == HomeProcess::this());
    }
}
