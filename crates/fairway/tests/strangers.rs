//! Unsolicited datagrams.

mod common;
#[path = "common/superuser.rs"]
mod superuser;

use std::net::UdpSocket;

use common::{Pair, TIMEOUT, builder, bytes, content, engines};
use fairway::{Context, Event, Status};
use fairway_wire as wire;
use fairway_wire::{
    Cna, Data, JettyId, MAX_HEADER, Msn, Operation, Packet, Psn, Route, SETUP_LEN, Setup,
    SetupMessage, Tpn, decode, encode, encode_setup,
};

/// Waits until the context's counters fulfil a condition.
fn until(context: &Context, counted: impl Fn(&fairway::Counters) -> bool) {
    let start = std::time::Instant::now();
    while !counted(&context.counters()) {
        context.poll();
        assert!(start.elapsed() < TIMEOUT, "never counted: {:?}", context.counters());
    }
}

#[test]
fn noise_is_counted_and_does_no_harm() {
    let pair = Pair::new();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = pair.server.context.local_addrs()[1];
    for length in 0..300 {
        stranger.send_to(&bytes(length, length as u64), target).unwrap();
    }
    until(&pair.server.context, |counters| counters.nic.undecodable >= 300);
    let local = pair.client.filled(1 << 20, 1);
    let remote = pair.server.open_segment(1 << 20);
    pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 1).unwrap();
    let _ = pair.client.succeed();
    assert_eq!(content(&remote), content(&local));
}

/// A stranger's datagrams of 20 kB used to be stored in the memory of a WRITE that was arriving,
/// because the kernel received directly into the memory predicted for the next packet.
#[test]
fn nothing_of_a_stranger_lies_in_memory_while_a_message_arrives() {
    const MARK: [u8; 8] = [0xee; 8];
    let one = || builder().engines(1).sockets(1).paths(1);
    let slow = one().emulate("rate=50M".parse().unwrap(), 1);
    let pair = Pair::of(slow, one());
    let local = pair.client.filled(4 << 20, 1);
    let remote = pair.server.open_segment(4 << 20);
    pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 1).unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = pair.server.context.local_addrs()[0];
    let mut seen = vec![0; 4 << 20];
    let (mut looks, mut done) = (0, Vec::new());
    while done.is_empty() {
        for length in [20_000, 4_144, 4_144, 20_000] {
            stranger.send_to(&vec![MARK[0]; length], target).unwrap();
        }
        remote.read_at(0, &mut seen).unwrap();
        // A stranger's bytes arrive in runs that contain a whole mark at any offset.
        let marked = seen.chunks_exact(64).filter(|chunk| chunk.starts_with(&MARK)).count();
        assert_eq!(marked, 0, "pieces of 64 bytes of a stranger in registered memory");
        looks += 1;
        pair.client.jetty.poll(&mut done);
    }
    assert_eq!(done[0].status, Status::Success);
    assert!(looks > 2, "the message came between {looks} looks");
    assert!(
        pair.server.context.counters().nic.undecodable > 2,
        "the packets of the stranger did not arrive"
    );
    assert_eq!(content(&remote), content(&local));
}

