//! Tests of two managers with a virtual clock: the messages exchanged without a fault, and with
//! one.

use super::refuse::refuse;
use super::*;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use fairway_wire::roce::cm::{
    self, CommunicationId, Datagram, Disconnect, Message, Names, Path, ReadyToUse, Reason, Refused,
    Reply, Request, Service, ServiceReply, ServiceRequest, ServiceStatus,
};
use fairway_wire::{Duration, Instant, Psn, Qpn};

mod ends;
mod garbage;
mod proof;
mod queries;
mod quotas;
mod storm;

const SERVICE: u64 = 0x0106_1c06;

fn request(queue_pair: u32) -> Request {
    let path = Path { ack_timeout: 19, ..Path::default() };
    Request {
        local: CommunicationId(0),
        service: SERVICE,
        ca_guid: 0x1234,
        q_key: 0,
        queue_pair: Qpn::new(queue_pair),
        responder_resources: 1,
        initiator_depth: 1,
        remote_response_timeout: 20,
        transport: Service::Rc,
        flow_control: false,
        psn: Psn::new(77),
        local_response_timeout: 20,
        retries: 7,
        p_key: 0xffff,
        mtu: 3,
        rnr_retries: 7,
        cm_retries: 15,
        shared_receives: false,
        extended_transport: 0,
        primary: path,
        alternate: Path::default(),
        private: [1; Request::PRIVATE_LEN],
    }
}

fn reply(queue_pair: u32) -> Reply {
    Reply {
        names: cm::Names::default(),
        q_key: 0,
        queue_pair: Qpn::new(queue_pair),
        psn: Psn::new(99),
        responder_resources: 1,
        initiator_depth: 1,
        ack_delay: 0,
        failover: 0,
        flow_control: false,
        rnr_retries: 7,
        shared_receives: false,
        ca_guid: 0x5678,
        private: [2; Reply::PRIVATE_LEN],
    }
}

/// The sender of a datagram from the host with this number.
fn from(number: u64) -> Sender {
    Sender { number, ip: [10, 0, number as u8, 1].into(), is_local: false }
}

/// The message's abbreviation in the specification.
fn name(bytes: &[u8]) -> &'static str {
    match cm::parse(bytes).expect("ours").message {
        Message::Request(_) => "REQ",
        Message::Acknowledgement(_) => "MRA",
        Message::Reject(_) => "REJ",
        Message::Reply(_) => "REP",
        Message::ReadyToUse(_) => "RTU",
        Message::Disconnect(_) => "DREQ",
        Message::Disconnected(_) => "DREP",
        Message::ServiceRequest(_) => "SIDR_REQ",
        Message::ServiceReply(_) => "SIDR_REP",
        Message::Path(_) => "LAP",
    }
}

/// Managers of two hosts, whose addresses are 0 and 1.
struct Pair {
    now: Instant,
    managers: [Manager; 2],
    events: [Vec<Event>; 2],
    /// Messages that were sent, each with the side that sent it: `0 REQ`.
    said: Vec<(usize, &'static str)>,
    /// Kinds of messages to lose, and how many of each.
    lose: Vec<(&'static str, u32)>,
    /// Kind of message that arrives twice each time.
    repeat: Option<&'static str>,
    /// True if the two addresses belong to one host.
    is_one_host: bool,
}

impl Pair {
    fn new() -> Pair {
        Pair::with(&Limits { connections: 16, ..Limits::default() })
    }

    fn with(limits: &Limits) -> Pair {
        let profile = Profile::default();
        let managers = [7, 200].map(|slot| Manager::new(limits, &profile, slot, u64::from(slot)));
        let now = Instant::from_ps(u64::MAX - 1_000_000);
        let (said, lose) = (Vec::new(), Vec::new());
        let events = [Vec::new(), Vec::new()];
        Pair { now, managers, events, said, lose, repeat: None, is_one_host: false }
    }

    /// Delivers datagrams until none is left.
    fn run_until_idle(&mut self) {
        let mut moved = true;
        while moved {
            moved = false;
            for side in 0..2 {
                while let Some(transmit) = self.managers[side].poll_transmit() {
                    moved = true;
                    self.carry(side, &transmit);
                }
                while let Some(event) = self.managers[side].poll_event() {
                    self.events[side].push(event);
                }
            }
        }
    }

    fn carry(&mut self, side: usize, transmit: &Transmit) {
        let name = name(&transmit.bytes);
        self.said.push((side, name));
        if let Some((_, left)) =
            self.lose.iter_mut().find(|(kind, left)| *kind == name && *left > 0)
        {
            *left -= 1;
            return;
        }
        let to = transmit.to as usize;
        let times = if self.repeat == Some(name) { 2 } else { 1 };
        for _ in 0..times {
            let from = Sender { is_local: self.is_one_host, ..from(side as u64) };
            self.managers[to].handle_datagram(self.now, &from, &transmit.bytes);
        }
    }

    /// Advances the time up to the next deadline, by `span` at most.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let due = self.managers.iter().filter_map(Manager::poll_timeout);
            let Some(next) = due.reduce(Instant::min).filter(|at| at.is_before(end)) else { break };
            self.now = self.now.max(next);
            for manager in &mut self.managers {
                manager.handle_timeout(self.now);
            }
            self.run_until_idle();
        }
        self.now = end;
    }

