//! Events that a context reports without a request.

use fairway_ub::{JettyState, Status};

use crate::peer::Peer;

/// An event of a peer, of a path to it, or of a Jetty.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A peer has connected to this context.
    Connected(Peer),
    /// Nothing was received from a peer for too long. Its operations have completed in error. If
    /// [`Peer::was_received`] is false, the network let only the messages of set-up through.
    PeerDead(Peer),
    /// A peer has closed the connection. Its operations have completed in error.
    PeerClosed(Peer),
    /// A peer has used too many wrong keys for segments, Jetties or mailboxes
    /// ([`Profile::refused_keys`](fairway_ub::Profile::refused_keys)): it may be guessing. The
    /// connection was closed, and operations to the peer have completed as flushed.
    KeysRefused(Peer),
    /// An operation of a peer, set aside because it arrived before others, could not be executed
    /// because memory of this context was gone by then, and the failure of that operation alone
    /// could not be reported to the peer. The connection was closed, so that the peer does not take
    /// the operation for a success; operations to the peer have completed as flushed.
    ExecutionLost(Peer),
    /// A connection that a peer had opened was closed because it was idle and few channels were
    /// left ([`Builder::evict_idle`](crate::Builder::evict_idle)).
    Evicted(Peer),
    /// A path to a peer has become shorter while the connection was open: packets as long as set-up
    /// proved to arrive were lost for several seconds, while the peer answered short ones. The
    /// connection was closed, and operations to the peer have completed as flushed. The next
    /// connection finds the length that fits.
    PathShortened(Peer),
    /// One of the channels to a peer is dead, or the peer has found it dead, while another one
    /// works. The connection goes on without it: WRITEs and READs that were under way on it go by
    /// the others, and nothing has failed.
    ChannelDead {
        /// The peer at the other end.
        peer: Peer,
        /// The channel's place among those of the connection, 0 for the first.
        channel: u32,
    },
    /// A path stopped working and is not used for now.
    PathDown {
        /// The peer at the other end.
        peer: Peer,
        /// The path's number.
        path: u8,
    },
    /// A path works again.
    PathUp {
        /// The peer at the other end.
        peer: Peer,
        /// The path's number.
        path: u8,
    },
    /// An operation of a Jetty failed, and its exception mode stopped it.
    JettyFault {
        /// The Jetty's number.
        jetty: u32,
        /// The status of the operation's completion.
        status: Status,
        /// The Jetty's state now.
        state: JettyState,
    },
    /// A Jetty that was suspended, or has failed, has no operation under way any more.
    JettyDrained {
        /// The Jetty's number.
        jetty: u32,
    },
}

impl Event {
    /// The peer that the event concerns, if there is one.
    pub fn peer(&self) -> Option<&Peer> {
        match self {
            Event::Connected(peer) | Event::PeerDead(peer) => Some(peer),
            Event::PeerClosed(peer) | Event::KeysRefused(peer) | Event::Evicted(peer) => Some(peer),
            Event::PathShortened(peer) | Event::ExecutionLost(peer) => Some(peer),
            Event::PathDown { peer, .. } | Event::PathUp { peer, .. } => Some(peer),
            Event::ChannelDead { peer, .. } => Some(peer),
            Event::JettyFault { .. } | Event::JettyDrained { .. } => None,
        }
    }
}
