//! An application's record of what it has set up.

use crate::operation::Place;
use fairway_ub::wire::{Instant, JettyId};
use fairway_ub::{ChannelId, Dispatch, ExceptionMode, JettyState, SegmentId};

/// Use of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Read by peers, and source of sends; never changes.
    Source,
    /// Source of sends; not accessible to peers.
    Private,
    /// Written by peers, which may not read it.
    Target,
    /// Written and read by peers.
    Open,
    /// Filled by READs of this node.
    Landing,
    /// Filled by peers' sends: receive buffers only.
    Inbox,
    /// Words that peers change atomically.
    Words,
    /// Written and read by peers repeatedly, with a range for each Jetty.
    Board,
    /// Accessed by peers' stores and loads only.
    Cells,
    /// Source of stores to peers; never changes.
    Ink,
}

/// An application's record of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) key: usize,
    pub(crate) id: SegmentId,
    pub(crate) role: Role,
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) token: u32,
}

/// An application's record of a Jetty.
#[derive(Clone, Debug)]
pub(crate) struct Jetty {
    pub(crate) alive: bool,
    /// State of the Jetty, if it is alive.
    pub(crate) state: JettyState,
    pub(crate) exception: ExceptionMode,
    /// True if the NIC has reported, since the Jetty was last ready, that none of its operations is
    /// in flight.
    pub(crate) drained: bool,
    /// True if the Jetty was failed in this tick, and the flushed completions have not been read
    /// yet.
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

/// An application's record of a Jetty group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) id: JettyId,
    pub(crate) alive: bool,
    pub(crate) dispatch: Dispatch,
    /// Its members, in the order in which they joined.
    pub(crate) members: Vec<JettyId>,
}

/// The application of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Application {
    pub(crate) segments: Vec<Segment>,
    /// Segments that are deregistered and may be freed once the NIC reports their release.
    pub(crate) leaving: Vec<Segment>,
    pub(crate) jetties: Vec<Jetty>,
    pub(crate) groups: Vec<Group>,
    /// The NIC's staging memory for early packets.
    pub(crate) staging: Option<SegmentId>,
    pub(crate) awake_since: Instant,
}

/// A channel between two nodes, through all its openings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Connection {
    pub(crate) ends: [Option<ChannelId>; 2],
    pub(crate) reopening: bool,
}
