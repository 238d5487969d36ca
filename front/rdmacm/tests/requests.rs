//! Connection requests from another host, with various source addresses and claimed addresses. The
//! hosts are network namespaces, which need the superuser and the `ip` tool.

#[path = "../../verbs/tests/common/mod.rs"]
mod common;
#[allow(dead_code)] // Only some of these functions are used here.
#[path = "../../../crates/rdma/tests/verbs_roce/namespaces.rs"]
mod namespaces;
#[path = "../../../crates/fairway/tests/common/superuser.rs"]
mod superuser;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use common::{Running, alone, command, compile, free_port, has, run};
use fairway_rdma::ROCE_PORT;
use fairway_wire::roce::cm::{
    self, CommunicationId, IpHeader, Message, Path, PortSpace, Reason, Reject, Request, Service,
    service_id,
};
use fairway_wire::roce::{self, Bth, Deth, Icrc, Operation, Outer, Packet};
use fairway_wire::{Psn, Qpn};
use namespaces::{Namespaces, run as ip};

const CLIENT: usize = 0;
const SERVER: usize = 1;
const SERVER_IP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// Two hosts; the client has two addresses of one network and one of another.
fn hosts(label: &str) -> Option<Namespaces> {
    let hosts = Namespaces::new(label)?;
    let made = hosts.inside(CLIENT, || {
        ip("ip addr add 10.77.0.3/24 dev wire") && ip("ip addr add 10.78.0.1/24 dev wire")
    }) && hosts.inside(SERVER, || ip("ip route add 10.78.0.0/24 dev wire"));
    made.then_some(hosts)
}

/// Like [`hosts`], with a line that reports it where they can't be created.
fn hosts_or_skip(label: &str) -> Option<Namespaces> {
    let hosts = hosts(label);
    if hosts.is_none() {
        superuser::skip("hosts in network namespaces");
    }
    hosts
}

/// A command that runs a program on the device that connects the hosts.
fn on_wire(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = command(program);
    command.env("FAIRWAY_DEVICES", "wire");
    command
}

/// Runs, at the server, the program that prints the peer of each request, once [`receive`] is
/// called.
fn listening(hosts: &Namespaces, program: &std::path::Path, port: u16, backlog: u32) -> Running {
    let mut server = on_wire(program);
    server.args([SERVER_IP.to_string(), port.to_string(), backlog.to_string()]);
    let server = hosts.inside(SERVER, || Running::server(server));
    server.listens("rdma");
    server
}

/// Lets the program receive requests. They wait until then.
fn receive(hosts: &Namespaces, port: u16) {
    let socket = hosts.inside(CLIENT, || UdpSocket::bind("0.0.0.0:0").unwrap());
    socket.send_to(b"begin", (SERVER_IP, port)).unwrap();
}

/// A socket at an address of the client that sends requests and receives the answers.
struct Requester {
    socket: UdpSocket,
    port: u16,
}

impl Requester {
    fn new(hosts: &Namespaces, ip: Ipv4Addr, port: u16) -> Requester {
        let socket = hosts.inside(CLIENT, || UdpSocket::bind((ip, ROCE_PORT)).unwrap());
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        Requester { socket, port }
    }

    /// Sends a connection request with this number, which claims to come from the host with this
    /// address.
    fn request(&self, number: u32, claimed: Ipv4Addr, greeting: &[u8]) {
        let [source, destination] = [claimed, SERVER_IP].map(IpAddr::from);
        let header = IpHeader { source_port: 9, source, destination };
        let mut private = [0; Request::PRIVATE_LEN];
        private[..IpHeader::LEN].copy_from_slice(&header.emit());
        private[IpHeader::LEN..][..greeting.len()].copy_from_slice(greeting);
        let message = Message::Request(request(number, self.port, private));
        let mad = cm::emit(&cm::Datagram { transaction: u64::from(number), message });
        let from = self.socket.local_addr().unwrap();
        let to = SocketAddr::from((SERVER_IP, ROCE_PORT));
        self.socket.send_to(&datagram(from, &mad), to).unwrap();
    }

    /// The answer that arrives within a second.
    fn answer(&self) -> Option<Message> {
        let mut bytes = [0; 1024];
        let (length, _) = self.socket.recv_from(&mut bytes).ok()?;
        let decoded = roce::decode(&bytes[..length], length).unwrap();
        let mad = &bytes[decoded.header_len..][..decoded.payload_len];
        Some(cm::parse(mad).unwrap().message)
    }
}

fn request(number: u32, port: u16, private: [u8; Request::PRIVATE_LEN]) -> Request {
    Request {
        local: CommunicationId(number),
        service: service_id(PortSpace::Tcp, port),
        ca_guid: 1,
        q_key: 0,
        queue_pair: Qpn::new(number),
        responder_resources: 1,
        initiator_depth: 1,
        remote_response_timeout: 20,
        transport: Service::Rc,
        flow_control: false,
        psn: Psn::new(7),
        local_response_timeout: 20,
        retries: 7,
        p_key: 0xffff,
        mtu: 1,
        rnr_retries: 7,
        cm_retries: 15,
        shared_receives: false,
        extended_transport: 0,
        primary: Path { ack_timeout: 19, ..Path::default() },
        alternate: Path::default(),
        private,
    }
}

