//! The ways that set-up messages take, so that an attempt survives dead ways.
//!
//! Networks choose a packet's way by its addresses and ports. A repeated request is therefore sent
//! from other ports; all following messages take the way that has answered.

use crate::peer_state::PeerState;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fairway_port::Address;

use fairway_runtime::addresses::{has_alternative, link_towards, sole, source_towards};
use fairway_runtime::{Destination, clock};
use fairway_ub::ChannelId;
use fairway_ub::setup::LengthProbe;
use fairway_ub::wire::{Hello, Instant, Parameters, Setup, SetupMessage};

use super::{Connecting, Pending, SPEAKER};
use crate::core::Core;
use crate::setup::Padded;
use crate::setup::sizes::SizeProbe;

/// Maximum number of connections that are probed at the same time; further ones are not probed.
const SIZE_PROBES_MAX: usize = 64;

/// Number of paths over which a repeated request for a channel that joins a group is sent at once.
const JOINING_PATHS: usize = 4;

/// Remedies for addresses to which there is no way.
const NOT_REACHED: &str = "connect to an address of the family, and of the link, that the context \
                           is bound to";
const LINK_UNKNOWN: &str = "add the link to the link-local address, as in [fe80::1%2]:4800, where 2 \
                            is an interface's number: this host has several links, or none";

/// The local and remote ends that an attempt's messages use.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// From a socket of [`SPEAKER`] to a port of the server.
    Path(Destination),
    /// From a socket that was opened for the attempt, by number.
    Detour(u32),
}

impl Way {
    /// The local address that a message of the server has reached, if the system may choose another
    /// one for later packets: the server ignores packets from another address.
    pub(super) fn lasting_local(&self) -> Option<IpAddr> {
        let Way::Path(Destination { to, .. }) = self else { return None };
        let may_change = |local: &IpAddr| matches!(local, IpAddr::V6(v6) if has_alternative(*v6));
        to.local().filter(may_change)
    }
}

impl Pending {
    /// Records that a message arrived by a way. Returns false if the way does not belong to this
    /// attempt.
    pub(super) fn take_in(
        &mut self,
        now: Instant,
        from: SocketAddr,
        way: Way,
        setup: &Setup,
    ) -> bool {
        let was_unanswered = self.attempt.is_unanswered();
        let ours = self.attempt.handle_message(now, from, setup);
        if was_unanswered && !self.attempt.is_unanswered() {
            self.way = way;
        }
        ours
    }

    /// Receives the messages that arrived at the sockets opened for this attempt.
    pub(super) fn receive_answers(&mut self, now: Instant) {
        let mut answers = Vec::new();
        self.listening.poll_answers(now, |number, setup| answers.push((number, *setup)));
        let server = self.attempt.server();
        for (number, setup) in answers {
            self.take_in(now, server, Way::Detour(number), &setup);
        }
    }
}

impl Connecting {
    /// Remembers a peer until a packet has come from the address that it names first.
    pub(super) fn note_unproven(&mut self, peer: &Arc<PeerState>) {
        self.unproven.retain(|peer| peer.alive.load(Ordering::Acquire));
        self.unproven.push(peer.clone());
    }
}

