//! What is known of a link: the channel to a peer process, which all queue pairs to it share.

use crate::peer_state::PeerState;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fairway_engine::wire::Instant;

/// How long one is tried to be made, on behalf of a connection and of datagrams.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);
pub(super) const DATAGRAM_PATIENCE: Duration = Duration::from_secs(1);
/// How long nobody tries again on behalf of datagrams, which are lost meanwhile.
const RESTS: fairway_engine::wire::Duration = fairway_engine::wire::Duration::from_ms(500);

/// The link to one process.
pub(super) struct Link {
    pub(super) ip: IpAddr,
    pub(super) slot: u8,
    /// The channel, once there was one.
    pub(super) channel: Option<Arc<PeerState>>,
    pub(super) attempt: Option<usize>,
    /// Queue pairs that wait for it, or have waited.
    pub(super) waiting: Vec<u32>,
    /// The last attempt has failed.
    pub(super) failed_at: Option<Instant>,
}

impl Link {
    /// The channel, if it is alive.
    pub(super) fn channel(&self) -> Option<&Arc<PeerState>> {
        self.channel.as_ref().filter(|channel| channel.alive.load(Ordering::Acquire))
    }

    pub(super) fn rests(&self, now: Instant) -> bool {
        self.failed_at.is_some_and(|at| now.is_before(at + RESTS))
    }
}
