//! Whole set-ups in virtual time: clients and a server on a network that loses, repeats, delays and
//! reorders messages, loses long ones, and nodes that restart.
//!
//! A seed draws everything. While faults last, only safety is demanded: a client's open channel is
//! one that the server has opened with the same terms, and an attempt opens one, and one more for
//! each REJECT at most that calls its cookie stale. Then the network is healed, and every client
//! has to be connected within [`RECOVERY`].

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;

use fairway_wire::{
    Cna, Decoded, Duration, Instant, Joins, KEY_LEN, PADDED_HELLOS, Parameters, Ports, Psn,
    RejectReason, SETUP_LEN, Setup, SetupMessage, Tpn, decode, encode_setup,
};

use super::T0;
use crate::random::Random;
use crate::setup::lengths::packet_length;
use crate::setup::{
    Attempt, Established, Identity, Listener, Members, OpenRequest, Opening, Outcome, Padded,
    Reaction, Terms,
};

mod oracles;

/// Seeds of the test.
const SEEDS: u64 = 2000;
/// Longest duration of faults.
const FAULTS_MS: u64 = 6000;
/// After the network is healed, every client is connected within this time: the longest wait
/// between HELLOs, twice, because a REJECT may send the client back to its first HELLO, and a
/// search.
const RECOVERY: Duration = Duration::from_ms(1500);
/// Ports of a client, from any of which a HELLO may be sent.
const CLIENT_PORTS: [u16; 3] = [4000, 4001, 4002];
/// A datagram of this length gets through everywhere.
const ANY_LENGTH: usize = 65_507;

/// Faults of the network.
#[derive(Clone, Copy, Debug)]
struct Faults {
    /// Datagrams lost, and datagrams duplicated, of 1,000.
    loss: u32,
    duplication: u32,
    /// The longest delay of a datagram; delays are distributed uniformly from zero on.
    delay_ms_max: u64,
    /// The longest datagram that gets through.
    length_max: usize,
}

/// A datagram in transit.
#[derive(Clone, Debug)]
struct Datagram {
    /// The client's index and port, at whichever end it is.
    client: usize,
    port: u16,
    to_server: bool,
    bytes: Vec<u8>,
}

/// An attempt of a client, and the port by which the server has answered.
struct ClientAttempt {
    machine: Attempt,
    tpn: Tpn,
    key: [u8; KEY_LEN],
    way: Option<u16>,
    channel: Option<Established>,
}

struct Client {
    identity: Identity,
    attempts: Vec<ClientAttempt>,
    /// The group, once its first channel is open.
    members: Option<Members>,
    channels_opened: u32,
}

/// A channel that the server has opened.
#[derive(Clone, Copy, Debug)]
struct Opened {
    opening: Opening,
    terms: Terms,
    end: Established,
    members: Option<Members>,
}

struct Server {
    identity: Identity,
    listener: Listener,
    opened: Vec<Opened>,
}

/// Kinds of events in the simulated world.
#[derive(Clone, Debug)]
enum Step {
    Arrive(Datagram),
    RestartServer,
    RestartClient(usize),
    Heal,
}

struct World {
    now: Instant,
    random: Random,
    faults: Faults,
    clients: Vec<Client>,
    server: Server,
    /// Earlier incarnations of the server.
    gone: Vec<Server>,
    steps: BTreeMap<(u64, u64), Step>,
    sequence: u64,
    healed_at: Option<Instant>,
    /// By attempt: REJECTs for a stale cookie that have arrived.
    stale: BTreeMap<u64, u32>,
    /// Counters of notable events.
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    connected: u64,
    opened_twice: u64,
    lost: u64,
    duplicated: u64,
    confirms: u64,
    stale: u64,
    timed_out: u64,
    shortened: u64,
    joined: u64,
    recovery_ms_max: u64,
}

fn server_address() -> SocketAddr {
    "[2001:db8::1]:4810".parse().unwrap()
}

fn client_address(client: usize, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, client as u8 + 1], port))
}

fn identity(random: &mut Random, ports: &[u16], engines: usize) -> Identity {
    let mut cna = || Cna::new(1 + random.below(0xff_fffe) as u32);
    let (cna, setup_cna) = (cna(), cna());
    let limits = Parameters {
        mtu_bytes: random.pick(&[64, 1360, 4096, 8856]),
        paths: random.pick(&[1, 4, 16]),
        window_packets: 1024,
        message_slots: 64,
        read_slots: random.pick(&[0, 64]),
        keep_alive_ms: random.pick(&[0, 500]),
        channels: engines as u16,
        capabilities: PADDED_HELLOS | random.below(8) as u16,
    };
    Identity { cna, setup_cna, ports: vec![Ports::new(ports).unwrap(); engines], limits }
}

