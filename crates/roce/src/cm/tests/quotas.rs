//! Tests of the limits for one address and one network at a listener and at a manager, and of
//! requests that give another address than they come from.

use core::net::IpAddr;

use super::*;
use fairway_wire::roce::cm::{IpHeader, Reject};

const BACKLOG: u32 = 8;

fn sender(number: u64, ip: &str) -> Sender {
    Sender { number, ip: ip.parse().unwrap(), is_local: false }
}

/// A manager with a listener, and the number of requests that it was sent.
struct Server {
    manager: Manager,
    now: Instant,
    requests: u32,
}

impl Server {
    fn new(limits: &Limits, backlog: u32) -> Server {
        let mut manager = Manager::new(limits, &Profile::default(), 0, 1);
        let now = Instant::from_ps(1_000_000);
        manager.listen(now, SERVICE, backlog).unwrap();
        Server { manager, now, requests: 0 }
    }

    /// Sends a new request from this sender; returns why it was dropped, if it was.
    fn request(&mut self, from: &Sender) -> Option<DropReason> {
        self.requests += 1;
        self.request_with(from, request(self.requests))
    }

    fn request_with(&mut self, from: &Sender, request: Request) -> Option<DropReason> {
        let message =
            Message::Request(Request { local: CommunicationId(self.requests), ..request });
        let bytes = cm::emit(&Datagram { transaction: 1, message });
        self.manager.handle_datagram(self.now, from, &bytes)
    }

    /// Sends new requests from this sender until one is dropped; returns how many were accepted,
    /// and why the last was dropped.
    fn fill(&mut self, from: &Sender) -> (u32, DropReason) {
        for taken in 0.. {
            if let Some(reason) = self.request(from) {
                return (taken, reason);
            }
        }
        unreachable!()
    }

    /// The connections that wait for an answer of the program.
    fn waiting(&mut self) -> Vec<ConnectionId> {
        core::iter::from_fn(|| self.manager.poll_event())
            .filter_map(|event| match event {
                Event::Requested { connection, .. } => Some(connection),
                _ => None,
            })
            .collect()
    }

    fn accept_all(&mut self) {
        for connection in self.waiting() {
            self.manager.accept(self.now, connection, &reply(1)).unwrap();
        }
    }

    /// The datagrams that are sent, and the numbers of their receivers.
    fn sent(&mut self) -> Vec<(u64, &'static str)> {
        core::iter::from_fn(|| self.manager.poll_transmit())
            .map(|transmit| (transmit.to, name(&transmit.bytes)))
            .collect()
    }
}

#[test]
fn one_address_leaves_places_of_a_listener_to_others() {
    for backlog in [1, 2, 3, BACKLOG, 100, 1024] {
        let mut server = Server::new(&Limits::default(), backlog);
        let greedy = sender(1, "192.0.2.1");
        assert_eq!(server.fill(&greedy), (backlog, DropReason::Quota), "as if it were alone");
        assert_eq!(server.sent(), [], "it requests again");
        assert_eq!(server.request(&sender(2, "192.0.2.2")), None, "a neighbour, backlog {backlog}");
        assert_eq!(server.request(&sender(3, "198.51.100.1")), None, "another, backlog {backlog}");
        // A repetition of a waiting request is answered as usual.
        let again = Request { local: CommunicationId(1), ..request(1) };
        server.requests = 1;
        assert_eq!(server.request_with(&greedy, again), None);
        assert_eq!(server.sent(), [(1, "MRA")]);
        for connection in server.waiting() {
            server.manager.reject(server.now, connection, Reason::CONSUMER, &[0; 148]).unwrap();
        }
        server.requests = 10_000;
        assert_eq!(server.request(&greedy), None, "there is room again, backlog {backlog}");
    }
}

#[test]
fn whole_network_leaves_a_place_of_a_listener_to_others() {
    let mut server = Server::new(&Limits::default(), BACKLOG);
    for host in 0..250 {
        server.fill(&sender(host, &format!("192.0.2.{host}")));
    }
    assert_eq!(server.request(&sender(300, "198.51.100.1")), None);
    // Requests of more and more networks take all places.
    let reasons: Vec<_> =
        (0..250).map(|net| server.request(&sender(400 + net, &format!("10.0.{net}.1")))).collect();
    assert_eq!(reasons.last(), Some(&Some(DropReason::Backlog)));
    assert_eq!(server.sent(), []);
}

#[test]
fn addresses_of_one_network_of_64_bits_are_one_source() {
    let mut server = Server::new(&Limits::default(), BACKLOG);
    let taken = (0..100)
        .filter(|n| server.request(&sender(*n, &format!("2001:db8::{n:x}"))).is_none())
        .count();
    assert_eq!(taken as u32, BACKLOG);
    assert_eq!(server.request(&sender(200, "2001:db8:0:1::1")), None);
    assert_eq!(server.request(&sender(201, "2001:db8:1::1")), None);
}

