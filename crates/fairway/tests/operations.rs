//! Every operation between two contexts over loopback, with the bytes compared.

mod common;

use common::{Pair, builder, builder_v6, bytes, content, engines};
use fairway::{CompletionKind, DatapathKind, NotifyTarget, Post};
use std::collections::BTreeSet;

const MTU: usize = common::MTU as usize;

#[test]
fn writes_of_every_size_arrive() {
    let pair = Pair::new();
    let sizes = [0, 1, 7, 63, 64, 65, MTU - 1, MTU, MTU + 1, 3 * MTU, 100_001, 3 << 20];
    for (id, size) in sizes.into_iter().enumerate() {
        let local = pair.client.filled(size, id as u64);
        let remote = pair.server.open_segment(size + 32);
        pair.client.jetty.write(&pair.client.peer, &local, remote.key().at(16), 9).unwrap();
        let completion = pair.client.succeed();
        assert_eq!((completion.id.value(), completion.kind), (9, CompletionKind::Write));
        assert_eq!(completion.bytes as usize, size);
        let all = content(&remote);
        assert_eq!(all[16..16 + size], content(&local), "{size} bytes");
        assert!(all[..16].iter().chain(&all[16 + size..]).all(|byte| *byte == 0));
    }
}

#[test]
fn reads_of_every_size_come_back() {
    let pair = Pair::new();
    for size in [0, 1, 63, MTU, MTU + 1, 100_001, 3 << 20] {
        let remote = pair.server.filled(size + 8, size as u64);
        let local = pair.client.open_segment(size);
        pair.client.jetty.read(&pair.client.peer, &local, remote.key().at(8), 1).unwrap();
        assert_eq!(pair.client.succeed().kind, CompletionKind::Read);
        assert_eq!(content(&local), content(&remote)[8..], "{size} bytes");
    }
}

#[test]
fn sends_find_their_receives_in_order() {
    let pair = Pair::new();
    let inbox = pair.server.open_segment(1 << 20);
    let outbox = pair.client.filled(1 << 20, 5);
    let spans = [(0, 0), (0, 100), (100, 5000), (5100, 300_000)];
    for (id, (start, length)) in spans.into_iter().enumerate() {
        let room = inbox.slice(start..start + length);
        pair.server.jetty.post_receive(room, id as u64).unwrap();
    }
    let target = pair.server.jetty.number();
    for (id, (start, length)) in spans.into_iter().enumerate() {
        let local = outbox.slice(start..start + length);
        if id % 2 == 0 {
            pair.client.jetty.send(&pair.client.peer, target, local, id as u64).unwrap();
        } else {
            let notify = NotifyTarget::new(target, !0 - id as u64);
            pair.client.jetty.send_immediate(&pair.client.peer, notify, local, id as u64).unwrap();
        }
        // One at a time, because messages of different sizes may overtake each other.
        let received = pair.server.succeed();
        assert_eq!((received.id.value(), received.kind), (id as u64, CompletionKind::Receive));
        assert_eq!(u64::from(received.bytes), length);
        assert_eq!(received.immediate, (id % 2 == 1).then_some(!0 - id as u64));
        assert_eq!(received.remote_jetty.value(), pair.client.jetty.number());
        assert_eq!(pair.client.succeed().kind, CompletionKind::Send);
        let from = pair.server.jetty.peer_of(&received).unwrap();
        assert_eq!(from, pair.server.peer);
    }
    assert_eq!(content(&inbox)[..305_100], content(&outbox)[..305_100]);
}

#[test]
fn write_with_immediate_data_completes_a_receive_of_the_peer() {
    let pair = Pair::new();
    let local = pair.client.filled(100_000, 8);
    let remote = pair.server.open_segment(100_000);
    let unused = pair.server.open_segment(16);
    pair.server.jetty.post_receive(&unused, 77).unwrap();
    let notify = NotifyTarget::new(pair.server.jetty.number(), 0xfeed);
    let client = &pair.client;
    client.jetty.write_immediate(&client.peer, &local, remote.key(), notify, 1).unwrap();
    let received = pair.server.succeed();
    assert_eq!((received.id.value(), received.kind), (77, CompletionKind::ReceiveWrite));
    assert_eq!((received.immediate, received.bytes), (Some(0xfeed), 100_000));
    // The bytes were there before the completion.
    assert_eq!(content(&remote), content(&local));
    assert_eq!(content(&unused), [0; 16]);
    assert_eq!(client.succeed().kind, CompletionKind::Write);
}

