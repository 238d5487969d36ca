//! Operations that this side or the other refuses, and memory that must not change.

mod common;

use common::{Pair, Side, TIMEOUT, builder, content, event_of_peer, exercise, side};
use fairway::{
    Completion, Context, DatapathKind, Error, Event, JettyOptions, Limits, Memory, Post, Refusal,
    Rights, SegmentKey, SocketLimit, Status,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Posts a WRITE of a few packets and one of a few bytes, and returns the status of each.
fn write_to(client: &Side, key: SegmentKey, offset: u64) -> [Status; 2] {
    let local = client.filled(20_000, 1);
    [20_000, 10].map(|length| {
        client.jetty.write(&client.peer, local.slice(0..length), key.at(offset), 5).unwrap();
        let Completion { id, status, .. } = client.wait();
        assert_eq!(id, 5);
        status
    })
}

fn read_from(client: &Side, key: SegmentKey, offset: u64) -> [Status; 2] {
    let local = client.open_segment(20_000);
    [20_000, 10].map(|length| {
        client.jetty.read(&client.peer, local.slice(0..length), key.at(offset), 5).unwrap();
        let status = client.wait().status;
        assert_eq!(content(&local), [0; 20_000], "nothing was written");
        status
    })
}

#[test]
fn a_key_must_be_right() {
    let pair = Pair::new();
    let remote = pair.server.open_segment(20_000);
    let key = remote.key();
    let wrong = [
        SegmentKey { token_value: key.token_value ^ 1, ..key },
        SegmentKey { token_id: key.token_id + 1, ..key },
        SegmentKey { token_id: 0xf_ffff, ..key },
        SegmentKey { address: u64::MAX - 3, ..key },
    ];
    for key in wrong {
        assert_eq!(write_to(&pair.client, key, 0), [Status::RemoteAccess; 2], "{key}");
        assert_eq!(read_from(&pair.client, key, 0), [Status::RemoteAccess; 2], "{key}");
    }
    assert_eq!(content(&remote), [0; 20_000]);
    assert_eq!(write_to(&pair.client, key, 0), [Status::Success; 2]);
}

#[test]
fn a_range_must_lie_within_the_segment() {
    let pair = Pair::new();
    let remote = pair.server.open_segment(20_000);
    for offset in [19_991, 20_000, 1 << 40, u64::MAX] {
        let refused = [Status::RemoteAccess; 2];
        assert_eq!(write_to(&pair.client, remote.key(), offset), refused, "{offset}");
        assert_eq!(read_from(&pair.client, remote.key(), offset), refused, "{offset}");
    }
    assert_eq!(content(&remote), [0; 20_000]);
}

#[test]
fn addresses_may_start_anywhere() {
    let pair = Pair::new();
    let memory = Memory::zeroed(20_000).unwrap();
    let base = 0x7fff_0000_0000;
    let remote = pair.server.context.register_at(memory, Rights::READ_WRITE, base).unwrap();
    assert_eq!(write_to(&pair.client, remote.key(), 0), [Status::Success; 2]);
    assert_eq!(write_to(&pair.client, remote.key(), 1), [Status::RemoteAccess, Status::Success]);
    let from_zero = SegmentKey { address: 0, ..remote.key() };
    assert_eq!(write_to(&pair.client, from_zero, 0), [Status::RemoteAccess; 2]);
}

#[test]
fn rights_are_kept() {
    let pair = Pair::new();
    let closed = pair.server.segment(20_000, Rights::NONE);
    let readable = pair.server.segment(20_000, Rights::READ);
    let writable = pair.server.segment(20_000, Rights::WRITE);
    let (client, refused) = (&pair.client, [Status::RemoteRights; 2]);
    assert_eq!(write_to(client, closed.key(), 0), refused);
    assert_eq!(read_from(client, closed.key(), 0), refused);
    assert_eq!(write_to(client, readable.key(), 0), refused);
    assert_eq!(read_from(client, readable.key(), 0), [Status::Success; 2]);
    assert_eq!(read_from(client, writable.key(), 0), refused);
    assert_eq!(write_to(client, writable.key(), 0), [Status::Success; 2]);
    assert_eq!(content(&closed), [0; 20_000]);
    assert_eq!(content(&readable), [0; 20_000]);
}

#[test]
fn sends_need_a_jetty_and_room() {
    let pair = Pair::new();
    let local = pair.client.filled(20_000, 1);
    let number = pair.server.jetty.number();
    pair.client.jetty.send(&pair.client.peer, number ^ 1, &local, 1).unwrap();
    assert_eq!(pair.client.wait().status, Status::RemoteNoJetty);
    let inbox = pair.server.open_segment(20_000);
    pair.server.jetty.post_receive(inbox.slice(0..100), 1).unwrap();
    pair.client.jetty.send(&pair.client.peer, number, &local, 2).unwrap();
    assert_eq!(pair.client.wait().status, Status::RemoteLength);
    assert_eq!(content(&inbox), [0; 20_000]);
}

#[test]
fn local_mistakes_fail_at_once() {
    let (pair, other) = (Pair::new(), Pair::new());
    let client = &pair.client;
    let local = client.open_segment(100);
    let foreign = other.client.open_segment(100);
    let key = local.key();
    let outside = client.jetty.write(&client.peer, local.slice(50..101), key, 1);
    assert!(matches!(outside, Err(Error::OutOfBounds { offset: 50, length: 51, segment: 100 })));
    let mixed = client.jetty.write(&client.peer, &foreign, key, 1);
    assert!(matches!(mixed, Err(Error::Foreign { what: "segment" })));
    let mixed = client.jetty.write(&other.client.peer, &local, key, 1);
    assert!(matches!(mixed, Err(Error::Foreign { what: "peer" })));
    let number = client.jetty.send(&client.peer, 1 << 20, &local, 1);
    assert!(matches!(number, Err(Error::Number { value: 0x10_0000, .. })));
    let mut out = [0; 10];
    assert!(matches!(local.read_at(95, &mut out), Err(Error::OutOfBounds { .. })));
    assert!(matches!(local.write_at(u64::MAX, &out), Err(Error::OutOfBounds { .. })));
    assert!(local.hash(0..101).is_err() && local.compare(91, &out).is_err());
    assert!(local.fill_with(90..101, |_, _| panic!("outside")).is_err());
    assert!(client.jetty.wait(Duration::ZERO).is_err(), "nothing was posted");
}

#[test]
fn read_only_memory_is_only_read() {
    let path = std::env::temp_dir().join(format!("fairway-refusals-{}", std::process::id()));
    std::fs::write(&path, [9; 5000]).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let map = || Memory::map_file(&file, false).unwrap();
    let pair = Pair::new();
    let (client, server) = (&pair.client, &pair.server);
    let forbidden = server.context.register(map(), Rights::READ_WRITE);
    assert!(matches!(forbidden, Err(Error::ReadOnly)));
    let exposed = server.context.register(map(), Rights::READ).unwrap();
    assert!(matches!(exposed.write_at(0, &[1]), Err(Error::ReadOnly)));
    assert!(matches!(server.jetty.post_receive(&exposed, 1), Err(Error::ReadOnly)));
    let into = server.jetty.read(&server.peer, &exposed, exposed.key(), 1);
    assert!(matches!(into, Err(Error::ReadOnly)));
    let local = client.open_segment(5000);
    client.jetty.read(&client.peer, &local, exposed.key(), 1).unwrap();
    let _ = client.succeed();
    assert_eq!(content(&local), [9; 5000]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn full_queues_fail_the_post_and_lose_nothing() {
    let pair = Pair::of(builder().engines(1), builder());
    let (client, remote) = (&pair.client, pair.server.open_segment(100));
    let local = client.filled(100, 1);
    let options = JettyOptions::default().depth(4);
    let jetty = client.context.create_jetty(options).unwrap();
    let posted = jetty
        .batch(|batch| {
            (0..9).try_for_each(|id| batch.write(&client.peer, &local, remote.key(), id))
        })
        .unwrap();
    assert_eq!(posted, 4);
    let full = jetty.write(&client.peer, &local, remote.key(), 9);
    assert!(matches!(full, Err(Error::QueueFull)));
    for id in 0..4 {
        assert_eq!(jetty.wait(TIMEOUT).unwrap().id, id);
    }
    jetty.write(&client.peer, &local, remote.key(), 9).unwrap();
    assert_eq!(jetty.wait(TIMEOUT).unwrap().id, 9);
}

#[test]
fn limits_are_named() {
    let limits = Limits::new().channels(1).segments(2).jetties(2);
    let server = builder().engines(1).limits(limits).build().unwrap();
    let clients: Vec<Context> = (0..2).map(|_| builder().build().unwrap()).collect();
    let address = server.local_addrs()[0];
    clients[0].connect(address, TIMEOUT).unwrap();
    let refused = clients[1].connect(address, TIMEOUT);
    assert!(matches!(refused, Err(Error::Refused { reason: Refusal::NoResources, .. })));
    let outgoing = server.connect(clients[1].local_addrs()[0], TIMEOUT);
    assert!(matches!(outgoing, Err(Error::Limit { name: "channels" })));
    let make = || server.register(Memory::zeroed(1).unwrap(), Rights::NONE);
    let kept = [make().unwrap(), make().unwrap()];
    assert!(matches!(make(), Err(Error::Limit { name: "segments" })));
    drop(kept);
    make().unwrap();
    let numbered = || server.create_jetty(JettyOptions::default().number(1).depth(8));
    let first = numbered().unwrap();
    assert_eq!(first.number(), 1);
    assert!(matches!(numbered(), Err(Error::Number { value: 1, .. })));
    drop(first);
    numbered().unwrap();
}

#[test]
fn a_builder_checks_its_settings() {
    let bad = [
        builder().sockets(0),
        builder().sockets(17),
        builder().paths(0),
        builder().paths(257),
        builder().mtu(10),
        builder().mtu(1 << 20),
        builder().policy_named("cc=magic"),
        builder().bind([192, 0, 2, 1].into()),
    ];
    for builder in bad {
        let error = builder.build().unwrap_err();
        assert!(error.to_string().len() > 20, "{error}");
    }
}

/// Where the sockets that many paths need cannot be opened, the context has fewer of them and says
/// why; a number that the builder sets is opened, or building fails.
#[test]
fn sockets_that_cannot_be_opened_are_missed_only_if_they_were_demanded() {
    let engines = common::engines();
    let last = builder().paths(256).port(65_530).build();
    // Several engines need more port numbers than are left.
    if engines == 1 {
        let last = last.unwrap();
        let shortage = last.socket_shortage().expect("six numbers are left");
        assert_eq!((shortage.needed, shortage.opened), (16, 6));
        assert_eq!(shortage.limit, SocketLimit::PortNumbers { first: 65_530 });
        assert_eq!(last.local_addrs().len(), 6);
    }
    // Another program uses the eleventh of the numbers.
    let (first, _taken) = (30_000..32_000)
        .step_by(32)
        .find_map(|first: u16| {
            let taken = std::net::UdpSocket::bind(("127.0.0.1", first + 10)).ok()?;
            let free = (0..10).all(|n| std::net::UdpSocket::bind(("127.0.0.1", first + n)).is_ok());
            free.then_some((first, taken))
        })
        .expect("free numbers");
    let make = || builder().engines(1).paths(256).port(first);
    let context = make().build().unwrap();
    let shortage = context.socket_shortage().expect("a number is taken");
    assert_eq!((shortage.opened, context.local_addrs().len()), (10, 10));
    let kind = std::io::ErrorKind::AddrInUse;
    assert_eq!(shortage.limit, SocketLimit::Refused { port: first + 10, kind });
    drop(context);
    let error = make().sockets(16).build().unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
}

#[test]
fn name_of_a_host_connects_to_its_first_address_that_answers() {
    let server = Context::builder().bind([127, 0, 0, 1].into()).build().unwrap();
    let number = server.local_addrs()[0].port();
    let both = Context::builder().bind(std::net::Ipv6Addr::UNSPECIFIED.into()).build();
    for client in [builder().build(), both].into_iter().flatten() {
        for peer in [
            client.connect(("localhost", number), TIMEOUT),
            client.connect(format!("localhost:{number}"), TIMEOUT),
        ] {
            assert_eq!(peer.unwrap().address(), server.local_addrs()[0]);
        }
        let error = client.connect("no-such-host.invalid:80", TIMEOUT).unwrap_err();
        assert!(matches!(error, Error::UnknownHost { .. }), "{error}");
    }
}

#[test]
fn connecting_to_an_unused_port_times_out() {
    let client = builder().build().unwrap();
    // A bound socket that never answers.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let error = client.connect(address, Duration::from_millis(100)).unwrap_err();
    assert!(matches!(error, Error::Unanswered { .. }), "{error}");
    for word in [address.to_string(), "100ms".into(), "firewalls".into()] {
        assert!(error.to_string().contains(&word), "no '{word}' in: {error}");
    }
    let v6: SocketAddr = "[::1]:9".parse().unwrap();
    let error = client.connect(v6, TIMEOUT).unwrap_err();
    assert!(matches!(error, Error::Parameter { name: "address", .. }), "{error}");
    // No state remains of the failed attempts.
    assert!(client.peers().is_empty());
}

/// A context that is bound to all addresses tells of an address that names no host.
#[test]
fn an_address_that_names_no_host_is_this_hosts() {
    let any = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    let pairs = any.into_iter().flat_map(|server| any.map(|client| (server, client)));
    for (server, client) in pairs.filter(|(server, client)| server.is_ipv4() || client.is_ipv6()) {
        let at = |address| builder().bind(address).datapath(DatapathKind::Udp).build();
        let (Ok(server), Ok(client)) = (at(server), at(client)) else {
            assert!(server.is_ipv6() || client.is_ipv6(), "{server} and {client}");
            eprintln!("SKIPPED: no IPv6 here");
            continue;
        };
        let address = server.local_addrs()[0];
        assert!(address.ip().is_unspecified(), "{address}");
        let peer = client.connect(address, TIMEOUT).unwrap();
        assert!(peer.address().ip().is_loopback(), "{}", peer.address());
        let Event::Connected(back) = event_of_peer(&server) else { panic!("another event") };
        exercise(&Pair { client: side(client, peer), server: side(server, back) });
    }
}

#[test]
fn a_port_without_a_program_is_an_error_at_once_and_a_late_program_is_found() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let client = builder().build().unwrap();
    // The attempt ends because of the network's report, long before its time is up.
    let error = client.connect(address, Duration::from_secs(3600)).unwrap_err();
    assert!(matches!(error, Error::NoListener { peer } if peer == address), "{error}");
    for word in [address.port().to_string(), "127.0.0.1".into(), "start the program".into()] {
        assert!(error.to_string().contains(&word), "no '{word}' in: {error}");
    }
    std::thread::scope(|scope| {
        let late = scope.spawn(|| client.connect_when_up(address, TIMEOUT));
        // The server starts only when the network has refused requests.
        while client.counters().port.packets_sent < 4 {
            std::thread::yield_now();
        }
        let server = builder().port(address.port()).sockets(1).build().unwrap();
        let peer = late.join().unwrap().unwrap();
        assert_eq!(peer.address(), server.local_addrs()[0]);
    });
}

#[test]
fn a_context_takes_peers_of_both_families() {
    let server = Context::builder().build().unwrap();
    let number = server.local_addrs()[0].port();
    let segment = server.register(Memory::zeroed(1 << 20).unwrap(), Rights::READ_WRITE).unwrap();
    let mut tried = 0;
    for ip in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
        let ip: std::net::IpAddr = ip.parse().unwrap();
        let own = Context::builder().bind(ip.to_canonical()).build();
        let both = Context::builder().bind(std::net::Ipv6Addr::UNSPECIFIED.into()).build();
        // A host without IPv6 has neither context.
        for client in own.into_iter().chain(both) {
            let peer = client.connect((ip, number), TIMEOUT).unwrap();
            assert_eq!(peer.address(), SocketAddr::new(ip.to_canonical(), number));
            let memory = client.register(Memory::from_vec(vec![tried; 1 << 20]), Rights::NONE);
            let jetty = client.create_jetty(Default::default()).unwrap();
            jetty.write(&peer, &memory.unwrap(), segment.key(), 1).unwrap();
            assert_eq!(jetty.wait(TIMEOUT).unwrap().status, Status::Success);
            assert!(segment.compare(0, &vec![tried; 1 << 20]).unwrap());
            tried += 1;
        }
    }
    assert!(tried >= 2);
}

#[test]
fn jetties_can_be_made_up_to_the_limit() {
    let context = builder().build().unwrap();
    let all = |depth: u32| {
        let mut jetties = Vec::new();
        let mut number = Some(0);
        loop {
            match context.create_jetty(JettyOptions::default().depth(depth).number(number)) {
                Ok(jetty) => jetties.push(jetty),
                Err(error) if number.is_none() => return (jetties.len(), error.to_string()),
                // A well-known number is given only to a caller that names it.
                Err(_) => {}
            }
            number = number.map(|number| number + 1).filter(|number| *number < 32);
        }
    };
    let limits = Limits::default();
    let (count, error) = all(limits.completions / limits.jetties);
    assert_eq!(count, limits.jetties as usize);
    assert!(error.contains("Limits::"), "{error}");
    let (count, error) = all(JettyOptions::default().depth);
    assert_eq!(count, 64);
    for word in ["JettyOptions::depth", "Limits::completions"] {
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn hashes_see_every_byte() {
    let pair = Pair::new();
    let segment = pair.client.filled(9000, 3);
    let whole = segment.hash(0..9000).unwrap();
    assert_eq!(segment.hash(0..9000).unwrap(), whole);
    assert_ne!(segment.hash(0..8999).unwrap(), whole);
    assert_ne!(segment.hash(1..9000).unwrap(), whole);
    let mut byte = [0];
    for offset in (0..9000).step_by(97).chain([8999]) {
        segment.read_at(offset, &mut byte).unwrap();
        segment.write_at(offset, &[byte[0] ^ 1]).unwrap();
        assert_ne!(segment.hash(0..9000).unwrap(), whole, "byte {offset}");
        segment.write_at(offset, &byte).unwrap();
    }
    assert_eq!(segment.hash(0..9000).unwrap(), whole);
    // Copies the same bytes to another alignment.
    let other = pair.client.open_segment(9003);
    other.write_at(3, &content(&segment)).unwrap();
    assert_eq!(other.hash(3..9003).unwrap(), whole);
}

#[test]
fn range_that_ends_before_it_begins_is_refused() {
    let pair = Pair::new();
    let client = &pair.client;
    let (local, remote) = (client.open_segment(64), pair.server.open_segment(64));
    let (begin, end) = (8, 4);
    let refused = |result: Result<(), Error>| {
        let text = result.expect_err("a reversed range").to_string();
        assert!(text.contains("range of a segment can't be 8..4"), "{text}");
    };
    refused(client.jetty.write(&client.peer, local.slice(begin..end), remote.key(), 1));
    refused(client.jetty.read(&client.peer, local.slice(begin..end), remote.key(), 2));
    refused(client.jetty.post_receive(local.slice(begin..end), 3));
    refused(local.fill_with(begin..end, |_, _| {}));
    refused(local.hash(begin..end).map(drop));
}