#[test]
fn packet_without_the_channels_key_is_dropped() {
    let pair = Pair::new();
    let (client, server) = (&pair.client, &pair.server);
    let remote = server.open_segment(100);
    let key = remote.key();
    // The packet names the right nodes and channels, and its check uses the public key.
    let route = Route {
        source: Cna::new(server.peer.incarnation()),
        destination: Cna::new(client.peer.incarnation()),
        source_tpn: client.peer.channel().tpn(),
        destination_tpn: server.peer.channel().tpn(),
        path: 0,
        priority: wire::Priority::DATA,
        cci: Default::default(),
    };
    let access = wire::Access {
        address: 0,
        length: 100,
        token_id: wire::TokenId::new(key.token_id),
        token_value: key.token_value,
    };
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for psn in 0..100 {
        let data = Data {
            psn: Psn::new(psn * 160_000),
            message: Msn::new(0),
            index: 0,
            jetty: JettyId::new(0),
            transaction: 0,
            slot: 0,
            ack_request: true,
            retry: false,
            last: true,
            carried: None,
            order: wire::Order::NONE,
            operation: Operation::Write { access },
        };
        let mut datagram = [0xaa; MAX_HEADER + 100];
        let header = encode(&route, &Packet::Data(data), 100, &mut datagram);
        datagram[header..header + 100].fill(0xbb);
        for address in server.context.local_addrs() {
            stranger.send_to(&datagram[..header + 100], address).unwrap();
        }
    }
    until(&server.context, |counters| counters.nic.undecodable >= 400);
    assert_eq!(content(&remote), [0; 100]);
}

/// A client that runs the set-up protocol by hand.
struct ByHand {
    socket: UdpSocket,
    source: Cna,
}

impl ByHand {
    fn new(server: std::net::SocketAddr) -> Self {
        ByHand::at([127, 0, 0, 1].into(), server)
    }

    fn at(own: std::net::IpAddr, server: std::net::SocketAddr) -> Self {
        let socket = UdpSocket::bind((own, 0)).unwrap();
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        ByHand { socket, source: Cna::new(0x123456) }
    }

    fn say(&self, destination: Cna, message: SetupMessage) {
        self.say_padded(destination, message, SETUP_LEN);
    }

    fn say_padded(&self, destination: Cna, message: SetupMessage, length: usize) {
        let mut datagram = vec![0; length];
        let setup = Setup { source: self.source, destination, message };
        encode_setup(&setup, &mut datagram);
        self.socket.send(&datagram).unwrap();
    }

    fn receive(&self) -> Setup {
        let mut datagram = [0; 2048];
        loop {
            let length = self.socket.recv(&mut datagram).unwrap();
            // Packets of its channels have keys that this client has not derived.
            if let Ok(wire::Decoded::Setup(setup)) = decode(&datagram[..length], length) {
                return setup;
            }
        }
    }

    fn hello(&self) -> wire::Hello {
        wire::Hello {
            versions: wire::Versions::new(wire::PROTOCOL_VERSION, wire::PROTOCOL_VERSION).unwrap(),
            nonce: 42,
            client: wire::Endpoint {
                tpn: Tpn::new(1),
                initial_psn: Psn::new(0),
                ports: wire::Ports::new(&[self.socket.local_addr().unwrap().port()]).unwrap(),
            },
            requested: wire::Parameters {
                mtu_bytes: 1024,
                paths: 4,
                window_packets: 1024,
                message_slots: 8,
                read_slots: 8,
                keep_alive_ms: 0,
                channels: 1,
                capabilities: 0,
            },
            joins: None,
        }
    }
}

#[test]
fn server_keeps_nothing_for_clients_that_only_send_hellos() {
    let server = builder().build().unwrap();
    let client = ByHand::new(server.local_addrs()[0]);
    let hello = client.hello();
    for nonce in 0..500 {
        client.say(Cna::default(), SetupMessage::Hello(wire::Hello { nonce, ..hello }));
        assert!(matches!(client.receive().message, SetupMessage::Welcome(_)));
    }
    assert!(server.peers().is_empty());
    assert_eq!(server.counters().nic.connections, 0);
}