impl Core {
    /// Returns the first socket of the local address from which packets to `remote` are sent, and
    /// `remote` itself, with the link added if it is link-local.
    ///
    /// # Errors
    /// No local address is of its family or link, or its link is not known: a remedy.
    pub(super) fn way_to(&self, remote: SocketAddr) -> Result<(usize, SocketAddr), &'static str> {
        // With several engines, each has its own sockets, all of one address.
        let step =
            if self.engines.len() > 1 { usize::MAX } else { self.connecting.sockets(SPEAKER) };
        let all = || self.local_addrs().iter().copied().enumerate().step_by(step);
        let remote = with_link(remote, all().filter_map(|(_, local)| scope_of(&local)))
            .ok_or(LINK_UNKNOWN)?;
        // A socket at `[::]` serves both families; one at a link-local address serves one link.
        let reaches = |local: &SocketAddr| {
            let is_on_link =
                scope_of(local).zip(scope_of(&remote)).is_none_or(|(own, link)| own == link);
            let is_open = local.ip() == Ipv6Addr::UNSPECIFIED;
            is_on_link && (is_open || local.is_ipv6() == remote.is_ipv6())
        };
        let mut usable = all().filter(|(_, local)| reaches(local));
        let first = usable.next().ok_or(NOT_REACHED)?.0;
        if usable.next().is_none() {
            return Ok((first, remote));
        }
        let at = |ip| {
            let mut usable = all().filter(|(_, local)| reaches(local));
            usable.find(|(_, local)| local.ip() == ip).map(|(socket, _)| socket)
        };
        // To a local address from that address itself; otherwise from the system's source address.
        let socket = at(remote.ip()).or_else(|| at(source_towards(remote)?)).unwrap_or(first);
        Ok((socket, remote))
    }

    /// Sends an attempt's messages by the way that has answered, or else by the next ways to try.
    pub(super) fn send_of_attempt(&mut self, now: Instant, index: usize, messages: &[Padded]) {
        let Some(pending) = &self.connecting.attempts[index] else { return };
        if !pending.attempt.is_unanswered() {
            let way = pending.way;
            for message in messages {
                match (way, &mut self.connecting.attempts[index]) {
                    (Way::Path(bound), _) => self.send_setup(SPEAKER, bound, message),
                    (Way::Detour(number), Some(pending)) => {
                        pending.listening.confirms(now, number, message);
                    }
                    (Way::Detour(_), None) => {}
                }
            }
            return;
        }
        let (sent, server) = (pending.listening.requests(), pending.attempt.server());
        let local = self.local_addrs()[pending.socket];
        // For a channel that joins a group, some paths of the group's first channel are known to
        // work.
        let fan = if sent > 0 && pending.leader.is_some() { JOINING_PATHS } else { 1 };
        for path in sent * fan..(sent + 1) * fan {
            if let Some(bound) = self.request_path(index, path) {
                messages.iter().for_each(|message| self.send_setup(SPEAKER, bound, message));
            }
        }
        if let Some(pending) = &mut self.connecting.attempts[index] {
            pending.listening.requests_sent(now, local, server, messages);
        }
    }

    /// Returns the ends of a path for a request. A channel that joins a group uses the ends of a
    /// path of the group's first channel. The first channel uses the sockets of the address in
    /// turn, and the server port that the caller named.
    fn request_path(&self, index: usize, path: usize) -> Option<Destination> {
        let pending = self.connecting.attempts.get(index)?.as_ref()?;
        if let Some(leader) = pending.leader {
            let first = self.channels.get(self.connecting.channel_of(leader)?)?;
            let path = path % first.peer.paths as usize;
            let ends = first.path(path as u8)?;
            return Some(Destination::unfilled(path, ends.socket, ends.remote));
        }
        let path = path % self.connecting.sockets(SPEAKER);
        let to = pending.attempt.server().into();
        Some(Destination::unfilled(path, pending.socket + path, to))
    }

    /// Returns the number of the path by which an answer arrived at a socket. For a channel that
    /// joins a group this is the first channel's path with these ends.
    pub(super) fn answer_path(&self, index: usize, socket: usize, from: &Address) -> usize {
        let Some(Some(pending)) = self.connecting.attempts.get(index) else { return 0 };
        let first = pending.leader.and_then(|leader| self.connecting.channel_of(leader));
        let paths = first.and_then(|first| self.channels.get(first)).map(|first| {
            let has_ends = |path: &u8| {
                first.path(*path).is_some_and(|ends| ends.socket == socket && ends.remote == *from)
            };
            (0..first.peer.paths).map(|path| path as u8).find(has_ends)
        });
        let by_socket = socket.saturating_sub(pending.socket);
        paths.flatten().map_or(by_socket, usize::from)
    }

    /// Sends a packet from the first port of an attempt's address if its messages have come from
    /// another one: until then the server does not know that the first port is this node's
    /// ([`PeerState::is_proven`]).
    pub(super) fn prove_address(&mut self, index: usize, channel: ChannelId) {
        let Some(Some(pending)) = self.connecting.attempts.get(index) else { return };
        match pending.way {
            Way::Path(bound) if bound.socket == pending.socket => {}
            Way::Path(_) | Way::Detour(_) => self.nic.probe_first_path(channel),
        }
    }

    /// Starts to probe a peer with packets of full size, if the peer answers such probes.
    pub(super) fn probe_sizes(
        &mut self,
        now: Instant,
        peer: &Arc<PeerState>,
        socket: usize,
        agreed: &Parameters,
    ) {
        if let Some(probe) = self.size_probe(now, peer, socket, agreed) {
            self.connecting.sizes.push(probe);
        }
    }

    /// Returns a probe of a peer with packets of full size, from ports of the address of `socket`.
    /// `None` if the peer does not answer such probes, or too many probes are running.
    pub(super) fn size_probe(
        &self,
        now: Instant,
        peer: &Arc<PeerState>,
        socket: usize,
        agreed: &Parameters,
    ) -> Option<SizeProbe> {
        let Connecting { identity, detours, sizes, .. } = &self.connecting;
        if !*detours || sizes.len() >= SIZE_PROBES_MAX {
            return None;
        }
        let probe = LengthProbe::new(now, identity, clock::random().ok()?, agreed)?;
        Some(SizeProbe::new(now, peer.clone(), self.local_addrs()[socket], probe))
    }

    /// Returns the number of the path between the socket that a client contacted and the one it
    /// sent from.
    pub(super) fn path_of(&self, at: (u32, usize), from: SocketAddr, setup: &Setup) -> usize {
        let ports = match &setup.message {
            SetupMessage::Hello(hello) => hello.client.ports,
            SetupMessage::Confirm(confirm) => confirm.hello.client.ports,
            _ => return 0,
        };
        let ports = ports.as_slice();
        let theirs = ports.iter().position(|port| *port == from.port()).unwrap_or(0);
        theirs + at.1 % self.connecting.sockets(at.0) * ports.len()
    }
}

