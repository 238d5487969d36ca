//! The remote ends of connections.

use crate::peer_state::{LongPackets, PeerState};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fairway_observe::{PathStats, PeerStats};
use fairway_ub::ChannelId;

use crate::core::Core;
use crate::error::Error;
use crate::shared::Handle;

/// A connection to another context. Clones refer to the same connection. Dropping them does not
/// close it; use [`Peer::close`].
#[derive(Clone)]
pub struct Peer {
    pub(crate) handle: Arc<Handle>,
    pub(crate) state: Arc<PeerState>,
}

/// Returns the statistics of a connection; all zero once it is gone.
pub(crate) fn peer_stats(core: &Core, state: &PeerState) -> PeerStats {
    let mut stats = PeerStats { mtu: state.mtu, ..PeerStats::default() };
    if !state.alive.load(Ordering::Acquire) {
        return stats;
    }
    stats.rtt = fairway_runtime::clock::to_std(core.nic.round_trip(state.channel));
    for channel in core.nic.members(state.channel) {
        stats.window_bytes += core.nic.window(channel).map_or(0, |window| window.0);
        stats.channels += 1;
        let ends = core.channels.get(channel);
        let engine = ends.map_or(0, |ends| ends.engine);
        for (number, path) in core.nic.paths(channel).iter().enumerate() {
            let ends = ends.and_then(|ends| ends.path(number as u8));
            stats.sent += path.sent;
            stats.lost += path.lost;
            stats.marked += path.marked;
            stats.in_flight += path.in_flight;
            stats.paths.push(PathStats {
                own_port: ends.map_or(0, |ends| core.own_port(engine, ends.socket)),
                remote_port: ends.map_or(0, |ends| ends.remote.port()),
                rtt: fairway_runtime::clock::to_std(path.smoothed_rtt),
                rtt_deviation: fairway_runtime::clock::to_std(path.rtt_deviation),
                sent: path.sent,
                lost: path.lost,
                marked: path.marked,
                in_flight: path.in_flight,
                usable: path.usable,
            });
        }
    }
    stats
}

impl Peer {
    /// Returns the address that this side connected to, or that of the peer's first socket. A peer
    /// may name any port, so until a packet has come from that socket it is the address from which
    /// the peer was first received.
    pub fn address(&self) -> SocketAddr {
        self.state.address()
    }

    /// Returns the random number that the peer's context drew when it started. A peer that restarts
    /// has another.
    pub fn incarnation(&self) -> u32 {
        self.state.incarnation
    }

    /// Returns the channel, as completions name it.
    pub fn channel(&self) -> ChannelId {
        self.state.channel
    }

    /// Payload bytes per packet, as agreed at set-up: messages as long as such packets got through
    /// in both directions.
    pub fn mtu(&self) -> u32 {
        self.state.mtu
    }

    /// Number of paths, as agreed at set-up.
    pub fn paths(&self) -> u32 {
        self.state.paths
    }

    /// Number of different pairs of UDP ports among the paths of a channel. A network that chooses
    /// ways by ports distinguishes as many; paths beyond them share the ways of others. It is the
    /// smaller of [`Peer::paths`] and the product of both sides' numbers of sockets.
    pub fn port_pairs(&self) -> u32 {
        self.state.port_pairs
    }

    /// Returns whether packets of full size have been found to reach this peer.
    pub fn long_packets(&self) -> LongPackets {
        let found = self.state.long_packets.load(Ordering::Acquire);
        let all = [LongPackets::Unknown, LongPackets::Arrive, LongPackets::AreLost];
        all.into_iter().find(|one| *one as u8 == found).unwrap_or_default()
    }

    /// False once the connection is closed, by either side, or the peer is dead.
    pub fn is_alive(&self) -> bool {
        self.state.alive.load(Ordering::Acquire)
    }

    /// True once a packet of the connection, messages of set-up aside, has arrived from the peer. A
    /// connection that ends without one has a network that lets only set-up through: a firewall
    /// that allows some of the ports only, or a NAT that changes the source ports of UDP. Set-up
    /// names the ports of both sides, and packets from other ones are dropped.
    pub fn was_received(&self) -> bool {
        self.state.was_received.load(Ordering::Acquire)
    }

    /// Closes the connection: operations in flight complete in error, and the peer is notified.
    /// Does not wait until the peer has received the notification.
    ///
    /// # Errors
    /// [`Error::PeerGone`]: it is closed already.
    pub fn close(&self) -> Result<(), Error> {
        let gone = Error::PeerGone { peer: self.address() };
        let shared = self.handle.live()?;
        shared.with_quiesced(|core| core.close_channel(self.channel())).map_err(|_| gone)
    }

    /// Returns the statistics of the connection; all zero once it is gone.
    pub fn stats(&self) -> PeerStats {
        self.handle.here().with(|core| peer_stats(core, &self.state))
    }

    pub(crate) fn belongs_to(&self, handle: &Arc<Handle>) -> bool {
        Arc::ptr_eq(&self.handle, handle)
    }
}

impl PartialEq for Peer {
    fn eq(&self, other: &Peer) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }
}

impl Eq for Peer {}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("address", &self.state.address())
            .field("incarnation", &self.state.incarnation)
            .field("alive", &self.is_alive())
            .finish_non_exhaustive()
    }
}
