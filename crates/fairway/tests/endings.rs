//! Peers and segments that end.

mod common;

use std::io::BufRead;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Pair, TIMEOUT, builder, bytes, content, dead_after, event_of_peer, side};
use fairway::{
    Builder, Context, Error, Event, JettyOptions, Memory, PostedTo, Rights, SegmentKey, Status,
};

fn mortal() -> Builder {
    builder().profile(dead_after(800))
}

#[test]
fn connections_can_be_made_and_closed_one_after_the_other_without_a_pause() {
    let pair = common::Pair::new();
    let server = pair.server.context.local_addrs()[0];
    for number in 0..300 {
        let peer = pair.client.context.connect(server, TIMEOUT);
        let peer = peer.unwrap_or_else(|error| panic!("connection {number}: {error}"));
        peer.close().unwrap();
    }
}

#[test]
fn a_closed_connection_is_gone_on_both_sides() {
    let pair = Pair::new();
    let (client, server) = (&pair.client, &pair.server);
    let local = client.open_segment(10);
    client.peer.close().unwrap();
    assert!(!client.peer.is_alive());
    assert!(matches!(client.peer.close(), Err(Error::PeerGone { .. })));
    let posted = client.jetty.write(&client.peer, &local, local.key(), 1);
    assert!(matches!(posted, Err(Error::PeerGone { .. })));
    let event = event_of_peer(&server.context);
    assert!(matches!(&event, Event::PeerClosed(peer) if *peer == server.peer), "{event:?}");
    assert!(!server.peer.is_alive());
    // A new connection works, and differs from the old one.
    let peer = client.context.connect(server.context.local_addrs()[0], TIMEOUT).unwrap();
    assert!(peer.is_alive() && peer != client.peer);
    assert_eq!(peer.incarnation(), client.peer.incarnation());
}

#[test]
fn closing_ends_what_is_in_flight() {
    let pair = Pair::new();
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(1 << 20, 1);
    // No receive is posted, so the send can't finish.
    for id in 0..5 {
        client.jetty.send(&client.peer, server.jetty.number(), &local, id).unwrap();
    }
    client.peer.close().unwrap();
    for _ in 0..5 {
        assert_eq!(client.wait().status, Status::Flushed);
    }
    assert!(matches!(client.jetty.wait(Duration::ZERO), Err(Error::Timeout { .. })));
}

#[test]
fn the_other_sides_operations_end_too() {
    let pair = Pair::new();
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(1 << 20, 1);
    client.jetty.send(&client.peer, server.jetty.number(), &local, 1).unwrap();
    server.peer.close().unwrap();
    assert_eq!(client.wait().status, Status::PeerClosed);
}

#[test]
fn shutdown_notifies_every_peer() {
    let server = builder().build().unwrap();
    let clients: Vec<Context> = (0..3).map(|_| builder().build().unwrap()).collect();
    for client in &clients {
        client.connect(server.local_addrs()[0], TIMEOUT).unwrap();
    }
    server.shutdown(TIMEOUT).unwrap();
    for client in &clients {
        assert!(matches!(event_of_peer(client), Event::PeerClosed(_)));
    }
    assert!(matches!(server.connect(clients[0].local_addrs()[0], TIMEOUT), Err(Error::ShutDown)));
    let memory = Memory::zeroed(1).unwrap();
    assert!(matches!(server.register(memory, Rights::NONE), Err(Error::ShutDown)));
    assert!(matches!(server.create_jetty(JettyOptions::default()), Err(Error::ShutDown)));
}

#[test]
fn dropping_a_context_notifies_every_peer() {
    let Pair { client, server } = Pair::new();
    drop(server);
    assert!(matches!(event_of_peer(&client.context), Event::PeerClosed(_)));
}

