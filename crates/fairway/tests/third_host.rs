//! A third host sees none of the packets of two others, and sends them any packets, from any
//! address. Its packets are those that have harmed earlier versions.
//!
//! The test gives the attacker more than it could find out: addresses, ports, node addresses,
//! channel numbers, a segment's key. It lacks only the channel's key, so that no test passes
//! because something else was not guessed.
//!
//! The hosts are network namespaces on a bridge, which requires the superuser and the `ip` tool.

mod common;
#[path = "common/forger.rs"]
mod forger;
#[path = "common/hosts.rs"]
mod hosts;
#[path = "common/superuser.rs"]
mod superuser;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{Pair, Side, TIMEOUT, content, dead_after, side};
use fairway::{Builder, Context, Event, JettyOptions, Memory, Rights, SegmentKey, Status};
use fairway_wire::{
    Access, Ack, AckFlags, Bypass, BypassOperation, Cci, Close, Cna, Data, Datagram, Endpoint,
    Hello, JettyId, MAX_HEADER, Msn, Operation, Order, PROTOCOL_VERSION, Packet, Parameters,
    PathReports, Ports, Priority, Psn, Route, SETUP_LEN, Sack, Setup, SetupMessage, Target,
    TokenId, Tpn, Versions, Void, encode, encode_setup,
};
use forger::Forger;
use hosts::{Hosts, run};

const CLIENT: usize = 0;
const SERVER: usize = 1;
const ATTACKER: usize = 2;
/// The first port of each host.
const PORT: u16 = 4700;

/// Three hosts and the bridge between them.
type Network = Hosts<4>;

fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, host as u8 + 1)
}

impl Network {
    /// Creates the network. Returns `None`, and prints a line, if that is not possible here.
    fn new(label: &str) -> Option<Network> {
        let network = Hosts::named(label, ["c", "s", "x", "b"]);
        let bridge = &network.names[3];
        let is_made = network.create()
            && run(&format!("-n {bridge} link add middle type bridge"))
            && run(&format!("-n {bridge} link set middle up"))
            && (CLIENT..=ATTACKER).all(|host| {
                let (name, own) = (&network.names[host], address(host));
                run(&format!("-n {name} link add wire type veth peer netns {bridge} name to{host}"))
                    && run(&format!("-n {bridge} link set to{host} master middle"))
                    && run(&format!("-n {bridge} link set to{host} up"))
                    && run(&format!("-n {name} link set lo up"))
                    && run(&format!("-n {name} addr add {own}/24 dev wire"))
                    && run(&format!("-n {name} link set wire up"))
                    // Answers to forged addresses need a route.
                    && (host == ATTACKER
                        || run(&format!("-n {name} route add default via {}", address(ATTACKER))))
            });
        if !is_made {
            superuser::skip("hosts in network namespaces");
        }
        is_made.then_some(network)
    }

    /// Connects two of the hosts, and returns the connection with the route of the client's packets
    /// to the server.
    fn connect(&self, client: Builder) -> (Pair, Route) {
        let server = self.inside(SERVER, || at(SERVER).build().unwrap());
        let to = server.local_addrs()[0];
        let (client, peer, route) = self.inside(CLIENT, || {
            let sniffer = Sniffer::new();
            let client = client.build().unwrap();
            let peer = client.connect(to, TIMEOUT).unwrap();
            let client = side(client, peer);
            let local = client.filled(8, 1);
            let lost = SegmentKey { token_id: 0, token_value: 0, address: 0, length: 8 };
            client.jetty.read(&client.peer, &local, lost, 1).unwrap();
            assert_eq!(client.wait().status, Status::RemoteAccess);
            let route = sniffer.route(to.port());
            (client.context, client.peer, route)
        });
        let event = self.inside(SERVER, || server.wait_event(TIMEOUT).unwrap());
        let Event::Connected(back) = event else { panic!("something happened before: {event:?}") };
        (Pair { client: side(client, peer), server: side(server, back) }, route)
    }
}

/// Uses one socket and one path, so that the attacker cannot use the wrong one.
fn at(host: usize) -> Builder {
    let builder = Context::builder().bind(IpAddr::V4(address(host))).port(PORT);
    // The machine that runs this test may be slow, and the attack takes time, too.
    let profile = dead_after(TIMEOUT.as_millis() as u64 / 2);
    builder.buffer_bytes(1 << 20).sockets(1).paths(1).profile(profile)
}

