//! Connection set-up on real sockets and a real engine: connects [`crate::setup`] to them.

use crate::peer_state::PeerState;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8};
use std::time::Duration;

use fairway_port::Address;
use fairway_runtime::addresses::is_of_this_host;
use fairway_runtime::{Destination, clock};
use fairway_ub::setup::{
    Attempt, Established, Listener, Members, OpenRequest, Outcome, Reaction, payload_mtu,
};
use fairway_ub::wire::{
    self, CheckKey, FILLED, Instant, Joins, Msn, Psn, Reject, RejectReason, Role, SetupMessage,
    socket_pairs,
};
use fairway_ub::{ChannelConfig, ChannelId, SetupError, UbDevice};

use crate::core::{Channel, Core};
use crate::error::{Error, Refusal};
use crate::setup::guesses::Guesses;
use crate::setup::keys::KeyPair;
use crate::setup::listening::Listening;
use crate::setup::quota::{self, Quota};
use crate::setup::shortened::Watch;
use crate::setup::sizes::SizeProbe;
use crate::setup::{Identity, Padded};

mod serving;
mod shortened;
mod ways;

use ways::{Way, client_address};

/// The engine that sends the messages of connection attempts, from the first socket of one of its
/// addresses.
const SPEAKER: u32 = 0;

/// Connection attempts of this side that are under way, and the listener for those of peers.
pub(crate) struct Connecting {
    identity: Identity,
    listener: Listener,
    /// True if repeated set-up messages may be sent from extra sockets opened for that purpose.
    detours: bool,
    /// Time for which a connection may be idle if few channels are left.
    evict_idle: Option<wire::Duration>,
    quota: Quota,
    pub(crate) guesses: Guesses,
    attempts: Vec<Option<Pending>>,
    /// Probes of connections with packets of full size.
    sizes: Vec<SizeProbe>,
    /// Peers of which no packet has come, or none from their first address.
    pub(crate) unproven: Vec<Arc<PeerState>>,
    /// Time of the next check for stalled channels.
    stalls_at: Instant,
}

struct Pending {
    attempt: Attempt,
    /// The first socket of the address that the attempt sends from.
    socket: usize,
    /// The way that has answered, which all following messages take.
    way: Way,
    listening: Listening,
    keys: KeyPair,
    channel: ChannelId,
    timeout: Duration,
    /// The attempt for the first channel of the group, if this attempt is for another channel.
    leader: Option<usize>,
    /// Set when the first channel is open; other channels of its group may still be missing.
    peer: Option<Arc<PeerState>>,
    /// The channels of the group, once the first one is open.
    members: Option<Members>,
    first_message: Msn,
    /// Set once the attempt has ended.
    result: Option<Result<Arc<PeerState>, Error>>,
}

/// The place of a channel, to be opened here, within its group.
struct Place {
    id: ChannelId,
    first_message: Msn,
    /// The first channel of the group, if this is another one.
    leader: Option<ChannelId>,
    engine: u32,
}

/// The remote end of a channel to be opened, whichever side started the attempt.
struct Remote {
    /// The first of its ports, as it names them.
    named: SocketAddr,
    /// Where its messages come from.
    from: SocketAddr,
    role: Role,
    /// The first local socket that receives the peer's packets.
    socket: usize,
    /// The local address that the peer uses, if packets to the peer would leave from another one.
    local: Option<IpAddr>,
    key: CheckKey,
}

impl Connecting {
    pub(crate) fn new(
        identity: Identity,
        detours: bool,
        evict_idle: Option<wire::Duration>,
        guesses: Guesses,
    ) -> Result<Self, Error> {
        let listener = Listener::new(identity.clone(), clock::random_bytes()?);
        Ok(Connecting {
            identity,
            listener,
            detours,
            evict_idle,
            quota: Quota::new(),
            guesses,
            attempts: Vec::new(),
            sizes: Vec::new(),
            unproven: Vec::new(),
            stalls_at: clock::now(),
        })
    }