    fn listen(&mut self) -> ListenerId {
        self.managers[1].listen(self.now, SERVICE, 8).unwrap()
    }

    fn connect(&mut self, queue_pair: u32) -> ConnectionId {
        let id = self.managers[0].connect(self.now, 1, &request(queue_pair)).unwrap();
        self.run_until_idle();
        id
    }

    /// The connection of the last request that reached side 1.
    fn requested(&mut self) -> ConnectionId {
        let request = self.events[1].iter().rev().find_map(|event| match event {
            Event::Requested { connection, .. } => Some(*connection),
            _ => None,
        });
        request.expect("a request")
    }

    fn accept(&mut self, id: ConnectionId, queue_pair: u32) {
        self.managers[1].accept(self.now, id, &reply(queue_pair)).unwrap();
        self.run_until_idle();
    }

    fn confirm(&mut self, id: ConnectionId) {
        self.managers[0].confirm(self.now, id, &[3; ReadyToUse::PRIVATE_LEN]).unwrap();
        self.run_until_idle();
    }

    /// Sets up a connection; returns its ids at both ends.
    fn connected(&mut self, queue_pair: u32) -> [ConnectionId; 2] {
        let active = self.connect(queue_pair);
        let passive = self.requested();
        self.accept(passive, queue_pair + 100);
        self.confirm(active);
        [active, passive]
    }

    fn states(&self, ids: [ConnectionId; 2]) -> [Option<State>; 2] {
        [self.managers[0].state(ids[0]), self.managers[1].state(ids[1])]
    }

    fn said(&mut self) -> Vec<(usize, &'static str)> {
        core::mem::take(&mut self.said)
    }

    fn events(&mut self, side: usize) -> Vec<Event> {
        core::mem::take(&mut self.events[side])
    }

    /// Closes everything, and asserts that no record remains.
    fn finish(mut self, ids: [ConnectionId; 2]) {
        for (manager, id) in self.managers.iter_mut().zip(ids) {
            let _ = manager.close(self.now, id);
        }
        self.run_until_idle();
        self.pass(Duration::from_secs(200));
        assert_eq!([self.managers[0].in_use(), self.managers[1].in_use()], [0, 0]);
        assert!(self.managers.iter().all(|manager| manager.poll_timeout().is_none()));
    }
}

#[test]
fn three_messages_connect_and_two_end_it() {
    let mut pair = Pair::new();
    let listener = pair.listen();
    let active = pair.connect(5);
    let passive = pair.requested();
    let expected = Request { local: active, ..request(5) };
    let request = Event::Requested { listener, connection: passive, from: 0, request: expected };
    assert_eq!(pair.events(1), [request]);
    assert_eq!([active.0 >> 24, passive.0 >> 24], [7, 200], "names begin with the slot");
    pair.accept(passive, 6);
    let names = cm::Names { local: passive, remote: active };
    let replied = Event::Replied { connection: active, reply: Reply { names, ..reply(6) } };
    assert_eq!(pair.events(0), [replied]);
    assert_eq!(pair.states([active, passive]), [Some(State::Replied), Some(State::Accepting)]);
    pair.confirm(active);
    let established = Event::Established { connection: passive, private: [3; 224] };
    assert_eq!(pair.events(1), [established]);
    assert_eq!(pair.states([active, passive]), [Some(State::Established); 2]);
    pair.managers[0].disconnect(pair.now, active).unwrap();
    pair.run_until_idle();
    assert_eq!(pair.events(0), [Event::Disconnected { connection: active }]);
    assert_eq!(pair.events(1), [Event::Disconnected { connection: passive }]);
    let said = [(0, "REQ"), (1, "REP"), (0, "RTU"), (0, "DREQ"), (1, "DREP")];
    assert_eq!(pair.said(), said);
    // Twice the packet's lifetime: 4.096 µs × 2^19.
    pair.pass(Duration::from_ms(2_100));
    assert_eq!(pair.events(0), []);
    pair.pass(Duration::from_ms(100));
    assert_eq!(pair.events(0), [Event::Released { connection: active }]);
    assert_eq!(pair.events(1), [Event::Released { connection: passive }]);
    assert_eq!(pair.states([active, passive]), [Some(State::Ended); 2]);
    pair.finish([active, passive]);
}