fn server(random: &mut Random) -> Server {
    let engines = random.range(1, 4) as usize;
    let identity = identity(random, &[4810, 4811], engines);
    let mut secret = [0; 32];
    random.fill(&mut secret);
    let listener = Listener::new(identity.clone(), secret);
    Server { identity, listener, opened: Vec::new() }
}

fn client(random: &mut Random) -> Client {
    let engines = random.range(1, 4) as usize;
    let identity = identity(random, &CLIENT_PORTS, engines);
    Client { identity, attempts: Vec::new(), members: None, channels_opened: 0 }
}

impl Client {
    /// Gives up a connection.
    fn forget(&mut self) {
        self.attempts.clear();
        self.members = None;
    }
}

impl Server {
    /// Processes a message as the runtime does.
    fn handle(&mut self, now: Instant, from: SocketAddr, request: &Padded) -> Option<Padded> {
        let answer = match self.listener.handle_message(now, from, u16::MAX, &request.setup) {
            Reaction::Ignore => return None,
            Reaction::Answer(answer) => answer,
            Reaction::Open(opening) => self.open(now, &opening),
        };
        Some(request.answered(answer))
    }

    fn open(&mut self, now: Instant, opening: &Opening) -> Setup {
        let hello = &opening.confirm.hello;
        if let Some(joins) = hello.joins {
            let leader = self.opened.iter_mut().find(|opened| {
                opened.opening.client == opening.client
                    && opened.end.endpoint.tpn == joins.leader
                    && opened.opening.confirm.hello.joins.is_none()
            });
            let members = leader.and_then(|leader| leader.members.as_mut());
            let agreed = &opening.confirm.agreed;
            match members.filter(|members| members.admits(joins, agreed)) {
                Some(members) => members.join(joins.number),
                None => return self.listener.refuse(opening, RejectReason::Parameters),
            }
        }
        let number = self.opened.len() as u32;
        let (tpn, psn) = (Tpn::new(0x5000 + number), Psn::new(number * 1000));
        let mut key = [0; KEY_LEN];
        key[..4].copy_from_slice(&tpn.value().to_be_bytes());
        let terms = self.listener.terms(opening, tpn, key);
        let end = opening.established(psn);
        let members = hello.joins.is_none().then(|| Members::new(&end.agreed));
        self.opened.push(Opened { opening: *opening, terms, end, members });
        self.listener.opened(now, opening, (tpn, psn), key)
    }
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let faults = Faults {
            loss: random.pick(&[0, 50, 200, 400]),
            duplication: random.pick(&[0, 100, 300]),
            delay_ms_max: random.pick(&[1, 10, 60, 400]),
            length_max: random.pick(&[ANY_LENGTH, ANY_LENGTH, 4236 - 48, 1500 - 48, SETUP_LEN]),
        };
        let clients = (0..random.range(1, 3)).map(|_| client(&mut random)).collect();
        let server = server(&mut random);
        let mut world = World {
            now: T0,
            random,
            faults,
            clients,
            server,
            gone: Vec::new(),
            steps: BTreeMap::new(),
            sequence: 0,
            healed_at: None,
            stale: BTreeMap::new(),
            counts: Counts::default(),
        };
        let heal_ms = world.random.below(FAULTS_MS);
        for _ in 0..world.random.below(3) {
            let at = world.random.below(heal_ms + 1);
            world.plan(at, Step::RestartServer);
        }
        for _ in 0..world.random.below(3) {
            let client = world.random.below(world.clients.len() as u64) as usize;
            let at = world.random.below(heal_ms + 1);
            world.plan(at, Step::RestartClient(client));
        }
        // This comes last, because nothing restarts after that.
        world.plan(heal_ms, Step::Heal);
        world
    }

    fn plan(&mut self, ms: u64, step: Step) {
        self.plan_at(T0 + Duration::from_ms(ms), step);
    }

    fn plan_at(&mut self, at: Instant, step: Step) {
        self.sequence += 1;
        self.steps.insert((at.as_ps(), self.sequence), step);
    }

    /// Runs until all clients are connected and the network is healed.
    fn run(&mut self) {
        loop {
            (0..self.clients.len()).for_each(|client| self.drive(client));
            let is_over = self.healed_at.is_some() && self.clients.iter().all(is_connected);
            if is_over {
                break;
            }
            let timers = self.clients.iter().flat_map(|client| &client.attempts);
            let timers = timers.filter_map(|attempt| attempt.machine.poll_timeout());
            let next = timers.map(Instant::as_ps).chain(self.steps.keys().map(|key| key.0)).min();
            self.now = Instant::from_ps(next.expect("something is still to happen"));
            while let Some(entry) = self.steps.first_entry()
                && entry.key().0 <= self.now.as_ps()
            {
                let step = entry.remove();
                self.step(step);
            }
            if let Some(healed) = self.healed_at {
                let since = self.now.since(healed);
                assert!(since <= RECOVERY, "not connected {} ms after", since.as_us() / 1000);
                self.counts.recovery_ms_max = since.as_us() / 1000;
            }
        }
        self.counts.connected += self.clients.len() as u64;
        oracles::demand_groups(self);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Arrive(datagram) => self.arrive(datagram),
            Step::RestartServer => {
                let fresh = server(&mut self.random);
                self.gone.push(core::mem::replace(&mut self.server, fresh));
            }
            Step::RestartClient(index) => self.clients[index] = client(&mut self.random),
            Step::Heal => {
                self.faults = Faults { loss: 0, duplication: 0, delay_ms_max: 5, ..self.faults };
                self.healed_at = Some(self.now);
                // The channel itself finds that its peer is gone.
                let cna = self.server.identity.cna;
                let is_gone =
                    |attempt: &ClientAttempt| attempt.channel.is_some_and(|end| end.remote != cna);
                for client in &mut self.clients {
                    if client.attempts.iter().any(is_gone) {
                        client.forget();
                    }
                }
            }
        }
    }

    fn arrive(&mut self, datagram: Datagram) {
        let Datagram { client, port, to_server, bytes } = datagram;
        let message = match decode(&bytes[..SETUP_LEN], bytes.len()) {
            Ok(Decoded::Setup(setup)) => Padded { setup, length: bytes.len() },
            other => panic!("{other:?} is no set-up message"),
        };
        if to_server {
            let from = client_address(client, port);
            let opened_before = self.server.opened.len();
            let answer = self.server.handle(self.now, from, &message);
            if self.server.opened.len() > opened_before {
                oracles::demand_few_openings(self);
            }
            if let Some(answer) = answer {
                assert!(answer.length <= message.length, "an answer is longer than its request");
                self.transmit(client, port, false, &answer);
            }
            return;
        }
        if let SetupMessage::Reject(reject) = &message.setup.message
            && reject.reason == RejectReason::StaleCookie
        {
            self.counts.stale += 1;
            *self.stale.entry(attempt_of(reject.nonce)).or_default() += 1;
        }
        for attempt in &mut self.clients[client].attempts {
            let was_unanswered = attempt.machine.is_unanswered();
            let is_taken =
                attempt.machine.handle_message(self.now, server_address(), &message.setup);
            if was_unanswered && !attempt.machine.is_unanswered() {
                attempt.way = Some(port);
            }
            if is_taken {
                break;
            }
        }
    }

    /// Runs a client as the runtime does at each wake-up.
    fn drive(&mut self, index: usize) {
        if self.clients[index].attempts.is_empty() {
            self.request(index, None);
        }
        let mut at = 0;
        while at < self.clients[index].attempts.len() {
            let attempt = &mut self.clients[index].attempts[at];
            let before = attempt.machine.outcome();
            let messages = attempt.machine.poll_transmit(self.now);
            assert!(before.is_none() || messages.is_empty(), "an ended attempt sends");
            let due = attempt.machine.poll_timeout();
            assert!(due.is_none_or(|due| self.now.is_before(due)), "it is due again at once");
            let way = attempt.way.filter(|_| !attempt.machine.is_unanswered());
            for message in &messages {
                let port = way.unwrap_or_else(|| self.random.pick(&CLIENT_PORTS));
                let is_confirm = matches!(message.setup.message, SetupMessage::Confirm(_));
                self.counts.confirms += u64::from(is_confirm);
                self.transmit(index, port, true, message);
            }
            if self.settle(index, at) {
                at += 1;
            } else {
                // The application tries again.
                self.request(index, None);
                at = 0;
            }
        }
    }

    /// Takes the outcome of an attempt. False if its connection has failed.
    fn settle(&mut self, index: usize, at: usize) -> bool {
        let client = &mut self.clients[index];
        let attempt = &mut client.attempts[at];
        let Some(outcome) = attempt.machine.outcome().filter(|_| attempt.channel.is_none()) else {
            return true;
        };
        let Outcome::Open { server, accept } = outcome else {
            self.counts.timed_out += u64::from(outcome == Outcome::TimedOut);
            client.forget();
            return false;
        };
        let (end, terms) =
            (attempt.machine.established(server, &accept), attempt.machine.terms(server, &accept));
        attempt.channel = Some(end);
        assert_eq!(terms.client.key, attempt.key);
        match (attempt.machine.joins(), &mut client.members) {
            (Some(joins), Some(members)) => {
                members.join(joins.number);
                self.counts.joined += 1;
            }
            _ => client.members = Some(Members::new(&end.agreed)),
        }
        let (joins, members) = (attempt.machine.joins(), client.members);
        oracles::demand_same_channel(self, index, &end, &terms);
        if self.healed_at.is_some() && end.remote != self.server.identity.cna {
            // The channel itself finds that its peer is gone.
            self.clients[index].forget();
            return false;
        }
        if joins.is_none() {
            for number in members.into_iter().flat_map(Members::missing) {
                let leader = terms.client.tpn;
                self.request(index, Some((Joins { leader, number }, end.agreed.mtu_bytes)));
            }
        }
        true
    }

    fn request(&mut self, index: usize, joins: Option<(Joins, u16)>) {
        let client = &mut self.clients[index];
        client.channels_opened += 1;
        let mut key = [0; KEY_LEN];
        self.random.fill(&mut key);
        let request = OpenRequest {
            server: server_address(),
            tpn: Tpn::new(client.channels_opened),
            first_psn: Psn::new(self.random.number() as u32),
            nonce: self.random.number(),
            joins: joins.map(|(joins, _)| joins),
            mtu_bytes: joins.map_or(u16::MAX, |(_, mtu_bytes)| mtu_bytes),
            deadline: self.now + Duration::from_ms(self.random.pick(&[300, 1000, 8000])),
            key,
        };
        let machine = Attempt::new(self.now, &client.identity, request);
        let tpn = Tpn::new(client.channels_opened);
        client.attempts.push(ClientAttempt { machine, tpn, key, way: None, channel: None });
    }

    fn transmit(&mut self, client: usize, port: u16, to_server: bool, message: &Padded) {
        let mut bytes = vec![0; message.length];
        encode_setup(&message.setup, &mut bytes);
        if bytes.len() > self.faults.length_max {
            return;
        }
        let copies = 1 + u32::from(self.random.chance(self.faults.duplication));
        self.counts.duplicated += u64::from(copies > 1);
        for _ in 0..copies {
            if self.random.chance(self.faults.loss) {
                self.counts.lost += 1;
                continue;
            }
            let delay = Duration::from_us(self.random.below(1000 * self.faults.delay_ms_max));
            let datagram = Datagram { client, port, to_server, bytes: bytes.clone() };
            self.plan_at(self.now + delay, Step::Arrive(datagram));
        }
    }
}

