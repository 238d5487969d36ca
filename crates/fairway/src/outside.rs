//! State of a context that threads read without its lock.

use std::sync::atomic::AtomicU32;

pub struct Outside {
    /// True with several engines: then each has a thread, and no other thread runs polls.
    pub(crate) several: bool,
    /// Number of threads that wait until no system call uses the application's memory.
    pub(crate) quiesce_requests: AtomicU32,
}

impl Outside {
    pub(crate) fn new(several: bool) -> Outside {
        Outside { several, quiesce_requests: AtomicU32::new(0) }
    }
}
