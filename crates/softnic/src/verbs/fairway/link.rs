//! What is known of a link: the channel to a peer process, which all queue pairs to it share.

use crate::peer_state::PeerState;
use std::collections::{HashMap, HashSet};
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

/// Links by number. Peers come and go, and each may have as many addresses as it likes, so records
/// of links that are of no use any more are used again.
#[derive(Default)]
pub(super) struct Links {
    all: Vec<Link>,
    by_peer: HashMap<(IpAddr, u8), u32>,
    spare: Vec<u32>,
    /// Which are of use is found out when there are so many.
    sweep_at: usize,
}

/// Links up to this number are kept.
const KEPT: usize = 4096;

impl Links {
    /// The number of the link to a process. `named`: those that queue pairs are connected by.
    pub(super) fn number(
        &mut self,
        ip: IpAddr,
        slot: u8,
        named: impl FnOnce() -> HashSet<u32>,
    ) -> u32 {
        if let Some(number) = self.by_peer.get(&(ip, slot)) {
            return *number;
        }
        if self.spare.is_empty() && self.all.len() >= self.sweep_at.max(KEPT) {
            self.sweep(&named());
        }
        let link =
            Link { ip, slot, channel: None, attempt: None, waiting: Vec::new(), failed_at: None };
        let number = match self.spare.pop() {
            Some(number) => {
                self.all[number as usize] = link;
                number
            }
            None => {
                self.all.push(link);
                self.all.len() as u32 - 1
            }
        };
        self.by_peer.insert((ip, slot), number);
        number
    }

    fn sweep(&mut self, named: &HashSet<u32>) {
        let Links { all, by_peer, spare, sweep_at } = self;
        by_peer.retain(|_, number| {
            let is_kept = named.contains(number) || all[*number as usize].is_in_use();
            if !is_kept {
                spare.push(*number);
            }
            is_kept
        });
        *sweep_at = 2 * by_peer.len();
    }
}

impl std::ops::Index<usize> for Links {
    type Output = Link;
    fn index(&self, number: usize) -> &Link {
        &self.all[number]
    }
}

impl std::ops::IndexMut<usize> for Links {
    fn index_mut(&mut self, number: usize) -> &mut Link {
        &mut self.all[number]
    }
}

impl Link {
    fn is_in_use(&self) -> bool {
        self.channel().is_some() || self.attempt.is_some() || !self.waiting.is_empty()
    }

    /// The channel, if it is alive.
    pub(super) fn channel(&self) -> Option<&Arc<PeerState>> {
        self.channel.as_ref().filter(|channel| channel.alive.load(Ordering::Acquire))
    }

    pub(super) fn rests(&self, now: Instant) -> bool {
        self.failed_at.is_some_and(|at| now.is_before(at + RESTS))
    }
}
