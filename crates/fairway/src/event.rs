//! What happens without being asked for.

use fairway_engine::{JettyState, Status};

use crate::peer::Peer;

/// Something happened to a peer, to the way to it, or to a Jetty.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A peer has connected to this context.
    Connected(Peer),
    /// A peer was not heard from for too long. Its operations have completed in error.
    PeerDead(Peer),
    /// A peer has closed the connection. Its operations have completed in error.
    PeerClosed(Peer),
    /// A peer has used too many wrong keys for segments, Jetties or mailboxes
    /// ([`Profile::refused_keys`](fairway_engine::Profile::refused_keys)): it may be guessing. The
    /// connection was closed, and operations to the peer have completed as flushed.
    KeysRefused(Peer),
    /// Memory of this context was gone when the turn of a peer's operation came, which had arrived
    /// before others, and the peer could not be told of that operation alone. The connection was
    /// closed, so that the peer does not take the operation for a success; operations to the peer
    /// have completed as flushed.
    ExecutionLost(Peer),
    /// A connection that a peer had opened was closed because it was idle and few channels were
    /// left ([`Builder::evict_idle`](crate::Builder::evict_idle)).
    Evicted(Peer),
    /// A path to a peer has become shorter while the connection was open: packets as long as set-up
    /// proved to arrive were lost for several seconds, while the peer answered short ones. The
    /// connection was closed, and operations to the peer have completed as flushed. The next
    /// connection finds the length that fits.
    PathShortened(Peer),
    /// A path stopped working and is not used for now.
    PathDown {
        /// The peer at the other end.
        peer: Peer,
        /// Which one.
        path: u8,
    },
    /// A path works again.
    PathUp {
        /// The peer at the other end.
        peer: Peer,
        /// Which one.
        path: u8,
    },
    /// An operation of a Jetty failed, and its exception mode stopped it.
    JettyFault {
        /// Its number.
        jetty: u32,
        /// How the operation ended.
        status: Status,
        /// What the Jetty is now.
        state: JettyState,
    },
    /// None of the operations of a Jetty that was suspended, or has failed, is under way any more.
    JettyDrained {
        /// Its number.
        jetty: u32,
    },
}

impl Event {
    /// The peer it is about, if it is about one.
    pub fn peer(&self) -> Option<&Peer> {
        match self {
            Event::Connected(peer) | Event::PeerDead(peer) => Some(peer),
            Event::PeerClosed(peer) | Event::KeysRefused(peer) | Event::Evicted(peer) => Some(peer),
            Event::PathShortened(peer) | Event::ExecutionLost(peer) => Some(peer),
            Event::PathDown { peer, .. } | Event::PathUp { peer, .. } => Some(peer),
            Event::JettyFault { .. } | Event::JettyDrained { .. } => None,
        }
    }
}
