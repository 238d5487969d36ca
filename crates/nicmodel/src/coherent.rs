//! A coherent fabric for comparison: caches of many hosts, kept coherent by the directory of the
//! host that owns the memory. It is not a protocol of Fairway; only this comparison uses it.
//!
//! It belongs to the family of CXL.cache and CHI, with three states (modified, shared, invalid). A
//! load that misses requests a shared line, and a store an owned one. The home consults its
//! directory, snoops the caches that have to release the line, waits for all responses, and grants.
//! It serves one request for a line at a time, and an agent reports the arrival of a grant. Shared
//! lines are dropped silently, owned ones are returned with their data. The directory is finite and
//! set-associative: when a set is full, its least recently used line is recalled from all caches.
//!
//! The state machines have no clock and no bytes, like the engines; `adapter/coherent.rs` connects
//! them.

mod agent;
mod directory;
mod home;

pub(crate) use agent::Agent;
pub(crate) use home::Home;

/// Kind of a message about a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To the home: requests a shared copy.
    GetShared,
    /// To the home: requests ownership; with `whole`, the line's data is not needed.
    GetOwned { whole: bool },
    /// To the home: returns the line with its data.
    Return,
    /// To the home: reports an executed snoop, whether the line was `held`, and whether its
    /// modified data is included.
    Answer { held: bool, data: bool },
    /// To the home: reports the arrival of a grant.
    Arrived,
    /// From the home: requests the release of the line or, with `keep`, only of the right to change
    /// it.
    Snoop { keep: bool },
    /// From the home: grants the line.
    Grant { owned: bool, data: bool },
    /// From the home: confirms that returned data is in place.
    Returned,
}

/// A message of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    pub(crate) line: u64,
}

impl Message {
    /// True if the message includes the line's data.
    pub(crate) const fn has_data(self) -> bool {
        match self.kind {
            Kind::Return => true,
            Kind::Answer { data, .. } | Kind::Grant { data, .. } => data,
            _ => false,
        }
    }
}

/// An access to memory or a cache that has begun, and whose completion has to be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// At the home: data of a snoop's response, or of a returned line.
    Answered {
        from: usize,
        line: u64,
        held: bool,
    },
    Returned {
        from: usize,
        line: u64,
    },
    /// At a cache: a grant, or a snoop.
    Granted {
        line: u64,
    },
    Snooped {
        line: u64,
    },
}

/// Counters of the home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) snoops: u64,
    /// Lines recalled because the directory had no room.
    pub(crate) back_invalidations: u64,
    /// Maximum number of entries in use at once, and the size of the whole directory.
    pub(crate) entries_most: u64,
    pub(crate) directory_bytes: u64,
}

#[cfg(test)]
mod tests;
