//! Work that waits until the program has polled a completion queue: a hook of the connection
//! manager, which completion queues call and know nothing else of.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much work waits, so that a poll without any costs one load.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// The function that does what is due.
static WORK: OnceLock<fn()> = OnceLock::new();

/// Has `work` called after each poll that found its queue empty, while `waiting` is not zero. The
/// first function stays: there is one connection manager in a process.
pub fn set_waiting(waiting: usize, work: fn()) {
    WORK.get_or_init(|| work);
    WAITING.store(waiting, Ordering::Release);
}

/// How much work waits.
pub fn waiting() -> usize {
    WAITING.load(Ordering::Acquire)
}

/// Called after a program has polled a completion queue and found it empty.
#[inline]
pub(crate) fn polled() {
    if WAITING.load(Ordering::Relaxed) > 0
        && let Some(work) = WORK.get()
    {
        work();
    }
}