/// Receives every packet at the interfaces of a host. Only used to give the attacker numbers.
struct Sniffer(OwnedFd);

impl Sniffer {
    fn new() -> Sniffer {
        let all = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        // SAFETY: no memory is passed; a result that is not -1 is a descriptor that is ours.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, i32::from(all)) };
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: just opened.
        Sniffer(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Returns the route of a data packet to this port.
    fn route(&self, port: u16) -> Route {
        let mut packet = [0_u8; 65_536];
        loop {
            let mut ready =
                libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one record, which outlives the call.
            let count = unsafe { libc::poll(&mut ready, 1, TIMEOUT.as_millis() as i32) };
            assert_eq!(count, 1, "a data packet was sent");
            let (room, length) = (packet.as_mut_ptr().cast(), packet.len());
            // SAFETY: at most the packet's length is written to it.
            let length = unsafe { libc::recv(self.0.as_raw_fd(), room, length, 0) };
            let length = usize::try_from(length).expect("a packet");
            let is_ours = packet[0] == 0x45
                && packet[9] == libc::IPPROTO_UDP as u8
                && packet[16..20] == address(SERVER).octets()
                && packet[22..24] == port.to_be_bytes();
            if is_ours && let Some(route) = route_of(&packet[28..length]) {
                return route;
            }
        }
    }
}

/// The route of a packet of a channel, decoded from its bytes.
fn route_of(header: &[u8]) -> Option<Route> {
    let word = |at: usize| {
        let bytes = header.get(4 * at..4 * at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    // Only packets with an RTPH name both channels.
    (word(3)? >> 9 & 0b111 == 0b010).then_some(Route {
        source: Cna::new(word(1)?),
        destination: Cna::new(word(2)? >> 8),
        source_tpn: Tpn::new(word(4)? << 8 | word(5)? >> 24),
        destination_tpn: Tpn::new(word(5)?),
        path: header[13],
        priority: Priority::new(header[14] >> 4),
        cci: Default::default(),
    })
}

/// Ends an attack, even if the test fails meanwhile.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The data that the attacker is given.
#[derive(Clone, Copy)]
struct Victims {
    route: Route,
    client: SocketAddrV4,
    server: SocketAddrV4,
}

impl Victims {
    fn of(pair: &Pair, route: Route) -> Victims {
        let address = |context: &Context| match context.local_addrs()[0] {
            SocketAddr::V4(address) => address,
            SocketAddr::V6(_) => unreachable!("bound to IPv4"),
        };
        Victims {
            route,
            client: address(&pair.client.context),
            server: address(&pair.server.context),
        }
    }

    /// Sends a packet to the server that appears to come from the client, with the right channel
    /// number and with those that channels had before they were random.
    fn forge(&self, forger: &Forger, packet: &Packet, payload: &[u8]) {
        let numbers = (0x01_0000..0x01_0004).map(Tpn::new).chain([self.route.destination_tpn]);
        for destination_tpn in numbers {
            let route = Route { destination_tpn, ..self.route };
            self.send(forger, (&route, packet), payload, (self.client, self.server));
        }
    }

    /// Sends a packet to the client that appears to come from the server.
    fn forge_back(&self, forger: &Forger, packet: &Packet) {
        let Route { source, destination, source_tpn, destination_tpn, path, cci, .. } = self.route;
        let route = Route {
            source: destination,
            destination: source,
            source_tpn: destination_tpn,
            destination_tpn: source_tpn,
            path,
            priority: Priority::CONTROL,
            cci,
        };
        self.send(forger, (&route, packet), b"", (self.server, self.client));
    }

    fn send(
        &self,
        forger: &Forger,
        (route, packet): (&Route, &Packet),
        payload: &[u8],
        (from, to): (SocketAddrV4, SocketAddrV4),
    ) {
        let mut datagram = [0; MAX_HEADER + 64];
        let header = encode(route, packet, payload.len(), &mut datagram);
        datagram[header..header + payload.len()].copy_from_slice(payload);
        forger.send(from, to, &datagram[..header + payload.len()]);
    }
}

fn data(psn: Psn, slot: u8, operation: Operation) -> Packet {
    Packet::Data(Data {
        psn,
        message: Msn::new(0),
        index: 0,
        jetty: JettyId::new(1),
        transaction: 0,
        slot,
        ack_request: true,
        retry: false,
        last: true,
        carried: None,
        order: Order::NONE,
        operation,
    })
}

fn datagram(number: u64, operation: Operation) -> Packet {
    Packet::Datagram(Datagram { number, jetty: JettyId::new(1), transaction: 0, operation })
}

/// Executes WRITEs and READs of 1 MiB, and compares their bytes.
fn demand_that_data_passes(network: &Network, Pair { client, server }: &Pair) {
    let remote = server.open_segment(1 << 20);
    let local = client.filled(1 << 20, 1);
    network.inside(CLIENT, || {
        client.jetty.write(&client.peer, &local, remote.key(), 1).unwrap();
        let _ = client.succeed();
        assert_eq!(content(&remote), content(&local));
        let fetched = client.open_segment(1 << 20);
        client.jetty.read(&client.peer, &fetched, remote.key(), 2).unwrap();
        let _ = client.succeed();
        assert_eq!(content(&fetched), content(&local));
    });
    assert!(client.peer.is_alive() && server.peer.is_alive());
}

/// Runs an attack of a third host on a connection, during and after data transfer.
fn demand_no_effect(
    label: &str,
    check: impl FnOnce(&Pair),
    prepare: impl FnOnce(&Side) -> SegmentKey,
    attack: impl Fn(&Forger, &Victims, SegmentKey) + Sync,
) {
    let Some(network) = Network::new(label) else { return };
    let (pair, route) = network.connect(at(CLIENT));
    let key = prepare(&pair.server);
    let target = Victims::of(&pair, route);
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let forger = network.inside(ATTACKER, Forger::new);
    let before = pair.server.context.counters().nic.undecodable;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            network.inside(ATTACKER, || {
                while !stop.load(Ordering::Relaxed) {
                    attack(&forger, &target, key);
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        });
        let _end = End(&stop);
        let begun = std::time::Instant::now();
        let mut passed = 0;
        while rounds.load(Ordering::Relaxed) == 0 || passed < 4 {
            demand_that_data_passes(&network, &pair);
            passed += 1;
            assert!(begun.elapsed() < TIMEOUT, "{passed} rounds of data");
        }
    });
    demand_that_data_passes(&network, &pair);
    // Most of the packets sent must have arrived: otherwise nothing is tested.
    let both = [&pair.client, &pair.server].map(|side| side.context.counters().nic.undecodable);
    let sent = forger.sent.load(Ordering::Relaxed);
    assert!(both[0] + both[1] - before > sent / 20, "{both:?} of {sent} came");
    assert!(pair.server.context.poll_events().is_empty(), "the server has noticed something");
    assert!(pair.client.context.poll_events().is_empty(), "the client has noticed something");
    check(&pair);
}

fn no_key(_: &Side) -> SegmentKey {
    SegmentKey { token_id: 0, token_value: 0, address: 0, length: 0 }
}

/// 64 forged datagrams of 66 bytes used to place a message in a Jetty.
#[test]
fn forged_messages_reach_no_jetty() {
    const NUMBER: u32 = 1001;
    let payload = *b"FwCp\x01\x06 forged";
    let kept = std::cell::RefCell::new(None);
    demand_no_effect(
        "send",
        |_| {
            let (mail, inbox) = kept.take().expect("made before");
            let mut done = Vec::new();
            fairway::Jetty::poll(&mail, &mut done);
            assert_eq!(done, [], "a forged message was delivered");
            assert_eq!(content(&inbox), [0; 256]);
        },
        |server| {
            let options = JettyOptions::default().number(NUMBER);
            let mail = server.context.create_jetty(options).unwrap();
            let inbox = server.segment(256, Rights::NONE);
            (0..4).for_each(|slot| {
                mail.post_receive(inbox.slice(64 * slot..64 * (slot + 1)), slot).unwrap();
            });
            kept.replace(Some((mail, inbox)));
            no_key(server)
        },
        |forger, target, _| {
            let to = Target { jetty: JettyId::new(NUMBER), token_value: 0, hint: 0 };
            let send = Operation::Send { target: to, length: payload.len() as u32 };
            for number in 0..64 {
                target.forge(forger, &datagram(number.into(), send), &payload);
                target.forge(forger, &data(Psn::new(number << 18), 0, send), &payload);
            }
        },
    );
}

/// At most 64 forged packets of 32 bytes used to end a connection.
#[test]
fn forged_close_ends_no_connection() {
    demand_no_effect(
        "close",
        |_| {},
        no_key,
        |forger, target, _| {
            for psn in (0..1 << 24).step_by(1 << 16).map(Psn::new) {
                let close = Packet::Close(Close { next: psn, answer: false });
                target.forge(forger, &close, b"");
                target.forge_back(forger, &close);
            }
        },
    );
}

/// An unreliable WRITE or a store used to require only a segment's key; a packet that continues a
/// message does not even require that.
#[test]
fn forged_writes_and_stores_change_no_memory() {
    let kept = std::cell::RefCell::new(None);
    demand_no_effect(
        "store",
        |_| assert_eq!(content(&kept.take().expect("made before")), [0; 64]),
        |server| {
            let secret = server.open_segment(64);
            let key = secret.key();
            kept.replace(Some(secret));
            key
        },
        |forger, target, key| {
            let access = Access {
                address: 0,
                length: 8,
                token_id: TokenId::new(key.token_id),
                token_value: key.token_value,
            };
            let payload = *b"forged!!";
            for number in 0..64 {
                let psn = Psn::new(number << 18);
                let operation = BypassOperation::Store { access };
                let jetty = JettyId::new(1);
                let store = Bypass { number, oldest: number, jetty, operation };
                target.forge(forger, &Packet::Bypass(store), &payload);
                let write = Operation::Write { access };
                target.forge(forger, &datagram(number.into(), write), &payload);
                target.forge(forger, &data(psn, 0, write), &payload);
                target.forge(forger, &data(psn, number as u8, Operation::Continuation), &payload);
            }
        },
    );
}

/// Some 5,000 packets that cover all sequence numbers used to stall a connection until it was given
/// up.
#[test]
fn forged_voids_stall_nothing() {
    demand_no_effect(
        "void",
        |_| {},
        no_key,
        |forger, target, _| {
            for psn in (0..1 << 24).step_by(4096).map(Psn::new) {
                let message = Msn::new(0);
                let void = Packet::Void(Void { psn, message, ack_request: true });
                target.forge(forger, &void, b"");
                target.forge_back(forger, &void);
            }
        },
    );
}

/// 24,000 packets that acknowledge packets not sent used to stall a transfer until it failed.
#[test]
fn forged_acknowledgements_stall_nothing() {
    demand_no_effect(
        "ack",
        |_| {},
        no_key,
        |forger, target, _| {
            for psn in (0..1 << 24).step_by(1024).map(Psn::new) {
                let ack = Packet::Ack(Ack {
                    cumulative: psn,
                    echo: psn,
                    start_known: Msn::new(0),
                    echo_delay: 0,
                    window: 4096,
                    marks: 0,
                    duplicates: 0,
                    cci: Cci::NONE,
                    flags: AckFlags::none(),
                    sack: Sack::default(),
                    paths: PathReports::NONE,
                });
                target.forge_back(forger, &ack);
                target.forge(forger, &ack, b"");
            }
        },
    );
}

/// A datagram of 20 kB from an ordinary socket used to be stored in the memory of a WRITE.
#[test]
fn garbage_from_any_address_lies_in_no_memory() {
    const MARK: [u8; 8] = [0xee; 8];
    let Some(network) = Network::new("garbage") else { return };
    // The connection is slow, so that the attacker's packets arrive in between.
    let (pair, route) = network.connect(at(CLIENT).emulate("rate=100M".parse().unwrap(), 1));
    let target = Victims::of(&pair, route);
    let remote = pair.server.open_segment(4 << 20);
    let local = pair.client.filled(4 << 20, 1);
    network.inside(CLIENT, || {
        pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 1).unwrap();
    });
    let (mut seen, mut done, mut looks) = (vec![0; 4 << 20], Vec::new(), 0);
    network.inside(ATTACKER, || {
        let own = UdpSocket::bind((address(ATTACKER), 0)).unwrap();
        let forger = Forger::new();
        while done.is_empty() {
            for length in [20_000, 1_408, 1_408, 20_000] {
                own.send_to(&vec![MARK[0]; length], target.server).unwrap();
            }
            // The datagram is as long as the client's packets, from its address, and with their
            // first bytes.
            let mut garbage = [MARK[0]; 1400];
            let packet = data(Psn::new(0), 0, Operation::Continuation);
            let header = encode(&target.route, &packet, 1400 - MAX_HEADER, &mut garbage);
            for length in [header + 64, 1400] {
                forger.send(target.client, target.server, &garbage[..length]);
            }
            remote.read_at(0, &mut seen).unwrap();
            let marked = seen.chunks_exact(64).filter(|chunk| chunk.starts_with(&MARK)).count();
            assert_eq!(marked, 0, "pieces of 64 bytes of a stranger in registered memory");
            looks += 1;
            pair.client.jetty.poll(&mut done);
        }
    });
    assert_eq!(done[0].status, Status::Success);
    assert!(looks > 2, "the message came between {looks} looks");
    assert!(
        pair.server.context.counters().nic.undecodable > 2,
        "the packets of the stranger did not arrive"
    );
    assert_eq!(content(&remote), content(&local));
}

/// A request that any node answers.
fn hello(nonce: u64) -> [u8; SETUP_LEN] {
    let hello = Hello {
        versions: Versions::new(PROTOCOL_VERSION, PROTOCOL_VERSION).unwrap(),
        nonce,
        client: Endpoint {
            tpn: Tpn::new(1),
            initial_psn: Psn::new(0),
            ports: Ports::new(&[PORT]).unwrap(),
        },
        requested: Parameters {
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
    };
    let (source, destination) = (Cna::new(0x123456), Cna::default());
    let mut datagram = [0; SETUP_LEN];
    let setup = Setup { source, destination, message: SetupMessage::Hello(hello) };
    encode_setup(&setup, &mut datagram);
    datagram
}

/// Each request of a flood has another source, so that no limit per source helps.
#[test]
fn flood_of_hellos_from_forged_addresses_leaves_room_for_others() {
    let Some(network) = Network::new("hello") else { return };
    let (pair, route) = network.connect(at(CLIENT));
    let target = Victims::of(&pair, route);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            network.inside(ATTACKER, || {
                let forger = Forger::new();
                let mut host = 0_u32;
                while !stop.load(Ordering::Relaxed) {
                    host = host.wrapping_add(0x9e37_79b9);
                    let from = SocketAddrV4::new(Ipv4Addr::from(0x0b00_0000 | host >> 8), PORT);
                    forger.send(from, target.server, &hello(u64::from(host)));
                }
            });
        });
        let _end = End(&stop);
        let hellos = || pair.server.context.counters().nic.setup_messages;
        let begun = std::time::Instant::now();
        while hellos() < 20_000 {
            pair.server.context.poll();
            assert!(begun.elapsed() < TIMEOUT, "{:?}", pair.server.context.counters());
        }
        demand_that_data_passes(&network, &pair);
        let late = network.inside(CLIENT, || {
            let late = at(CLIENT).port(PORT + 10).build().unwrap();
            late.connect(SocketAddr::V4(target.server), TIMEOUT).map(|peer| (late, peer))
        });
        let (late, peer) = late.expect("a connection in the midst of a flood");
        let late = side(late, peer);
        let remote = pair.server.segment(1 << 20, Rights::WRITE);
        network.inside(CLIENT, || {
            let bytes = Memory::from_vec(vec![7; 1 << 20]);
            let local = late.context.register(bytes, Rights::NONE).unwrap();
            late.jetty.write(&late.peer, &local, remote.key(), 1).unwrap();
            let _ = late.succeed();
        });
        assert_eq!(content(&remote), [7; 1 << 20]);
    });
    let counters = pair.server.context.counters();
    println!(
        "{} HELLOs came, {} got no answer",
        counters.nic.setup_messages, counters.nic.setup_limited
    );
    assert_eq!(counters.nic.connections, 2, "a channel was opened for a forged address");
}
