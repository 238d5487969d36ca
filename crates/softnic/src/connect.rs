//! Connection set-up on real sockets and a real engine: the glue around [`crate::setup`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fairway_engine::wire::{
    Accept, Cna, Endpoint, Instant, Parameters, Psn, Reject, RejectReason, Role, Setup, Tpn,
};
use fairway_engine::{ChannelConfig, ChannelId, Nic, SetupError};
use fairway_port::Address;

use crate::builder::payload_mtu;
use crate::clock;
use crate::core::{Channel, Core, Notice};
use crate::error::{Error, Refusal};
use crate::peer::PeerState;
use crate::setup::Identity;
use crate::setup::client::{Attempt, Outcome, Question};
use crate::setup::server::{Listener, Opening, Reaction};

/// The socket that attempts speak from.
const SOCKET: usize = 0;

/// Attempts to connect that are under way, and the listener for others'.
pub(crate) struct Connecting {
    identity: Identity,
    listener: Listener,
    attempts: Vec<Option<Pending>>,
}

struct Pending {
    attempt: Attempt,
    channel: ChannelId,
    timeout: Duration,
    /// Filled once it has ended.
    result: Option<Result<Arc<PeerState>, Error>>,
}

/// The other end of a channel to be opened, whichever side asked.
struct Remote<'a> {
    address: SocketAddr,
    cna: Cna,
    endpoint: &'a Endpoint,
    role: Role,
}

impl Connecting {
    pub(crate) fn new(identity: Identity) -> Result<Self, Error> {
        let listener = Listener::new(identity, clock::random_bytes()?);
        Ok(Connecting { identity, listener, attempts: Vec::new() })
    }

    /// When some attempt has something to say or do.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.pending().filter_map(|pending| pending.attempt.poll_timeout()).reduce(Instant::min)
    }

    /// Forgets all attempts.
    pub(crate) fn abandon_all(&mut self, nic: &mut Nic) {
        for pending in self.attempts.iter_mut().flatten() {
            if pending.result.is_none() {
                nic.release_channel(pending.channel);
                pending.result = Some(Err(Error::ShutDown));
            }
        }
    }

    fn pending(&self) -> impl Iterator<Item = &Pending> {
        self.attempts.iter().flatten().filter(|pending| pending.result.is_none())
    }
}

impl Core {
    /// Starts to connect; the number of the attempt.
    pub(crate) fn start_attempt(
        &mut self,
        server: SocketAddr,
        timeout: Duration,
    ) -> Result<usize, Error> {
        self.check_running()?;
        let local = self.local_addrs()[SOCKET];
        if local.is_ipv6() != server.is_ipv6() {
            return Err(Error::Parameter {
                name: "address",
                value: server.to_string(),
                remedy: "connect to an address of the family the context is bound to",
            });
        }
        let link = self
            .io
            .datapath
            .port()
            .mtu_towards(&server)
            .map_err(|error| Error::io(format!("find a route to {server}"), error))?;
        let now = clock::now();
        let (nonce, first_psn) = (clock::random()?, Psn::new(clock::random()? as u32));
        let channel =
            self.nic.reserve_channel().map_err(|error| Error::setup(error, "channel", None))?;
        let question = Question {
            server,
            tpn: channel.tpn(),
            first_psn,
            nonce,
            mtu_bytes: payload_mtu(link),
            deadline: now + clock::from_std(timeout),
        };
        let attempt = Attempt::new(now, &self.connecting.identity, &question);
        let pending = Some(Pending { attempt, channel, timeout, result: None });
        let attempts = &mut self.connecting.attempts;
        let index = attempts.iter().position(Option::is_none).unwrap_or_else(|| {
            attempts.push(None);
            attempts.len() - 1
        });
        attempts[index] = pending;
        self.speak(now);
        Ok(index)
    }

    /// The result of an attempt that has ended.
    pub(crate) fn take_attempt(&mut self, index: usize) -> Option<Result<Arc<PeerState>, Error>> {
        let slot = self.connecting.attempts.get_mut(index)?;
        let result = slot.as_mut()?.result.take()?;
        *slot = None;
        Some(result)
    }

    /// Nobody waits for the attempt any more.
    pub(crate) fn abandon_attempt(&mut self, index: usize) {
        let slot = self.connecting.attempts.get_mut(index).and_then(Option::take);
        if let Some(Pending { channel, result: None, .. }) = slot {
            self.nic.release_channel(channel);
        }
    }

    /// Lets every attempt say what it has to say, and ends those that are over.
    pub(crate) fn speak(&mut self, now: Instant) {
        for index in 0..self.connecting.attempts.len() {
            let Some(pending) = &mut self.connecting.attempts[index] else { continue };
            if pending.result.is_some() {
                continue;
            }
            if let Some(setup) = pending.attempt.poll_transmit(now) {
                let server = pending.attempt.server().into();
                self.send_setup(now, SOCKET, &server, &setup);
            }
            self.settle_attempt(now, index);
        }
    }