#[test]
fn any_lost_message_is_repeated() {
    for lost in ["REQ", "REP", "RTU", "DREQ", "DREP"] {
        let mut pair = Pair::new();
        pair.listen();
        pair.lose.push((lost, 1));
        let active = pair.connect(5);
        pair.pass(Duration::from_ms(300));
        let passive = pair.requested();
        pair.accept(passive, 6);
        if lost == "REP" {
            pair.pass(Duration::from_ms(300));
        }
        pair.confirm(active);
        pair.pass(Duration::from_ms(300));
        assert_eq!(pair.states([active, passive]), [Some(State::Established); 2], "{lost}");
        pair.managers[1].disconnect(pair.now, passive).unwrap();
        pair.run_until_idle();
        pair.pass(Duration::from_ms(300));
        let count = |side: usize| {
            let ends = |event: &&Event| matches!(event, Event::Disconnected { .. });
            pair.events[side].iter().filter(ends).count()
        };
        assert_eq!([count(0), count(1)], [1, 1], "{lost}");
        assert_eq!(pair.states([active, passive]), [Some(State::Waiting); 2], "{lost}");
        pair.finish([active, passive]);
    }
}

#[test]
fn repeated_message_has_no_effect() {
    for twice in ["REQ", "REP", "RTU", "DREQ", "DREP"] {
        let mut pair = Pair::new();
        pair.listen();
        pair.repeat = Some(twice);
        let ids = pair.connected(5);
        assert_eq!(pair.states(ids), [Some(State::Established); 2], "{twice}");
        pair.managers[0].disconnect(pair.now, ids[0]).unwrap();
        pair.run_until_idle();
        let kinds: Vec<_> = pair.events[1].iter().map(core::mem::discriminant).collect();
        assert_eq!(kinds.len(), 3, "{twice}: requested, established, disconnected");
        assert_eq!(pair.events[0].len(), 2, "{twice}: replied, disconnected");
        pair.finish(ids);
    }
}

#[test]
fn slow_program_requests_more_time() {
    let mut pair = Pair::new();
    pair.listen();
    let active = pair.connect(5);
    pair.pass(Duration::from_ms(300));
    let said = [(0, "REQ"), (0, "REQ"), (1, "MRA")];
    assert_eq!(pair.said(), said);
    // The MRA extends the time-out to 69 s. Requests are repeated meanwhile, since the answer may
    // be lost, but these repetitions do not count.
    pair.pass(Duration::from_secs(60));
    let said = pair.said();
    assert!(
        said.len() < 40 && said.chunks(2).all(|two| two == [(0, "REQ"), (1, "MRA")]),
        "{said:?}"
    );
    let passive = pair.requested();
    pair.accept(passive, 6);
    // The end that received a reply may take its time, too.
    pair.pass(Duration::from_secs(4));
    assert_eq!(pair.said(), [(1, "REP")]);
    pair.confirm(active);
    assert_eq!(pair.states([active, passive]), [Some(State::Established); 2]);
    pair.finish([active, passive]);
}

#[test]
fn a_first_packet_may_stand_for_the_last_message() {
    let mut pair = Pair::new();
    pair.listen();
    pair.lose.push(("RTU", 1));
    let [active, passive] = pair.connected(5);
    assert_eq!(pair.managers[1].state(passive), Some(State::Accepting));
    pair.managers[1].establish(pair.now, passive).unwrap();
    pair.run_until_idle();
    let zeros = Event::Established { connection: passive, private: [0; 224] };
    assert_eq!(pair.events(1).last(), Some(&zeros));
    let again = pair.managers[1].establish(pair.now, passive);
    assert_eq!(again, Err(CommandError::State(State::Established)));
    pair.pass(Duration::from_secs(60));
    assert_eq!(pair.events(1), []);
    pair.finish([active, passive]);
}

#[test]
fn one_manager_connects_to_itself() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let mut manager = Manager::new(&limits, &Profile::default(), 0, 1);
    let now = Instant::ZERO;
    manager.listen(now, SERVICE, 1).unwrap();
    let active = manager.connect(now, 3, &request(5)).unwrap();
    let mut kinds = Vec::new();
    loop {
        if let Some(event) = manager.poll_event() {
            kinds.push(event);
            match event {
                Event::Requested { connection, .. } => {
                    manager.accept(now, connection, &reply(6)).unwrap();
                }
                Event::Replied { connection, .. } => {
                    assert_eq!(connection, active);
                    manager.confirm(now, connection, &[0; 224]).unwrap();
                }
                Event::Established { .. } => manager.disconnect(now, active).unwrap(),
                Event::Disconnected { connection } => manager.close(now, connection).unwrap(),
                other => panic!("{other:?}"),
            }
        } else if let Some(transmit) = manager.poll_transmit() {
            assert_eq!(manager.handle_datagram(now, &from(transmit.to), &transmit.bytes), None);
        } else {
            break;
        }
    }
    assert_eq!(kinds.len(), 5);
    // Records that are only remembered are replaced by new ones.
    assert_eq!(manager.in_use(), 2);
    manager.connect(now, 3, &request(5)).unwrap();
    manager.connect(now, 3, &request(5)).unwrap();
    let full = manager.connect(now, 3, &request(5));
    assert_eq!(full, Err(CommandError::Limit("connections")));
}