/// Returns the address of the requesting node, with the first of its ports. The request may have
/// come from any of its ports, or from a socket that it opened for the request alone.
pub(super) fn client_address(from: SocketAddr, setup: &Setup) -> SocketAddr {
    match &setup.message {
        SetupMessage::Hello(hello) => first_port(from, hello),
        SetupMessage::Confirm(confirm) => first_port(from, &confirm.hello),
        _ => from,
    }
}

pub(super) fn first_port(from: SocketAddr, hello: &Hello) -> SocketAddr {
    let first = hello.client.ports.as_slice().first();
    let port = first.filter(|_| hello.joins.is_none()).copied().unwrap_or(from.port());
    with_port(from, port)
}

/// Returns the same address with another port, keeping the link of a link-local address.
fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// Returns a remote address with its link, if it is link-local. Without one it is on the link of
/// the local sockets, `own`, or of this host. `None` if these have several links.
fn with_link(remote: SocketAddr, own: impl Iterator<Item = u32>) -> Option<SocketAddr> {
    let SocketAddr::V6(mut named) = remote else { return Some(remote) };
    if !named.ip().is_unicast_link_local() || named.scope_id() != 0 {
        return Some(remote);
    }
    let mut own = own.peekable();
    let link = match own.peek() {
        Some(_) => sole(own),
        None => link_towards(*named.ip()),
    };
    named.set_scope_id(link?);
    Some(named.into())
}

/// Returns the link (scope) of a link-local address.
fn scope_of(address: &SocketAddr) -> Option<u32> {
    match address {
        SocketAddr::V6(address) => Some(address.scope_id()).filter(|scope| *scope != 0),
        SocketAddr::V4(_) => None,
    }
}

#[cfg(test)]
mod tests;
