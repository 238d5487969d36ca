//! Counts of the ranks on a host.

/// Counts of the ranks on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Ranks that have finished.
    pub(crate) done: u32,
    /// Messages that they have received.
    pub(crate) messages: u64,
    /// Operations that failed. A rank that waits for one of them waits for ever.
    pub(crate) failed: u64,
}
