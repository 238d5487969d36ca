//! The atomics of this crate: the standard library's, or loom's under test.

#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(all(loom, test))]
pub(crate) use loom::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};