    /// Time at which some attempt has a message to send or a time-out to handle.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let times = |pending: &Pending| {
            let sends_at = pending.attempt.poll_timeout()?;
            let looks_at = pending.listening.poll_timeout();
            Some(looks_at.map_or(sends_at, |at| at.min(sends_at)))
        };
        let probes = self.sizes.iter().filter_map(SizeProbe::poll_timeout);
        self.pending().filter_map(times).chain(probes).reduce(Instant::min)
    }

    /// Drops all attempts.
    pub(crate) fn abandon_all(&mut self, nic: &mut UbDevice) {
        self.sizes.clear();
        for pending in self.attempts.iter_mut().flatten() {
            if pending.result.is_none() {
                nic.release_channel(pending.channel);
                pending.result = Some(Err(Error::ShutDown));
            }
        }
    }

    /// Returns the channel of an attempt.
    fn channel_of(&self, index: usize) -> Option<ChannelId> {
        self.attempts.get(index)?.as_ref().map(|pending| pending.channel)
    }

    /// Records that the first channel of a group is open.
    fn note_open(&mut self, index: usize, peer: &Arc<PeerState>) {
        if let Some(Some(pending)) = self.attempts.get_mut(index) {
            pending.peer = Some(peer.clone());
        }
    }

    /// Number of sockets per address, among those of an engine.
    fn sockets(&self, engine: u32) -> usize {
        self.identity.ports[engine as usize].as_slice().len()
    }

    fn pending(&self) -> impl Iterator<Item = &Pending> {
        self.attempts.iter().flatten().filter(|pending| pending.result.is_none())
    }
}

impl Core {
    /// Starts to connect, and returns the number of the attempt.
    pub fn start_attempt(&mut self, server: SocketAddr, timeout: Duration) -> Result<usize, Error> {
        self.check_running()?;
        let server = match server.ip().to_canonical() {
            IpAddr::V4(ip) => SocketAddr::from((ip, server.port())),
            IpAddr::V6(_) => server,
        };
        let (socket, server) = self.way_to(server).map_err(|remedy| Error::Parameter {
            name: "address",
            value: server.to_string(),
            remedy,
        })?;
        let link = fairway_port::mtu_towards(self.local_addrs()[socket], &server)
            .map_err(|error| Error::io(format!("find a route to {server}"), error))?;
        let now = clock::now();
        let deadline = now + clock::from_std(timeout);
        let way = (socket, server);
        let index = self.request(now, way, payload_mtu(link), (deadline, timeout), None)?;
        self.speak(now);
        Ok(index)
    }

    /// Starts an attempt to open a channel: the first of a group, or one that joins it.
    fn request(
        &mut self,
        now: Instant,
        (socket, server): (usize, SocketAddr),
        mtu_bytes: u16,
        (deadline, timeout): (Instant, Duration),
        joins: Option<(usize, Joins)>,
    ) -> Result<usize, Error> {
        let (nonce, random) = (clock::random()?, clock::random()?);
        let (first_psn, first_message) = first_numbers(random);
        let keys = KeyPair::new(clock::random_bytes()?);
        let channel =
            self.reserve_channel().map_err(|error| Error::setup(error, "channel", None))?;
        let request = OpenRequest {
            server,
            tpn: self.channels.peer_number(channel),
            first_psn,
            nonce,
            joins: joins.map(|(_, joins)| joins),
            mtu_bytes,
            deadline,
            key: keys.public(),
        };
        let attempt = Attempt::new(now, &self.connecting.identity, request);
        let leader = joins.map(|(leader, _)| leader);
        let pending = Pending {
            attempt,
            socket,
            way: Way::Path(Destination::unfilled(0, socket, server.into())),
            // The request for a channel that joins a group is sent from ports that the server has
            // recorded.
            listening: Listening::new(now, self.connecting.detours && joins.is_none()),
            keys,
            channel,
            timeout,
            leader,
            peer: None,
            members: None,
            first_message,
            result: None,
        };
        let attempts = &mut self.connecting.attempts;
        let index = attempts.iter().position(Option::is_none).unwrap_or_else(|| {
            attempts.push(None);
            attempts.len() - 1
        });
        attempts[index] = Some(pending);
        Ok(index)
    }

    /// Reserves a channel; if none is free, one of those that only wait for their peer to repeat
    /// its close.
    fn reserve_channel(&mut self) -> Result<ChannelId, SetupError> {
        match self.nic.reserve_channel() {
            Err(_) if self.nic.end_lingering() => self.nic.reserve_channel(),
            reserved => reserved,
        }
    }

