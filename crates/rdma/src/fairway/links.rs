//! Links: the channel to every peer process, which all queue pairs to it share.
//!
//! A peer process is an address and a slot, and listens at [`fairway_port`]. The process that first
//! needs a link makes it, in the background, and both processes use its channel. If both sides try
//! at the same time, the attempt of the one with the lower address and slot wins: the other's
//! request stays unanswered, and the other process finds itself connected. The same happens to a
//! copy of that request that was sent earlier and arrives later. A request of another process,
//! which has the slot now, is answered, because the channel leads to the process before it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fairway::embed::Core;
use fairway::embed::PeerState;
use fairway_roce::{Status, Transport};
use fairway_runtime::clock;
use fairway_ub::ChannelId;
use fairway_ub::wire::{self, Cna};

use super::link::{DATAGRAM_CONNECT_TIMEOUT, Stuck};
use super::tables::Verbs;
use crate::fairway_port;

/// Time after which a process that has not answered is asked again, and a request that could not
/// be sent is tried again.
const STIR: wire::Duration = wire::Duration::from_ms(20);

impl Verbs {
    /// Returns the number of the link to a process.
    pub(super) fn link_to(&mut self, ip: IpAddr, slot: u8) -> u32 {
        let pairs = &self.pairs;
        let named = || pairs.iter().flatten().filter_map(|pair| pair.link).collect();
        self.links.number(ip, slot, named)
    }

    /// Starts to connect, unless the link is connected or connecting.
    pub(super) fn connect(&mut self, core: &mut Core, link: u32, timeout: Duration) {
        let record = &self.links[link as usize];
        let is_made = record.channel().is_some() || record.attempt.is_some();
        if is_made || self.stuck.iter().any(|stuck| stuck.link == link) {
            return;
        }
        if !self.begin_attempt(core, link, timeout) {
            // Its queue pairs try again, so its end is handled when they have returned.
            let patience = match timeout > DATAGRAM_CONNECT_TIMEOUT {
                true => wire::Duration::from_ns(timeout.as_nanos() as u64),
                // Datagrams are lost at once.
                false => wire::Duration::ZERO,
            };
            let until = clock::now() + patience;
            self.stuck.push(Stuck { link, timeout, until });
            self.stir(core, STIR.min(patience));
        }
    }

    /// Begins an attempt to connect. False if no request can be sent: there is no route to the
    /// peer, or no descriptor for a socket.
    fn begin_attempt(&mut self, core: &mut Core, link: u32, timeout: Duration) -> bool {
        let record = &mut self.links[link as usize];
        let server = SocketAddr::new(record.ip, fairway_port(record.slot));
        let Ok(attempt) = core.start_attempt(server, timeout) else { return false };
        record.attempt = Some(attempt);
        self.connecting.push(link);
        true
    }

    /// Tries again to connect where no request could be sent: interfaces that are down may come up.
    pub(super) fn try_stuck(&mut self, core: &mut Core) {
        let now = clock::now();
        for stuck in std::mem::take(&mut self.stuck) {
            let record = &self.links[stuck.link as usize];
            if record.channel().is_some() || record.attempt.is_some() {
                continue;
            }
            if now.is_at_or_after(stuck.until) {
                self.link_failed(core, stuck.link);
            } else if !self.begin_attempt(core, stuck.link, stuck.timeout) {
                self.stuck.push(stuck);
            }
        }
        if !self.stuck.is_empty() {
            self.stir(core, STIR);
        }
    }

    /// True if the request of a peer must stay unanswered because an attempt of this side to the
    /// same peer is under way. `local` is the local address that the peer contacted.
    pub(crate) fn prevails(&self, local: IpAddr, from: SocketAddr, incarnation: Cna) -> bool {
        let (ip, port) = (from.ip(), from.port());
        let link = slot_of_port(port).and_then(|slot| self.links.get(ip, slot));
        (local, fairway_port(self.slot)) < (ip, port)
            && link.is_some_and(|link| link.is_connecting(clock::now(), incarnation.value()))
    }

