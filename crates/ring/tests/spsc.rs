//! Rings in private and in shared memory.
#![cfg(not(loom))]

use std::ptr::NonNull;
use std::time::{Duration, Instant};

use fairway_ring::{AreaError, Spsc};

/// A time-out far longer than any of these tests takes: a test that reaches it has hung.
const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn refuses_capacities_that_are_no_power_of_two() {
    for capacity in [0, 3, 12] {
        assert_eq!(Spsc::<1>::owned(capacity).unwrap_err(), AreaError::Capacity(capacity));
    }
}

#[test]
fn items_come_out_in_order_and_a_full_ring_refuses() {
    let (mut producer, mut consumer) = Spsc::<2>::owned(4).unwrap();
    for lap in 0..10_u64 {
        assert!(consumer.is_empty());
        assert_eq!(producer.room(), 4);
        for i in 0..4 {
            producer.push([lap, i]).unwrap();
        }
        assert_eq!(producer.push([9, 9]), Err([9, 9]));
        for i in 0..4 {
            assert_eq!(consumer.pop(), Some([lap, i]));
        }
        assert_eq!(consumer.pop(), None);
    }
}

#[test]
fn two_threads_pass_every_record_in_order() {
    // Miri runs about 200 a second.
    const RECORDS: u64 = if cfg!(miri) { 1_000 } else { 200_000 };
    let (mut producer, mut consumer) = Spsc::<3>::owned(64).unwrap();
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for i in 0..RECORDS {
                while producer.push([i, !i, i << 7]).is_err() {
                    assert!(start.elapsed() < DEADLINE, "stuck at {i}");
                    std::thread::yield_now();
                }
            }
        });
        for i in 0..RECORDS {
            let record = loop {
                if let Some(record) = consumer.pop() {
                    break record;
                }
                assert!(start.elapsed() < DEADLINE, "stuck at {i}");
                std::thread::yield_now();
            };
            assert_eq!(record, [i, !i, i << 7]);
        }
    });
}

#[test]
fn attaches_to_a_ring_in_foreign_memory() {
    let mut words = vec![0_u64; Spsc::<1>::area_words(8)];
    let area = NonNull::new(words.as_mut_ptr()).unwrap();
    // SAFETY: `words` outlives both ends and is not touched otherwise.
    unsafe {
        Spsc::<1>::create(area, words.len(), 8).unwrap();
        let mut producer = Spsc::<1>::producer(area, words.len()).unwrap();
        producer.push([7]).unwrap();
        let mut consumer = Spsc::<1>::consumer(area, words.len()).unwrap();
        assert_eq!(consumer.pop(), Some([7]));
        assert!(Spsc::<2>::consumer(area, words.len()).is_err());
        assert!(matches!(
            Spsc::<1>::consumer(area, words.len() - 1),
            Err(AreaError::TooShort { .. })
        ));
    }
}

#[test]
fn a_counterpart_that_writes_nonsense_is_an_empty_or_full_ring() {
    let mut words = vec![0_u64; Spsc::<1>::area_words(8)];
    let area = NonNull::new(words.as_mut_ptr()).unwrap();
    // SAFETY: as above; the writes in between stand for a broken process.
    unsafe {
        Spsc::<1>::create(area, words.len(), 8).unwrap();
        let mut consumer = Spsc::<1>::consumer(area, words.len()).unwrap();
        area.add(8).write_volatile(u64::MAX - 3);
        assert_eq!(consumer.pop(), None);
        area.add(8).write_volatile(9);
        assert_eq!(consumer.pop(), None);
        area.add(8).write_volatile(0);
        let mut producer = Spsc::<1>::producer(area, words.len()).unwrap();
        area.add(16).write_volatile(1000);
        for _ in 0..8 {
            let _ = producer.push([1]);
        }
        assert_eq!(producer.push([1]), Err([1]));
        area.write_volatile(!0);
        assert!(matches!(Spsc::<1>::producer(area, words.len()), Err(AreaError::NotThisRing(_))));
    }
}