/// Reviewers sent requests to all ports of a host, and those of the connection answered with the
/// address of their node, which packets of its channels name.
#[test]
fn answers_to_strangers_come_from_another_address_than_channels_have() {
    let Pair { client, server } = Pair::new();
    for (target, peer) in [(&client, &server.peer), (&server, &client.peer)] {
        let of_channels = Cna::new(peer.incarnation());
        for port in target.context.local_addrs() {
            let stranger = ByHand::new(port);
            let (source, confirm) = stranger.confirmation(stranger.hello());
            assert_ne!(source, of_channels, "WELCOME from {port}");
            let forged = wire::Confirm { cookie: [0; 16], ..confirm };
            for destination in [source, of_channels, Cna::new(0x777777)] {
                stranger.say(destination, SetupMessage::Confirm(forged));
                let refused = stranger.receive();
                assert!(matches!(refused.message, SetupMessage::Reject(_)), "{refused:?}");
                assert_ne!(refused.source, of_channels, "REJECT from {port}");
            }
        }
        assert_eq!(target.context.peers().len(), 1);
        assert_eq!(target.context.usage().channels as usize, engines());
    }
}

#[test]
fn a_confirmation_counts_once() {
    let server = builder().build().unwrap();
    let client = ByHand::new(server.local_addrs()[0]);
    let (source, confirm) = client.confirmation(client.hello());
    let mut answers = Vec::new();
    for _ in 0..5 {
        client.say(source, SetupMessage::Confirm(confirm));
        answers.push(client.receive());
    }
    assert!(matches!(answers[0].message, SetupMessage::Accept(_)));
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(server.peers().len(), 1);
    // The same message from another address is refused: the cookie does not belong to it.
    let thief = ByHand::new(server.local_addrs()[0]);
    thief.say(source, SetupMessage::Confirm(confirm));
    let SetupMessage::Reject(reject) = thief.receive().message else { panic!("no REJECT") };
    assert_eq!(reject.reason, wire::RejectReason::StaleCookie);
    assert_eq!(server.peers().len(), 1);
}

impl ByHand {
    /// Runs the request for a channel up to the CONFIRM. Returns the address to which it must be
    /// sent.
    fn confirmation(&self, hello: wire::Hello) -> (Cna, wire::Confirm) {
        self.say(Cna::default(), SetupMessage::Hello(hello));
        let Setup { source, message: SetupMessage::Welcome(welcome), .. } = self.receive() else {
            panic!("no WELCOME");
        };
        let confirm = wire::Confirm {
            hello,
            version: welcome.version,
            cookie: welcome.cookie,
            agreed: welcome.offer,
            // The base point of the curve: a public key whose secret is one.
            key: core::array::from_fn(|at| if at == 0 { 9 } else { 0 }),
        };
        (source, confirm)
    }

    /// Requests a channel, by the whole exchange.
    fn request(&self, hello: wire::Hello) -> SetupMessage {
        let (source, confirm) = self.confirmation(hello);
        self.say(source, SetupMessage::Confirm(confirm));
        self.receive().message
    }

    /// Requests the second channel of the group whose first one has the number `leader`.
    fn joining(&self, nonce: u64, leader: u32, number: u8) -> wire::Hello {
        let joins = Some(wire::Joins { leader: Tpn::new(leader), number });
        let hello = self.hello();
        let client = wire::Endpoint { tpn: Tpn::new(100 + nonce as u32), ..hello.client };
        let requested = wire::Parameters { channels: 3, ..hello.requested };
        wire::Hello { nonce, client, requested, joins, ..hello }
    }
}

/// Another user of a peer's host cannot take what is sent to the peer by naming the peer's port.
#[test]
fn a_port_that_a_client_names_is_not_its_address_before_a_packet_has_come_from_there() {
    let Pair { client: victim, server } = Pair::new();
    let claimed = victim.context.local_addrs()[0];
    let server = server.context;
    let stranger = ByHand::new(server.local_addrs()[0]);
    let own = stranger.socket.local_addr().unwrap();
    let hello = stranger.hello();
    let ports = wire::Ports::new(&[claimed.port(), own.port()]).unwrap();
    let client = wire::Endpoint { ports, ..hello.client };
    let accepted = stranger.request(wire::Hello { client, ..hello });
    assert!(matches!(accepted, SetupMessage::Accept(_)), "{accepted:?}");
    let Event::Connected(peer) = server.wait_event(TIMEOUT).unwrap() else { panic!("no peer") };
    assert_eq!(peer.address(), own);
    let addresses: Vec<_> = server.peers().iter().map(|peer| peer.address()).collect();
    assert_eq!(addresses.iter().filter(|&&address| address == claimed).count(), 1);
    assert!(addresses.contains(&own), "{addresses:?}");
}

