//! The event queue, with integer time. Simultaneous events come in the order of insertion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Future events.
#[derive(Debug)]
pub(crate) struct Events<T> {
    heap: BinaryHeap<Reverse<(u64, u64, Slot)>>,
    waiting: Vec<Option<T>>,
    free: Vec<usize>,
    sequence: u64,
    /// Picoseconds since the start.
    pub(crate) now: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slot(usize);

impl<T> Events<T> {
    pub(crate) fn new() -> Self {
        let (heap, waiting, free) = (BinaryHeap::new(), Vec::new(), Vec::new());
        Events { heap, waiting, free, sequence: 0, now: 0 }
    }

    /// Schedules `what` for `at`, or for now if that is past.
    pub(crate) fn at(&mut self, at: u64, what: T) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() - 1
        });
        self.waiting[slot] = Some(what);
        self.sequence += 1;
        self.heap.push(Reverse((at.max(self.now), self.sequence, Slot(slot))));
    }

    /// Takes the next event, and advances the clock to its time.
    pub(crate) fn next(&mut self) -> Option<T> {
        let Reverse((at, _, Slot(slot))) = self.heap.pop()?;
        self.now = at;
        self.free.push(slot);
        self.waiting[slot].take()
    }
}
