//! A slot: accumulates the events of one kind of one flow until they are taken.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Accumulates events of one kind of one flow, from one producer to one consumer.
///
/// The producer only adds to what it wrote before; the consumer remembers how far it has read. So
/// neither waits for the other, and nothing is lost or counted twice: what is added while the
/// consumer reads belongs to this reading or to the next.
#[derive(Debug, Default)]
pub struct Slot {
    /// The sum of all amounts, wrapping.
    sum: AtomicU64,
    /// The value that was kept.
    value: AtomicU64,
    /// Number of events, wrapping.
    events: AtomicU32,
    /// Number of events that the consumer has taken, wrapping.
    taken: AtomicU32,
}

/// How far a consumer has read a slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    sum: u64,
    events: u32,
}

impl Cursor {
    /// The sum of all amounts that have been read, wrapping.
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

/// What has accumulated in a slot since it was last read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Number of events.
    pub events: u32,
    /// The sum of their amounts ([`Slot::accumulate`]).
    pub sum: u64,
    /// The value that was kept ([`Slot::keep_latest`], [`Slot::keep_oldest`]).
    pub value: u64,
}

impl Slot {
    fn count(&self) {
        let events = self.events.load(Ordering::Relaxed);
        self.events.store(events.wrapping_add(1), Ordering::Release);
    }

    /// Producer: adds to the sum.
    pub fn accumulate(&self, amount: u64) {
        self.sum.store(self.sum.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        self.count();
    }

    /// Producer: adds to the sum, and replaces the value.
    pub fn accumulate_with(&self, amount: u64, value: u64) {
        self.value.store(value, Ordering::Relaxed);
        self.accumulate(amount);
    }

    /// Producer: replaces the value.
    pub fn keep_latest(&self, value: u64) {
        self.value.store(value, Ordering::Relaxed);
        self.count();
    }

    /// Producer: keeps the value only if no event has come since the last reading. (If the consumer
    /// reads at this very moment, it may see the same value twice.)
    pub fn keep_oldest(&self, value: u64) {
        if self.taken.load(Ordering::Acquire) == self.events.load(Ordering::Relaxed) {
            self.value.store(value, Ordering::Relaxed);
        }
        self.count();
    }

    /// Producer: adds to the sum, and keeps the value of the first event since the last reading.
    pub fn accumulate_since(&self, amount: u64, value: u64) {
        self.sum.store(self.sum.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        self.keep_oldest(value);
    }

    /// Consumer: returns what has accumulated since the last reading, without taking it.
    pub fn peek(&self, cursor: &Cursor) -> Option<Gathered> {
        let events = self.events.load(Ordering::Acquire);
        if events == cursor.events {
            return None;
        }
        Some(Gathered {
            events: events.wrapping_sub(cursor.events),
            sum: self.sum.load(Ordering::Relaxed).wrapping_sub(cursor.sum),
            value: self.value.load(Ordering::Relaxed),
        })
    }

    /// The value that was kept last, read or not.
    pub fn latest(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }

    /// Consumer: marks what it has seen as taken.
    pub fn take(&self, cursor: &mut Cursor, seen: &Gathered) {
        cursor.events = cursor.events.wrapping_add(seen.events);
        cursor.sum = cursor.sum.wrapping_add(seen.sum);
        self.taken.store(cursor.events, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
