//! State of a connection that its handles and the core share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use fairway_ub::ChannelId;

/// State of a connection that its handles and the core share.
#[derive(Debug)]
pub struct PeerState {
    /// The first channel to the peer.
    pub channel: ChannelId,
    /// Address of the peer's first socket, as the peer names it.
    pub named: SocketAddr,
    /// The address from which the peer was first received.
    pub from: SocketAddr,
    /// True once a packet with the channel's key has come from the address that the peer names.
    pub is_proven: AtomicBool,
    /// True once a packet with the channel's key has come from one of the addresses that the peer
    /// names.
    pub was_received: AtomicBool,
    /// Random number that the peer drew when it started.
    pub incarnation: u32,
    /// Payload bytes per packet.
    pub mtu: u32,
    /// Number of paths of the channel.
    pub paths: u32,
    /// Number of different pairs of UDP ports among these paths.
    pub port_pairs: u32,
    /// False once the channel is gone.
    pub alive: AtomicBool,
    /// A [`LongPackets`], as its discriminant.
    pub long_packets: AtomicU8,
}

impl PeerState {
    /// The address of the peer. Until the one that the peer names is proven, that from which the
    /// peer was first received: another user of the peer's host could name any port of it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        match self.is_proven() {
            true => self.named,
            false => self.from,
        }
    }

    /// True if the address that the peer names is its own.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Acquire)
    }

    pub(crate) fn set_long_packets(&self, found: LongPackets) {
        self.long_packets.store(found as u8, Ordering::Release);
    }
}

/// Whether packets of full size get through to a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LongPackets {
    /// Not determined: the connection is young, the peer does not answer such probes, or packets
    /// are so short that every network carries them.
    #[default]
    Unknown,
    /// Packets of full size arrive.
    Arrive,
    /// For about two seconds no probe of full size from further ports was answered, although those
    /// of the set-up were: some path of the network carries only shorter packets than the path of
    /// the set-up, and the network does not report it.
    AreLost,
}
