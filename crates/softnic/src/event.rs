//! What happens without being asked for.

use crate::peer::Peer;

/// Something happened to a peer or to the way to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A peer has connected to this context.
    Connected(Peer),
    /// A peer was not heard from for too long. Its operations have completed in error.
    PeerDead(Peer),
    /// A peer has closed the connection. Its operations have completed in error.
    PeerClosed(Peer),
    /// A path stopped working and is not used for now.
    PathDown {
        /// Whom it leads to.
        peer: Peer,
        /// Which one.
        path: u8,
    },
    /// A path works again.
    PathUp {
        /// Whom it leads to.
        peer: Peer,
        /// Which one.
        path: u8,
    },
}

impl Event {
    /// The peer it is about.
    pub fn peer(&self) -> &Peer {
        match self {
            Event::Connected(peer) | Event::PeerDead(peer) | Event::PeerClosed(peer) => peer,
            Event::PathDown { peer, .. } | Event::PathUp { peer, .. } => peer,
        }
    }
}
