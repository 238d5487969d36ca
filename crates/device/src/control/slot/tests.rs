use super::{Cursor, Gathered, Slot};
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn events_that_arrive_together_are_read_once() {
    let (slot, mut cursor) = (Slot::default(), Cursor::default());
    assert_eq!(slot.peek(&cursor), None);
    slot.accumulate(1500);
    slot.accumulate(64);
    let seen = slot.peek(&cursor).unwrap();
    assert_eq!(seen, Gathered { events: 2, sum: 1564, value: 0 });
    // Events between peeking and taking are not lost.
    slot.accumulate(100);
    slot.take(&mut cursor, &seen);
    let rest = slot.peek(&cursor).unwrap();
    assert_eq!((rest.events, rest.sum), (1, 100));
    slot.take(&mut cursor, &rest);
    assert_eq!(slot.peek(&cursor), None);
}

#[test]
fn the_latest_and_the_oldest_are_kept() {
    let (latest, oldest) = (Slot::default(), Slot::default());
    let mut cursors = [Cursor::default(); 2];
    for value in [7, 8, 9] {
        latest.keep_latest(value);
        oldest.keep_oldest(value);
    }
    for (slot, cursor, value) in [(&latest, 0, 9), (&oldest, 1, 7)] {
        let seen = slot.peek(&cursors[cursor]).unwrap();
        assert_eq!((seen.events, seen.value), (3, value));
        slot.take(&mut cursors[cursor], &seen);
    }
    oldest.keep_oldest(10);
    oldest.keep_oldest(11);
    assert_eq!(oldest.peek(&cursors[1]).unwrap().value, 10);
}

/// A producer and a consumer on threads of their own: every byte and every event arrives, once.
#[test]
fn slot_loses_and_doubles_nothing_between_threads() {
    const EVENTS: u64 = if cfg!(miri) { 1_000 } else { 300_000 };
    let (slot, over) = (Slot::default(), AtomicBool::new(false));
    let (events, sum) = std::thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            let (mut cursor, mut events, mut sum) = (Cursor::default(), 0_u64, 0_u64);
            loop {
                let last = over.load(Ordering::Acquire);
                while let Some(seen) = slot.peek(&cursor) {
                    slot.take(&mut cursor, &seen);
                    events += u64::from(seen.events);
                    sum += seen.sum;
                }
                if last {
                    return (events, sum);
                }
            }
        });
        for event in 0..EVENTS {
            slot.accumulate(event);
        }
        over.store(true, Ordering::Release);
        consumer.join().unwrap()
    });
    assert_eq!((events, sum), (EVENTS, EVENTS * (EVENTS - 1) / 2));
}
