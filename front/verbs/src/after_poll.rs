//! Work that is deferred until the program has polled a completion queue. Completion queues call
//! this hook of the connection manager and use no other part of it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::guard::uncancelled;

/// Number of deferred items, so that a poll without any costs one load.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// The function that performs the deferred work.
static WORK: OnceLock<fn()> = OnceLock::new();

/// Registers `work`, which is called after each poll that found its queue empty while `waiting` is
/// not zero. The first function registered stays, because a process has one connection manager.
pub fn set_waiting(waiting: usize, work: fn()) {
    WORK.get_or_init(|| work);
    WAITING.store(waiting, Ordering::Release);
}

/// Number of deferred items.
pub fn waiting() -> usize {
    WAITING.load(Ordering::Acquire)
}

/// Called after a program has polled a completion queue and found it empty.
#[inline]
pub(crate) fn polled() {
    if WAITING.load(Ordering::Relaxed) > 0
        && let Some(work) = WORK.get()
    {
        uncancelled(work);
    }
}
