//! The datapath past the kernel's network stack (AF_XDP): every kind of operation, peers that use
//! UDP, addresses that change, damaged frames, and the reasons why it is refused.
//!
//! The hosts are network namespaces, joined by a pair of virtual Ethernet interfaces, which
//! requires the superuser and the `ip` tool.

mod common;
#[path = "common/hosts.rs"]
mod hosts;
#[path = "common/superuser.rs"]
mod superuser;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Instant;

use common::{Pair, Side, TIMEOUT, content, exercise, side};
use fairway::{Builder, Context, DatapathKind, Event, PortCounters};
use fairway_port::Ecn;
use fairway_port::xdp::Flow;
use hosts::{Hosts, run};

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Two hosts and the cable between them, of which each end is called `wire`.
type Network = Hosts<2>;

fn address(host: usize) -> IpAddr {
    Ipv4Addr::new(10, 79, 0, host as u8 + 1).into()
}

/// Ethernet address of a host.
fn mac(host: usize) -> [u8; 6] {
    [2, 0, 0, 0, 79, host as u8 + 1]
}

impl Network {
    /// Creates the network. Returns `None`, and prints a line, if that is not possible here.
    fn new(label: &str, mtu: u32) -> Option<Network> {
        let network = Hosts::named(label, ["a", "b"]);
        let [a, b] = &network.names;
        let is_made = network.create()
            && run(&format!(
                "-n {a} link add wire mtu {mtu} type veth peer name wire mtu {mtu} netns {b}"
            ))
            && [CLIENT, SERVER].into_iter().all(|host| {
                let (name, own) = (&network.names[host], address(host));
                run(&format!("-n {name} link set wire address 02:00:00:00:4f:0{}", host + 1))
                    && run(&format!("-n {name} link set lo up"))
                    && run(&format!("-n {name} addr add {own}/24 dev wire"))
                    && run(&format!("-n {name} addr add fd79::{}/64 dev wire nodad", host + 1))
                    && run(&format!("-n {name} link set wire up"))
            });
        if !is_made {
            superuser::skip("hosts in network namespaces");
        }
        is_made.then_some(network)
    }

    fn pair(&self, client: Builder, server: Builder) -> Pair {
        let server = self.inside(SERVER, || server.build().unwrap());
        let to = server.local_addrs()[0];
        let (client, peer) = self.inside(CLIENT, || {
            let client = client.build().unwrap();
            let peer = client.connect(to, TIMEOUT).unwrap();
            (client, peer)
        });
        let Event::Connected(back) = server.wait_event(TIMEOUT).unwrap() else {
            panic!("something happened before the connection");
        };
        Pair { client: side(client, peer), server: side(server, back) }
    }
}

/// A builder of a host with this datapath.
fn over(datapath: DatapathKind, host: usize) -> Builder {
    Context::builder().bind(address(host)).buffer_bytes(1 << 20).datapath(datapath)
}

fn frames(host: usize) -> Builder {
    over(DatapathKind::Xdp, host)
}

fn port(side: &Side) -> PortCounters {
    side.context.counters().port
}

/// Writes until `done` is true of the counters. Panics if it stays false.
fn write_until(pair: &Pair, done: impl Fn(PortCounters) -> bool) {
    let local = pair.client.filled(100, 7);
    let remote = pair.server.open_segment(100);
    let begun = Instant::now();
    while !done(port(&pair.client)) {
        assert!(begun.elapsed() < TIMEOUT, "{:?}", port(&pair.client));
        pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 1).unwrap();
        let _ = pair.client.succeed();
    }
}

#[test]
fn all_operations_work_by_frames() {
    let Some(network) = Network::new("all", 1500) else { return };
    let pair = network.pair(frames(CLIENT), frames(SERVER));
    // Packets take the sockets until the kernel knows the peer's Ethernet address.
    write_until(&pair, |counters| counters.packets_sent_as_frames > 0);
    let before = (port(&pair.client), port(&pair.server));
    exercise(&pair);
    for (before, side) in [(before.0, &pair.client), (before.1, &pair.server)] {
        let after = port(side);
        // Long trains, and one train per second, take the sockets.
        let as_frames = after.packets_sent_as_frames - before.packets_sent_as_frames;
        assert!(as_frames > 100, "{as_frames}");
        let as_frames = after.packets_received_as_frames - before.packets_received_as_frames;
        assert!(as_frames > 100, "{as_frames}");
        assert_eq!(after.frames_dropped, 0, "{after:?}");
    }
}