#[test]
fn a_silent_peer_is_dead_and_everything_ends() {
    let pair = Pair::of(mortal(), mortal());
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(4 << 20, 1);
    let remote = server.open_segment(4 << 20);
    server.context.simulate_crash();
    for id in 0..3 {
        client.jetty.write(&client.peer, &local, remote.key(), id).unwrap();
        client.jetty.read(&client.peer, &local, remote.key(), id + 3).unwrap();
    }
    let mut ids: Vec<u64> = (0..6)
        .map(|_| {
            let completion = client.wait();
            assert_eq!(completion.status, Status::PeerDead);
            completion.id.value()
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5]);
    assert!(matches!(event_of_peer(&client.context), Event::PeerDead(_)));
    assert!(!client.peer.is_alive());
    // The operations' memory can be returned.
    let bytes = local.into_memory().unwrap().into_vec();
    assert_eq!(bytes.len(), 4 << 20);
}

#[test]
fn an_idle_peer_that_dies_is_noticed() {
    let pair = Pair::of(mortal(), mortal());
    pair.server.context.simulate_crash();
    assert!(matches!(event_of_peer(&pair.client.context), Event::PeerDead(_)));
}

#[test]
fn an_idle_peer_that_lives_is_left_alone() {
    // The time-out is generous, because a busy machine may not schedule a thread for half a second.
    let mortal = || builder().profile(dead_after(1500));
    let pair = Pair::of(mortal(), mortal());
    let wait = Duration::from_millis(3500);
    let event = pair.client.context.wait_event(wait);
    assert!(matches!(event, Err(Error::Timeout { .. })));
    assert!(pair.client.peer.is_alive() && pair.server.peer.is_alive());
}

/// The child's part of the next test: serves until it is killed.
#[test]
#[ignore = "run by a_killed_process_is_noticed"]
fn child_that_serves() {
    let context = mortal().build().unwrap();
    let memory = Memory::from_vec(bytes(1 << 20, 7));
    let segment = context.register(memory, Rights::READ_WRITE).unwrap();
    println!("\nserving {} {}", context.local_addrs()[0], segment.key());
    let _ = context.wait_event(TIMEOUT);
    let _ = context.wait_event(TIMEOUT);
}

#[test]
fn a_killed_process_is_noticed() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_serves", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.map(Result::unwrap).find(|line| line.starts_with("serving ")).unwrap();
    let mut words = line.split(' ').skip(1);
    let address: std::net::SocketAddr = words.next().unwrap().parse().unwrap();
    let key: SegmentKey = words.next().unwrap().parse().unwrap();
    let context = mortal().build().unwrap();
    let peer = context.connect(address, TIMEOUT).unwrap();
    let client = side(context, peer);
    let local = client.open_segment(1 << 20);
    client.jetty.read(&client.peer, &local, key, 1).unwrap();
    let _ = client.succeed();
    assert_eq!(content(&local), bytes(1 << 20, 7), "a passive process was read");
    child.kill().unwrap();
    child.wait().unwrap();
    client.jetty.write(&client.peer, &local, key, 2).unwrap();
    assert_eq!(client.wait().status, Status::PeerDead);
    assert!(matches!(event_of_peer(&client.context), Event::PeerDead(_)));
}

#[test]
fn a_restarted_peer_is_a_new_peer() {
    let Pair { client, server } = Pair::of(mortal(), mortal());
    let address = server.context.local_addrs()[0];
    let port = address.port();
    let remote = server.open_segment(100);
    let key = remote.key();
    server.context.simulate_crash();
    drop((remote, server));
    // The restarted peer has the same address and another incarnation.
    let restarted = loop {
        // Port numbers after the first may be taken by other tests for a moment.
        match mortal().port(port).sockets(1).build() {
            Ok(context) => break context,
            Err(error) => assert!(matches!(error, Error::Io { .. }), "{error}"),
        }
    };
    let again = client.context.connect(address, TIMEOUT).unwrap();
    assert_ne!(again.incarnation(), client.peer.incarnation());
    assert!(client.peer.is_alive(), "no packet has reported its end yet");
    let local = client.filled(100, 1);
    client.jetty.write(&client.peer, &local, key, 1).unwrap();
    assert_eq!(client.wait().status, Status::PeerDead, "the old one died by itself");
    client.jetty.write(&again, &local, key, 2).unwrap();
    assert_eq!(client.wait().status, Status::RemoteAccess, "old keys are worth nothing");
    assert!(again.is_alive() && restarted.peers().len() == 1);
}

