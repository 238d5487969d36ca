//! What is known of a context without its lock.

use std::sync::atomic::AtomicU32;

pub struct Outside {
    /// With several engines each has a thread, and no other thread runs turns.
    pub(crate) several: bool,
    /// How many threads wait for a moment in which no memory is lent to system calls.
    pub(crate) quiesce_requests: AtomicU32,
}

impl Outside {
    pub(crate) fn new(several: bool) -> Outside {
        Outside { several, quiesce_requests: AtomicU32::new(0) }
    }
}