#[test]
fn a_send_waits_for_its_receive() {
    let pair = Pair::new();
    let local = pair.client.filled(10_000, 3);
    let inbox = pair.server.open_segment(10_000);
    let target = pair.server.jetty.number();
    pair.client.jetty.send(&pair.client.peer, target, &local, 1).unwrap();
    // The receive is posted only after the send was refused at least once.
    while pair.client.context.counters().engine.not_ready == 0
        && pair.server.context.counters().engine.not_ready == 0
    {
        pair.client.context.poll();
    }
    pair.server.jetty.post_receive(&inbox, 2).unwrap();
    assert_eq!(pair.server.succeed().id, 2);
    assert_eq!(pair.client.succeed().id, 1);
    assert_eq!(content(&inbox), content(&local));
}

#[test]
fn a_passive_target_is_served() {
    let pair = Pair::new();
    let local = pair.client.filled(2 << 20, 3);
    let back = pair.client.open_segment(2 << 20);
    let remote = pair.server.open_segment(2 << 20);
    let polls = pair.server.context.counters().nic;
    let client = &pair.client;
    for round in 0..20 {
        client.jetty.write(&client.peer, &local, remote.key(), round).unwrap();
        let _ = client.succeed();
        client.jetty.read(&client.peer, &back, remote.key(), round).unwrap();
        let _ = client.succeed();
        assert_eq!(content(&back), content(&local));
    }
    let now = pair.server.context.counters().nic;
    let served = match engines() {
        1 => now.background_polls > polls.background_polls,
        _ => now.polls > polls.polls,
    };
    assert!(served, "a thread served them");
}

#[test]
fn batches_unsignaled_operations_and_polling() {
    let pair = Pair::new();
    let local = pair.client.filled(64 * 1000, 4);
    let remote = pair.server.open_segment(64 * 1000);
    let client = &pair.client;
    let mut done = Vec::new();
    let mut next = 0;
    while next < 1000_u64 {
        let posted = client.jetty.batch(|batch| {
            for i in next..1000.min(next + 100) {
                let range = i * 64..(i + 1) * 64;
                batch.signaled(i % 10 == 9 || i == 999);
                batch.write(
                    &client.peer,
                    local.slice(range.clone()),
                    remote.key().at(range.start),
                    i,
                )?;
            }
            Ok(())
        });
        next += posted.unwrap() as u64;
        client.jetty.poll(&mut done);
    }
    while done.len() < 100 {
        done.push(client.wait());
    }
    let mut ids: Vec<u64> = done.iter().map(|completion| completion.id.value()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..100).map(|i| i * 10 + 9).collect::<Vec<_>>());
    // Unsignaled operations may still be under way.
    let flush = pair.client.open_segment(1);
    while content(&remote) != content(&local) {
        client.jetty.read(&client.peer, &flush, remote.key(), 0).unwrap();
        let _ = client.succeed();
    }
}

#[test]
fn one_path_many_paths_and_more_paths_than_sockets() {
    for (sockets, paths) in [(1, 1), (4, 16), (16, 256), (2, 200)] {
        // The default prefers paths that have delivered.
        let make = || builder().sockets(sockets).paths(paths).policy_named("path=spray");
        let pair = Pair::of(make(), make());
        assert_eq!(pair.client.peer.paths(), paths);
        let local = pair.client.filled(8 << 20, 11);
        let remote = pair.server.open_segment(8 << 20);
        pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 1).unwrap();
        let _ = pair.client.succeed();
        assert_eq!(remote.hash(0..8 << 20).unwrap(), local.hash(0..8 << 20).unwrap());
        let stats = pair.client.peer.stats();
        assert_eq!(stats.paths.len(), paths as usize * stats.channels);
        // One message uses one channel.
        let used = stats.paths.iter().filter(|path| path.sent > 0).count();
        assert!(used >= (paths as usize / 4).max(1), "{used} of {paths} paths used");
    }
}

/// Every path of a connection is a pair of UDP ports of its own, if no number of sockets is set,
/// and data of both directions travels by as many pairs.
#[test]
fn every_path_has_a_pair_of_ports_in_both_directions() {
    for (requested, agreed) in [((16, 16), 16), ((64, 64), 64), ((256, 256), 256), ((256, 20), 20)]
    {
        let builder = || builder().datapath(DatapathKind::Udp).policy_named("path=spray");
        let make = |paths| builder().paths(paths);
        let pair = Pair::of(make(requested.0), make(requested.1));
        let local = pair.client.filled(32 << 20, 13);
        let remote = pair.server.open_segment(32 << 20);
        pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 1).unwrap();
        let _ = pair.client.succeed();
        let back = pair.client.open_segment(32 << 20);
        pair.server.jetty.write(&pair.server.peer, &remote, back.key(), 1).unwrap();
        let _ = pair.server.succeed();
        assert_eq!(back.hash(0..32 << 20).unwrap(), local.hash(0..32 << 20).unwrap());
        let mut ends = Vec::new();
        for side in [&pair.client, &pair.server] {
            assert_eq!((side.peer.paths(), side.peer.port_pairs()), (agreed, agreed));
            assert_eq!(side.context.socket_shortage(), None);
            let stats = side.peer.stats();
            let all: BTreeSet<(u16, u16)> =
                stats.paths.iter().map(|path| (path.own_port, path.remote_port)).collect();
            assert_eq!(all.len(), agreed as usize * stats.channels);
            // One message uses one channel; 32 MiB are chunks enough for every path of it.
            let used = stats.paths.iter().filter(|path| path.sent > 0).count();
            assert!(used >= agreed as usize * 3 / 4, "{used} of {agreed} paths carried data");
            ends.push(all);
        }
        let swapped: BTreeSet<_> = ends[1].iter().map(|(own, remote)| (*remote, *own)).collect();
        assert_eq!(ends[0], swapped, "both sides name the same pairs");
    }
}

