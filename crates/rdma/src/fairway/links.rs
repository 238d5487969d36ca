//! Links: the channel to every peer process, which all queue pairs to it share.
//!
//! A peer process is an address and a slot, and listens at [`fairway_port`]. The process that needs
//! a link first makes it, in the background, and both processes use its channel. If both
//! sides ask at the same time, the one with the lower address and slot gets its way: the other's
//! question stays unanswered, and its asker finds itself connected. So does a copy of the question
//! that was sent before that and arrives after it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fairway::embed::Core;
use fairway::embed::PeerState;
use fairway_roce::Transport;
use fairway_runtime::clock;

use super::tables::Verbs;
use crate::fairway_port;

impl Verbs {
    /// The link to a process.
    pub(super) fn link_to(&mut self, ip: IpAddr, slot: u8) -> u32 {
        let pairs = &self.pairs;
        let named = || pairs.iter().flatten().filter_map(|pair| pair.link).collect();
        self.links.number(ip, slot, named)
    }

    /// Begins to connect, unless it is connected or has begun.
    pub(super) fn connect(&mut self, core: &mut Core, link: u32, timeout: Duration) {
        let record = &mut self.links[link as usize];
        if record.channel().is_some() || record.attempt.is_some() {
            return;
        }
        let server = SocketAddr::new(record.ip, fairway_port(record.slot));
        match core.start_attempt(server, timeout) {
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
        let (ip, port) = (from.ip(), from.port());
        let link = slot_of_port(port).and_then(|slot| self.links.get(ip, slot));
        (local, fairway_port(self.slot)) < (ip, port)
            && link.is_some_and(|link| link.asks(clock::now()))
    }

    /// Looks what has become of attempts, and of channels.
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
                            self.links[link as usize].asked_at = Some(clock::now());
                            self.link_made(core, link, peer);
                        }
                        Err(_) => self.link_failed(core, link),
                    }
                }
            }
        }
    }

    /// A peer has connected to us.
    fn was_connected(&mut self, core: &mut Core, peer: Arc<PeerState>) {
        let (ip, port) = (peer.address.ip(), peer.address.port());
        let Some(slot) = slot_of_port(port) else { return };
        if self.is_own(ip) && slot == self.slot {
            // Ourselves: what we asked for is the end to send from.
            return;
        }
        let link = self.link_to(ip, slot);
        self.links[link as usize].asked_at = None;
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
            self.advance(core, local);
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
            self.complete_ready(core, local);
        }
        self.advance(core, local);
    }
}

/// The slot whose process listens at this port.
fn slot_of_port(port: u16) -> Option<u8> {
    u8::try_from(port.checked_sub(fairway_port(0))?).ok()
}
