//! Memory that processes on one host share: loads, stores and atomics without a packet.

mod common;

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Pair, Side, TIMEOUT, builder};
use fairway::{Error, Memory, RemoteMemory, Rights, Segment, SegmentKey, Status};

fn shared(side: &Side, length: usize, rights: Rights) -> Segment {
    side.context.register(Memory::shared(length).unwrap(), rights).unwrap()
}

fn packets(side: &Side) -> u64 {
    let engine = side.context.counters().engine;
    engine.bypass_sent + engine.data_sent
}

#[test]
fn a_load_is_a_load_where_the_memory_is_mapped() {
    let pair = Pair::new();
    let segment = shared(&pair.server, 10_000, Rights::ALL);
    let memory = pair.client.peer.memory(segment.key()).unwrap();
    assert!(memory.is_mapped());
    let before = packets(&pair.client);
    let pointer = memory.at::<u64>(800).unwrap();
    pointer.store(7).unwrap();
    assert_eq!(segment.atomic_u64(800).unwrap().load(Ordering::SeqCst), 7);
    segment.write_at(808, &9_u64.to_ne_bytes()).unwrap();
    assert_eq!(pointer.add(1).unwrap().load().unwrap(), 9);
    assert_eq!(pointer.fetch_add(3).unwrap(), 7);
    assert_eq!(pointer.compare_exchange(10, 11).unwrap(), Ok(10));
    let bytes = memory.at::<[u8; 64]>(100).unwrap();
    bytes.store([5; 64]).unwrap();
    assert!(segment.compare(100, &[5; 64]).unwrap());
    memory.at::<u8>(99).unwrap().swap(3).unwrap();
    assert!(segment.compare(99, &[3, 5]).unwrap());
    assert_eq!(packets(&pair.client), before, "nothing was sent");

    let plain = pair.server.open_segment(100);
    let memory = pair.client.peer.memory(plain.key()).unwrap();
    assert!(!memory.is_mapped(), "only memory that can be shared is");
    memory.at::<u64>(0).unwrap().store(1).unwrap();
    assert!(packets(&pair.client) > before);
}

#[test]
fn a_long_range_is_copied_where_the_memory_is_mapped() {
    let pair = Pair::new();
    let bytes: Vec<u8> = (0..50_000_u32).map(|at| ((at * 7) >> 3) as u8).collect();
    let segment = shared(&pair.server, bytes.len(), Rights::READ);
    segment.write_at(0, &bytes).unwrap();
    let memory = pair.client.peer.memory(segment.key()).unwrap();
    let local = pair.client.open_segment(50_000);
    let before = packets(&pair.client);
    assert!(memory.copy_to(3, local.slice(1001..50_000)).unwrap());
    assert!(local.compare(1001, &bytes[3..3 + 48_999]).unwrap());
    assert!(local.compare(0, &[0; 1001]).unwrap());
    assert_eq!(packets(&pair.client), before, "nothing was sent");

    assert!(!memory.copy_to(49_999, local.slice(0..2)).unwrap(), "beyond the segment");
    let outside = memory.copy_to(0, local.slice(49_999..50_001));
    assert!(matches!(outside, Err(Error::OutOfBounds { .. })), "{outside:?}");
    let foreign = memory.copy_to(0, segment.slice(0..2));
    assert!(matches!(foreign, Err(Error::Foreign { .. })), "{foreign:?}");
    let unreadable = shared(&pair.server, 100, Rights::WRITE);
    let unreadable = pair.client.peer.memory(unreadable.key()).unwrap();
    assert!(!unreadable.copy_to(0, local.slice(0..2)).unwrap(), "no right to READ");
    drop(segment);
    assert!(!memory.copy_to(0, local.slice(0..2)).unwrap(), "deregistered");
    let plain = pair.server.open_segment(100);
    let plain = pair.client.peer.memory(plain.key()).unwrap();
    assert!(!plain.copy_to(0, local.slice(0..2)).unwrap(), "not shared");
}

#[test]
fn accesses_beyond_the_rights_are_refused() {
    let pair = Pair::new();
    let segment = shared(&pair.server, 4096, Rights::READ);
    let key = segment.key();
    let memory = pair.client.peer.memory(key).unwrap();
    assert!(memory.is_mapped());
    let pointer = memory.at::<u64>(0).unwrap();
    assert_eq!(pointer.load().unwrap(), 0);
    let refused = |result: Result<u64, Error>| match result {
        Err(Error::Failed { status, .. }) => status,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(pointer.store(1).map(|()| 0)), Status::RemoteRights);
    assert_eq!(refused(pointer.fetch_add(1)), Status::RemoteRights);
    let wrong = SegmentKey { token_value: key.token_value ^ 1, ..key };
    assert!(!pair.client.peer.memory(wrong).unwrap().is_mapped());
    let longer = SegmentKey { length: key.length + 1, ..key };
    assert!(!pair.client.peer.memory(longer).unwrap().is_mapped());
}

