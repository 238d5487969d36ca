use super::*;
use fairway_device::ScatterList;
use fairway_wire::AtomicOperator;

/// Returns a table with one segment of `length` zeros, and its memory.
fn table(unregistered: Unregistered, length: usize) -> (Memories, Arc<Memory>) {
    let mut memories = Memories::new(unregistered);
    let memory = Arc::new(Memory::zeroed(length).unwrap());
    memories.insert(SegmentId::new(3), memory.clone());
    (memories, memory)
}

fn range(offset: u64, length: u32) -> LocalRange {
    LocalRange { segment: SegmentId::new(3), offset, length }
}

fn read(memory: &Memory, offset: usize, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    memory.bytes(offset, length).read(&mut bytes).unwrap();
    bytes
}

fn atomic(target: LocalRange, operand: u64) -> AtomicExecution<()> {
    AtomicExecution { target, operator: AtomicOperator::Add, operand, compare: 0, token: () }
}

#[test]
fn bytes_of_several_ranges_are_scattered_and_gathered_in_their_order() {
    let (memories, memory) = table(Unregistered::LeftOut, 64);
    let list = ScatterList::new(&[range(40, 3), range(8, 2)]).unwrap();
    memories.scatter(&list, Payload::Here(&[1, 2, 3, 4, 5])).unwrap();
    assert_eq!(read(&memory, 40, 3), [1, 2, 3]);
    assert_eq!(read(&memory, 8, 2), [4, 5]);
    let mut out = [0; 5];
    assert!(memories.gather_into(&list, &mut out));
    assert_eq!(out, [1, 2, 3, 4, 5]);
}

#[test]
fn bytes_of_a_removed_segment_are_left_out_and_cannot_be_gathered() {
    let (mut memories, memory) = table(Unregistered::LeftOut, 64);
    memories.remove(SegmentId::new(3));
    memories.scatter(&range(0, 4), Payload::Here(&[9; 4])).unwrap();
    assert_eq!(read(&memory, 0, 4), [0; 4]);
    assert!(!memories.gather_into(&range(0, 4), &mut [0; 4]));
    assert_eq!(memories.change(&atomic(range(0, 8), 1)), Ok(0));
}

#[test]
#[should_panic(expected = "a device names registered memory only")]
fn a_write_beyond_a_segment_is_a_bug_where_the_device_releases_memory() {
    let (memories, _memory) = table(Unregistered::Bug, 64);
    let _ = memories.scatter(&range(60, 8), Payload::Here(&[0; 8]));
}

#[test]
fn words_change_whether_their_memory_is_aligned_or_not() {
    for (offset, length) in [(8, 8), (8, 4), (13, 8), (13, 4)] {
        let (mut memories, memory) = table(Unregistered::Bug, 64);
        assert_eq!(memories.change(&atomic(range(offset, length), 5)), Ok(0));
        assert_eq!(memories.change(&atomic(range(offset, length), u64::MAX)), Ok(5));
        assert_eq!(memories.change(&atomic(range(offset, length), 0)), Ok(4));
        let around = read(&memory, offset as usize - 1, length as usize + 2);
        assert_eq!((around[0], *around.last().unwrap()), (0, 0), "{offset} {length}");
    }
}

#[test]
fn a_payload_set_aside_is_copied_to_its_place() {
    let (mut memories, memory) = table(Unregistered::Bug, 64);
    memories.reserve_scratch(16);
    memories.scatter(&range(0, 5), Payload::Here(b"early")).unwrap();
    memories.copy(&range(0, 5), &range(50, 5)).unwrap();
    assert_eq!(read(&memory, 50, 5), b"early");
    assert_eq!(memories.counters.placed_late, 1);
}

#[test]
fn a_payload_for_a_redirected_segment_goes_to_the_ranges_behind_it() {
    let (mut memories, memory) = table(Unregistered::Bug, 64);
    let piece = Arc::new(Memory::zeroed(16).unwrap());
    let named = LocalRange { segment: SegmentId::new(7), offset: 0, length: 16 };
    memories.insert(named.segment, piece.clone());
    memories.redirect(named.segment, ScatterList::new(&[range(40, 3), range(8, 5)]));
    assert!(memories.is_redirected(named.segment));
    let part = |offset, length| LocalRange { offset, length, ..named };
    memories.scatter(&part(2, 4), Payload::Here(&[1, 2, 3, 4])).unwrap();
    assert_eq!(read(&memory, 40, 3), [0, 0, 1]);
    assert_eq!(read(&memory, 8, 5), [2, 3, 4, 0, 0]);
    assert_eq!(read(&piece, 0, 16), [0; 16]);
    // The list has eight bytes.
    assert_eq!(memories.scatter(&part(6, 3), Payload::Here(&[9; 3])), Err(Gone));
    assert_eq!(memories.scatter(&part(u64::MAX, 3), Payload::Here(&[9; 3])), Err(Gone));
    assert_eq!(read(&memory, 8, 5), [2, 3, 4, 0, 0]);
    memories.remove(SegmentId::new(3));
    assert_eq!(memories.scatter(&part(2, 4), Payload::Here(&[9; 4])), Err(Gone));
    memories.redirect(named.segment, None);
    memories.scatter(&part(2, 4), Payload::Here(&[5; 4])).unwrap();
    assert_eq!(read(&piece, 2, 4), [5; 4]);
}
