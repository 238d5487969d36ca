//! Links: the channel to every peer process, which all queue pairs to it share.
//!
//! A peer process is an address and a slot, and listens at [`fairway_port`]. Who needs a link
//! first makes it, in the background; whoever is connected to uses the channel as well. If both
//! sides ask at the same time, the one with the lower address and slot gets its way: the other's
//! question stays unanswered, and its asker finds itself connected.

use crate::peer_state::PeerState;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fairway_engine::wire::Instant;
use fairway_roce::Transport;

use super::tables::Verbs;
use crate::clock;
use crate::core::{Core, Notice};
use crate::verbs::fairway_port;

/// How long one is tried to be made, on behalf of a connection and of datagrams.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);
pub(super) const DATAGRAM_PATIENCE: Duration = Duration::from_secs(1);
/// How long nobody tries again on behalf of datagrams, which are lost meanwhile.
const RESTS: fairway_engine::wire::Duration = fairway_engine::wire::Duration::from_ms(500);

pub(super) struct Link {
    pub(super) ip: IpAddr,
    pub(super) slot: u8,
    /// The channel, once there was one.
    channel: Option<Arc<PeerState>>,
    attempt: Option<usize>,
    /// Queue pairs that wait for it, or have waited.
    waiting: Vec<u32>,
    /// The last attempt has failed.
    failed_at: Option<Instant>,
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
    fn number(&mut self, ip: IpAddr, slot: u8, named: impl FnOnce() -> HashSet<u32>) -> u32 {
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

impl Verbs {
    /// The link to a process.
    pub(super) fn link_to(&mut self, ip: IpAddr, slot: u8) -> u32 {
        let pairs = &self.pairs;
        let named = || pairs.iter().flatten().filter_map(|pair| pair.link).collect();
        self.links.number(ip, slot, named)
    }

    /// Begins to connect, unless it is connected or has begun.
    pub(super) fn connect(&mut self, core: &mut Core, link: u32, patience: Duration) {
        let record = &mut self.links[link as usize];
        if record.channel().is_some() || record.attempt.is_some() {
            return;
        }
        let server = SocketAddr::new(record.ip, fairway_port(record.slot));
        match core.start_attempt(server, patience) {
            Ok(attempt) => {
                record.attempt = Some(attempt);
                self.connecting.push(link);
            }
            Err(_) => self.link_failed(core, link),
        }
    }

    /// Is the question of a peer to stay unanswered, because ours to it is under way?
    /// `local` is the address of ours that it asked.
    pub(crate) fn prevails(&self, local: IpAddr, from: SocketAddr) -> bool {
        let from = (from.ip(), from.port());
        let is_it = |link: &&Link| (link.ip, fairway_port(link.slot)) == from;
        let mut asking = self.connecting.iter().map(|&link| &self.links[link as usize]);
        (local, fairway_port(self.slot)) < from && asking.any(|link| is_it(&link))
    }

    /// Looks what has become of attempts, and of channels.
    pub(super) fn look_at_links(&mut self, core: &mut Core) {
        while let Some(notice) = core.notices.pop_front() {
            if let Notice::Connected(peer) = notice {
                self.was_connected(core, peer);
            }
        }
        let mut at = 0;
        while at < self.connecting.len() {
            let link = self.connecting[at];
            let attempt = self.links[link as usize].attempt;
            match attempt.and_then(|attempt| core.take_attempt(attempt)) {
                None => at += 1,
                Some(result) => {
                    self.connecting.swap_remove(at);
                    self.links[link as usize].attempt = None;
                    match result {
                        Ok(peer) => self.link_made(core, link, peer),
                        Err(_) => self.link_failed(core, link),
                    }
                }
            }
        }
    }

    /// A peer has connected to us.
    fn was_connected(&mut self, core: &mut Core, peer: Arc<PeerState>) {
        let (ip, port) = (peer.address.ip(), peer.address.port());
        let Some(slot) = port.checked_sub(fairway_port(0)).and_then(|slot| u8::try_from(slot).ok())
        else {
            return;
        };
        if self.is_own(ip) && slot == self.slot {
            // Ourselves: what we asked for is the end to send from.
            return;
        }
        let link = self.link_to(ip, slot);
        if let Some(attempt) = self.links[link as usize].attempt.take() {
            core.abandon_attempt(attempt);
            self.connecting.retain(|&other| other != link);
        }
        self.link_made(core, link, peer);
    }

    fn link_made(&mut self, core: &mut Core, link: u32, peer: Arc<PeerState>) {
        let record = &mut self.links[link as usize];
        record.channel = Some(peer);
        record.failed_at = None;
        for local in self.take_waiting(link) {
            self.go_on(core, local);
        }
    }

    fn link_failed(&mut self, core: &mut Core, link: u32) {
        let record = &mut self.links[link as usize];
        record.failed_at = Some(clock::now());
        for local in self.take_waiting(link) {
            self.unreachable(core, local);
        }
    }

    /// The next operation of a queue pair waits for a link.
    pub(super) fn wait_for_link(&mut self, local: u32, link: u32) {
        if let Some(pair) = self.pairs[local as usize].as_deref_mut()
            && pair.waits_for.replace(link) != Some(link)
        {
            self.links[link as usize].waiting.push(local);
        }
    }

    /// Those that wait for a link, and do no more. Not those that have waited for it, and were
    /// reset or removed since.
    fn take_waiting(&mut self, link: u32) -> Vec<u32> {
        let mut all = std::mem::take(&mut self.links[link as usize].waiting);
        all.retain(|&local| {
            let pair = self.pairs[local as usize].as_deref_mut();
            pair.is_some_and(|pair| pair.waits_for.take_if(|it| *it == link).is_some())
        });
        all
    }

    /// The peer of what a queue pair is to begin next can't be reached.
    fn unreachable(&mut self, core: &mut Core, local: u32) {
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return };
        let status = match pair.config.transport {
            Transport::Rc => fairway_roce::Status::RetryExceeded,
            Transport::Uc | Transport::Ud => fairway_roce::Status::Success,
        };
        let index = pair.begun() as usize;
        if let Some(send) = pair.sends.get_mut(index) {
            send.finish(status);
            pair.next = pair.next.wrapping_add(1);
            self.settle(core, local);
        }
        self.go_on(core, local);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(links: &mut Links, peer: u32, named: &[u32]) -> u32 {
        let ip = std::net::Ipv4Addr::from(0x0a00_0000 | peer >> 8);
        links.number(ip.into(), peer as u8, || named.iter().copied().collect())
    }

    /// Each address and slot that ever connected had a record for ever.
    #[test]
    fn links_of_peers_that_have_gone_are_used_again() {
        let mut links = Links::default();
        let named: Vec<u32> = (0..10).map(|peer| number(&mut links, peer, &[])).collect();
        let waits = number(&mut links, 10, &[]);
        links[waits as usize].waiting.push(7);
        for peer in 0..100_000 {
            number(&mut links, 1000 + peer, &named);
        }
        assert!(links.all.len() <= KEPT, "{}", links.all.len());
        let again: Vec<u32> = (0..10).map(|peer| number(&mut links, peer, &named)).collect();
        assert_eq!(again, named, "queue pairs name them");
        assert_eq!(
            (number(&mut links, 10, &named), &links[waits as usize].waiting[..]),
            (waits, &[7][..])
        );
        let last = number(&mut links, 100_999, &named);
        assert_eq!(links[last as usize].slot, 100_999_u32 as u8);
    }
}