    /// Returns the UDP port of a socket of an engine.
    pub(crate) fn own_port(&self, engine: u32, socket: usize) -> u16 {
        let ports = self.connecting.identity.ports.get(engine as usize);
        ports.and_then(|ports| ports.as_slice().get(socket)).copied().unwrap_or_default()
    }

    /// Makes an attempt end at once when the network reports that no program listens at the
    /// address.
    pub(crate) fn heed_refusals(&mut self, index: usize) {
        if let Some(Some(pending)) = self.connecting.attempts.get_mut(index) {
            pending.listening.heed();
        }
    }

    /// Takes the result of an attempt that has ended.
    pub fn take_attempt(&mut self, index: usize) -> Option<Result<Arc<PeerState>, Error>> {
        let slot = self.connecting.attempts.get_mut(index)?;
        let result = slot.as_mut()?.result.take()?;
        *slot = None;
        Some(result)
    }

    /// Ends an attempt whose result is no longer needed.
    pub fn abandon_attempt(&mut self, index: usize) {
        let slot = self.connecting.attempts.get_mut(index).and_then(Option::take);
        let Some(mut pending) = slot else { return };
        match pending.result.take() {
            None => self.call_off(index, &pending),
            // The caller has not taken the connection, which may have ended meanwhile.
            Some(Ok(peer)) => drop(self.close_channel(peer.channel)),
            Some(Err(_)) => {}
        }
    }

    /// Releases the channels that an attempt for the first channel of a group has opened so far.
    fn call_off(&mut self, index: usize, pending: &Pending) {
        for slot in &mut self.connecting.attempts {
            if let Some(other) = slot.take_if(|other| other.leader == Some(index)) {
                self.nic.release_channel(other.channel);
            }
        }
        match &pending.peer {
            None => self.nic.release_channel(pending.channel),
            // The channel may have ended meanwhile.
            Some(peer) => drop(self.close_channel(peer.channel)),
        }
    }

    /// Sends the messages that are due of every attempt, and settles the attempts that have ended.
    pub(crate) fn speak(&mut self, now: Instant) {
        self.advance_size_probes(now);
        for index in 0..self.connecting.attempts.len() {
            let Some(pending) = &mut self.connecting.attempts[index] else { continue };
            if pending.result.is_some() {
                continue;
            }
            pending.receive_answers(now);
            if pending.attempt.is_unanswered() && pending.listening.is_refused(now) {
                pending.attempt.handle_no_listener();
            }
            let messages = pending.attempt.poll_transmit(now);
            if !messages.is_empty() {
                self.send_of_attempt(now, index, &messages);
            }
            self.settle_attempt(now, index);
        }
    }

    /// Handles a set-up message that a socket of an engine received.
    pub(crate) fn handle_setup(
        &mut self,
        now: Instant,
        at: (u32, usize),
        from: &Address,
        message: &Padded,
    ) {
        self.counters.setup_messages += 1;
        let (sender, setup) = (SocketAddr::from(*from), &message.setup);
        for index in 0..self.connecting.attempts.len() {
            let path = self.answer_path(index, at.1, from);
            let Some(pending) = &mut self.connecting.attempts[index] else { continue };
            let way = Way::Path(Destination::unfilled(path, at.1, *from));
            if pending.result.is_none() && pending.take_in(now, sender, way, setup) {
                self.speak(now);
                return;
            }
        }
        if self.check_running().is_err() {
            return;
        }
        let local = self.local_addrs()[at.1];
        let client = client_address(sender, setup);
        let tenant = self.tenant.as_ref();
        if tenant.is_some_and(|tenant| tenant.prevails(local.ip(), client, setup.source)) {
            return;
        }
        if !self.connecting.quota.take(now, sender.ip(), quota::request_cost(message.length)) {
            self.counters.setup_limited += 1;
            return;
        }
        let path = self.path_of(at, sender, setup);
        let mtu = self.mtu_to_offer(now, local, sender, &setup.message);
        let listener = &mut self.connecting.listener;
        let answer = match listener.handle_message(now, sender, mtu, setup) {
            Reaction::Ignore => return,
            // An ACCEPT, which is repeated, is always sent: its client has proven its address.
            Reaction::Answer(answer)
                if !matches!(answer.message, SetupMessage::Accept(_))
                    && !self.connecting.quota.take_answer(now, sender.ip()) =>
            {
                self.counters.setup_limited += 1;
                return;
            }
            Reaction::Answer(answer) => self.unless_ended(answer),
            Reaction::Open(_) if !self.connecting.quota.take(now, sender.ip(), quota::OPENING) => {
                self.counters.setup_limited += 1;
                return;
            }
            Reaction::Open(opening) => match self.open_as_server(now, at, from.local(), &opening) {
                Ok((end, key)) => self.connecting.listener.opened(now, &opening, end, key),
                Err(reason) => self.connecting.listener.refuse(&opening, reason),
            },
        };
        let answer = message.answered(answer);
        self.send_setup(at.0, Destination::unfilled(path, at.1, *from), &answer);
    }