    /// A set-up message came to `socket`.
    pub(crate) fn handle_setup(
        &mut self,
        now: Instant,
        socket: usize,
        from: &Address,
        setup: &Setup,
    ) {
        self.counters.setup_messages += 1;
        let sender = SocketAddr::from(*from);
        for index in 0..self.connecting.attempts.len() {
            let Some(pending) = &mut self.connecting.attempts[index] else { continue };
            if pending.result.is_none() && pending.attempt.handle_message(now, sender, setup) {
                self.speak(now);
                return;
            }
        }
        if self.check_running().is_err() {
            return;
        }
        // Where no route is found the answer won't get anyway.
        let link = self.io.datapath.port().mtu_towards(&sender);
        let mtu = link.map_or(u16::MAX, payload_mtu);
        let listener = &mut self.connecting.listener;
        let answer = match listener.handle_message(now, sender, mtu, setup) {
            Reaction::Ignore => return,
            Reaction::Answer(answer) => answer,
            Reaction::Open(opening) => match self.open_as_server(now, &opening) {
                Ok((tpn, psn)) => self.connecting.listener.opened(now, &opening, tpn, psn),
                Err(reason) => self.connecting.listener.refuse(&opening, reason),
            },
        };
        self.send_setup(now, socket, from, &answer);
    }

    fn open_as_server(
        &mut self,
        now: Instant,
        opening: &Opening,
    ) -> Result<(Tpn, Psn), RejectReason> {
        let Ok(random) = clock::random() else { return Err(RejectReason::NoResources) };
        let Ok(id) = self.nic.reserve_channel() else { return Err(RejectReason::NoResources) };
        let first_psn = Psn::new(random as u32);
        let remote = Remote {
            address: opening.from,
            cna: opening.client,
            endpoint: &opening.confirm.hello.client,
            role: Role::Server,
        };
        match self.open_channel(now, id, first_psn, &remote, &opening.confirm.agreed) {
            Ok(peer) => {
                self.notice(Notice::Connected(peer));
                Ok((id.tpn(), first_psn))
            }
            Err(_) => {
                self.nic.release_channel(id);
                Err(RejectReason::Parameters)
            }
        }
    }

    fn settle_attempt(&mut self, now: Instant, index: usize) {
        let Some(pending) = &self.connecting.attempts[index] else { return };
        let Some(outcome) = pending.attempt.outcome() else { return };
        let (id, server) = (pending.channel, pending.attempt.server());
        let (first_psn, timeout) = (pending.attempt.first_psn(), pending.timeout);
        let result = match outcome {
            Outcome::Open { server: cna, accept } => {
                let Accept { server: endpoint, agreed, .. } = accept;
                let remote =
                    Remote { address: server, cna, endpoint: &endpoint, role: Role::Client };
                self.open_channel(now, id, first_psn, &remote, &agreed)
                    .map_err(|error| Error::setup(error, "channel", None))
            }
            Outcome::Refused(reject) => {
                Err(Error::Refused { peer: server, reason: refusal(&reject) })
            }
            Outcome::TimedOut => {
                Err(Error::Timeout { awaited: "answer to the connection request", waited: timeout })
            }
        };
        if result.is_err() {
            self.nic.release_channel(id);
        }
        if let Some(pending) = &mut self.connecting.attempts[index] {
            pending.result = Some(result);
        }
    }

    fn open_channel(
        &mut self,
        now: Instant,
        id: ChannelId,
        first_psn: Psn,
        remote: &Remote<'_>,
        agreed: &Parameters,
    ) -> Result<Arc<PeerState>, SetupError> {
        let config = ChannelConfig {
            leader: None,
            engine: 0,
            remote: remote.cna,
            remote_tpn: remote.endpoint.tpn,
            first_psn,
            remote_first_psn: remote.endpoint.initial_psn,
            mtu: u32::from(agreed.mtu_bytes),
            paths: u32::from(agreed.paths),
            remote_window: u32::from(agreed.window_packets),
            remote_message_slots: u32::from(agreed.message_slots),
            remote_read_slots: u32::from(agreed.read_slots),
            policy: self.policy.build(u32::from(agreed.mtu_bytes)),
        };
        self.nic.open_channel(now, id, config)?;
        let peer = Arc::new(PeerState {
            channel: id,
            address: remote.address,
            incarnation: remote.cna.value(),
            mtu: u32::from(agreed.mtu_bytes),
            paths: u32::from(agreed.paths),
            alive: AtomicBool::new(true),
        });
        let sockets = self.io.datapath.port().socket_count();
        let ports = &remote.endpoint.ports;
        self.channels.insert(Channel::new(peer.clone(), remote.role, sockets, ports));
        self.counters.connections += 1;
        Ok(peer)
    }
}

fn refusal(reject: &Reject) -> Refusal {
    match reject.reason {
        RejectReason::Version => {
            Refusal::Version { min: reject.versions.min(), max: reject.versions.max() }
        }
        RejectReason::NoResources => Refusal::NoResources,
        RejectReason::StaleCookie => Refusal::StaleCookie,
        RejectReason::Parameters => Refusal::Parameters,
        RejectReason::Refused => Refusal::Unwanted,
    }
}