#[test]
fn a_segment_dropped_during_operations_lives_until_they_end() {
    for round in 0..20 {
        let pair = Pair::new();
        let (client, server) = (&pair.client, &pair.server);
        let source = server.filled(2 << 20, round);
        let hash = source.hash(0..2 << 20).unwrap();
        let local = client.open_segment(2 << 20);
        client.jetty.read(&client.peer, &local, source.key(), 1).unwrap();
        let (mine, theirs) = (local.clone(), round % 2 == 1);
        drop(local);
        if theirs {
            // The target's memory is dropped: the read ends, with or without success, and no
            // process crashes.
            drop(source);
            let status = client.wait().status;
            assert!(matches!(status, Status::Success | Status::RemoteAccess), "{status:?}");
        } else {
            // The local memory is requested back, which waits for the read.
            let memory = mine.into_memory().unwrap();
            let _ = client.succeed();
            let again = client.context.register(memory, Rights::NONE).unwrap();
            assert_eq!(again.hash(0..2 << 20).unwrap(), hash);
        }
    }
}

#[test]
fn memory_comes_back_only_from_the_last_handle() {
    let pair = Pair::new();
    let segment = pair.client.filled(100, 1);
    let other = segment.clone();
    assert!(matches!(segment.into_memory(), Err(Error::Shared)));
    assert_eq!(other.into_memory().unwrap().into_vec(), bytes(100, 1));

    // That there are other handles is reported first: the segment stays, because they use it.
    let segment = pair.client.filled(100, 1);
    let other = segment.clone();
    pair.client.jetty.post_receive(segment.slice(0..8), 1).unwrap();
    assert!(matches!(segment.into_memory(), Err(Error::Shared)));
    let to = PostedTo::Jetty { number: pair.client.jetty.number() };
    assert!(matches!(other.into_memory(), Err(Error::Posted { to: by }) if by == to));
}

#[test]
fn a_dropped_jetty_frees_its_number_when_its_operations_end() {
    let pair = Pair::of(mortal(), mortal());
    let (client, server) = (&pair.client, &pair.server);
    let options = JettyOptions::default().number(7).depth(64);
    let jetty = client.context.create_jetty(options).unwrap();
    let local = client.filled(1 << 20, 1);
    jetty.post_receive(&local, 1).unwrap();
    jetty.send(&client.peer, server.jetty.number(), &local, 1).unwrap();
    drop(jetty);
    let taken = client.context.create_jetty(options);
    assert!(matches!(taken, Err(Error::Number { value: 7, .. })));
    client.peer.close().unwrap();
    client.context.create_jetty(options).unwrap();
    assert_eq!(local.into_memory().unwrap().into_vec(), bytes(1 << 20, 1));
}

#[test]
fn a_dropped_jetty_goes_though_its_last_operation_ends_by_a_timer() {
    let pair = Pair::of(builder().profile(dead_after(300)), builder());
    let Pair { client, server } = pair;
    let key = server.open_segment(4096).key();
    let segment = client.segment(4096, Rights::NONE);
    let data = client.segment(4096, Rights::NONE);
    // The receive keeps the segment, and the Jetty the receive, until the write has ended.
    client.jetty.post_receive(&segment, 1).unwrap();
    server.context.simulate_crash();
    client.jetty.write(&client.peer, &data, key, 2).unwrap();
    drop(client.jetty);
    let (report, reports) = std::sync::mpsc::channel();
    std::thread::spawn(move || report.send(segment.into_memory().is_ok()));
    assert_eq!(reports.recv_timeout(TIMEOUT), Ok(true));
}