#[test]
fn all_operations_work_by_frames_of_ipv6() {
    let Some(network) = Network::new("six", 1500) else { return };
    let at = |host| frames(host).bind(format!("fd79::{}", host + 1).parse().unwrap());
    let pair = network.pair(at(CLIENT), at(SERVER));
    write_until(&pair, |counters| counters.packets_sent_as_frames > 0);
    exercise(&pair);
    assert!(port(&pair.client).packets_sent_as_frames > 100);
    assert!(port(&pair.server).packets_received_as_frames > 100);
}

#[test]
fn one_side_may_use_the_sockets() {
    let Some(network) = Network::new("mixed", 1500) else { return };
    let udp = |host| over(DatapathKind::Udp, host);
    let pair = network.pair(frames(CLIENT), udp(SERVER));
    write_until(&pair, |counters| counters.packets_sent_as_frames > 0);
    exercise(&pair);
    assert_eq!(port(&pair.client).frames_dropped, 0);
    drop(pair);
    // Packets that sockets send over a virtual cable have no checksum, and may be several in one:
    // only the kernel can tell.
    let pair = network.pair(udp(CLIENT), frames(SERVER));
    exercise(&pair);
    let counters = port(&pair.server);
    assert_eq!((counters.packets_received_as_frames, counters.frames_dropped), (0, 0));
}

#[test]
fn links_of_long_packets_take_frames_too() {
    let Some(network) = Network::new("long", 9000) else { return };
    let pair = network.pair(frames(CLIENT), frames(SERVER));
    write_until(&pair, |counters| counters.packets_sent_as_frames > 0);
    exercise(&pair);
    assert!(port(&pair.server).packets_received_as_frames > 100);
    drop(pair);
    // A peer whose packets fit no frame: they take the sockets.
    let pair = network.pair(frames(CLIENT).mtu(8000), over(DatapathKind::Udp, SERVER).mtu(8000));
    exercise(&pair);
    assert_eq!(port(&pair.client).frames_dropped, 0);
}

#[test]
fn loss_and_reordering_on_the_way_back_are_survived() {
    let Some(network) = Network::new("bad", 1500) else { return };
    let bad = "loss=2%,dup=1%,reorder=8".parse().unwrap();
    let server = Context::builder().bind(address(SERVER)).emulate(bad, 5);
    let pair = network.pair(frames(CLIENT), server);
    exercise(&pair);
    assert!(port(&pair.client).packets_sent_as_frames > 100);
}

#[test]
fn a_host_that_gets_another_ethernet_address_is_found_again() {
    let Some(network) = Network::new("moved", 1500) else { return };
    let pair = network.pair(frames(CLIENT), over(DatapathKind::Udp, SERVER));
    write_until(&pair, |counters| counters.packets_sent_as_frames > 0);
    let server = &network.names[SERVER];
    // The host announces its new address, as after a fail-over.
    assert!(run(&format!("-n {server} link set wire address 02:00:00:00:4f:77")));
    let neighbour = "10.79.0.2 lladdr 02:00:00:00:4f:77 nud reachable dev wire";
    assert!(run(&format!("-n {} neigh replace {neighbour}", network.names[CLIENT])));
    let local = pair.client.filled(100, 8);
    let remote = pair.server.open_segment(100);
    pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 1).unwrap();
    let _ = pair.client.succeed();
    assert!(remote.compare(0, &content(&local)).unwrap());
    exercise(&pair);
}

