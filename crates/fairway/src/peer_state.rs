//! What handles and the core share about a connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use fairway_engine::ChannelId;

/// What handles and the core share about a connection.
#[derive(Debug)]
pub struct PeerState {
    /// The first channel to the peer.
    pub channel: ChannelId,
    /// Address of the peer's first socket.
    pub address: SocketAddr,
    /// Number that the peer drew when it started.
    pub incarnation: u32,
    /// Bytes of payload in a packet.
    pub mtu: u32,
    /// Paths of the channel.
    pub paths: u32,
    /// False once the channel is gone.
    pub alive: AtomicBool,
    /// A [`LongPackets`].
    pub long_packets: AtomicU8,
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
