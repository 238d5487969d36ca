//! Work requests that a core has begun to post, and that share a doorbell.

use crate::world::Traversal;

/// What one core posts.
#[derive(Debug, Default)]
pub(crate) struct List {
    /// Operations that have begun and for which the doorbell has not been rung.
    pub(crate) joined: usize,
    /// Those of them whose work request is written, since when, and how long it is.
    pub(crate) parked: Vec<Parked>,
    /// It is looked at when the core is free.
    pub(crate) is_planned: bool,
}

/// A work request that is written, and whose doorbell has not been rung.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) since: u64,
    pub(crate) bytes: u32,
    pub(crate) blue_flame: bool,
    pub(crate) traversal: Box<Traversal>,
}
