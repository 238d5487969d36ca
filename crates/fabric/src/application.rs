//! What an application knows of what it has set up.

use crate::operation::Place;
use fairway_engine::wire::{Instant, JettyId};
use fairway_engine::{ChannelId, Dispatch, ExceptionMode, JettyState, SegmentId};

/// What a segment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Read by peers and sent from; never changes.
    Source,
    /// Sent from; closed to peers.
    Private,
    /// Written by peers; peers may not read it.
    Target,
    /// Written and read by peers.
    Open,
    /// Filled by our reads.
    Landing,
    /// Filled by sends of peers: receive buffers, and nothing else.
    Inbox,
    /// Words that peers change atomically.
    Words,
    /// Written and read by peers again and again, a range for each Jetty.
    Board,
    /// What peers store to and load from, and nothing else.
    Cells,
    /// What is stored at peers; never changes.
    Ink,
}

/// A segment as the application knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) key: usize,
    pub(crate) id: SegmentId,
    pub(crate) role: Role,
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) token: u32,
}

/// A Jetty as the application knows it.
#[derive(Clone, Debug)]
pub(crate) struct Jetty {
    pub(crate) alive: bool,
    /// What it is, if it is alive.
    pub(crate) state: JettyState,
    pub(crate) exception: ExceptionMode,
    /// It was said that nothing of it is under way, since it was last ready.
    pub(crate) drained: bool,
    /// It was failed in this turn, and what that flushed has not been heard of.
    pub(crate) fresh: bool,
    /// Length of every receive buffer.
    pub(crate) capacity: u32,
    pub(crate) posted: u32,
    /// Buffers that may be posted again.
    pub(crate) buffers: Vec<Place>,
}

impl Jetty {
    pub(crate) fn new(capacity: u32) -> Jetty {
        Jetty {
            alive: false,
            state: JettyState::Ready,
            exception: ExceptionMode::Continue,
            drained: false,
            fresh: false,
            capacity,
            posted: 0,
            buffers: Vec::new(),
        }
    }
}

/// A Jetty group as the application knows it.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) id: JettyId,
    pub(crate) alive: bool,
    pub(crate) dispatch: Dispatch,
    /// Its members, in the order in which they joined.
    pub(crate) members: Vec<JettyId>,
}

/// The application on one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Application {
    pub(crate) segments: Vec<Segment>,
    /// Deregistered, but not yet released: to be freed when the NIC says so.
    pub(crate) leaving: Vec<Segment>,
    pub(crate) jetties: Vec<Jetty>,
    pub(crate) groups: Vec<Group>,
    /// Memory for what comes too early.
    pub(crate) staging: Option<SegmentId>,
    pub(crate) awake_since: Instant,
}

/// A channel between two nodes, through all its lives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Connection {
    pub(crate) ends: [Option<ChannelId>; 2],
    pub(crate) reopening: bool,
}
