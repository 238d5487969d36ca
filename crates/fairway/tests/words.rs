//! Atomics, loads and stores: changes of words, the peers that may access them, and exactly-once
//! execution.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::{Pair, Side, builder, bytes, content};
use fairway::{AtomicOp, CompletionKind, Error, Memory, Rights, Segment, SegmentKey, Status};
use fairway_wire as wire;

fn lossy(seed: u64) -> Pair {
    let worse =
        |seed| builder().emulate("delay=30us,loss=5%,dup=5%,reorder=8".parse().unwrap(), seed);
    Pair::of(worse(seed), worse(seed + 100))
}

#[test]
fn every_operator_changes_the_word_and_brings_the_old_value() {
    let pair = Pair::new();
    let client = &pair.client;
    let remote = pair.server.segment(32, Rights::ATOMIC);
    let word = remote.atomic_u64(8).unwrap();
    let half = remote.atomic_u32(20).unwrap();
    let steps = [
        (AtomicOp::Swap(10), 10),
        (AtomicOp::Add(5), 15),
        (AtomicOp::Subtract(3), 12),
        (AtomicOp::Or(0x33), 0x3f),
        (AtomicOp::And(0x3c), 0x3c),
        (AtomicOp::Xor(0xff), 0xc3),
        (AtomicOp::CompareSwap { expected: 0xc4, new: 1 }, 0xc3),
        (AtomicOp::CompareSwap { expected: 0xc3, new: 7 }, 7),
        (AtomicOp::Load, 7),
        (AtomicOp::Store(0xffff_ffff), 0xffff_ffff),
    ];
    let (mut before, key) = (0, remote.key());
    for (operation, after) in steps {
        for place in [key.at(8).word64(), key.at(20).word32()] {
            client.jetty.atomic(&client.peer, place, operation, 3).unwrap();
            let done = client.succeed();
            assert_eq!((done.id.value(), done.kind), (3, CompletionKind::Atomic));
            assert_eq!(done.value, before, "{operation:?}");
        }
        assert_eq!(word.load(Ordering::SeqCst), after, "{operation:?}");
        assert_eq!(u64::from(half.load(Ordering::SeqCst)), after, "{operation:?}");
        before = after;
    }
    // The longer word carries on where the shorter one wraps.
    for place in [key.at(8).word64(), key.at(20).word32()] {
        client.jetty.fetch_add(&client.peer, place, 1, 4).unwrap();
        let _ = client.succeed();
    }
    assert_eq!(word.load(Ordering::SeqCst), 1 << 32);
    assert_eq!(half.load(Ordering::SeqCst), 0);
    let neighbours = [0..8, 16..20, 24..32].map(|range| content(&remote)[range].to_vec());
    assert!(neighbours.concat().iter().all(|byte| *byte == 0), "neighbours are untouched");
}

/// Adds `count` from `side` to the word, many at a time. Returns the previous values, in no order.
fn add(side: &Side, word: &Segment, count: u64) -> Vec<u64> {
    let place = word.key().at(8).word64();
    let mut old = Vec::new();
    for id in 0..count + 64 {
        if id < count {
            side.jetty.fetch_add(&side.peer, place, 1, id).unwrap();
        }
        if id >= 64 {
            old.push(side.succeed().value);
        }
    }
    old
}

#[test]
fn peers_and_processors_add_to_the_same_word() {
    let pair = Pair::new();
    let remote = pair.server.segment(16, Rights::ALL);
    let word = remote.atomic_u64(8).unwrap();
    let done = AtomicBool::new(false);
    let own = std::thread::scope(|scope| {
        let own = scope.spawn(|| {
            let mut own = 0_u64;
            while !done.load(Ordering::Relaxed) {
                word.fetch_add(1, Ordering::Relaxed);
                own += 1;
            }
            own
        });
        add(&pair.client, &remote, 20_000);
        done.store(true, Ordering::Relaxed);
        own.join().unwrap()
    });
    assert_eq!(word.load(Ordering::SeqCst), own + 20_000);
}