#[test]
fn queries_wait_in_the_same_places_as_requests() {
    let mut server = Server::new(&Limits::default(), 3);
    let reconnect = |server: &mut Server, number: u32, from: &Sender| {
        let query = ServiceRequest {
            id: CommunicationId(number),
            p_key: 0xffff,
            service: SERVICE,
            private: [5; 216],
        };
        let message = Message::ServiceRequest(query);
        let bytes = cm::emit(&Datagram { transaction: 1, message });
        server.manager.handle_datagram(server.now, from, &bytes)
    };
    let greedy = sender(1, "192.0.2.1");
    let taken = (1..50).filter(|number| reconnect(&mut server, *number, &greedy).is_none()).count();
    assert_eq!(taken, 3);
    assert_eq!(server.request(&greedy), Some(DropReason::Quota));
    assert_eq!(reconnect(&mut server, 1, &sender(2, "192.0.2.2")), None);
}

/// A program may receive many requests before it answers the first.
#[test]
fn delivered_requests_leave_the_backlog_and_not_the_half_open_connections() {
    let limits = Limits { connections: 256, half_open: 64, ..Limits::default() };
    let mut server = Server::new(&limits, 1);
    let greedy = sender(1, "192.0.2.1");
    let mut delivered = Vec::new();
    while server.request(&greedy).is_none() {
        assert_eq!(server.request(&greedy), Some(DropReason::Quota), "one waits");
        for connection in server.waiting() {
            server.manager.deliver(server.now, connection);
            delivered.push(connection);
        }
    }
    assert_eq!(delivered.len(), 48, "three quarters of 64");
    assert_eq!(server.request(&sender(2, "198.51.100.1")), None, "there is room for others");
    server.manager.accept(server.now, delivered[0], &reply(1)).unwrap();
    for connection in &delivered[1..] {
        let nothing = [0; Reject::PRIVATE_LEN];
        server.manager.reject(server.now, *connection, Reason::CONSUMER, &nothing).unwrap();
    }
    server.manager.deliver(server.now, CommunicationId(77));
    assert_eq!(server.request(&greedy), None, "what is answered leaves room again");
}

/// A program that accepts every request at once empties its backlog, and the attacker does not
/// confirm any.
#[test]
fn half_open_connections_of_one_address_leave_room_to_others() {
    let limits = Limits { connections: 256, half_open: 64, ..Limits::default() };
    let mut server = Server::new(&limits, BACKLOG);
    let mut flood = |from: &Sender| {
        let mut taken = 0;
        while server.request(from).is_none() {
            taken += 1;
            server.accept_all();
        }
        taken
    };
    assert_eq!(flood(&sender(1, "192.0.2.1")), 48, "three quarters of 64");
    let network: u32 = (2..200).map(|n| flood(&sender(n, &format!("192.0.2.{n}")))).sum();
    assert_eq!(network, 8, "seven eighths, with the first");
    for net in 0..200 {
        flood(&sender(1000 + net, &format!("10.0.{net}.1")));
    }
    // All half-open places are taken. The rest of the table is free for requests of this end, and
    // for peers that have proven that they receive.
    assert_eq!(server.manager.in_use(), 64);
    assert_eq!(server.request(&sender(2000, "198.51.100.1")), Some(DropReason::Quota));
    assert_eq!(server.request(&Sender { is_local: true, ..sender(2001, "127.0.0.1") }), None);
    server.manager.connect(server.now, 7, &request(5)).unwrap();
    let answers = server.sent();
    assert_eq!(answers.iter().filter(|(_, name)| *name == "REP").count(), 64);
    assert_eq!(answers.iter().filter(|(_, name)| *name == "REQ").count(), 1);
    assert_eq!(answers.len(), 65, "no address got more datagrams than it sent");
}

#[test]
fn connections_of_one_address_leave_room_to_others() {
    let limits = Limits { connections: 64, ..Limits::default() };
    let mut server = Server::new(&limits, BACKLOG);
    let client = sender(1, "192.0.2.1");
    let mut connect = |from: &Sender| {
        let reason = server.request(from);
        server.accept_all();
        while let Some(transmit) = server.manager.poll_transmit() {
            let Message::Reply(reply) = cm::parse(&transmit.bytes).unwrap().message else {
                continue;
            };
            let names = Names { local: reply.names.remote, remote: reply.names.local };
            let message = Message::ReadyToUse(ReadyToUse { names, private: [0; 224] });
            let bytes = cm::emit(&Datagram { transaction: 1, message });
            assert_eq!(server.manager.handle_datagram(server.now, from, &bytes), None);
        }
        reason
    };
    let made = (0..100).map(|_| connect(&client)).position(|reason| reason.is_some());
    assert_eq!(made, Some(48), "three quarters");
    for _ in 0..8 {
        assert_eq!(connect(&client), Some(DropReason::Share));
        assert_eq!(connect(&sender(2, "198.51.100.1")), None);
    }
    server.request(&client);
    let refused = server.manager.poll_transmit().unwrap();
    let Message::Reject(reject) = cm::parse(&refused.bytes).unwrap().message else { panic!() };
    assert_eq!((refused.to, reject.reason), (1, Reason::NO_RESOURCES));
    assert_eq!(server.manager.counters().dropped[DropReason::Share as usize], 10);
}

