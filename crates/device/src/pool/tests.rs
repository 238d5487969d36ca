//! Compares the pool with a simple model: a map from indices in use to values.

use super::*;
use crate::random::Random;
use alloc::collections::BTreeMap;

#[test]
fn agrees_with_a_map_of_indices() {
    const CAPACITY: u32 = 20;
    let mut random = Random::new(1);
    let mut pool = Pool::new(CAPACITY);
    let mut model = BTreeMap::new();
    let mut exhausted = 0;
    let steps: u64 = if cfg!(miri) { 150 } else { 2_000 };
    for value in 0..steps {
        // More records are allocated than freed, so that the pool is exhausted from time to time.
        let chosen = model.keys().nth((random.number() % 30) as usize).copied();
        match chosen {
            Some(index) => {
                let index = Index::of(index);
                assert_eq!(Some(pool[index]), model.remove(&index.number()));
                pool.remove(index);
            }
            None => match pool.add(value) {
                Some(index) => {
                    let before = model.insert(index.number(), value);
                    assert_eq!(before, None, "{index:?} is in use");
                }
                None => exhausted += 1,
            },
        }
        assert_eq!(pool.in_use() as usize, model.len());
        assert_eq!(pool.is_exhausted(), model.len() == CAPACITY as usize);
        assert!(pool.high_water() <= CAPACITY);
        assert!(model.iter().all(|(index, value)| pool[Index::of(*index)] == *value));
    }
    assert!(exhausted > 0, "the pool never ran out");
}

#[test]
fn memory_is_taken_once() {
    let mut pool = Pool::new(100);
    let place = pool.items.as_ptr();
    for round in 0..3 {
        let taken: alloc::vec::Vec<Index<_>> = (0..100).map(|_| pool.add(round).unwrap()).collect();
        assert_eq!(pool.add(round), None);
        assert_eq!(pool.items.as_ptr(), place, "the records have moved");
        taken.into_iter().for_each(|index| pool.remove(index));
    }
    assert_eq!(pool.high_water(), 100);
}

#[test]
#[should_panic(expected = "was never taken")]
fn an_index_that_was_never_taken_is_not_given_back() {
    let mut pool = Pool::new(4);
    pool.add(()).unwrap();
    pool.remove(Index::of(1));
}

#[test]
fn typed_index_names_the_record_that_was_added() {
    let mut pool: Pool<u64> = Pool::new(2);
    let first = pool.add(10).unwrap();
    let second = pool.add(20).unwrap();
    assert_eq!((first.number(), second.number()), (0, 1));
    assert_eq!(pool.add(30), None, "the pool has two records");
    pool[first] += 1;
    assert_eq!((pool[first], pool[second]), (11, 20));
    pool.remove(first);
    assert_eq!(pool.add(40), Some(first), "the record that was given back is used again");
    assert_eq!(pool.ever_taken().collect::<Vec<_>>(), [first, second]);
}