    /// Processes the results of attempts, and the ends of channels.
    pub(super) fn poll_links(&mut self, core: &mut Core) {
        while let Some(peer) = core.poll_connected() {
            self.was_connected(core, peer);
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
                        Ok(peer) => {
                            self.links[link as usize].requested_at = Some(clock::now());
                            self.link_made(core, link, peer);
                        }
                        Err(_) => self.link_failed(core, link),
                    }
                }
            }
        }
    }

    /// Asks the process at the other end of a channel for a sign of life, on behalf of a queue pair
    /// that has not asked just now. The process may have been replaced by another one, which does
    /// not know the channel.
    pub(super) fn hail(&mut self, core: &mut Core, local: u32, channel: ChannelId) {
        let now = clock::now();
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return };
        if pair.hailed_at.is_none_or(|asked| now.is_at_or_after(asked + STIR)) {
            pair.hailed_at = Some(now);
            core.nic.probe_peer(channel);
            self.stir(core, STIR);
        }
    }

    /// Makes what waits for a process be looked at again after a time.
    fn stir(&mut self, core: &mut Core, after: wire::Duration) {
        core.note_end();
        let at = clock::now() + after;
        self.stir_at = Some(self.stir_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Handles a connection that a peer has opened, or whose address was proven later: only a
    /// process that receives at a slot's port is the process of that slot.
    fn was_connected(&mut self, core: &mut Core, peer: Arc<PeerState>) {
        if !peer.is_proven() {
            return;
        }
        let (ip, port) = (peer.named.ip(), peer.named.port());
        let Some(slot) = slot_of_port(port) else { return };
        if self.is_own(ip) && slot == self.slot {
            // The peer is this process: the channel that it requested is the end to send from.
            return;
        }
        let link = self.link_to(ip, slot);
        self.links[link as usize].requested_at = None;
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
            self.set(local, |pair| pair.unparks = true);
            self.advance(core, local);
        }
    }

    fn link_failed(&mut self, core: &mut Core, link: u32) {
        let record = &mut self.links[link as usize];
        record.failed_at = Some(clock::now());
        for local in self.take_waiting(link) {
            self.unreachable(core, local, link);
        }
    }

    /// Makes the next operation of a queue pair wait for a link.
    pub(super) fn wait_for_link(&mut self, local: u32, link: u32) {
        if let Some(pair) = self.pairs[local as usize].as_deref_mut()
            && pair.waits_for.replace(link) != Some(link)
        {
            self.links[link as usize].waiting.push(local);
        }
    }

    /// Takes the queue pairs that wait for a link, without those that were reset or removed since
    /// they began to wait.
    fn take_waiting(&mut self, link: u32) -> Vec<u32> {
        let mut all = std::mem::take(&mut self.links[link as usize].waiting);
        all.retain(|&local| {
            let pair = self.pairs[local as usize].as_deref_mut();
            let waits = pair.is_some_and(|pair| pair.waits_for.take_if(|it| *it == link).is_some());
            waits || self.has_parked(local, link)
        });
        all
    }

    /// Fails what waits for a link to a peer that cannot be reached: the next operation of a queue
    /// pair, or its datagrams, which are lost.
    fn unreachable(&mut self, core: &mut Core, local: u32, link: u32) {
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return };
        let index = pair.begun() as usize;
        match pair.config.transport {
            Transport::Ud => self.lose_parked(local, link),
            // All that waits is lost.
            Transport::Uc => {
                for send in pair.sends.iter_mut().skip(index) {
                    send.finish(Status::Success);
                    pair.next = pair.next.wrapping_add(1);
                }
            }
            Transport::Rc => {
                if let Some(send) = pair.sends.get_mut(index) {
                    send.finish(Status::RetryExceeded);
                    pair.next = pair.next.wrapping_add(1);
                }
            }
        }
        self.complete_ready(core, local);
        self.advance(core, local);
    }
}

/// Returns the slot whose process listens at this port.
fn slot_of_port(port: u16) -> Option<u8> {
    u8::try_from(port.checked_sub(fairway_port(0))?).ok()
}
