//! What handles and the core share about a connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use fairway_engine::ChannelId;

/// What handles and the core share about a connection.
#[derive(Debug)]
pub(crate) struct PeerState {
    pub(crate) channel: ChannelId,
    pub(crate) address: SocketAddr,
    pub(crate) incarnation: u32,
    pub(crate) mtu: u32,
    pub(crate) paths: u32,
    pub(crate) alive: AtomicBool,
    /// A [`LongPackets`].
    pub(crate) long_packets: AtomicU8,
}

impl PeerState {
    pub(crate) fn set_long_packets(&self, found: LongPackets) {
        self.long_packets.store(found as u8, Ordering::Release);
    }
}

/// Whether packets of full size get through to a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LongPackets {
    /// It is not known: the connection is young, the peer does not answer such questions, or
    /// packets are so short that every network carries them.
    #[default]
    Unknown,
    /// They arrive.
    Arrive,
    /// None of those that were sent from further ports to find out was answered, in about two
    /// seconds, although those of the set-up were: some path of the network is shorter than the one
    /// that the set-up took, and the network does not report it.
    Vanish,
}