/// The attempt that uses a nonce: nonces of one attempt differ in the lower bits.
fn attempt_of(nonce: u64) -> u64 {
    nonce >> 17
}

fn is_connected(client: &Client) -> bool {
    client.members.is_some_and(Members::is_complete)
}

#[test]
fn set_ups_under_faults_are_safe_and_recover() {
    let mut sum = Counts::default();
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        let faults = world.faults;
        let run = std::panic::AssertUnwindSafe(|| world.run());
        if let Err(panic) = std::panic::catch_unwind(run) {
            println!("seed {seed}: {faults:?}");
            std::panic::resume_unwind(panic);
        }
        let counts = world.counts;
        sum.connected += counts.connected;
        sum.opened_twice += counts.opened_twice;
        sum.lost += counts.lost;
        sum.duplicated += counts.duplicated;
        sum.confirms += counts.confirms;
        sum.stale += counts.stale;
        sum.timed_out += counts.timed_out;
        sum.joined += counts.joined;
        sum.shortened += counts.shortened;
        sum.recovery_ms_max = sum.recovery_ms_max.max(counts.recovery_ms_max);
    }
    println!("{SEEDS} seeds: {sum:?}");
    for (what, count) in [
        ("loss", sum.lost),
        ("duplication", sum.duplicated),
        ("stale cookies", sum.stale),
        ("time-outs", sum.timed_out),
        ("channels that join", sum.joined),
        ("paths that shorten packets", sum.shortened),
    ] {
        assert!(count > 100, "too little of {what}: {count}");
    }
}
