//! What is known about the queue pairs of other sides.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, SocketAddr};

use fairway_port::Address;
use fairway_port::rnic::Gid;

use super::introduction::{Introduction, Pair};
use super::sources::{Sources, host};

/// Maximum number of destinations that are remembered. Beyond it, those that are not proven are
/// forgotten and introduced again, and if all are proven, those of the host with the most.
const DESTINATIONS_MAX: usize = 4096;
/// Maximum number of new destinations in a period, and its length in nanoseconds: packets may have
/// any source address, and each answer to a new one costs a request.
const NEW_MAX: u32 = 32;
const NEW_PERIOD_NS: u64 = 10_000_000;
/// Time for which a confirmed probe proves the way, in nanoseconds.
const PROVEN_NS: u64 = 3_000_000_000;
/// Time from a confirmed probe to the next one, in nanoseconds.
const PROBE_NS: u64 = 500_000_000;
/// Time until a message without an answer is repeated, in nanoseconds. It doubles each time, up to
/// `LAST_DOUBLING` times.
const REPEAT_NS: u64 = 20_000_000;
const LAST_DOUBLING: u32 = 8;
/// After so many probes without an answer, the queue pairs are requested again.
const PROBES_MAX: u32 = 2;

/// The other side of a destination.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer {
    /// The number that it has sent, to be repeated; 0: none has arrived.
    pub(super) echo: u64,
    /// The IP address that it sees as the sender's.
    pub(super) seen: Option<IpAddr>,
    pub(super) gid: Gid,
    pub(super) qkey: u32,
    pub(super) lid: u16,
    pub(super) packet_max: usize,
    pairs: Vec<Pair>,
    proven_until_ns: u64,
    ask_at_ns: u64,
    unanswered: u32,
}

/// What is to be sent to a destination beside its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Nothing,
    Request,
    Probe,
}

impl Peer {
    /// The number of the queue pair that belongs to a port.
    pub(super) fn number(&self, port: u16) -> Option<u32> {
        self.pairs.iter().find(|pair| pair.port == port).map(|pair| pair.number)
    }

    /// True if packets to the peer take the NIC.
    pub(super) fn is_proven(&self, now_ns: u64) -> bool {
        now_ns < self.proven_until_ns
    }

    /// Decides whether a message is due, and counts it.
    pub(super) fn ask(&mut self, now_ns: u64, port: u16) -> Ask {
        if now_ns < self.ask_at_ns {
            return Ask::Nothing;
        }
        let may_probe = self.unanswered < PROBES_MAX && self.number(port).is_some();
        self.ask_at_ns = now_ns + (REPEAT_NS << self.unanswered.min(LAST_DOUBLING));
        self.unanswered += 1;
        if may_probe { Ask::Probe } else { Ask::Request }
    }

    /// Records the queue pairs of which a message tells.
    fn learn(&mut self, message: &Introduction) {
        let is_same =
            (self.echo, self.gid, self.qkey) == (message.nonce, message.gid, message.qkey);
        if !is_same {
            // Another program has the address now, which accepts nothing before a probe.
            self.proven_until_ns = 0;
        }
        self.echo = message.nonce;
        (self.gid, self.qkey, self.lid) = (message.gid, message.qkey, message.lid);
        self.packet_max = usize::from(message.packet_max);
        self.pairs.clone_from(&message.pairs);
    }
}

/// All peers.
#[derive(Debug)]
pub(super) struct Peers {
    secret: RandomState,
    destinations: HashMap<Address, Peer>,
    sources: Sources,
    /// New destinations in the current period, and its begin.
    new: u32,
    since_ns: u64,
}

impl Peers {
    pub(super) fn new() -> Peers {
        Peers {
            secret: RandomState::new(),
            destinations: HashMap::new(),
            sources: Sources::default(),
            new: 0,
            since_ns: 0,
        }
    }

    /// The number that is sent to an IP address, and that proves that its sender receives there.
    pub(super) fn nonce(&self, address: IpAddr) -> u64 {
        self.secret.hash_one(address.to_canonical()) | 1
    }

    /// Returns the other side of a destination, which may be new. `None`: there were too many new
    /// ones lately.
    #[inline]
    pub(super) fn towards(&mut self, now_ns: u64, to: &Address) -> Option<&mut Peer> {
        if !self.destinations.contains_key(to) {
            self.add(now_ns, to)?;
        }
        self.destinations.get_mut(to)
    }

    #[cold]
    fn add(&mut self, now_ns: u64, to: &Address) -> Option<()> {
        if now_ns.saturating_sub(self.since_ns) >= NEW_PERIOD_NS {
            (self.since_ns, self.new) = (now_ns, 0);
        }
        self.new += 1;
        if self.new > NEW_MAX {
            return None;
        }
        if self.destinations.len() >= DESTINATIONS_MAX {
            self.make_room(now_ns);
        }
        // Another socket of the same peer may be known already.
        let port = to.port();
        let is_same = |(other, peer): &(&Address, &Peer)| {
            SocketAddr::from(**other).ip() == SocketAddr::from(*to).ip()
                && peer.number(port).is_some()
        };
        let known = self.destinations.iter().find(is_same).map(|(_, peer)| peer.clone());
        self.destinations.insert(*to, known.unwrap_or_default());
        Some(())
    }

