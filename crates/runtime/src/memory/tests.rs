use super::*;
use fairway_wire::AtomicOperator;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn copies_are_exact_at_every_alignment_and_length() {
    let memory = Memory::zeroed(256).unwrap();
    // Miri takes minutes for all combinations.
    let (offsets, lengths) = if cfg!(miri) { (5, 7) } else { (1, 1) };
    for offset in (0..17).step_by(offsets) {
        for length in (0..70).step_by(lengths) {
            let data: Vec<u8> = (0..length).map(|i| (offset * 7 + i * 3 + 1) as u8).collect();
            memory.bytes(0, 256).write(&[0xee; 256]).unwrap();
            memory.bytes(offset, length).write(&data).unwrap();
            let mut back = vec![0; length];
            memory.bytes(offset, length).read(&mut back).unwrap();
            assert_eq!(back, data);
            assert!(memory.bytes(offset, length).equals(&data).unwrap());
            let mut all = vec![0; 256];
            memory.bytes(0, 256).read(&mut all).unwrap();
            assert!(all[..offset].iter().all(|byte| *byte == 0xee), "wrote in front");
            assert!(all[offset + length..].iter().all(|byte| *byte == 0xee), "wrote behind");
            if length > 0 {
                let mut other = data.clone();
                other[length / 2] ^= 0x10;
                assert!(!memory.bytes(offset, length).equals(&other).unwrap());
            }
        }
    }
}

/// Long ranges are copied by other instructions than short ones.
#[test]
fn long_copies_are_exact_at_every_alignment() {
    const BYTES: usize = 3 * 4096;
    let (from, to) = (Memory::zeroed(BYTES).unwrap(), Memory::zeroed(BYTES).unwrap());
    let data: Vec<u8> = (0..BYTES).map(|at| (at * 7 + at / 256) as u8).collect();
    from.bytes(0, BYTES).write(&data).unwrap();
    // Miri takes minutes for all combinations.
    let (offsets, lengths) = if cfg!(miri) { (5, 900) } else { (1, 1) };
    for offset in (0..9).step_by(offsets) {
        for length in (2040..2060).chain(8840..8870).step_by(lengths) {
            let part = &data[offset..offset + length];
            let mut read = vec![0; length];
            from.bytes(offset, length).read(&mut read).unwrap();
            assert!(read == part, "read {length} from {offset}");
            to.bytes(0, BYTES).write(&[0xee; BYTES]).unwrap();
            let room = 8 + 3 * offset;
            from.bytes(offset, length).copy_to(to.bytes(room, length)).unwrap();
            let mut all = vec![0; BYTES];
            to.bytes(0, BYTES).read(&mut all).unwrap();
            assert!(all[room..room + length] == *part, "copied {length} from {offset}");
            assert!(all[..room].iter().all(|byte| *byte == 0xee), "wrote in front");
            assert!(all[room + length..].iter().all(|byte| *byte == 0xee), "wrote behind");
        }
    }
}

#[test]
fn a_vector_comes_back_as_it_is() {
    let mut vector = vec![1, 2, 3, 4, 5];
    vector.reserve(100);
    let start = vector.as_ptr();
    let memory = Memory::from_vec(vector);
    memory.bytes(1, 2).write(&[8, 9]).unwrap();
    let vector = memory.into_vec();
    assert_eq!(vector, [1, 8, 9, 4, 5]);
    assert_eq!(vector.as_ptr(), start, "not copied");
}