    /// Returns the payload bytes that the first link on the way to a client carries. The value only
    /// shortens the search for the longest packets, so during a flood of set-up requests the node's
    /// own limit is offered instead.
    fn mtu_to_offer(
        &mut self,
        now: Instant,
        local: SocketAddr,
        client: SocketAddr,
        message: &SetupMessage,
    ) -> u16 {
        let is_hello = matches!(message, SetupMessage::Hello(_));
        if !is_hello || !self.connecting.quota.take_route(now) {
            return u16::MAX;
        }
        // If no route is found, the answer cannot be delivered either.
        fairway_port::mtu_towards(local, &client).map_or(u16::MAX, payload_mtu)
    }

    fn settle_attempt(&mut self, now: Instant, index: usize) {
        let Some(pending) = &self.connecting.attempts[index] else { return };
        let Some(outcome) = pending.attempt.outcome().filter(|_| pending.peer.is_none()) else {
            return;
        };
        let (id, server, socket) = (pending.channel, pending.attempt.server(), pending.socket);
        let leading = pending.leader.unwrap_or(index);
        let joins = pending.attempt.joins();
        let timeout = pending.timeout;
        let mut members = None;
        let result = match outcome {
            Outcome::Open { server: cna, accept } => {
                let established = pending.attempt.established(cna, &accept);
                members = Some(Members::new(&established.agreed));
                let place = Place {
                    id,
                    first_message: pending.first_message,
                    leader: joins.and(self.connecting.channel_of(leading)),
                    engine: self.connecting.identity.engine_for(joins),
                };
                let terms = pending.attempt.terms(cna, &accept);
                match pending.keys.agree(&accept.key, &terms) {
                    Some(key) => {
                        let (named, from, role) = (server, server, Role::Client);
                        let local = pending.way.lasting_local();
                        let remote = Remote { named, from, role, socket, local, key };
                        self.open_channel(now, &place, remote, &established)
                            .map_err(|error| Error::setup(error, "channel", None))
                    }
                    None => Err(Error::Refused { peer: server, reason: Refusal::Parameters }),
                }
            }
            Outcome::Refused(reject) => {
                Err(Error::Refused { peer: server, reason: refusal(&reject) })
            }
            Outcome::NoListener => Err(Error::NoListener { peer: server }),
            Outcome::TimedOut => {
                let report = pending.listening.report();
                Err(Error::unanswered(self.datapath, server, timeout, report))
            }
        };
        if result.is_err() {
            self.nic.release_channel(id);
        }
        let result = match result {
            Ok(peer) if joins.is_none() => {
                self.prove_address(index, id);
                self.connecting.note_open(index, &peer);
                self.request_others(now, index, members)
            }
            other => other.map(|_| ()),
        };
        if joins.is_some() {
            self.connecting.attempts[index] = None;
        }
        self.settle_group(leading, joins, result);
    }

    /// Starts attempts for the other channels of a group whose first channel is open.
    fn request_others(
        &mut self,
        now: Instant,
        index: usize,
        members: Option<Members>,
    ) -> Result<(), Error> {
        let Some(pending) = &mut self.connecting.attempts[index] else { return Ok(()) };
        pending.members = members;
        let (leader, server) =
            (self.channels.peer_number(pending.channel), pending.attempt.server());
        let socket = pending.socket;
        let limits = (pending.attempt.deadline(), pending.timeout);
        let Some(mtu) = pending.peer.as_ref().map(|peer| peer.mtu) else { return Ok(()) };
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        for number in members.into_iter().flat_map(Members::missing) {
            let joins = Joins { leader, number };
            let joining = self.request(now, (socket, server), mtu, limits, Some((index, joins)))?;
            if let Some(pending) = &mut self.connecting.attempts[joining] {
                let messages = pending.attempt.poll_transmit(now);
                self.send_of_attempt(now, joining, &messages);
            }
        }
        Ok(())
    }

