//! Compares the lists with a deque of indices.

use super::*;
use crate::random::Random;
use alloc::collections::VecDeque;

/// Number of steps of a test.
const STEPS: u32 = if cfg!(miri) { 60 } else { 1_000 };

struct Records(Vec<Links<u32>>);

impl Linked<u32> for Records {
    fn links(&mut self, index: u32) -> &mut Links<u32> {
        &mut self.0[index as usize]
    }
}

impl Records {
    fn new(count: usize) -> Records {
        Records(alloc::vec![Links::UNLINKED; count])
    }

    fn forwards(&self, list: List<u32>) -> Vec<u32> {
        self.walk(list.head, |links| links.next)
    }

    fn backwards(&self, list: List<u32>) -> Vec<u32> {
        self.walk(list.tail, |links| links.previous)
    }

    fn walk(&self, from: Option<u32>, step: impl Fn(&Links<u32>) -> Option<u32>) -> Vec<u32> {
        let mut found = Vec::new();
        let mut at = from;
        while let Some(index) = at {
            assert!(found.len() < self.0.len(), "the list has a loop");
            found.push(index);
            at = step(&self.0[index as usize]);
        }
        found
    }
}

#[test]
fn lists_agree_with_a_deque() {
    const RECORDS: u64 = 12;
    let mut random = Random::new(3);
    let mut records = Records::new(RECORDS as usize);
    let (mut list, mut model) = (List::default(), VecDeque::new());
    for _ in 0..STEPS {
        let index = (random.number() % RECORDS) as u32;
        match model.iter().position(|other| *other == index) {
            None => {
                list.push_back(&mut records, index);
                model.push_back(index);
            }
            Some(_) if random.number().is_multiple_of(4) => {
                assert_eq!(list.pop_front(&mut records), model.pop_front());
            }
            Some(at) => {
                list.unlink(&mut records, index);
                model.remove(at);
                assert_eq!(records.0[index as usize], Links::UNLINKED);
            }
        }
        assert_eq!(records.forwards(list), model.iter().copied().collect::<Vec<u32>>());
        assert_eq!(records.backwards(list), model.iter().rev().copied().collect::<Vec<u32>>());
        assert_eq!(list.is_empty(), model.is_empty());
    }
}

#[test]
fn rings_agree_with_a_deque() {
    const CAPACITY: u32 = 7;
    let mut random = Random::new(4);
    let (mut ring, mut model) = (Ring::new(CAPACITY), VecDeque::new());
    for _ in 0..STEPS {
        let index = (random.number() % u64::from(CAPACITY)) as u32;
        match random.number() % 3 {
            0 => assert_eq!(ring.pop(), model.pop_front()),
            1 => {
                ring.purge(index);
                model.retain(|other| *other != index);
            }
            _ if !model.contains(&index) => {
                ring.push(index);
                model.push_back(index);
            }
            _ => {}
        }
        assert_eq!(ring.is_empty(), model.is_empty());
    }
    while let Some(index) = ring.pop() {
        assert_eq!(Some(index), model.pop_front());
    }
    assert!(model.is_empty());
}

#[test]
#[should_panic(expected = "overflow")]
fn a_full_ring_takes_no_more() {
    let mut ring = Ring::new(2);
    (0..3u32).for_each(|index| ring.push(index));
}
