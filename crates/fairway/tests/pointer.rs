//! Pointer-like access to a peer's memory.

mod common;

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Pair, TIMEOUT, builder, content, dead_after};
use fairway::{
    Context, Error, Memory, Pod, RemoteMemory, Rights, Segment, SegmentKey, Status, Word,
};

fn lossy(seed: u64) -> Pair {
    let worse = |seed| builder().emulate("loss=5%,dup=5%,delay=20us".parse().unwrap(), seed);
    Pair::of(worse(seed), worse(seed + 100))
}

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Header {
    kind: u32,
    length: u32,
    place: u64,
}

// SAFETY: integers only, and 4 + 4 + 8 bytes are its size.
unsafe impl Pod for Header {}

/// Stores `value` at `offset`, checks its bytes there, and loads it again.
fn round_trip<T: Pod + PartialEq + Debug>(
    (memory, segment): (&RemoteMemory, &Segment),
    offset: u64,
    (value, bytes): (T, &[u8]),
) {
    let pointer = memory.at::<T>(offset).unwrap();
    pointer.store(value).unwrap();
    assert!(segment.compare(offset, bytes).unwrap(), "{value:?} is not at {offset}");
    assert_eq!(pointer.load().unwrap(), value);
}

#[test]
fn values_of_every_kind_are_stored_and_loaded() {
    let pair = lossy(1);
    let segment = pair.server.segment(4096, Rights::READ_WRITE);
    let memory = pair.client.peer.memory(segment.key()).unwrap();
    let there = (&memory, &segment);
    round_trip(there, 1, (0xab_u8, &[0xab]));
    round_trip(there, 2, (-2_i16, &(-2_i16).to_ne_bytes()));
    round_trip(there, 4, (0x1234_5678_u32, &0x1234_5678_u32.to_ne_bytes()));
    round_trip(there, 8, (u64::MAX - 7, &(u64::MAX - 7).to_ne_bytes()));
    round_trip(there, 16, (1.5_f64, &1.5_f64.to_ne_bytes()));
    round_trip(there, 25, ([7_u8; 64], &[7; 64]));
    let header = Header { kind: 1, length: 2, place: 3 };
    let bytes = [&1_u32.to_ne_bytes()[..], &2_u32.to_ne_bytes(), &3_u64.to_ne_bytes()].concat();
    round_trip(there, 4096 - 16, (header, &bytes));
    let third = memory.at::<u32>(100).unwrap().add(3).unwrap();
    assert_eq!(third.offset(), 112);
    third.store(5).unwrap();
    assert_eq!(content(&segment)[112..116], 5_u32.to_ne_bytes());
}

/// Executes every atomic on the value at `offset`; the bytes around it must not change.
fn atomics_on<T: Word + PartialEq + Debug>(pair: &Pair, offset: u64) {
    let segment = pair.server.segment(24, Rights::ALL);
    segment.fill_with(0..24, |_, piece| piece.fill(0x5a)).unwrap();
    let memory = pair.client.peer.memory(segment.key()).unwrap();
    let pointer = memory.at::<T>(offset).unwrap();
    let all = T::from_word(u64::MAX).to_word();
    let word = T::from_word;
    pointer.store(word(all - 1)).unwrap();
    assert_eq!(pointer.fetch_add(word(3)).unwrap(), word(all - 1));
    assert_eq!(pointer.load().unwrap(), word(1), "it wrapped");
    assert_eq!(pointer.fetch_sub(word(2)).unwrap(), word(1));
    assert_eq!(pointer.fetch_and(word(0x3c)).unwrap(), word(all));
    assert_eq!(pointer.fetch_or(word(0x43)).unwrap(), word(0x3c));
    assert_eq!(pointer.fetch_xor(word(all)).unwrap(), word(0x7f));
    assert_eq!(pointer.swap(word(9)).unwrap(), word(all ^ 0x7f));
    assert_eq!(pointer.compare_exchange(word(8), word(1)).unwrap(), Err(word(9)));
    assert_eq!(pointer.load().unwrap(), word(9));
    assert_eq!(pointer.compare_exchange(word(9), word(0)).unwrap(), Ok(word(9)));
    let mut expected = vec![0x5a; 24];
    expected[offset as usize..][..size_of::<T>()].fill(0);
    assert_eq!(content(&segment), expected, "neighbours have changed");
}

#[test]
fn atomics_on_words_of_every_length() {
    let pair = lossy(2);
    for offset in 8..12 {
        atomics_on::<u8>(&pair, offset);
        atomics_on::<i8>(&pair, offset);
    }
    atomics_on::<u16>(&pair, 8);
    atomics_on::<i16>(&pair, 10);
    atomics_on::<u32>(&pair, 12);
    atomics_on::<i32>(&pair, 8);
    atomics_on::<u64>(&pair, 8);
    atomics_on::<i64>(&pair, 16);
}