#[test]
fn datagrams_find_their_process() {
    let mut pair = Pair::new();
    pair.listen();
    let ids = {
        let active = pair.managers[0].connect(pair.now, 1, &request(5)).unwrap();
        let request = pair.managers[0].poll_transmit().unwrap();
        assert_eq!(route(&request.bytes), Route::Service(SERVICE));
        pair.managers[1].handle_datagram(pair.now, &from(0), &request.bytes);
        pair.run_until_idle();
        let passive = pair.requested();
        pair.managers[1].accept(pair.now, passive, &reply(6)).unwrap();
        let answer = pair.managers[1].poll_transmit().unwrap();
        assert_eq!(route(&answer.bytes), Route::Slot(7));
        pair.managers[0].handle_datagram(pair.now, &from(1), &answer.bytes);
        pair.managers[0].confirm(pair.now, active, &[0; 224]).unwrap();
        let ready = pair.managers[0].poll_transmit().unwrap();
        assert_eq!(route(&ready.bytes), Route::Slot(200));
        pair.managers[0].close(pair.now, active).unwrap();
        let end = pair.managers[0].poll_transmit().unwrap();
        assert_eq!(route(&end.bytes), Route::Slot(200));
        [active, passive]
    };
    let sent = |message| cm::emit(&Datagram { transaction: 1, message });
    let [local, remote] = ids;
    let asked = sent(Message::Request(Request { local, ..request(5) }));
    let claimed = Claim { slot: Some(7), queue_pair: Some(Qpn::new(5)) };
    assert_eq!(claim(&asked), Some(claimed));
    let names = Names { local: remote, remote: local };
    let private = [0; ReadyToUse::PRIVATE_LEN];
    let ready = sent(Message::ReadyToUse(ReadyToUse { names, private }));
    assert_eq!(claim(&ready), Some(Claim { slot: Some(200), queue_pair: None }));
    let refused = claim(&refuse(&asked).unwrap());
    assert_eq!(refused, Some(Claim::default()), "a refusal without a connection");
    assert_eq!([claim(&[0; 256]), claim(&[])], [None; 2]);
    assert_eq!(route(&[0; 256]), Route::Anyone);
    assert_eq!(route(&[]), Route::Anyone);
    pair.finish(ids);
}

#[test]
fn refusal_answers_requests_and_nothing_else() {
    let request = Datagram {
        transaction: 9,
        message: Message::Request(Request { local: CommunicationId(3), ..request(5) }),
    };
    let refusal = cm::parse(&refuse(&cm::emit(&request)).unwrap()).unwrap();
    assert_eq!(refusal.transaction, 9);
    let Message::Reject(reject) = refusal.message else { panic!("{refusal:?}") };
    assert_eq!((reject.refused, reject.reason), (Refused::Request, Reason::INVALID_SERVICE));
    assert_eq!(reject.names.remote, CommunicationId(3));
    assert_eq!(refuse(&cm::emit(&refusal)), None, "responses get no response");
    assert_eq!(refuse(&[0; 256]), None);
}

#[test]
fn a_request_of_this_host_is_refused_when_it_comes_again() {
    let bytes = |name| {
        let message = Message::Request(Request { local: CommunicationId(name), ..request(5) });
        cm::emit(&Datagram { transaction: 9, message })
    };
    let mut refuser = Refuser::new();
    assert!(refuser.handle_datagram(1, false, &bytes(3)).is_some(), "from elsewhere, at once");
    for name in 0..200 {
        let request = bytes(name);
        assert_eq!(refuser.handle_datagram(1, true, &request), None, "{name}");
        assert_eq!(refuser.handle_datagram(2, true, &request), None, "another sender: {name}");
        assert!(refuser.handle_datagram(1, true, &request).is_some(), "{name}");
        assert!(refuser.handle_datagram(2, true, &request).is_some(), "{name}");
    }
    // Messages that are not requests are answered at once, or never.
    let names = Names { local: CommunicationId(1), remote: CommunicationId(2) };
    let message =
        Message::Disconnect(Disconnect { names, queue_pair: Qpn::new(5), private: [0; 220] });
    let end = cm::emit(&Datagram { transaction: 1, message });
    assert!(refuser.handle_datagram(1, true, &end).is_some());
    assert_eq!(refuser.handle_datagram(1, true, &[0; 256]), None);
}