/// A peer with fewer sockets has fewer pairs, and both sides know their number.
#[test]
fn pairs_of_ports_that_paths_share_are_counted() {
    let pair = Pair::of(builder().paths(256), builder().paths(256).sockets(4));
    for side in [&pair.client, &pair.server] {
        assert_eq!((side.peer.paths(), side.peer.port_pairs()), (256, 64));
    }
}

#[test]
fn different_numbers_of_sockets_still_meet() {
    let pair = Pair::of(builder().sockets(3), builder().sockets(5));
    let local = pair.client.filled(4 << 20, 12);
    let remote = pair.server.open_segment(4 << 20);
    pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 1).unwrap();
    let _ = pair.client.succeed();
    pair.server.jetty.write(&pair.server.peer, &remote, local.key(), 1).unwrap();
    let _ = pair.server.succeed();
    assert_eq!(remote.hash(0..4 << 20).unwrap(), local.hash(0..4 << 20).unwrap());
    for side in [&pair.client, &pair.server] {
        assert_eq!(side.context.counters().nic.wrong_source, 0);
    }
}

#[test]
fn ipv6_works_too() {
    let pair = Pair::of(builder_v6(), builder_v6());
    let local = pair.client.filled(1 << 20, 13);
    let remote = pair.server.open_segment(1 << 20);
    pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 1).unwrap();
    let _ = pair.client.succeed();
    assert_eq!(content(&remote), content(&local));
}

#[test]
fn small_and_odd_packets_add_up() {
    for mtu in [64, 1000, 1001, 9000] {
        let pair = Pair::of(builder().mtu(mtu), builder());
        assert_eq!(pair.client.peer.mtu() as usize, mtu.min(MTU));
        let local = pair.client.filled(200_003, 14);
        let remote = pair.server.open_segment(200_003);
        pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 1).unwrap();
        let _ = pair.client.succeed();
        assert_eq!(content(&remote), content(&local), "mtu {mtu}");
    }
}

#[test]
fn several_threads_share_a_context() {
    let pair = Pair::new();
    let remote = pair.server.open_segment(8 * 100_000);
    let context = &pair.client.context;
    std::thread::scope(|scope| {
        for worker in 0..8_u64 {
            let (peer, key) = (&pair.client.peer, remote.key());
            scope.spawn(move || {
                let jetty = context.create_jetty(Default::default()).unwrap();
                let data = bytes(100_000, worker);
                let memory = fairway::Memory::from_vec(data.clone());
                let local = context.register(memory, fairway::Rights::READ_WRITE).unwrap();
                let place = key.at(worker * 100_000);
                for round in 0..10 {
                    jetty.write(peer, &local, place, round).unwrap();
                    assert_eq!(jetty.wait(common::TIMEOUT).unwrap().id, round);
                }
                local.fill_with(0..100_000, |_, piece| piece.fill(0)).unwrap();
                jetty.read(peer, &local, place, 99).unwrap();
                assert_eq!(jetty.wait(common::TIMEOUT).unwrap().id, 99);
                assert!(local.compare(0, &data).unwrap());
            });
        }
    });
}

#[test]
fn a_context_can_be_its_own_peer() {
    let context = builder().build().unwrap();
    let peer = context.connect(context.local_addrs()[0], common::TIMEOUT).unwrap();
    assert_eq!(context.peers().len(), 2, "both ends are here");
    let side = common::side(context, peer);
    let (one, two) = (side.filled(300_000, 1), side.open_segment(300_000));
    side.jetty.write(&side.peer, &one, two.key(), 1).unwrap();
    let _ = side.succeed();
    assert_eq!(content(&two), content(&one));
    side.jetty.post_receive(&two, 2).unwrap();
    side.jetty.send(&side.peer, side.jetty.number(), one.slice(0..10), 3).unwrap();
    let mut ids = [side.succeed().id, side.succeed().id];
    ids.sort_unstable();
    assert_eq!(ids, [2, 3]);
    side.context.shutdown(common::TIMEOUT).unwrap();
}
