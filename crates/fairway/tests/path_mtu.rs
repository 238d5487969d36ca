//! Packet lengths: set-up proves both directions of the path.
//!
//! Tests with a router require the superuser and the `ip` tool: their hosts are network namespaces.

mod common;
#[path = "common/hosts.rs"]
mod hosts;
#[path = "common/superuser.rs"]
mod superuser;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{MTU, Pair, Side, TIMEOUT, builder, builder_v6, bytes, content, engines, side};
use fairway::{
    Context, Event, MailboxAddress, MailboxOptions, Order, Post, Rights, ServiceMode, Status,
    Threshold,
};
use hosts::{Hosts, run};

/// Two hosts, 10.78.0.2 and 10.78.1.2, and a router between them; links of 1,500 bytes.
type Network = Hosts<3>;

const CLIENT: usize = 0;
const ROUTER: usize = 1;
const SERVER: usize = 2;

/// The first port of each host.
const PORT: u16 = 4700;

fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 78, u8::from(host == SERVER), 2)
}

impl Network {
    /// Creates the network. Returns `None` if that is not possible here.
    fn new(label: &str) -> Option<Network> {
        let network = Hosts::named(label, ["a", "r", "b"]);
        let [a, r, b] = &network.names;
        let is_made = network.create()
            && [(a, 0), (b, 1)].into_iter().all(|(host, net)| {
                let far = format!("netns {r} name to{net}");
                run(&format!("-n {host} link add wire type veth peer {far}"))
                    && run(&format!("-n {host} link set lo up"))
                    && run(&format!("-n {host} addr add 10.78.{net}.2/24 dev wire"))
                    && run(&format!("-n {host} link set wire up"))
                    && run(&format!("-n {r} addr add 10.78.{net}.1/24 dev to{net}"))
                    && run(&format!("-n {r} link set to{net} up"))
                    && run(&format!("-n {host} route add default via 10.78.{net}.1"))
            })
            && network
                .inside(ROUTER, || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").is_ok());
        is_made.then_some(network)
    }

    /// Limits the packet length that the router passes to a host, whatever its links can carry.
    fn shorten(&self, to: usize, mtu: usize) {
        let (router, net) = (&self.names[ROUTER], usize::from(to == SERVER));
        let words = format!("route change 10.78.{net}.0/24 dev to{net} mtu lock {mtu}");
        assert!(run(&format!("-n {router} {words}")), "{words}");
    }

    /// Makes the router send no reports.
    fn silence(&self) {
        let router = &self.names[ROUTER];
        assert!(run(&format!("-n {router} rule add ipproto icmp priority 1 blackhole")));
    }

    /// Makes a connection between the two hosts, and returns it with the time that it took.
    fn connect(&self) -> (Pair, Duration) {
        self.connect_after(|| ())
    }

    /// The same, where `prepare` runs on the client between the opening of its sockets and set-up.
    fn connect_after(&self, prepare: impl FnOnce() + Send) -> (Pair, Duration) {
        let at = |host| {
            let builder = Context::builder().bind(IpAddr::V4(address(host))).port(PORT);
            builder.buffer_bytes(1 << 20).engines(engines())
        };
        let server = self.inside(SERVER, || at(SERVER).build().unwrap());
        let to = server.local_addrs()[0];
        let (client, peer, took) = self.inside(CLIENT, || {
            let client = at(CLIENT).build().unwrap();
            prepare();
            let begun = Instant::now();
            let peer = client.connect(to, TIMEOUT).unwrap();
            (client, peer, begun.elapsed())
        });
        let event = self.inside(SERVER, || server.wait_event(TIMEOUT).unwrap());
        let Event::Connected(back) = event else { panic!("something happened before: {event:?}") };
        (Pair { client: side(client, peer), server: side(server, back) }, took)
    }
}

/// Executes a WRITE and a READ of 1 MiB and compares all bytes.
fn demand_that_both_directions_carry_data(network: &Network, pair: &Pair) {
    let Pair { client, server } = pair;
    let begun = Instant::now();
    let move_data = |client: &Side| {
        let local = client.filled(1 << 20, 1);
        let remote = server.open_segment(1 << 20);
        client.jetty.write(&client.peer, &local, remote.key(), 1).unwrap();
        let _ = client.succeed();
        assert_eq!(content(&remote), content(&local));
        let fetched = client.filled(1 << 20, 2);
        client.jetty.read(&client.peer, &fetched, remote.key(), 2).unwrap();
        let _ = client.succeed();
        assert_eq!(content(&fetched), content(&local));
    };
    network.inside(CLIENT, || move_data(client));
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

/// Creates the network. Returns `None`, and prints a line, if networks cannot be created here.
fn network(label: &str) -> Option<Network> {
    let made = Network::new(label);
    if made.is_none() {
        superuser::skip("hosts and a router in network namespaces");
    }
    made
}

/// Bytes of payload that fit 1,500 and 1,400 bytes with all headers.
const FULL: u32 = 1360;
const SHORT: u32 = 1256;

fn demand(label: &str, short: &[usize], silent: bool, expected: u32) {
    let Some(network) = network(label) else { return };
    short.iter().for_each(|host| network.shorten(*host, 1400));
    if silent {
        network.silence();
    }
    let (pair, took) = network.connect();
    assert_eq!((pair.client.peer.mtu(), pair.server.peer.mtu()), (expected, expected));
    assert!(took < Duration::from_secs(2), "{took:?}");
    demand_that_both_directions_carry_data(&network, &pair);
    println!("{label}: connected in {took:?}");
}

#[test]
fn path_of_full_length_keeps_it() {
    demand("whole", &[], true, FULL);
}

#[test]
fn path_that_is_short_to_the_server_is_found_without_icmp() {
    demand("there", &[SERVER], true, SHORT);
}

#[test]
fn path_that_is_short_to_the_client_is_found_without_icmp() {
    demand("back", &[CLIENT], true, SHORT);
}

#[test]
fn path_that_is_short_both_ways_is_found_without_icmp() {
    demand("both", &[CLIENT, SERVER], true, SHORT);
}

#[test]
fn path_that_is_short_both_ways_is_found_with_icmp() {
    demand("icmp", &[CLIENT, SERVER], false, SHORT);
}

/// A route changes while a connection is open: the short packets that show that the peer is alive
/// still arrive, so operations used to wait for ever.
fn demand_that_a_shorter_path_ends_the_connection(label: &str, short: usize, silent: bool) {
    let Some(network) = network(label) else { return };
    let (Pair { client, server }, _) = network.connect();
    assert_eq!(client.peer.mtu(), FULL);
    if silent {
        network.silence();
    }
    network.shorten(short, 1400);
    let (local, remote) = (client.filled(1 << 20, 1), server.open_segment(1 << 20));
    // The side whose long packets are lost must close the connection.
    let (closing, other) = if short == SERVER {
        client.jetty.write(&client.peer, &local, remote.key(), 1).unwrap();
        (&client, &server)
    } else {
        client.jetty.read(&client.peer, &local, remote.key(), 1).unwrap();
        (&server, &client)
    };
    let expected = if short == SERVER { Status::Flushed } else { Status::PeerClosed };
    // The thread that waits opens the sockets that send the probes.
    let status = network.inside(CLIENT, || client.wait().status);
    assert_eq!(status, expected);
    let ended = |event: &Event| !matches!(event, Event::PathDown { .. } | Event::PathUp { .. });
    let last = |side: &Side| loop {
        let event = side.context.wait_event(TIMEOUT).unwrap();
        if ended(&event) {
            return event;
        }
    };
    let (here, there) = (last(closing), last(other));
    assert!(matches!(&here, Event::PathShortened(peer) if *peer == closing.peer), "{here:?}");
    assert!(matches!(&there, Event::PeerClosed(peer) if *peer == other.peer), "{there:?}");

    let to = server.context.local_addrs()[0];
    let Side { context, .. } = client;
    let peer = network.inside(CLIENT, || context.connect(to, TIMEOUT).unwrap());
    assert_eq!(peer.mtu(), SHORT);
    let Event::Connected(back) = server.context.wait_event(TIMEOUT).unwrap() else {
        panic!("something happened before the connection");
    };
    let pair = Pair { client: side(context, peer), server: side(server.context, back) };
    demand_that_both_directions_carry_data(&network, &pair);
}

#[test]
fn path_to_the_server_that_becomes_shorter_ends_the_connection() {
    demand_that_a_shorter_path_ends_the_connection("less-there", SERVER, true);
}

#[test]
fn path_to_the_client_that_becomes_shorter_ends_the_connection() {
    demand_that_a_shorter_path_ends_the_connection("less-back", CLIENT, true);
}

/// The router's report arrives between the long probe and the short one.
#[test]
fn path_to_the_server_that_becomes_shorter_with_icmp_ends_the_connection() {
    demand_that_a_shorter_path_ends_the_connection("icmp-there", SERVER, false);
}

#[test]
fn path_to_the_client_that_becomes_shorter_with_icmp_ends_the_connection() {
    demand_that_a_shorter_path_ends_the_connection("icmp-back", CLIENT, false);
}

/// The checksum of RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

/// A report of a host: "a packet from you, between these ports, was longer than 576 bytes".
fn forged(from: Ipv4Addr, to: Ipv4Addr, port: u16) -> Vec<u8> {
    let mut quoted = vec![0x45, 0, 5, 0xdc, 0, 0, 0x40, 0, 64, 17, 0, 0];
    quoted.extend(from.octets());
    quoted.extend(to.octets());
    let sum = checksum(&quoted);
    quoted[10..12].copy_from_slice(&sum.to_be_bytes());
    quoted.extend(port.to_be_bytes());
    quoted.extend(PORT.to_be_bytes());
    quoted.extend([5, 0xc8, 0, 0]);
    let mut message = vec![3, 4, 0, 0, 0, 0, 2, 0x40];
    message.extend(quoted);
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// Ends a flood when it is dropped, so that a test that fails ends, too.
struct EndOfFlood<'a>(&'a AtomicBool);

impl Drop for EndOfFlood<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Repeatedly reports to this thread's host that its packets to the server are too long.
fn flood(stop: &AtomicBool) {
    // SAFETY: no memory is passed; a result that is not -1 is a descriptor that is ours.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        UdpSocket::from(OwnedFd::from_raw_fd(fd))
    };
    let (from, to) = (address(CLIENT), address(SERVER));
    while !stop.load(Ordering::Relaxed) {
        for port in PORT..PORT + 4 {
            // A report that does not fit the queue is dropped.
            let _ = socket.send_to(&forged(from, to, port), (from, 0));
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// The MTU that the kernel has recorded for the path to the server.
fn believed() -> libc::c_int {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(SocketAddr::from((address(SERVER), PORT))).unwrap();
    let mut mtu: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value and its length are valid.
    let got = unsafe {
        let (value, length) = ((&raw mut mtu).cast(), &raw mut length);
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_MTU, value, length)
    };
    assert_eq!(got, 0);
    mtu
}

#[test]
fn forged_icmp_during_set_up_shortens_nothing() {
    for (short, expected) in [(false, FULL), (true, SHORT)] {
        let Some(network) = network("forged") else { return };
        if short {
            network.shorten(SERVER, 1400);
            network.silence();
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let end = EndOfFlood(&stop);
            scope.spawn(|| network.inside(CLIENT, || flood(&stop)));
            let (pair, _) = network.connect_after(|| {
                let end = Instant::now() + TIMEOUT;
                while believed() != 576 {
                    let is_late = Instant::now() > end;
                    assert!(!is_late, "the kernel does not believe it: nothing is tested");
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            drop(end);
            assert_eq!((pair.client.peer.mtu(), pair.server.peer.mtu()), (expected, expected));
            demand_that_both_directions_carry_data(&network, &pair);
        });
    }
}

/// The first packet of a PUT has the longest headers, and those of IPv6 are longer than those of
/// IPv4.
#[test]
fn packets_with_the_longest_headers_fit_a_link_of_ipv6() {
    let ended = std::thread::spawn(|| {
        // SAFETY: the call changes this thread alone.
        let is_alone = unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 };
        if !is_alone || !run("link set lo mtu 1500 up") {
            return superuser::skip("a link of 1,500 bytes in a network namespace");
        }
        let Pair { client, server } = Pair::of(builder_v6(), builder_v6());
        let options =
            MailboxOptions::default().address(7).key(9).threshold(Threshold::Operations(1));
        let mailbox = server.context.create_mailbox(&options).unwrap();
        let shelf = server.segment(4000, Rights::NONE);
        let source = client.filled(4000, 7);
        for number in 0..2 {
            mailbox.post(shelf.slice(0..4000), number).unwrap();
            let (from, to) = (source.slice(0..4000), MailboxAddress::new(7, 9));
            match number {
                0 => client.jetty.put(&client.peer, from, to, number).unwrap(),
                _ => {
                    let ordered = client.jetty.ordered(Order::strict(ServiceMode::Rot));
                    ordered.put(&client.peer, from, to, number).unwrap();
                }
            }
            mailbox.wait(Duration::from_secs(10)).expect("it arrives");
            assert_eq!(content(&shelf), bytes(4000, 7));
        }
        for context in [&client.context, &server.context] {
            assert_eq!(context.counters().nic.io_errors, 0, "{:?}", context.counters());
        }
    });
    ended.join().expect("the test in the namespace");
}

/// The MTUs of connections made while a tenth of all packets is lost, including those of set-up.
fn agreed_with_loss(connections: u64, seed: u64) -> Vec<u32> {
    let lossy = |seed| builder().emulate("loss=10%".parse().unwrap(), seed).build().unwrap();
    let server = lossy(seed);
    let to = server.local_addrs()[0];
    let connect = |attempt| {
        let client = lossy(seed + attempt);
        let peer = client.connect(to, TIMEOUT).unwrap();
        let back = loop {
            // The end of the previous connection may be reported late.
            if let Event::Connected(back) = server.wait_event(TIMEOUT).unwrap() {
                break back;
            }
        };
        assert_eq!(peer.mtu(), back.mtu());
        let mtu = peer.mtu();
        drop((peer, client));
        while back.is_alive() {
            let _ = server.wait_event(Duration::from_millis(1));
        }
        mtu
    };
    (1..=connections).map(connect).collect()
}

#[test]
fn loss_rarely_shortens_packets() {
    let agreed: Vec<u32> = std::thread::scope(|scope| {
        let run = |part: u64| scope.spawn(move || agreed_with_loss(20, 1000 * part));
        let parts: Vec<_> = (1..=5).map(run).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    let full = agreed.iter().filter(|mtu| **mtu == MTU).count();
    assert_eq!(agreed.len(), 100);
    assert!(full >= 95, "{agreed:?}");
    println!("{full} of 100 connections have packets of full size");
}