    /// Forgets destinations.
    fn make_room(&mut self, now_ns: u64) {
        self.destinations.retain(|_, peer| peer.is_proven(now_ns));
        if self.destinations.len() < DESTINATIONS_MAX {
            return;
        }
        let mut counts = HashMap::new();
        for to in self.destinations.keys() {
            *counts.entry(host(to)).or_insert(0) += 1;
        }
        let largest = counts.into_iter().max_by_key(|(_, count)| *count).map(|(host, _)| host);
        self.destinations.retain(|to, _| Some(host(to)) != largest);
    }

    /// True if a message comes from the owner of the IP address for which it speaks.
    pub(super) fn is_genuine(&self, message: &Introduction, address: IpAddr) -> bool {
        message.echo == self.nonce(address)
    }

    /// The other side of a destination, if it is known.
    pub(super) fn known(&self, to: &Address) -> Option<&Peer> {
        self.destinations.get(to)
    }

    /// True if a message comes from the owner of an address to whose queue pairs a probe passes,
    /// and speaks for the same NIC.
    pub(super) fn is_proven(&self, now_ns: u64, from: &Address, message: &Introduction) -> bool {
        let is_same = |peer: &&Peer| (peer.echo, peer.gid) == (message.nonce, message.gid);
        self.is_genuine(message, SocketAddr::from(*from).ip())
            && self
                .destinations
                .get(from)
                .filter(is_same)
                .is_some_and(|peer| peer.is_proven(now_ns))
    }

    /// Handles an answer. Returns true if a probe is to follow.
    pub(super) fn answered(&mut self, from: &Address, message: &Introduction) -> bool {
        let is_genuine = self.is_genuine(message, SocketAddr::from(*from).ip());
        let Some(peer) = self.destinations.get_mut(from).filter(|_| is_genuine) else {
            return false;
        };
        peer.learn(message);
        peer.seen = Some(message.seen);
        peer.unanswered = 0;
        peer.number(from.port()).is_some()
    }

    /// Handles the confirmation of a probe.
    pub(super) fn proven(&mut self, now_ns: u64, from: &Address, message: &Introduction) {
        let address = SocketAddr::from(*from);
        if !self.is_genuine(message, address.ip()) {
            return;
        }
        // The proof holds for all sockets of the peer, so that each path need not begin anew.
        for pair in &message.pairs {
            let mut other = address;
            other.set_port(pair.port);
            if let Some(peer) = self.destinations.get_mut(&Address::from(other)) {
                peer.learn(message);
                peer.seen = Some(message.seen);
                peer.unanswered = 0;
                (peer.proven_until_ns, peer.ask_at_ns) = (now_ns + PROVEN_NS, now_ns + PROBE_NS);
            }
        }
    }

    /// Handles a probe that has come from this queue pair. Returns the address of its socket. From
    /// now on, packets from the queue pairs that it lists are accepted.
    pub(super) fn probed(
        &mut self,
        (gid, number): (Gid, u32),
        message: &Introduction,
        scope: u32,
    ) -> Option<Address> {
        let is_listed = message.pairs.iter().find(|pair| pair.number == number);
        let sender = is_listed.filter(|_| message.gid == gid)?.port;
        if !self.is_genuine(message, message.seen) {
            return None;
        }
        for pair in &message.pairs {
            let address = with_scope(message.seen, pair.port, scope);
            self.sources.insert((gid, pair.number), address);
            if let Some(peer) = self.destinations.get_mut(&address) {
                peer.learn(message);
            }
        }
        Some(with_scope(message.seen, sender, scope))
    }

    /// Returns the address of the socket that a queue pair belongs to, if its packets are accepted.
    #[inline]
    pub(super) fn source(&self, gid: Gid, number: u32) -> Option<Address> {
        self.sources.get((gid, number))
    }

    /// Has all peers introduced again, because a queue pair here has changed.
    pub(super) fn introduce_again(&mut self) {
        for peer in self.destinations.values_mut() {
            (peer.ask_at_ns, peer.unanswered) = (0, 0);
        }
    }
}

/// Returns a socket address, with the interface of a link-local one.
fn with_scope(address: IpAddr, port: u16, scope: u32) -> Address {
    match SocketAddr::new(address, port) {
        SocketAddr::V6(mut v6) if v6.ip().is_unicast_link_local() => {
            v6.set_scope_id(scope);
            SocketAddr::from(v6).into()
        }
        other => other.into(),
    }
}
