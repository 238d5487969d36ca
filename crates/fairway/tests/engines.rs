//! Several engines on each side: one connection, several channels, one order.

mod common;

use std::collections::HashSet;
use std::future::Future;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::Instant;

use common::*;
use fairway::{
    Builder, Error, Event, JettyOptions, Limits, Memory, Order, Post, Rights, Segment, Status,
};

const KIB: u64 = 1 << 10;

fn spread(engines: usize) -> Builder {
    builder().engines(engines)
}

/// Packets sent by each channel of a side's connection.
fn sent(side: &Side) -> Vec<u64> {
    let stats = side.peer.stats();
    let paths = stats.paths.len() / stats.channels;
    stats.paths.chunks(paths).map(|paths| paths.iter().map(|path| path.sent).sum()).collect()
}

#[test]
fn every_channel_carries_its_share() {
    let pair = Pair::of(spread(3), spread(3));
    let (client, server) = (&pair.client, &pair.server);
    assert_eq!(client.peer.stats().channels, 3);
    let local = client.filled(1 << 20, 1);
    let back = client.open_segment(1 << 20);
    let remote = server.open_segment(1 << 20);
    let pieces = 1024 / 16;
    for at in 0..pieces {
        let range = at * 16 * KIB..(at + 1) * 16 * KIB;
        let to = remote.key().at(range.start);
        client.jetty.write(&client.peer, local.slice(range), to, at).unwrap();
    }
    for _ in 0..pieces {
        let _ = client.succeed();
    }
    for at in 0..pieces {
        let range = at * 16 * KIB..(at + 1) * 16 * KIB;
        let from = remote.key().at(range.start);
        client.jetty.read(&client.peer, back.slice(range), from, at).unwrap();
    }
    for _ in 0..pieces {
        let _ = client.succeed();
    }
    assert_eq!(content(&remote), content(&local));
    assert_eq!(content(&back), content(&local));
    for side in [client, server] {
        let sent = sent(side);
        let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
        assert!(*least * 3 > *most, "one channel did the others' work: {sent:?}");
    }
}

#[test]
fn one_large_operation_goes_by_every_channel_unless_parts_are_off() {
    let length = 4 << 20;
    for part_bytes in [256 << 10, 0] {
        let pair = Pair::of(spread(3).part_bytes(part_bytes), spread(3).part_bytes(part_bytes));
        let (client, server) = (&pair.client, &pair.server);
        let local = client.filled(length, 1);
        let back = client.open_segment(length);
        let remote = server.open_segment(length);
        client.jetty.write(&client.peer, &local, remote.key(), 1).unwrap();
        let _ = client.succeed();
        client.jetty.read(&client.peer, &back, remote.key(), 2).unwrap();
        let _ = client.succeed();
        assert_eq!(content(&remote), content(&local));
        assert_eq!(content(&back), content(&local));
        for side in [client, server] {
            let sent = sent(side);
            let (least, most) = (*sent.iter().min().unwrap(), *sent.iter().max().unwrap());
            // A part is about a thousand packets of 1,408 bytes.
            assert_eq!(least * 3 > most, part_bytes > 0, "{sent:?}");
        }
    }
}

#[test]
fn the_side_with_fewer_engines_decides() {
    for (here, there) in [(1, 3), (4, 2), (2, 2)] {
        let pair = Pair::of(spread(here), spread(there));
        assert_eq!(pair.client.peer.stats().channels, here.min(there));
        let local = pair.client.filled(50_000, 7);
        let remote = pair.server.open_segment(50_000);
        pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 1).unwrap();
        let _ = pair.client.succeed();
        assert_eq!(content(&remote), content(&local));
        assert_eq!(pair.server.context.peers().len(), 1);
    }
    let wrong = spread(17).build();
    assert!(matches!(wrong, Err(Error::Parameter { name: "engines", .. })));
    let wrong = spread(2).progress_thread(false).build();
    assert!(matches!(wrong, Err(Error::Parameter { name: "engines", .. })));
}