#[test]
fn empty_memory_is_memory() {
    for memory in [Memory::zeroed(0).unwrap(), Memory::from_vec(Vec::new())] {
        assert!(memory.is_empty());
        memory.bytes(0, 0).write(&[]).unwrap();
        assert!(memory.into_vec().is_empty());
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn a_mapped_file_is_written_through() {
    let path = std::env::temp_dir().join(format!("fairway-memory-{}", std::process::id()));
    std::fs::write(&path, b"0123456789").unwrap();
    let open = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let memory = Memory::map_file(&open, true).unwrap();
    memory.bytes(2, 3).write(b"abc").unwrap();
    drop(memory);
    assert_eq!(std::fs::read(&path).unwrap(), b"01abc56789");
    let read_only = Memory::map_file(&open, false).unwrap();
    assert!(!read_only.is_writable());
    assert_eq!(read_only.into_vec(), b"01abc56789");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn foreign_memory_is_left_alone() {
    let mut bytes = vec![7_u8; 32];
    let start = NonNull::new(bytes.as_mut_ptr()).unwrap();
    // SAFETY: `bytes` is not touched while `memory` exists.
    let memory = unsafe { Memory::from_raw(start, 32) };
    memory.bytes(0, 4).write(&[1, 2, 3, 4]).unwrap();
    drop(memory);
    assert_eq!(bytes[..5], [1, 2, 3, 4, 7]);
}

#[test]
fn shares_are_the_same_bytes_until_the_last_is_dropped() {
    let vector = vec![7_u8; 5000];
    let start = vector.as_ptr();
    let mut shares = Memory::from_vec(vector).shares(3);
    for (at, share) in shares.iter().enumerate() {
        share.bytes(at, 1).write(&[at as u8]).unwrap();
    }
    for share in &shares {
        assert!(share.bytes(0, 4).equals(&[0, 1, 2, 7]).unwrap());
    }
    let copy = shares.pop().unwrap().into_vec();
    assert_ne!(copy.as_ptr(), start, "others have the bytes");
    assert_eq!(copy[..4], [0, 1, 2, 7]);
    drop(shares.pop());
    let last = shares.pop().unwrap().into_vec();
    assert_eq!(last.as_ptr(), start, "not copied");
    assert_eq!(last, copy);
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn shares_of_shared_memory_can_be_mapped() {
    let shares = Memory::shared(4096).unwrap().shares(2);
    assert!(shares.iter().all(|share| share.file().is_some()));
}

/// Contexts change words without a common lock.
#[test]
fn words_of_shares_change_atomically() {
    let rounds: u32 = if cfg!(miri) { 50 } else { 20_000 };
    let mut shares = Memory::zeroed(64).unwrap().shares(3);
    let reader = shares.pop().unwrap();
    std::thread::scope(|scope| {
        for share in &shares {
            scope.spawn(move || {
                for _ in 0..rounds {
                    share.bytes(8, 8).change(AtomicOperator::Add, 1, 0).unwrap();
                }
            });
        }
    });
    assert!(reader.bytes(8, 8).equals(&u64::from(2 * rounds).to_ne_bytes()).unwrap());
}

#[test]
fn words_change_by_the_operator() {
    let memory = Memory::zeroed(16).unwrap();
    for width in [4, 8] {
        let mask = if width == 8 { u64::MAX } else { u64::from(u32::MAX) };
        for operator in AtomicOperator::ALL {
            for (old, operand, compare) in [(7, 9, 7), (7, 9, 8), (mask, 2, mask), (0, 1, 1)] {
                let bytes = old.to_ne_bytes();
                memory.bytes(0, 16).write(&[0xee; 16]).unwrap();
                memory.bytes(8, width).write(&bytes[..width]).unwrap();
                assert_eq!(memory.bytes(8, width).change(operator, operand, compare), Ok(old));
                let mut now = [0; 8];
                memory.bytes(8, width).read(&mut now[..width]).unwrap();
                let expected = operator.apply(old, operand, compare) & mask;
                assert_eq!(u64::from_ne_bytes(now), expected, "{operator:?} of {old}");
                assert!(
                    memory.bytes(0, 8).equals(&[0xee; 8]).unwrap(),
                    "the word before is untouched"
                );
                assert!(memory.bytes(8 + width, 8 - width).equals(&[0xee; 8][width..]).unwrap());
            }
        }
    }
}

/// A writer flips all bits of a word; a reader must never see a mixture of old and new bits.
#[test]
fn aligned_words_do_not_tear() {
    // Miri takes more than two minutes for all rounds.
    let rounds: u32 = if cfg!(miri) { 200 } else { 200_000 };
    let memory = Memory::zeroed(64).unwrap();
    let done = AtomicBool::new(false);
    for (offset, length) in [(2, 2), (4, 4), (8, 8)] {
        done.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..rounds {
                    memory.bytes(offset, length).write(&[round as u8; 8][..length]).unwrap();
                }
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                let mut seen = [0; 8];
                memory.bytes(offset, length).read(&mut seen[..length]).unwrap();
                assert!(seen[..length].iter().all(|byte| *byte == seen[0]), "torn: {seen:?}");
            }
        });
    }
}