/// Sends a frame from a host's interface, as a hostile host could.
fn inject(frame: &[u8]) {
    // SAFETY: the calls read the structures and bytes that they are given.
    unsafe {
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
        assert!(socket >= 0, "{}", std::io::Error::last_os_error());
        let socket = OwnedFd::from_raw_fd(socket);
        let mut to: libc::sockaddr_ll = std::mem::zeroed();
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = libc::if_nametoindex(c"wire".as_ptr()) as i32;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let (bytes, to) = (frame.as_ptr().cast(), (&raw const to).cast());
        let sent = libc::sendto(socket.as_raw_fd(), bytes, frame.len(), 0, to, length);
        assert_eq!(sent, frame.len() as isize, "{}", std::io::Error::last_os_error());
    }
}

#[test]
fn damaged_and_foreign_frames_are_dropped() {
    let Some(network) = Network::new("damage", 1500) else { return };
    let pair = network.pair(frames(CLIENT), frames(SERVER));
    write_until(&pair, |counters| counters.packets_sent_as_frames > 0);
    let (from, to) = (pair.client.context.local_addrs()[0], pair.server.context.local_addrs()[0]);
    let flow = Flow::new(mac(CLIENT), mac(SERVER), from, to).unwrap();
    let dropped = || port(&pair.server).frames_dropped;
    let before = dropped();
    network.inside(CLIENT, || {
        let mut frame = vec![7; flow.header_bytes() + 300];
        flow.complete(&mut frame, 0, Ecn::Capable);
        // Sound, but no packet of the protocol.
        inject(&frame);
        for place in [24, 39, 40, 41, 100, frame.len() - 1] {
            let mut damaged = frame.clone();
            damaged[place] ^= 0x10;
            inject(&damaged);
        }
    });
    exercise(&pair);
    // A wrong length of UDP, two of its checksum, the IP checksum, and two of payload.
    assert_eq!(dropped() - before, 6);
}

#[test]
fn what_stands_in_the_way_is_named_with_its_remedy() {
    let Some(network) = Network::new("refused", 1500) else { return };
    let demand = |builder: Builder, words: &[&str]| {
        let error = builder.build().map(|_| ()).unwrap_err();
        let mut text = error.to_string();
        let mut next = std::error::Error::source(&error);
        while let Some(source) = next {
            text = format!("{text}: {source}");
            next = source.source();
        }
        for word in words {
            assert!(text.contains(word), "no '{word}' in: {text}");
        }
    };
    network.inside(CLIENT, || {
        let any = Context::builder().datapath(DatapathKind::Xdp);
        demand(any, &["bind to its address"]);
        let here = Context::builder().bind(Ipv4Addr::LOCALHOST.into()).datapath(DatapathKind::Xdp);
        demand(here, &["lo", "127.0.0.1", "not an Ethernet interface"]);
        demand(frames(CLIENT).engines(2), &["engines", "2"]);
        let first = frames(CLIENT).build().unwrap();
        demand(frames(CLIENT), &["wire", "another program", "ip link show wire"]);
        drop(first);
        frames(CLIENT).build().unwrap();
    });
}

#[test]
fn background_thread_sleeps_and_wakes_up_for_each_frame() {
    const WRITES: u64 = 200;
    let Some(network) = Network::new("idle", 1500) else { return };
    let pair = network.pair(frames(CLIENT), frames(SERVER));
    write_until(&pair, |counters| counters.packets_sent_as_frames > 0);
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(8, 1);
    let remote = server.open_segment(8);
    let polls = || server.context.counters().nic.background_polls;
    let resent = || client.context.counters().engine.data_resent;
    let before = (polls(), resent());
    for number in 0..WRITES {
        client.jetty.write(&client.peer, &local, remote.key(), number).unwrap();
        let _ = client.succeed();
    }
    // Otherwise a retransmission, or another timer, would have ended each of its sleeps.
    assert!(polls() - before.0 >= WRITES, "the background thread alone drives the server");
    assert!(resent() - before.1 < WRITES / 2, "{} sent again", resent() - before.1);
}

#[test]
fn the_address_of_a_peer_is_the_one_of_its_socket() {
    let Some(network) = Network::new("named", 1500) else { return };
    let pair = network.pair(frames(CLIENT), frames(SERVER));
    let client: Vec<SocketAddr> = pair.client.context.local_addrs();
    assert!(client.contains(&pair.server.peer.address()), "{:?}", pair.server.peer.address());
}
