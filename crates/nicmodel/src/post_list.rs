//! Work requests that a core is posting and that share a doorbell.

use crate::world::Traversal;

/// A core's current list of work requests.
#[derive(Debug, Default)]
pub(crate) struct List {
    /// Operations that have begun and whose doorbell has not been rung.
    pub(crate) joined: usize,
    /// Those among them whose work request has been written.
    pub(crate) parked: Vec<Parked>,
    /// True if a check of the list is scheduled for when the core is free.
    pub(crate) is_planned: bool,
}

/// A written work request whose doorbell has not been rung.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) since: u64,
    pub(crate) bytes: u32,
    pub(crate) blue_flame: bool,
    pub(crate) traversal: Box<Traversal>,
}