    /// Records that one channel of a group is open or has failed, and completes the connection if
    /// it was the last.
    fn settle_group(&mut self, leading: usize, joins: Option<Joins>, result: Result<(), Error>) {
        let Some(Some(pending)) = self.connecting.attempts.get_mut(leading) else { return };
        if pending.result.is_some() {
            return;
        }
        match result {
            Ok(()) => {
                let Some(members) = &mut pending.members else { return };
                if let Some(joins) = joins {
                    members.join(joins.number);
                }
                if members.is_complete() {
                    pending.result = pending.peer.clone().map(Ok);
                }
            }
            Err(error) => {
                pending.result = Some(Err(error));
                if pending.peer.is_some()
                    && let Some(pending) = self.connecting.attempts[leading].take()
                {
                    self.call_off(leading, &pending);
                    self.connecting.attempts[leading] = Some(pending);
                }
            }
        }
    }

    /// True if a peer is on this host, and no emulated network lies between.
    fn is_near(&self, peer: SocketAddr) -> bool {
        // A process without a descriptor left does not need to know.
        !self.is_emulated && is_of_this_host(peer).unwrap_or(false)
    }

    fn open_channel(
        &mut self,
        now: Instant,
        place: &Place,
        remote: Remote,
        established: &Established,
    ) -> Result<Arc<PeerState>, SetupError> {
        let Established { remote: cna, endpoint, agreed, .. } = established;
        let sockets = (self.connecting.sockets(place.engine), endpoint.ports.as_slice().len());
        let port_pairs = socket_pairs(u32::from(agreed.paths), sockets);
        let mtu = u32::from(agreed.mtu_bytes);
        let policies = match self.is_near(remote.from) {
            true => self.policy.build_within_host(port_pairs, mtu),
            false => self.policy.build(mtu),
        };
        let config = ChannelConfig {
            leader: place.leader,
            engine: place.engine,
            first_message: place.first_message,
            ..established.config(policies)
        };
        if let Some(probe) = &self.probe {
            probe.opened(place.id.index());
        }
        self.nic.open_channel(now, place.id, config)?;
        self.send_controllers();
        let leader = place.leader.and_then(|leader| self.peer_state(leader));
        let joins = leader.is_some();
        let peer = leader.unwrap_or_else(|| {
            Arc::new(PeerState {
                channel: place.id,
                named: remote.named,
                from: remote.from,
                is_proven: AtomicBool::new(remote.named == remote.from),
                was_received: AtomicBool::new(false),
                incarnation: cna.value(),
                mtu,
                paths: u32::from(agreed.paths),
                port_pairs,
                alive: AtomicBool::new(true),
                long_packets: AtomicU8::default(),
            })
        });
        if !joins {
            self.connecting.note_unproven(&peer);
        }
        let first = remote.socket;
        let sockets = (first..first + sockets.0, remote.local);
        let ports = &endpoint.ports;
        let names = (place.id, endpoint.tpn);
        let key = Box::new(remote.key);
        let mut channel =
            Channel::new(names, peer.clone(), place.engine, remote.role, sockets, ports, key);
        channel.members = channel.leads().then(|| Members::new(agreed));
        channel.watch = Some(Watch::new(*agreed));
        channel.fills = agreed.capabilities & FILLED != 0;
        self.channels.insert(channel);
        self.counters.connections += u64::from(!joins);
        // A firewall that lets a client send from any port need not let a server do so.
        if !joins && remote.role == Role::Client {
            self.probe_sizes(now, &peer, first, agreed);
        }
        Ok(peer)
    }
}

/// Returns the first sequence and message numbers of a channel: random, hence hard to guess.
fn first_numbers(random: u64) -> (Psn, Msn) {
    (Psn::new(random as u32), Msn::new((random >> 32) as u32))
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
