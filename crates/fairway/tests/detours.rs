//! Set-up when some of the ways between two hosts are dead.

mod common;
#[path = "common/relay.rs"]
mod relay;

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use common::{MTU, Pair, TIMEOUT, builder, content, dead_after, event_of_peer, side};
use fairway::{Builder, Event, LongPackets};
use relay::relay;

/// A side on which the paths with these numbers lose all packets.
fn dead(paths: &[u32], engines: usize) -> Builder {
    let part = |path: &u32| format!("{path}:blackhole@0s..1000s");
    let spec = paths.iter().map(part).collect::<Vec<_>>().join(";");
    builder().engines(engines).emulate(spec.parse().unwrap(), 1)
}

/// Path numbers are those of pairs of ports: path 0 is that of the first request, and paths 1 to 3
/// lead from the other ports of the client to the same port of the server.
#[test]
fn set_up_tries_another_port_if_the_first_path_is_dead() {
    let cases: [(&[u32], &[u32]); 4] = [(&[0], &[]), (&[], &[0]), (&[0, 2], &[1]), (&[0], &[1, 2])];
    // With two engines a second channel joins the first.
    for (engines, (forward, backward)) in
        [1, 2].into_iter().flat_map(|n| cases.map(|case| (n, case)))
    {
        let pair = Pair::of(dead(forward, engines), dead(backward, engines));
        let local = pair.client.filled(1 << 20, 1);
        let remote = pair.server.open_segment(1 << 20);
        pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 1).unwrap();
        let _ = pair.client.succeed();
        assert_eq!(content(&remote), content(&local), "{forward:?} {backward:?}");
        let first = pair.client.context.local_addrs()[0];
        assert_eq!(pair.server.peer.address(), first, "the peer is known by its first port");
        assert_eq!(pair.client.peer.stats().channels, engines);
    }
}

/// The connection agrees on a packet length that gets through. Its client then finds out whether
/// packets of that length also pass between other ports.
#[test]
fn client_detects_whether_packets_of_full_size_arrive() {
    let cases = [
        ("", MTU, LongPackets::Arrive),
        // 1,304 bytes of payload and 92 of headers.
        ("longest=1400", 1304, LongPackets::Arrive),
        ("all but the first", MTU, LongPackets::AreLost),
    ];
    for (spec, mtu, expected) in cases {
        let server = builder().build().unwrap();
        let ports = server.local_addrs().to_vec();
        // The relay numbers a packet's path by route and by client, in order of appearance.
        let later = (1..64).map(|client| format!("{}:longest=1400", client * ports.len()));
        let spec = match spec {
            "all but the first" => later.collect::<Vec<_>>().join(";"),
            spec => spec.into(),
        };
        let _running = relay(&ports, &spec);
        let front = SocketAddr::from(([127, 0, 0, 2], ports[0].port()));
        let client = builder().build().unwrap();
        let peer = client.connect(front, TIMEOUT).unwrap();
        assert_eq!((peer.mtu(), peer.long_packets()), (mtu, LongPackets::Unknown));
        let begun = Instant::now();
        while peer.long_packets() == LongPackets::Unknown {
            assert!(begun.elapsed() < TIMEOUT && peer.is_alive());
            // No event occurs, but the client's timers run.
            let _ = client.wait_event(Duration::from_millis(20));
        }
        assert_eq!(peer.long_packets(), expected, "{spec}");
        assert_eq!(server.peers().len(), 1, "such HELLOs open nothing");
    }
}

/// A network that drops all packets from and to the first seven ports of a client. The client has
/// fewer, so that only ports that were opened for the request work.
#[test]
fn set_up_tries_ports_of_its_own_if_all_paths_of_the_first_ports_are_dead() {
    let server = builder().build().unwrap();
    let ports = server.local_addrs().to_vec();
    // The relay numbers a packet's path by route and by client, in order of appearance.
    let paths = (0..7).map(|client| client * ports.len());
    let dead: Vec<String> = paths.map(|path| format!("{path}:blackhole@0s..1000s")).collect();
    let _running = relay(&ports, &dead.join(";"));
    let front = SocketAddr::from(([127, 0, 0, 2], ports[0].port()));
    let client = builder().build().unwrap();
    let peer = client.connect(front, TIMEOUT).unwrap();
    let Event::Connected(back) = server.wait_event(TIMEOUT).unwrap() else {
        panic!("something happened before the connection");
    };
    assert_eq!(server.peers().len(), 1, "one connection, however many requests were sent");
    let (client, server) = (side(client, peer), side(server, back));
    let local = client.filled(1 << 20, 1);
    let remote = server.open_segment(1 << 20);
    client.jetty.write(&client.peer, &local, remote.key(), 1).unwrap();
    let _ = client.succeed();
    assert_eq!(content(&remote), content(&local));
}

/// A NAT that changes ports: set-up succeeds, because its answers return to the ports that its
/// requests came from, but packets from those are not accepted.
#[test]
fn connection_over_a_nat_that_changes_ports_ends_without_having_received_any_packet() {
    // The other channels of a group would be refused when the first one has ended.
    let mortal = || builder().engines(1).profile(dead_after(800)).build().unwrap();
    let (client, server) = (mortal(), mortal());
    let ports = server.local_addrs();
    let front = |port| SocketAddr::from(([127, 0, 0, 2], port));
    // The relay uses the client's port numbers at its own address, where they are free.
    let taken = client.local_addrs();
    let _taken: Vec<_> =
        taken.iter().map(|own| UdpSocket::bind(front(own.port())).unwrap()).collect();
    let _running = relay(&ports, "");
    let peer = client.connect(front(ports[0].port()), TIMEOUT).unwrap();
    let Event::Connected(back) = event_of_peer(&server) else { panic!("no connection") };
    for (context, peer) in [(&client, &peer), (&server, &back)] {
        let event = event_of_peer(context);
        assert!(matches!(&event, Event::PeerDead(dead) if dead == peer), "{event:?}");
        assert!(!peer.was_received());
    }
}