#[test]
fn limits_out_of_range_are_errors() {
    let limits = Limits::new();
    for (wrong, limit) in [
        (limits.channels(0), "channels"),
        (limits.channels(70_000), "channels"),
        (limits.window_packets(100), "window_packets"),
        (limits.window_packets(1 << 16), "window_packets"),
        (limits.message_slots(0), "message_slots"),
        (limits.read_slots(300), "read_slots"),
        (limits.paths(300), "paths"),
        (limits.jetties(u32::MAX), "jetties"),
        (limits.segments(u32::MAX), "segments"),
        (limits.mailboxes(70_000), "mailboxes"),
        (limits.completion_queues(65_536), "completion_queues"),
        (limits.messages(u32::MAX), "messages"),
        (limits.messages(0), "messages"),
        (limits.arrivals(0), "arrivals"),
        (limits.send_blocks(1), "send_blocks"),
        (limits.bitmap_blocks(u32::MAX), "bitmap_blocks"),
        (limits.withheld(0), "withheld"),
        (limits.receives(u32::MAX), "receives"),
        (limits.flows(u32::MAX), "flows"),
        (limits.paths(1), "paths"),
    ] {
        let error = builder().limits(wrong).build().unwrap_err();
        assert!(matches!(error, Error::Parameter { name, .. } if name == limit), "{error}");
    }
}

/// Every operation increments a counter by one, each strictly after the one before: the previous
/// values are in order although the operations use different channels.
#[test]
fn strict_operations_keep_their_order_across_channels() {
    use fairway::ServiceMode::{Roi, Rol, Rot};
    let pair = Pair::of(spread(3), spread(3));
    let client = &pair.client;
    for (round, mode) in [Roi, Rot, Rol].into_iter().enumerate() {
        let word = pair.server.segment(8, Rights::ALL);
        let jetty = client.context.create_jetty(JettyOptions::default()).unwrap();
        let strict = jetty.ordered(Order::strict(mode));
        for id in 0..100 {
            strict.fetch_add(&client.peer, word.key().at(0).word64(), 1, id).unwrap();
        }
        for _ in 0..100 {
            let done = jetty.wait(TIMEOUT).unwrap();
            assert_eq!((done.status, done.value), (Status::Success, done.id.value()), "{mode:?}");
        }
        let sent = sent(client);
        assert!(sent.iter().all(|sent| *sent > 20 * (round as u64 + 1)), "{sent:?}");
    }
}

