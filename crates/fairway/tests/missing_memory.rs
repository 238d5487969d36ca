//! Registered memory that its owner unmaps, or whose file is truncated: an error at the owner and
//! at the peer, no signal, and everything else continues.

mod common;
#[path = "common/pages.rs"]
mod pages;

use common::{Pair, Side, content};
use fairway::{AtomicOp, Error, Memory, Rights, Segment, Status};
use pages::{Pages, in_child};

const LENGTH: usize = 1 << 20;
/// Lengths of a word, a short packet, a full packet, and many packets.
const LENGTHS: [u64; 4] = [8, 100, 1000, 200_000];

fn register(side: &Side, pages: &Pages) -> Segment {
    // SAFETY: the test has no references to the pages, and nothing else is mapped there.
    let memory = unsafe { Memory::from_raw(pages.start, pages.length) };
    let rights = Rights::READ_WRITE.with(Rights::ATOMIC);
    side.context.register(memory, rights).unwrap()
}

/// Checks that operations on other segments succeed, in both directions.
fn demand_others_continue(pair: &Pair) {
    for (from, to) in [(&pair.client, &pair.server), (&pair.server, &pair.client)] {
        let (local, remote) = (from.filled(300_000, 7), to.open_segment(300_000));
        let back = from.open_segment(300_000);
        from.jetty.write(&from.peer, &local, remote.key(), 90).unwrap();
        assert_eq!(from.succeed().id, 90);
        from.jetty.read(&from.peer, &back, remote.key(), 91).unwrap();
        assert_eq!(from.succeed().id, 91);
        assert_eq!(content(&back), content(&local));
    }
}

/// The kinds of memory, by the way in which they disappear.
fn kinds() -> [fn(usize) -> Pages; 2] {
    [Pages::new, Pages::of_file]
}

#[test]
fn operations_on_missing_memory_of_a_peer_end_with_remote_access() {
    in_child("operations_on_missing_memory_of_a_peer_end_with_remote_access", || {
        for kind in kinds() {
            let pair = Pair::new();
            let Pair { client, server } = &pair;
            let pages = kind(LENGTH);
            let remote = register(server, &pages);
            let local = client.filled(LENGTH, 3);
            client.jetty.write(&client.peer, &local, remote.key(), 1).unwrap();
            let _ = client.succeed();
            pages.take_away(4096);
            for length in LENGTHS {
                let part = || local.slice(0..length);
                client.jetty.write(&client.peer, part(), remote.key().at(1 << 19), 2).unwrap();
                let ended = client.wait();
                assert_eq!(
                    (ended.id.value(), ended.status),
                    (2, Status::RemoteAccess),
                    "write {length}"
                );
                client.jetty.read(&client.peer, part(), remote.key().at(1 << 19), 3).unwrap();
                let ended = client.wait();
                assert_eq!(
                    (ended.id.value(), ended.status),
                    (3, Status::RemoteAccess),
                    "read {length}"
                );
                demand_others_continue(&pair);
            }
            // Part of the range is still mapped.
            client.jetty.write(&client.peer, local.slice(0..9000), remote.key(), 4).unwrap();
            assert_eq!(client.wait().status, Status::RemoteAccess);
            client.jetty.read(&client.peer, local.slice(0..9000), remote.key(), 5).unwrap();
            assert_eq!(client.wait().status, Status::RemoteAccess);
            let word = remote.key().at(8192).word64();
            client.jetty.atomic(&client.peer, word, AtomicOp::Add(1), 6).unwrap();
            assert_eq!(client.wait().status, Status::RemoteAccess);
            client.jetty.write(&client.peer, local.slice(0..4096), remote.key(), 7).unwrap();
            let _ = client.succeed();
            demand_others_continue(&pair);
            assert!(server.context.counters().nic.memory_gone > 0);
        }
    });
}

#[test]
fn operations_with_missing_memory_of_their_own_end_with_local_memory() {
    in_child("operations_with_missing_memory_of_their_own_end_with_local_memory", || {
        for kind in kinds() {
            let pair = Pair::new();
            let Pair { client, server } = &pair;
            let pages = kind(LENGTH);
            let (local, remote) = (register(client, &pages), server.open_segment(LENGTH));
            client.jetty.write(&client.peer, &local, remote.key(), 1).unwrap();
            let _ = client.succeed();
            pages.take_away(0);
            for length in LENGTHS {
                let part = || local.slice(5000..5000 + length);
                client.jetty.write(&client.peer, part(), remote.key(), 2).unwrap();
                let ended = client.wait();
                assert_eq!(
                    (ended.id.value(), ended.status),
                    (2, Status::LocalMemory),
                    "write {length}"
                );
                client.jetty.read(&client.peer, part(), remote.key(), 3).unwrap();
                let ended = client.wait();
                assert_eq!(
                    (ended.id.value(), ended.status),
                    (3, Status::LocalMemory),
                    "read {length}"
                );
                demand_others_continue(&pair);
            }
            let mut bytes = [0; 100];
            assert!(matches!(local.read_at(0, &mut bytes), Err(Error::MemoryGone)));
            assert!(matches!(local.write_at(0, &bytes), Err(Error::MemoryGone)));
            assert!(matches!(local.compare(0, &bytes), Err(Error::MemoryGone)));
            assert!(matches!(local.hash(0..100), Err(Error::MemoryGone)));
        }
    });
}

#[test]
fn a_receive_without_memory_fails_at_both_ends() {
    in_child("a_receive_without_memory_fails_at_both_ends", || {
        for length in LENGTHS {
            let pair = Pair::new();
            let Pair { client, server } = &pair;
            let pages = Pages::new(LENGTH);
            let gone = register(server, &pages);
            let good = server.open_segment(LENGTH);
            server.jetty.post_receive(&gone, 70).unwrap();
            server.jetty.post_receive(&good, 71).unwrap();
            pages.take_away(0);
            let local = client.filled(length as usize, 4);
            for (id, status, received, how) in [
                (1, Status::RemoteOperation, 70, Status::LocalMemory),
                (2, Status::Success, 71, Status::Success),
            ] {
                client.jetty.send(&client.peer, server.jetty.number(), &local, id).unwrap();
                let ended = client.wait();
                assert_eq!((ended.id.value(), ended.status), (id, status), "{length}");
                let ended = server.wait();
                assert_eq!((ended.id.value(), ended.status), (received, how), "{length}");
            }
            demand_others_continue(&pair);
        }
    });
}