/// A channel joins only the group that its client has opened, from the same place, and once.
#[test]
fn channels_join_only_the_group_of_their_client() {
    let server = builder().engines(3).build().unwrap();
    let address = server.local_addrs()[0];
    let client = ByHand::new(address);
    let accepted = |message| matches!(message, SetupMessage::Accept(_));
    let refused = |message| match message {
        SetupMessage::Reject(reject) => reject.reason == wire::RejectReason::Parameters,
        _ => false,
    };
    assert!(refused(client.request(client.joining(1, 1, 1))), "there is no such group yet");
    let first = wire::Hello { joins: None, ..client.joining(2, 0, 1) };
    let first = wire::Hello { client: client.hello().client, ..first };
    assert!(accepted(client.request(first)));
    let thief = ByHand::new(address);
    assert!(refused(thief.request(thief.joining(3, 1, 1))), "it has the name, but not the address");
    let other = ByHand { source: Cna::new(0x654321), ..ByHand::new(address) };
    assert!(refused(other.request(other.joining(4, 1, 1))));
    let joining = client.joining(5, 1, 1);
    let fewer = wire::Parameters { paths: 2, ..joining.requested };
    assert!(refused(client.request(wire::Hello { requested: fewer, ..joining })));
    assert!(refused(client.request(client.joining(6, 2, 1))), "it has no channel 2");
    assert!(refused(client.request(client.joining(7, 1, 3))), "three were agreed on");
    assert_eq!(server.usage().channels, 1);
    assert!(accepted(client.request(client.joining(8, 1, 1))));
    assert!(refused(client.request(client.joining(9, 1, 1))), "it has joined");
    assert!(accepted(client.request(client.joining(10, 1, 2))));
    assert_eq!((server.usage().channels, server.peers().len()), (3, 1));
    assert_eq!(server.counters().nic.connections, 1);
}

/// Moves this thread, and those that it starts, to a network namespace with the addresses below.
/// Returns false if that is not permitted.
fn enter_namespace() -> bool {
    // SAFETY: the call changes this thread alone.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return false;
    }
    let ip = |words: &str| {
        let mut command = std::process::Command::new("ip");
        command.args(words.split(' ')).status().is_ok_and(|status| status.success())
    };
    let addresses = [SERVER, GREEDY, NEIGHBOUR, HONEST];
    ip("link set lo up")
        && addresses.iter().all(|address| ip(&format!("addr add {address}/32 dev lo")))
}

const SERVER: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 9, 0, 1);
const GREEDY: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 9, 0, 3);
/// An address of the same network of 24 bits.
const NEIGHBOUR: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 9, 0, 4);
const HONEST: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 9, 1, 2);

/// A server with 64 channels, and its address.
fn server(evict_idle: Option<std::time::Duration>) -> (Context, std::net::SocketAddr) {
    // The clients by hand answer nothing, and must not be declared dead because of that.
    let profile = common::dead_after(TIMEOUT.as_millis() as u64);
    let server = Context::builder().bind(SERVER.into()).profile(profile).evict_idle(evict_idle);
    let server = server.build().unwrap();
    let address = server.local_addrs()[0];
    (server, address)
}

/// True if a client by hand gets a channel.
fn gets_channel(from: &ByHand, nonce: u64) -> bool {
    let hello = from.hello();
    let client = wire::Endpoint { tpn: Tpn::new(nonce as u32), ..hello.client };
    match from.request(wire::Hello { nonce, client, ..hello }) {
        SetupMessage::Accept(_) => true,
        SetupMessage::Reject(reject) => {
            assert_eq!(reject.reason, wire::RejectReason::NoResources);
            false
        }
        other => panic!("{other:?}"),
    }
}