/// A RoCE packet with a management datagram.
fn datagram(from: SocketAddr, mad: &[u8; cm::MAD_LEN]) -> Vec<u8> {
    let IpAddr::V4(ip) = from.ip() else { unreachable!() };
    let outer = Outer {
        destination_port: ROCE_PORT,
        ..Outer::v4(ip.octets(), SERVER_IP.octets(), from.port())
    };
    let deth = Deth { q_key: cm::Q_KEY, source: Qpn::new(cm::QUEUE_PAIR) };
    let packet = Packet {
        bth: Bth { destination: Qpn::new(cm::QUEUE_PAIR), ..Bth::default() },
        operation: Operation::Datagram { deth, immediate: None },
    };
    let mut header = [0; roce::MAX_HEADER];
    let length = roce::encode(&packet, mad.len(), &mut header);
    let total = roce::datagram_len(&packet, mad.len());
    let mut icrc = Icrc::new(&outer, &header[..length], total);
    icrc.update(mad);
    [&header[..length], &mad[..], icrc.trailer(mad.len()).bytes()].concat()
}

#[test]
fn one_address_leaves_places_of_a_backlog_to_others() {
    let Some(program) = compile("requests") else { return };
    let Some(hosts) = hosts_or_skip("backlog") else { return };
    let port = free_port();
    let server = listening(&hosts, &program, port, 4);
    let [greedy, neighbour, other] = [[10, 77, 0, 1], [10, 77, 0, 3], [10, 78, 0, 1]]
        .map(Ipv4Addr::from)
        .map(|ip| (ip, Requester::new(&hosts, ip, port)));
    for number in 1..=200 {
        greedy.1.request(number, greedy.0, b"flood");
    }
    assert_eq!(greedy.1.answer(), None, "what is too much is not answered");
    neighbour.1.request(1, neighbour.0, b"one");
    assert_eq!(neighbour.1.answer(), None);
    other.1.request(1, other.0, b"last");
    receive(&hosts, port);
    let printed = server.outcome().succeeded();
    let expected = ["10.77.0.1"; 4].into_iter().chain(["10.77.0.3", "10.78.0.1"]);
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn request_with_a_foreign_address_is_not_handed_to_the_program() {
    let Some(program) = compile("requests") else { return };
    let Some(hosts) = hosts_or_skip("claims") else { return };
    let port = free_port();
    let server = listening(&hosts, &program, port, 4);
    let own = Ipv4Addr::new(10, 77, 0, 1);
    let requester = Requester::new(&hosts, own, port);
    // Addresses of another host, of the client's second address, of the server, and two that belong
    // to no remote host.
    let lies = [[192, 0, 2, 7], [10, 77, 0, 3], [10, 77, 0, 2], [127, 0, 0, 1], [0, 0, 0, 0]];
    for (number, lie) in (1..).zip(lies) {
        requester.request(number, Ipv4Addr::from(lie), b"last");
        let answer = requester.answer();
        let Some(Message::Reject(Reject { names, reason, .. })) = answer else {
            panic!("{lie:?}: {answer:?}");
        };
        assert_eq!((names.remote, reason), (CommunicationId(number), Reason::INVALID_GID));
    }
    requester.request(100, own, b"last");
    receive(&hosts, port);
    assert_eq!(server.outcome().succeeded(), "10.77.0.1\n");
}

/// A program may be bound to an address from which packets to its peer are not sent.
#[test]
fn client_of_any_of_its_hosts_addresses_is_served() {
    if !has("rping") {
        return;
    }
    let _alone = alone();
    let Some(hosts) = hosts_or_skip("bound") else { return };
    for provider in ["roce", "fairway"] {
        for bound in ["10.77.0.1", "10.77.0.3"] {
            let port = free_port().to_string();
            let half = |arguments: &[&str]| {
                let mut half = on_wire("rping");
                half.args(["-C", "5", "-V", "-p", &port, "-a", "10.77.0.2"]).args(arguments);
                half.env("FAIRWAY_PROVIDER", provider);
                half
            };
            let server = hosts.inside(SERVER, || Running::server(half(&["-s"])));
            server.listens("rdma");
            let client = hosts.inside(CLIENT, || Running::start(half(&["-c", "-v", "-I", bound])));
            let printed = client.outcome().succeeded();
            assert_eq!(printed.matches("ping data").count(), 5, "{provider} {bound}: {printed}");
            server.outcome().succeeded();
        }
    }
}

/// Two interfaces of a host have the same link-local address.
#[test]
fn link_local_address_is_that_of_its_interface() {
    let Some(program) = compile("scopes") else { return };
    let Some(hosts) = hosts_or_skip("scopes") else { return };
    let made = hosts.inside(CLIENT, || {
        ip("ip link add one type veth peer name two")
            && ["one", "two"].iter().enumerate().all(|(n, name)| {
                ip(&format!("ip addr add 10.79.{n}.1/24 dev {name}"))
                    && ip(&format!("ip addr add fe80::1/64 dev {name} nodad"))
                    && ip(&format!("ip link set {name} up"))
            })
    });
    assert!(made);
    for provider in ["roce", "fairway"] {
        let mut scopes = command(&program);
        scopes.env("FAIRWAY_DEVICES", "=one,=two").env("FAIRWAY_PROVIDER", provider);
        scopes.args(["fe80::1%one", "fe80::1%two"]);
        let printed = hosts.inside(CLIENT, || run(scopes)).succeeded();
        let expected: Vec<String> = ["fairway0 one", "fairway1 two"]
            .iter()
            .flat_map(|at| ["bound", "from", "to"].map(|what| format!("{what} {at}")))
            .collect();
        assert_eq!(printed.lines().collect::<Vec<_>>(), expected, "{provider}");
    }
}