/// Two peers each add to one byte of a word, and the owner of the memory adds to the other two: no
/// addition is lost.
#[test]
fn neighbours_do_not_disturb_each_other() {
    let pair = Pair::new();
    let segment = pair.server.segment(8, Rights::ALL);
    let word = segment.atomic_u32(0).unwrap();
    let done = AtomicBool::new(false);
    let own = std::thread::scope(|scope| {
        let own = scope.spawn(|| {
            let mut own = 0_u32;
            while !done.load(Ordering::Relaxed) {
                let high = if cfg!(target_endian = "little") { 1 << 16 } else { 1 };
                word.fetch_add(high, Ordering::Relaxed);
                own = own.wrapping_add(1);
                // Without this pause a remote compare-and-swap would hardly ever succeed.
                std::thread::sleep(Duration::from_micros(50));
            }
            own as u16
        });
        let adders = [0, 1].map(|offset| {
            let peer = &pair.client.peer;
            let key = segment.key();
            scope.spawn(move || {
                let byte = peer.memory(key).unwrap().at::<u8>(offset).unwrap();
                for _ in 0..150 {
                    byte.fetch_add(1).unwrap();
                }
            })
        });
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        done.store(true, Ordering::Relaxed);
        own.join().unwrap()
    });
    let bytes = content(&segment);
    assert_eq!((bytes[0], bytes[1]), (150, 150));
    assert_eq!(u16::from_ne_bytes([bytes[2], bytes[3]]), own);
}

#[test]
fn accesses_that_are_not_allowed_name_the_reason() {
    let pair = Pair::new();
    let peer = &pair.client.peer;
    let readable = pair.server.segment(64, Rights::READ);
    let memory = peer.memory(readable.key()).unwrap();
    let refused = memory.at::<u64>(60).unwrap_err();
    assert!(matches!(refused, Error::OutOfBounds { offset: 60, length: 8, segment: 64 }));
    assert!(memory.at::<u64>(u64::MAX).is_err());
    let refused = memory.at::<u32>(6).unwrap_err();
    assert!(matches!(refused, Error::Parameter { name: "offset of a pointer", .. }), "{refused}");
    let pointer = memory.at::<u64>(56).unwrap();
    assert!(matches!(pointer.add(1), Err(Error::OutOfBounds { .. })));
    assert_eq!(pointer.load().unwrap(), 0);
    let status = |error| match error {
        Error::Failed { status, .. } => status,
        other => panic!("{other}"),
    };
    assert_eq!(status(pointer.store(1).unwrap_err()), Status::RemoteRights);
    assert_eq!(status(pointer.fetch_add(1).unwrap_err()), Status::RemoteRights);
    assert_eq!(pointer.load().unwrap(), 0, "and it goes on");
    let forged = SegmentKey { token_value: !readable.key().token_value, ..readable.key() };
    let pointer = peer.memory(forged).unwrap().at::<u64>(0).unwrap();
    assert_eq!(status(pointer.load().unwrap_err()), Status::RemoteAccess);
}

/// Runs `work` while `context`, which has no background thread, is driven.
fn driving<R>(context: &Context, work: impl FnOnce() -> R) -> R {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                context.poll();
            }
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    })
}

/// A late answer is not taken for the answer to a later operation.
#[test]
fn after_a_timeout_it_goes_on() {
    let server = builder().engines(1).progress_thread(false).build().unwrap();
    let client = builder().build().unwrap();
    let address = server.local_addrs()[0];
    let peer = driving(&server, || client.connect(address, TIMEOUT).unwrap());
    let segment = server.register(Memory::zeroed(16).unwrap(), Rights::ALL).unwrap();
    let memory = peer.memory(segment.key()).unwrap();
    let (one, two) = (memory.at::<u64>(0).unwrap(), memory.at::<u64>(8).unwrap());
    segment.write_at(0, &11_u64.to_ne_bytes()).unwrap();
    segment.write_at(8, &22_u64.to_ne_bytes()).unwrap();
    // The other side does nothing.
    let impatient = memory.clone().with_timeout(Duration::from_millis(2)).at::<u64>(0).unwrap();
    for _ in 0..3 {
        assert!(matches!(impatient.load(), Err(Error::Timeout { .. })));
    }
    driving(&server, || {
        for _ in 0..20 {
            assert_eq!(two.load().unwrap(), 22);
            assert_eq!(one.load().unwrap(), 11);
            assert_eq!(two.fetch_add(0).unwrap(), 22);
        }
    });
}

#[test]
fn a_dead_peer_is_reported() {
    let pair = Pair::of(builder().profile(dead_after(300)), builder());
    let segment = pair.server.segment(16, Rights::ALL);
    let memory = pair.client.peer.memory(segment.key()).unwrap().with_timeout(TIMEOUT);
    let pointer = memory.at::<u64>(0).unwrap();
    pointer.store(3).unwrap();
    pair.server.context.simulate_crash();
    let failed = pointer.fetch_add(1).unwrap_err();
    assert!(matches!(failed, Error::Failed { status: Status::PeerDead, .. }), "{failed}");
    assert!(matches!(pointer.load(), Err(Error::PeerGone { .. })));
}