#[test]
fn atomics_happen_once_whatever_is_lost_or_repeated() {
    for seed in 0..3 {
        let pair = lossy(seed);
        let remote = pair.server.segment(16, Rights::ALL);
        let mut old = add(&pair.client, &remote, 1000);
        old.sort_unstable();
        assert!(old.into_iter().eq(0..1000), "every value was met once, seed {seed}");
        assert_eq!(remote.atomic_u64(8).unwrap().load(Ordering::SeqCst), 1000);
        assert_eq!(pair.server.context.counters().nic.atomics, 1000);
        assert!(pair.client.context.counters().engine.data_resent > 0, "something was lost");
    }
}

#[test]
fn a_lock_is_held_by_one_at_a_time() {
    let pair = lossy(20);
    let lock = pair.server.segment(8, Rights::ATOMIC);
    let shared = pair.server.segment(8, Rights::READ_WRITE);
    std::thread::scope(|scope| {
        for holder in 1..=3 {
            let (client, lock, shared) = (&pair.client, lock.key(), shared.key());
            scope.spawn(move || count_up_under_lock(client, lock, shared, holder));
        }
    });
    assert_eq!(content(&shared), 60_u64.to_ne_bytes());
}

/// Twenty times: takes the lock, adds one to the value that it guards, with a READ and a WRITE, and
/// releases the lock.
fn count_up_under_lock(client: &Side, lock: SegmentKey, shared: SegmentKey, holder: u64) {
    let jetty = client.context.create_jetty(Default::default()).unwrap();
    let local = client.open_segment(8);
    let wait = || {
        let done = jetty.wait(common::TIMEOUT).unwrap();
        assert_eq!(done.status, Status::Success);
        done.value
    };
    for _ in 0..20 {
        loop {
            jetty.compare_swap(&client.peer, lock.at(0).word64(), 0, holder, 1).unwrap();
            if wait() == 0 {
                break;
            }
        }
        jetty.read(&client.peer, &local, shared, 2).unwrap();
        wait();
        let mut count = [0; 8];
        local.read_at(0, &mut count).unwrap();
        local.write_at(0, &(u64::from_ne_bytes(count) + 1).to_ne_bytes()).unwrap();
        jetty.write(&client.peer, &local, shared, 3).unwrap();
        wait();
        jetty.swap(&client.peer, lock.at(0).word64(), 0, 4).unwrap();
        assert_eq!(wait(), holder);
    }
}

#[test]
fn atomics_are_refused_where_they_do_not_belong() {
    let pair = Pair::new();
    let client = &pair.client;
    let fine = pair.server.segment(64, Rights::ATOMIC);
    let closed = pair.server.segment(64, Rights::READ_WRITE);
    let wrong = SegmentKey { token_value: fine.key().token_value ^ 1, ..fine.key() };
    let cases = [
        (fine.key().at(4).word64(), Status::RemoteMisaligned),
        (fine.key().at(2).word32(), Status::RemoteMisaligned),
        (fine.key().at(60).word64(), Status::RemoteAccess),
        (fine.key().at(64).word32(), Status::RemoteAccess),
        (wrong.at(0).word64(), Status::RemoteAccess),
        (closed.key().at(0).word64(), Status::RemoteRights),
    ];
    for (word, status) in cases {
        client.jetty.fetch_add(&client.peer, word, 1, 9).unwrap();
        let done = client.wait();
        assert_eq!((done.id.value(), done.status), (9, status), "{word:?}");
    }
    assert_eq!(content(&fine), [0; 64]);
    assert_eq!(content(&closed), [0; 64]);
    let refused = client.jetty.swap(&client.peer, fine.key().at(0).word32(), 1 << 32, 1);
    assert!(matches!(refused, Err(Error::Parameter { name: "operand", .. })));
}

#[test]
fn memory_for_atomics_is_aligned() {
    let context = builder().build().unwrap();
    let mut bytes = vec![0_u64; 8];
    let start = bytes.as_mut_ptr().cast::<u8>();
    // SAFETY: `bytes` is not touched while the memory exists.
    let odd =
        |offset| unsafe { Memory::from_raw(std::ptr::NonNull::new(start.add(offset)).unwrap(), 8) };
    let refused = context.register(odd(4), Rights::ATOMIC).unwrap_err();
    assert!(matches!(refused, Error::Parameter { name: "memory address", .. }), "{refused}");
    assert!(refused.to_string().contains("multiple of 8"), "{refused}");
    let refused = context.register_at(odd(0), Rights::ALL, 12).unwrap_err();
    assert!(matches!(refused, Error::Parameter { name: "segment address", .. }), "{refused}");
    let segment = context.register(odd(4), Rights::READ_WRITE).unwrap();
    assert!(segment.atomic_u64(0).is_err(), "no word begins there");
    segment.atomic_u32(4).unwrap();
    assert!(segment.atomic_u32(8).is_err(), "it ends before");
}

