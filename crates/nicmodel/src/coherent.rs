//! A coherent fabric to compare with: caches of many hosts, kept coherent by the directory of the
//! host whose memory it is. It is no protocol of Fairway's, and only this comparison has it.
//!
//! The family of CXL.cache and CHI, with three states (modified, shared, invalid): a load that
//! misses asks for a shared line, a store for one that it owns; the home looks into its directory,
//! snoops the caches that have to give the line up, waits for all answers, and grants. It serves
//! one request of a line at a time, and an agent reports the arrival of a grant. Shared lines are
//! dropped silently, owned ones are returned with their data. The directory is finite and
//! set-associative: when a set is full, its least recently used line is called back from all
//! caches with it.
//!
//! State machines without clock or bytes, as the engines are; `adapter/coherent.rs` connects them.

mod agent;
mod directory;
mod home;

pub(crate) use agent::Agent;
pub(crate) use home::Home;

/// What is said of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To the home: a copy is wanted.
    GetShared,
    /// To the home: the only copy is wanted; `whole`: and not what it holds.
    GetOwned { whole: bool },
    /// To the home: the line comes back, with its data.
    Return,
    /// To the home: a snoop was obeyed; the line was there; its data, if it was changed, is here.
    Answer { held: bool, data: bool },
    /// To the home: a grant has arrived.
    Arrived,
    /// From the home: give the line up, or (`keep`) only the right to change it.
    Snoop { keep: bool },
    /// From the home: here it is.
    Grant { owned: bool, data: bool },
    /// From the home: what was returned is in place.
    Returned,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    pub(crate) line: u64,
}

impl Message {
    /// Does a line's data come with it?
    pub(crate) const fn has_data(self) -> bool {
        match self.kind {
            Kind::Return => true,
            Kind::Answer { data, .. } | Kind::Grant { data, .. } => data,
            _ => false,
        }
    }
}

/// What was begun in memory or in a cache, and has to be said to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// At the home: data of an answer to a snoop, or of a line returned.
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

/// What the home has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) snoops: u64,
    /// Lines called back because the directory had no room.
    pub(crate) back_invalidations: u64,
    /// Most entries in use at once, and what the whole directory takes.
    pub(crate) entries_most: u64,
    pub(crate) directory_bytes: u64,
}

#[cfg(test)]
mod tests;