fn demand_that_sources_and_networks_leave_channels_to_others() {
    let (_server, address) = server(None);
    let taken = |from| {
        let client = ByHand::at(std::net::IpAddr::V4(from), address);
        (1..=64).filter(|nonce| gets_channel(&client, *nonce)).count()
    };
    assert_eq!(taken(GREEDY), 48, "three quarters of 64");
    assert_eq!(taken(NEIGHBOUR), 8, "their network gets seven eighths");
    assert_eq!(taken(HONEST), 6, "three quarters of what is left");
}

fn demand_that_idle_channels_and_answers_are_left_to_others() {
    let idle = std::time::Duration::from_millis(500);
    let (server, address) = server(Some(idle));
    let requests = gets_channel;
    let greedy = ByHand::at(GREEDY.into(), address);
    let taken = (1..=48).filter(|nonce| requests(&greedy, *nonce)).count();
    assert_eq!(taken, 48, "three quarters of 64");
    let honest = ByHand::at(HONEST.into(), address);

    // Those channels have been idle for long, so further ones replace them. The source that has
    // most loses first; it does not answer, so each takes some time to be closed.
    std::thread::sleep(idle);
    let mut nonce = 1;
    let started = std::time::Instant::now();
    while nonce <= 24 {
        assert!(started.elapsed() < TIMEOUT, "{nonce}: {:?}", server.counters().nic);
        match requests(&honest, nonce) {
            true => nonce += 1,
            // Closing a channel takes a moment, and requests are limited.
            false => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    }
    let evicted = server.counters().nic.evicted;
    assert!(evicted >= 8, "{evicted}");
    let events = server.poll_events();
    let loser = |event: &Event| match event {
        Event::Evicted(peer) => Some(peer.address().ip()),
        _ => None,
    };
    let losers: Vec<_> = events.iter().filter_map(loser).collect();
    assert_eq!(
        losers,
        vec![std::net::IpAddr::from(GREEDY); evicted as usize],
        "the honest one loses none"
    );

    // Requests cost the server time, so a source gets answers to a limited number.
    let hello = greedy.hello();
    let started = std::time::Instant::now();
    while server.counters().nic.setup_limited == 0 {
        assert!(started.elapsed() < TIMEOUT, "{:?}", server.counters().nic);
        for nonce in 0..100 {
            // A long request may have a long answer, so it counts as several.
            let message = SetupMessage::Hello(wire::Hello { nonce, ..hello });
            greedy.say_padded(Cna::default(), message, 60_000);
        }
    }
    // The flood may have filled the server's socket, too, so the request is repeated.
    honest.socket.set_read_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
    let mut datagram = [0; 2048];
    let is_answered = (0..200).any(|_| {
        honest.say(Cna::default(), SetupMessage::Hello(honest.hello()));
        let length = honest.socket.recv(&mut datagram).unwrap_or(0);
        let answer = decode(&datagram[..length], length);
        let message = answer.map(|answer| match answer {
            wire::Decoded::Setup(setup) => Some(setup.message),
            wire::Decoded::Packet { .. } => None,
        });
        matches!(message, Ok(Some(SetupMessage::Welcome(_))))
    });
    assert!(is_answered, "the other source gets no answer");
}

/// Reviewers took all 64 channels of a server with one socket, in 0.02 s.
#[test]
fn one_source_does_not_get_all_channels_nor_all_answers() {
    // The test runs on a separate thread, because it leaves the namespace of the others.
    let ended = std::thread::spawn(|| match enter_namespace() {
        true => {
            demand_that_sources_and_networks_leave_channels_to_others();
            demand_that_idle_channels_and_answers_are_left_to_others();
        }
        false => superuser::skip("addresses of a network namespace"),
    });
    ended.join().expect("the test in the namespace");
}
