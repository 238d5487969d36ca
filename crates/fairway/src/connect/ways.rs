//! The ways by which set-up messages go, so that some may be dead.
//!
//! Networks choose a packet's way by its addresses and ports. A question that is repeated goes from
//! other ports; what follows goes by the way that has answered.

use crate::peer_state::PeerState;
use std::net::SocketAddr;
use std::sync::Arc;

use fairway_port::Address;

use fairway_engine::setup::LengthProbe;
use fairway_engine::wire::{Hello, Instant, Parameters, Setup, SetupMessage};
use fairway_runtime::{Destination, clock};

use super::{Connecting, Pending, SPEAKER};
use crate::core::Core;
use crate::setup::Padded;
use crate::setup::sizes::SizeProbe;

/// Connections that are probed at the same time; more are not.
const SIZE_PROBES_MAX: usize = 64;

/// A repeated question for a channel that joins a group goes by so many paths at once.
const JOINING_PATHS: usize = 4;

/// Where an attempt's messages leave.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// From a socket of [`SPEAKER`] to a port of the server.
    Path(Destination),
    /// From a socket that was opened for the attempt, by number.
    Detour(u32),
}

impl Pending {
    /// A message came by a way. False if it is none of this attempt's.
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

    /// Takes what came to the sockets that were opened for it.
    pub(super) fn receive_answers(&mut self, now: Instant) {
        let mut answers = Vec::new();
        self.listening.poll_answers(now, |number, setup| answers.push((number, *setup)));
        let server = self.attempt.server();
        for (number, setup) in answers {
            self.take_in(now, server, Way::Detour(number), &setup);
        }
    }
}

impl Core {
    /// Sends what an attempt has to say: by the way that has answered, or by the next ones.
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
        let (asked, server) = (pending.listening.asked(), pending.attempt.server());
        let local = self.local_addrs()[pending.socket];
        // Of what joins a group, some paths of its first channel work.
        let fan = if asked > 0 && pending.leader.is_some() { JOINING_PATHS } else { 1 };
        for path in asked * fan..(asked + 1) * fan {
            if let Some(bound) = self.question_path(index, path) {
                messages.iter().for_each(|message| self.send_setup(SPEAKER, bound, message));
            }
        }
        if let Some(pending) = &mut self.connecting.attempts[index] {
            pending.listening.asks(now, local, server, messages);
        }
    }

    /// The ends of a path for a question: of what joins a group, those of a path of its first
    /// channel; before there is one, a socket of the address in turn, and the port that was named.
    fn question_path(&self, index: usize, path: usize) -> Option<Destination> {
        let pending = self.connecting.attempts.get(index)?.as_ref()?;
        if let Some(leader) = pending.leader {
            let first = self.channels.get(self.connecting.channel_of(leader)?)?;
            let path = path % first.peer.paths as usize;
            let ends = first.path(path as u8)?;
            return Some(Destination { path, socket: ends.socket, to: ends.remote });
        }
        let path = path % self.connecting.sockets(SPEAKER);
        let to = pending.attempt.server().into();
        Some(Destination { path, socket: pending.socket + path, to })
    }

    /// The number of the path by which an answer came to a socket: of what joins a group, that of
    /// its first channel with these ends.
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

    /// Has a peer probed with packets of full size, from now on, if it answers to that.
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

    /// A probe of a peer with packets of full size, from ports of the address of `socket`. `None`
    /// if the peer does not answer to that, or too many are probed.
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

    /// The number of the path between the socket that a client asked and the one it asked from.
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

/// The address of the node that asks, with the first of its ports: the question may have come from
/// any of them, or from one of a socket that it opened for that alone.
pub(super) fn asker(from: SocketAddr, setup: &Setup) -> SocketAddr {
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

/// The same address with another port. The link of a link-local address stays with it.
fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

#[cfg(test)]
mod tests;