#[test]
fn atomics_of_all_jetties_and_channels_execute_once() {
    let pair = Pair::of(spread(2), spread(2));
    let word = pair.server.segment(8, Rights::ALL);
    let olds: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let client = &pair.client;
                let key = word.key();
                scope.spawn(move || {
                    let jetty = client.context.create_jetty(JettyOptions::default()).unwrap();
                    let add = |id| {
                        jetty.fetch_add(&client.peer, key.at(0).word64(), 1, id).unwrap();
                        jetty.wait(TIMEOUT).unwrap().value
                    };
                    (0..200).map(add).collect()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let distinct: HashSet<u64> = olds.into_iter().flatten().collect();
    assert_eq!(distinct.len(), 600);
    assert_eq!(word.atomic_u64(0).unwrap().load(std::sync::atomic::Ordering::SeqCst), 600);
}

/// A thread that closes a connection gets its memory back at once, although other threads were
/// sending from it and receiving into it.
#[test]
fn closing_under_load_ends_everything() {
    for round in 0..15 {
        let pair = Pair::of(spread(3), spread(3));
        let (client, server) = (&pair.client, &pair.server);
        let remote = server.open_segment(1 << 20);
        let local = client.filled(1 << 20, round);
        let back = client.open_segment(1 << 20);
        for id in 0..8 {
            let piece = id * 128 * KIB..(id + 1) * 128 * KIB;
            let there = remote.key().at(piece.start);
            client.jetty.write(&client.peer, local.slice(piece.clone()), there, id).unwrap();
            client.jetty.read(&client.peer, back.slice(piece), there, 100 + id).unwrap();
        }
        // The close happens at another moment in each round.
        (0..round).for_each(|_| assert_eq!(client.wait().status, Status::Success));
        let closes = if round % 2 == 0 { client } else { server };
        closes.peer.close().unwrap();
        for _ in round..16 {
            let done = client.wait();
            let known = [Status::Success, Status::Flushed, Status::PeerClosed];
            assert!(known.contains(&done.status), "{done:?}");
        }
        // The network may write nothing here any more.
        back.write_at(0, &[0xA5; 1 << 20]).unwrap();
        drop(local);
        assert!(content(&back).iter().all(|byte| *byte == 0xA5), "round {round}");
    }
}

#[test]
fn a_dead_peer_is_dead_by_every_channel() {
    let pair = Pair::of(spread(3).profile(dead_after(300)), spread(3));
    let client = &pair.client;
    let local = client.open_segment(64 << 10);
    let remote = pair.server.open_segment(64 << 10);
    pair.server.context.simulate_crash();
    for id in 0..12 {
        client.jetty.write(&client.peer, &local, remote.key(), id).unwrap();
    }
    for _ in 0..12 {
        assert_eq!(client.wait().status, Status::PeerDead);
    }
    assert!(!client.peer.is_alive());
    let again = client.jetty.write(&client.peer, &local, remote.key(), 13);
    assert!(matches!(again, Err(Error::PeerGone { .. })));
}

/// Payload of unreliable packets is copied before they are reported as sent, so the application may
/// change it at once. The buffer for the copies does not run out.
#[test]
fn a_flood_of_unreliable_packets_leaves() {
    for engines in [1, 2] {
        let pair = Pair::of(spread(engines), spread(engines));
        let client = &pair.client;
        let remote = pair.server.open_segment(4096);
        let local = client.open_segment(4096);
        let unreliable = client.jetty.ordered(Order::unreliable());
        for id in 0..20_000u64 {
            local.write_at(0, &[id as u8; 4096]).unwrap();
            unreliable.write(&client.peer, &local, remote.key(), id).unwrap();
            let _ = client.succeed();
            local.write_at(0, &[!0; 4096]).unwrap();
        }
        assert_eq!(client.context.counters().nic.unsendable, 0, "{engines} engines");
        // Once the last packet that arrives has been placed, memory contains one whole packet, not
        // bytes that were written after it was sent.
        let is_whole = || {
            let got = content(&remote);
            got.iter().all(|byte| *byte == got[0] && *byte != !0)
        };
        let limit = Instant::now() + TIMEOUT;
        while !is_whole() {
            assert!(Instant::now() < limit, "{engines} engines");
            std::thread::yield_now();
        }
    }
}

/// A waker that owns a segment, which is dropped in the engine's thread that wakes.
struct Owner(Mutex<Option<Segment>>, SyncSender<()>);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
        self.1.send(()).unwrap();
    }
}

/// An unreliable write completes while its packet is on its way to the kernel, and so while memory
/// is lent to the thread that wakes the waiting one.
#[test]
fn wakers_may_drop_what_they_own() {
    let pair = Pair::of(spread(2), spread(2));
    let client = &pair.client;
    let (local, remote) = (client.filled(1024, 1), pair.server.open_segment(1024));
    for _ in 0..20 {
        let (report, reports) = sync_channel(1);
        let owner = Owner(Mutex::new(Some(client.open_segment(64))), report);
        let waker = Waker::from(Arc::new(owner));
        let mut next = Box::pin(client.jetty.next_completion());
        assert!(next.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        let unreliable = client.jetty.ordered(Order::unreliable());
        unreliable.write(&client.peer, &local, remote.key(), 1).unwrap();
        if reports.recv_timeout(TIMEOUT / 4).is_err() {
            // Anything that is dropped here would wait for ever as well.
            eprintln!("the waker did not come back");
            std::process::exit(101);
        }
        drop(next);
        let _ = client.succeed();
    }
}

/// Threads of engines end with their context, and the peer receives the context's closes.
#[test]
fn dropped_context_closes_its_channels() {
    let server = spread(2).build().unwrap();
    let address = server.local_addrs()[0];
    for _ in 0..10 {
        let client = spread(2).build().unwrap();
        let peer = client.connect(address, TIMEOUT).unwrap();
        let segment = client.register(Memory::zeroed(64).unwrap(), Rights::ALL).unwrap();
        assert!(matches!(server.wait_event(TIMEOUT).unwrap(), Event::Connected(_)));
        drop((segment, peer, client));
        assert!(matches!(event_of_peer(&server), Event::PeerClosed(_)));
    }
    assert!(server.peers().is_empty());
}
