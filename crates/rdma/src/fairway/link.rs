//! State of a link: the channel to a peer process, which all queue pairs to it share.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fairway::embed::PeerState;
use fairway_ub::wire::Instant;

/// Time limit of an attempt to make a link, on behalf of a connection and of datagrams.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
pub(super) const DATAGRAM_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time after a failed attempt during which datagrams start no other attempt; they are lost
/// meanwhile.
const BACKOFF: fairway_ub::wire::Duration = fairway_ub::wire::Duration::from_ms(500);

/// Time after the end of an attempt within which a request of the peer may be one from before it.
/// The peer repeats its request every 20 ms or less often until it is connected.
const LATE: fairway_ub::wire::Duration = fairway_ub::wire::Duration::from_secs(1);

/// The link to one peer process.
pub(super) struct Link {
    pub(super) ip: IpAddr,
    pub(super) slot: u8,
    /// The channel, once one has been made.
    pub(super) channel: Option<Arc<PeerState>>,
    pub(super) attempt: Option<usize>,
    /// Time at which an attempt of this side made the channel; `None` if the peer made it.
    pub(super) requested_at: Option<Instant>,
    /// Queue pairs that wait for the link, or have waited.
    pub(super) waiting: Vec<u32>,
    /// Time at which the last attempt failed, if it did.
    pub(super) failed_at: Option<Instant>,
}

/// A link to which no request can be sent.
pub(super) struct Stuck {
    pub(super) link: u32,
    /// The time limit of an attempt.
    pub(super) timeout: Duration,
    /// When the link has failed.
    pub(super) until: Instant,
}

/// Links by number. Peers come and go, and each may have any number of addresses, so records of
/// unused links are reused.
#[derive(Default)]
pub(super) struct Links {
    all: Vec<Link>,
    by_peer: HashMap<(IpAddr, u8), u32>,
    spare: Vec<u32>,
    /// Number of links at which unused ones are searched for.
    sweep_at: usize,
}

/// Number of links up to which unused ones are kept.
const KEPT: usize = 4096;

impl Links {
    /// Returns the number of the link to a process. `named` returns the links that queue pairs use.
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
        let link = Link::new(ip, slot);
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

    /// Returns the link to a process, if there is one.
    pub(super) fn get(&self, ip: IpAddr, slot: u8) -> Option<&Link> {
        self.by_peer.get(&(ip, slot)).map(|number| &self.all[*number as usize])
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
    fn new(ip: IpAddr, slot: u8) -> Link {
        let (channel, attempt, requested_at, failed_at) = (None, None, None, None);
        Link { ip, slot, channel, attempt, requested_at, waiting: Vec::new(), failed_at }
    }

    /// True if an attempt of this side to connect to the peer is under way, or has just made the
    /// channel to the process of this incarnation.
    pub(super) fn is_connecting(&self, now: Instant, incarnation: u32) -> bool {
        let is_new = self.requested_at.is_some_and(|at| now.is_before(at + LATE));
        let is_connected = self.channel().is_some_and(|peer| peer.incarnation == incarnation);
        self.attempt.is_some() || (is_new && is_connected)
    }

    fn is_in_use(&self) -> bool {
        self.channel().is_some() || self.attempt.is_some() || !self.waiting.is_empty()
    }

    /// Returns the channel, if it is alive.
    pub(super) fn channel(&self) -> Option<&Arc<PeerState>> {
        self.channel.as_ref().filter(|channel| channel.alive.load(Ordering::Acquire))
    }

    pub(super) fn in_backoff(&self, now: Instant) -> bool {
        self.failed_at.is_some_and(|at| now.is_before(at + BACKOFF))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU8};

    use fairway_ub::wire::Cna;
    use fairway_ub::{Limits, Profile, UbDevice};

    use super::*;

    fn channel() -> Arc<PeerState> {
        let mut nic = UbDevice::new(Cna::new(1), &Limits::default(), &Profile::default(), 1);
        Arc::new(PeerState {
            channel: nic.reserve_channel().expect("a new NIC has channels"),
            named: ([192, 0, 2, 1], 9).into(),
            from: ([192, 0, 2, 1], 9).into(),
            is_proven: AtomicBool::new(true),
            was_received: AtomicBool::new(true),
            incarnation: 1,
            mtu: 1024,
            paths: 1,
            port_pairs: 1,
            alive: AtomicBool::new(true),
            long_packets: AtomicU8::new(0),
        })
    }

    /// A peer repeats its request once more before it finds itself connected.
    #[test]
    fn late_question_of_a_peer_makes_no_second_channel() {
        let now = Instant::from_ns(5_000_000_000);
        let mut link = Link::new([192, 0, 2, 1].into(), 0);
        assert!(!link.is_connecting(now, 1));
        link.attempt = Some(3);
        assert!(link.is_connecting(now, 1));
        (link.attempt, link.requested_at, link.channel) = (None, Some(now), Some(channel()));
        let ms = fairway_ub::wire::Duration::from_ms;
        assert!(link.is_connecting(now, 1) && link.is_connecting(now + ms(999), 1));
        assert!(!link.is_connecting(now, 2), "another process has the slot now");
        assert!(!link.is_connecting(now + ms(1000), 1), "the application may connect again");
        let made = link.channel().expect("it is alive");
        made.alive.store(false, Ordering::Release);
        assert!(!link.is_connecting(now, 1), "the channel is no more");
    }
}
