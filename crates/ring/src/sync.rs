//! The atomics everything here is made of: the standard library's, or loom's under test.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};