#[test]
fn loads_and_stores_of_every_length_arrive() {
    for pair in [Pair::new(), lossy(30)] {
        let client = &pair.client;
        let remote = pair.server.open_segment(256);
        let back = client.open_segment(64);
        for length in 1..=64 {
            let data = bytes(length, length as u64);
            let local = client.filled(length, length as u64);
            let place = remote.key().at(100 + length as u64);
            client.jetty.store(&client.peer, &local, place, 1).unwrap();
            let done = client.succeed();
            assert_eq!((done.kind, done.bytes as usize), (CompletionKind::Store, length));
            assert!(remote.compare(100 + length as u64, &data).unwrap());
            let room = back.slice(0..length as u64);
            client.jetty.load(&client.peer, room, place, 2).unwrap();
            assert_eq!(client.succeed().kind, CompletionKind::Load);
            assert!(back.compare(0, &data).unwrap(), "{length} bytes");
        }
        assert!(content(&remote)[..101].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn loads_and_stores_are_refused_like_reads_and_writes() {
    let pair = Pair::new();
    let client = &pair.client;
    let local = client.open_segment(128);
    let deaf = pair.server.segment(64, Rights::READ);
    let mute = pair.server.segment(64, Rights::WRITE);
    let short = local.slice(0..8);
    client.jetty.store(&client.peer, short, deaf.key(), 1).unwrap();
    assert_eq!(client.wait().status, Status::RemoteRights);
    client.jetty.load(&client.peer, short, mute.key(), 1).unwrap();
    assert_eq!(client.wait().status, Status::RemoteRights);
    client.jetty.load(&client.peer, short, deaf.key().at(57), 1).unwrap();
    assert_eq!(client.wait().status, Status::RemoteAccess);
    for length in [0, 65, 128] {
        let local = local.slice(0..length);
        let refused = client.jetty.load(&client.peer, local, deaf.key(), 1);
        assert!(matches!(refused, Err(Error::Width { operation: "load", .. })));
        let refused = client.jetty.store(&client.peer, local, mute.key(), 1);
        assert!(matches!(refused, Err(Error::Width { operation: "store", .. })));
    }
    assert_eq!(wire::BYPASS_BYTES, 64);
}

/// The owner changes all bytes of a word at once; a load returns them all old or all new.
#[test]
fn words_are_loaded_and_stored_whole() {
    let pair = Pair::new();
    let client = &pair.client;
    let remote = pair.server.segment(16, Rights::ALL);
    let (theirs, ours) = (remote.atomic_u64(0).unwrap(), remote.atomic_u64(8).unwrap());
    let local = client.open_segment(16);
    let done = AtomicBool::new(false);
    let whole = |word: u64| word.to_ne_bytes().iter().all(|byte| *byte == word as u8);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut value = 0_u8;
            while !done.load(Ordering::Relaxed) {
                value = value.wrapping_add(1);
                theirs.store(u64::from_ne_bytes([value; 8]), Ordering::Relaxed);
                assert!(whole(ours.load(Ordering::Relaxed)), "a torn store");
            }
        });
        for round in 0..5000 {
            client.jetty.load(&client.peer, local.slice(0..8), remote.key(), 1).unwrap();
            let _ = client.succeed();
            let seen = local.atomic_u64(0).unwrap().load(Ordering::Relaxed);
            assert!(whole(seen), "a torn load: {seen:x}");
            local.write_at(8, &[round as u8; 8]).unwrap();
            client.jetty.store(&client.peer, local.slice(8..16), remote.key().at(8), 1).unwrap();
            let _ = client.succeed();
        }
        done.store(true, Ordering::Relaxed);
    });
}