#[test]
fn bytes_are_copied_where_the_memory_is_mapped_and_only_as_the_rights_allow() {
    let pair = Pair::new();
    let segment = shared(&pair.server, 10_000, Rights::ALL);
    let memory = pair.client.peer.memory(segment.key()).unwrap();
    let before = packets(&pair.client);
    let data: Vec<u8> = (0..5000).map(|at| (at % 251) as u8).collect();
    assert!(memory.copy_in(4999, &data));
    assert!(segment.compare(4999, &data).unwrap() && segment.compare(0, &[0; 4999]).unwrap());
    assert_eq!(packets(&pair.client), before, "nothing was sent");
    assert!(!memory.copy_in(5001, &data) && !memory.copy_in(u64::MAX, &data), "out of bounds");

    let read_only = shared(&pair.server, 64, Rights::READ);
    let memory = pair.client.peer.memory(read_only.key()).unwrap();
    assert!(!memory.copy_in(0, &[1]) && read_only.compare(0, &[0; 64]).unwrap());

    let memory = pair.client.peer.memory(segment.key()).unwrap();
    drop(segment);
    assert!(!memory.copy_in(0, &[1]), "deregistered");

    let plain = pair.server.open_segment(100);
    let memory = pair.client.peer.memory(plain.key()).unwrap();
    assert!(!memory.copy_in(0, &[1]), "not mapped");
}

#[test]
fn deregistered_segment_cannot_be_accessed() {
    let pair = Pair::new();
    let segment = shared(&pair.server, 4096, Rights::ALL);
    let memory = pair.client.peer.memory(segment.key()).unwrap();
    let begun = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let storer = scope.spawn(|| store_until_refused(&memory, &begun));
        while !begun.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let back = segment.into_memory().unwrap();
        let again = pair.server.context.register(back, Rights::NONE).unwrap();
        // All stores were executed before this: nothing changes any more.
        let mut then = [0; 8];
        again.read_at(0, &mut then).unwrap();
        let (stored, status) = storer.join().unwrap();
        assert_eq!(status, Status::RemoteAccess);
        assert!(again.compare(0, &then).unwrap(), "something was stored afterwards");
        assert!(u64::from_ne_bytes(then) >= stored, "what was stored is there");
    });
    let loaded = memory.at::<u64>(0).unwrap().load();
    assert!(matches!(loaded, Err(Error::Failed { .. })), "{loaded:?}");
    assert!(!pair.client.peer.memory(memory.key()).unwrap().is_mapped());
}

/// Returns the last value that was stored, and the status of the next attempt.
fn store_until_refused(memory: &RemoteMemory, begun: &AtomicBool) -> (u64, Status) {
    let pointer = memory.at::<u64>(0).unwrap();
    for value in 1.. {
        match pointer.store(value) {
            Ok(()) => begun.store(true, Ordering::Release),
            Err(Error::Failed { status, .. }) => return (value - 1, status),
            Err(other) => panic!("{other:?}"),
        }
    }
    unreachable!("it stores until it is refused")
}

#[test]
fn atomics_are_atomic_with_those_of_the_cpu_and_of_the_network() {
    const EACH: u64 = 3_000;
    let pair = Pair::new();
    let segment = shared(&pair.server, 4096, Rights::ALL);
    let mapped = pair.client.peer.memory(segment.key()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let pointer = mapped.at::<u64>(8).unwrap();
            (0..EACH).for_each(|_| assert!(pointer.fetch_add(1).is_ok()));
        });
        scope.spawn(|| {
            let word = segment.atomic_u64(8).unwrap();
            (0..EACH).for_each(|_| _ = word.fetch_add(1, Ordering::SeqCst));
        });
        scope.spawn(|| {
            for id in 0..EACH / 10 {
                let word = segment.key().at(8).word64();
                pair.client.jetty.fetch_add(&pair.client.peer, word, 1, id).unwrap();
                let _ = pair.client.succeed();
            }
        });
    });
    assert_eq!(segment.atomic_u64(8).unwrap().load(Ordering::SeqCst), 2 * EACH + EACH / 10);
}

#[test]
fn a_dead_peer_is_not_taken_for_a_living_one() {
    let pair = Pair::new();
    let segment = shared(&pair.server, 4096, Rights::ALL);
    let memory = pair.client.peer.memory(segment.key()).unwrap();
    let pointer = memory.at::<u32>(0).unwrap();
    pointer.store(1).unwrap();
    pair.client.peer.close().unwrap();
    assert!(pointer.load().is_err(), "the connection is what gives access");
}

const CHILD: &str = "FAIRWAY_TEST_SAME_HOST";

#[test]
fn another_process_maps_it() {
    let context = builder().build().unwrap();
    let segment = context.register(Memory::shared(4096).unwrap(), Rights::ALL).unwrap();
    let address = context.local_addrs()[0];
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_other_process", "--ignored", "--nocapture"])
        .env(CHILD, format!("{address} {}", segment.key()))
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(segment.atomic_u64(64).unwrap().load(Ordering::SeqCst), 0x1234_5678_9ABC_DEF0);
}

#[test]
#[ignore = "run by another_process_maps_it"]
fn the_other_process() {
    let Ok(text) = std::env::var(CHILD) else { return };
    let (address, key) = text.split_once(' ').unwrap();
    let (address, key): (SocketAddr, SegmentKey) = (address.parse().unwrap(), key.parse().unwrap());
    let context = builder().build().unwrap();
    let peer = context.connect(address, TIMEOUT).unwrap();
    let memory = peer.memory(key).unwrap();
    assert!(memory.is_mapped());
    memory.at::<u64>(64).unwrap().store(0x1234_5678_9ABC_DEF0).unwrap();
}
