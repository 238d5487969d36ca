//! The server's side of set-up: decides which channels a client gets.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

use fairway_runtime::addresses::source_towards;
use fairway_runtime::clock;
use fairway_ub::ChannelId;
use fairway_ub::setup::Opening;
use fairway_ub::wire::{
    Instant, Joins, KEY_LEN, Psn, RejectReason, Role, Setup, SetupMessage, Tpn,
};

use super::ways::first_port;
use super::{Place, Remote, first_numbers};
use crate::core::{Channel, Core, Notice};
use crate::setup::keys::KeyPair;
use crate::setup::quota::{self, Held, Network, Source};

impl Core {
    pub(super) fn open_as_server(
        &mut self,
        now: Instant,
        at: (u32, usize),
        local: Option<IpAddr>,
        opening: &Opening,
    ) -> Result<((Tpn, Psn), [u8; KEY_LEN]), RejectReason> {
        let hello = &opening.confirm.hello;
        if !self.connecting.guesses.allows(now, opening.from.ip()) {
            return Err(RejectReason::Refused);
        }
        let all = self.nic.limits().channels;
        if all - self.nic.usage().channels <= quota::reserve(all) && !self.nic.end_lingering() {
            self.evict_idle(now, 0);
        }
        if let Some(held) = self.held_by(opening.from.ip()).filter(|held| !held.allows_one_more()) {
            // Closing a channel takes a moment; a later request may find the place free.
            self.evict_idle(now, held.network);
            return Err(RejectReason::NoResources);
        }
        let leader = match hello.joins {
            None => None,
            Some(joins) => Some(self.leader_for(opening, joins).ok_or(RejectReason::Parameters)?),
        };
        let (Ok(random), Ok(secret)) = (clock::random(), clock::random_bytes()) else {
            return Err(RejectReason::NoResources);
        };
        let keys = KeyPair::new(secret);
        let Ok(id) = self.nic.reserve_channel() else { return Err(RejectReason::NoResources) };
        let engine = self.connecting.identity.engine_for(hello.joins);
        let peer_number = self.channels.peer_number(id);
        let terms = self.connecting.listener.terms(opening, peer_number, keys.public());
        let Some(key) = keys.agree(&opening.confirm.key, &terms) else {
            self.nic.release_channel(id);
            return Err(RejectReason::Parameters);
        };
        let (first_psn, first_message) = first_numbers(random);
        let place = Place { id, first_message, leader, engine };
        let sockets = self.connecting.sockets(at.0);
        let remote = Remote {
            socket: at.1 / sockets * sockets,
            local: local.filter(|local| source_towards(opening.from) != Some(*local)),
            named: first_port(opening.from, hello),
            from: opening.from,
            role: Role::Server,
            key,
        };
        let established = opening.established(first_psn);
        match self.open_channel(now, &place, remote, &established) {
            Ok(peer) => {
                let first = self.channels.get_mut(peer.channel);
                match (hello.joins, first.and_then(|first| first.members.as_mut())) {
                    (Some(joins), Some(members)) => members.join(joins.number),
                    _ => self.notice(Notice::Connected(peer)),
                }
                Ok(((peer_number, first_psn), keys.public()))
            }
            Err(_) => {
                self.nic.release_channel(id);
                Err(RejectReason::Parameters)
            }
        }
    }

    /// Returns the answer to a repeated request: if it is the ACCEPT of a channel that has ended,
    /// its client, which would use that channel, is to begin again.
    pub(super) fn unless_ended(&self, answer: Setup) -> Setup {
        let SetupMessage::Accept(accept) = &answer.message else { return answer };
        let channel = self.channels.by_peer_number(accept.server.tpn);
        match channel.is_some_and(|channel| self.nic.is_open(channel.id)) {
            true => answer,
            false => self.connecting.listener.ended(&answer),
        }
    }

    /// Returns the number of channels that an address of another host and its network use. `None`
    /// for addresses of this host, which are not limited.
    fn held_by(&self, address: IpAddr) -> Option<Held> {
        if quota::is_own(address, self.local_addrs().iter().map(SocketAddr::ip)) {
            return None;
        }
        let (source, network) = (Source::of(address), Network::of(address));
        let left = self.nic.limits().channels - self.nic.usage().channels;
        let mut held = Held { source: 0, network: 0, left };
        for channel in self.channels.iter().filter(|channel| self.nic.is_open(channel.id)) {
            let address = channel.peer.named.ip();
            held.source += u32::from(Source::of(address) == source);
            held.network += u32::from(Network::of(address) == network);
        }
        Some(held)
    }

    /// Closes the connection that has been idle for longest, of the source with the most
    /// connections, in the network with the most, if that network has at least `least`. Only
    /// connections that a peer on another host has opened count.
    fn evict_idle(&mut self, now: Instant, least: u32) {
        let Some(idle) = self.connecting.evict_idle else { return };
        let closing = self.channels.iter().filter(|channel| channel.is_closing).count();
        if closing >= quota::reserve(self.nic.limits().channels) as usize {
            return;
        }
        let own: Vec<IpAddr> = self.local_addrs().iter().map(SocketAddr::ip).collect();
        let others = |channel: &&Channel| {
            let address = channel.peer.named.ip();
            channel.leads()
                && channel.role == Role::Server
                && channel.peer.alive.load(Ordering::Acquire)
                && !quota::is_own(address, own.iter().copied())
        };
        let mut sources: HashMap<Source, u32> = HashMap::new();
        let mut networks: HashMap<Network, u32> = HashMap::new();
        for channel in self.channels.iter().filter(others) {
            let address = channel.peer.named.ip();
            *sources.entry(Source::of(address)).or_default() += 1;
            *networks.entry(Network::of(address)).or_default() += 1;
        }
        let idle_for = |channel: &Channel| {
            let used = self.nic.last_used(channel.id)?;
            Some(now.since(used)).filter(|unused| *unused >= idle)
        };
        let candidates = self.channels.iter().filter(others).filter_map(|channel| {
            let address = channel.peer.named.ip();
            let network = *networks.get(&Network::of(address)).filter(|held| **held >= least)?;
            let source = *sources.get(&Source::of(address))?;
            Some(((network, source, idle_for(channel)?), channel.id))
        });
        if let Some((_, id)) = candidates.max_by_key(|(rank, _)| *rank)
            && let Some(peer) = self.peer_state(id)
            && self.close_channel(id).is_ok()
        {
            self.counters.evicted += 1;
            self.notice(Notice::Evicted(peer));
        }
    }

    /// Returns the first channel of the group that a client requests to join. It must be the
    /// client's own, the request must come from one of its ports with the same parameters, and each
    /// number may join once.
    fn leader_for(&self, opening: &Opening, joins: Joins) -> Option<ChannelId> {
        let agreed = &opening.confirm.agreed;
        let first = self.channels.leading(opening.client, joins.leader)?;
        let fits = first.leads_to(opening.from)
            && first.members.is_some_and(|members| members.admits(joins, agreed));
        fits.then_some(first.id)
    }
}