#[test]
fn programs_of_this_host_may_have_all() {
    let limits = Limits { connections: 16, half_open: 4, ..Limits::default() };
    let mut server = Server::new(&limits, 16);
    let local = Sender { is_local: true, ..sender(1, "192.0.2.1") };
    assert_eq!(server.fill(&local), (16, DropReason::Quota));
    assert_eq!(server.manager.in_use(), 16);
    let mut server = Server::new(&limits, 100);
    assert_eq!(server.fill(&local), (16, DropReason::Quota), "no more than there are");
}

// ---- requests that give another address ----

/// A request of a host that claims to have the address `source`.
fn claiming(source: &str, destination: &str) -> Request {
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    let header = IpHeader { source_port: 9, source: ip(source), destination: ip(destination) };
    let mut private = [0; Request::PRIVATE_LEN];
    private[..IpHeader::LEN].copy_from_slice(&header.emit());
    Request { private, ..request(5) }
}

#[test]
fn request_that_names_another_address_is_refused_and_no_event() {
    for (claim, to, from) in [
        ("198.51.100.7", "192.0.2.9", "192.0.2.1"),
        ("192.0.2.2", "192.0.2.9", "192.0.2.1"),
        ("127.0.0.1", "192.0.2.9", "192.0.2.1"),
        ("2001:db8::2", "2001:db8::9", "2001:db8::1"),
        ("2001:db8::2", "2001:db8::9", "192.0.2.1"),
    ] {
        let mut server = Server::new(&Limits::default(), BACKLOG);
        let dropped = server.request_with(&sender(1, from), claiming(claim, to));
        assert_eq!(dropped, Some(DropReason::Address), "{claim} from {from}");
        assert_eq!(server.manager.poll_event(), None);
        assert_eq!(server.manager.in_use(), 0);
        let answer = server.manager.poll_transmit().unwrap();
        let Message::Reject(Reject { names, refused, reason, .. }) =
            cm::parse(&answer.bytes).unwrap().message
        else {
            panic!("{claim}");
        };
        assert_eq!((answer.to, refused, reason), (1, Refused::Request, Reason::INVALID_GID));
        assert_eq!(names.remote, CommunicationId(0));
        assert_eq!(server.manager.poll_transmit(), None);
        assert_eq!(server.manager.counters().dropped[DropReason::Address as usize], 1);
    }
}

#[test]
fn request_that_names_its_own_address_is_taken() {
    for (claim, to, from) in [
        ("192.0.2.1", "192.0.2.9", "192.0.2.1"),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.9", "192.0.2.1"),
        ("fe80::1", "fe80::9", "fe80::1"),
    ] {
        let mut server = Server::new(&Limits::default(), BACKLOG);
        assert_eq!(server.request_with(&sender(1, from), claiming(claim, to)), None, "{claim}");
        assert_eq!(server.waiting().len(), 1);
    }
    // A service of InfiniBand's own, whose private data belongs to the program.
    let mut server = Server::new(&Limits::default(), BACKLOG);
    server.manager.listen(server.now, 77, BACKLOG).unwrap();
    let request = Request { service: 77, ..claiming("198.51.100.7", "192.0.2.9") };
    assert_eq!(server.request_with(&sender(1, "192.0.2.1"), request), None);
}

/// A request of a connected queue pair ends its connection, so it must come from the peer.
#[test]
fn request_that_names_another_address_ends_no_connection() {
    let mut pair = Pair::new();
    pair.listen();
    let ids = pair.connected(5);
    let message = Message::Request(Request {
        local: CommunicationId(77),
        ..claiming("198.51.100.7", "192.0.2.9")
    });
    let bytes = cm::emit(&Datagram { transaction: 1, message });
    let dropped = pair.managers[1].handle_datagram(pair.now, &from(0), &bytes);
    assert_eq!(dropped, Some(DropReason::Address));
    assert_eq!(pair.states(ids), [Some(State::Established); 2]);
}

#[test]
fn query_that_names_another_address_is_answered_without_a_queue_pair() {
    let mut server = Server::new(&Limits::default(), BACKLOG);
    let asked = claiming("198.51.100.7", "192.0.2.9");
    let mut private = [0; 216];
    private[..IpHeader::LEN].copy_from_slice(&asked.private[..IpHeader::LEN]);
    let query = ServiceRequest { id: CommunicationId(3), p_key: 0xffff, service: SERVICE, private };
    let message = Message::ServiceRequest(query);
    let bytes = cm::emit(&Datagram { transaction: 1, message });
    let from = sender(1, "192.0.2.1");
    let dropped = server.manager.handle_datagram(server.now, &from, &bytes);
    assert_eq!(dropped, Some(DropReason::Address));
    assert_eq!(server.manager.poll_event(), None);
    let answer = server.manager.poll_transmit().unwrap();
    let Message::ServiceReply(reply) = cm::parse(&answer.bytes).unwrap().message else { panic!() };
    assert_eq!((reply.id, reply.status), (CommunicationId(3), ServiceStatus::REJECTED));
}
