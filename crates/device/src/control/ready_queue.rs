//! Queue of flows with pending events, from one producer to one consumer.

use alloc::boxed::Box;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering};
use fairway_policy::FlowId;

/// Kind of an event: a small enumeration, each value a bit of [`Kinds`].
pub trait EventKind: Copy + 'static {
    /// All kinds, in the order in which pending events are delivered. At most 32.
    const ALL: &'static [Self];

    /// The kind's position in `ALL`.
    fn index(self) -> usize;
}

/// A set of kinds, one bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds<K>(pub u32, PhantomData<K>);

impl<K: EventKind> Kinds<K> {
    /// The set of the kinds whose bits are set.
    pub const fn new(bits: u32) -> Self {
        Kinds(bits, PhantomData)
    }

    /// True if the set contains `kind`.
    pub fn has(self, kind: K) -> bool {
        self.0 & 1 << kind.index() != 0
    }
}

/// Owners with pending events, in the order in which their first event came. Each is in the queue
/// once, however many events follow. An owner is a flow, or anything else that is identified by a
/// dense number.
#[derive(Debug)]
pub struct ReadyQueue<K> {
    /// By owner: kinds with pending events. An owner is in the ring if there are any.
    pending: Box<[AtomicU32]>,
    ring: Box<[AtomicU32]>,
    /// Number of entries ever added (by the producer) and removed (by the consumer), wrapping.
    added: AtomicU32,
    removed: AtomicU32,
    kind: PhantomData<fn() -> K>,
}

impl<K: EventKind> ReadyQueue<K> {
    /// Creates a queue for owners 0 to `owners` - 1.
    pub fn new(owners: u32) -> ReadyQueue<K> {
        // An owner is added again only after its bits were taken, and its place is free by then.
        let places = (owners as usize).max(1).next_power_of_two();
        let zeros = |count: usize| (0..count).map(|_| AtomicU32::new(0)).collect();
        ReadyQueue {
            pending: zeros(owners as usize),
            ring: zeros(places),
            added: AtomicU32::new(0),
            removed: AtomicU32::new(0),
            kind: PhantomData,
        }
    }

    /// Number of owners for which there is room.
    pub fn owners(&self) -> u32 {
        self.pending.len() as u32
    }

    /// Producer: announces that something was added to the owner's slot.
    ///
    /// # Panics
    /// If there is no such owner.
    #[inline]
    pub fn mark(&self, owner: FlowId, kind: K) {
        let bit = 1 << kind.index();
        // The bit is always written, so that the thread that takes the bits sees what was added to
        // the slot before. A bit that were only read might be one that the consumer has taken and
        // not yet acted upon.
        if self.pending[owner.index()].fetch_or(bit, Ordering::AcqRel) == 0 {
            let added = self.added.load(Ordering::Relaxed);
            let place = added as usize & (self.ring.len() - 1);
            self.ring[place].store(owner.0, Ordering::Relaxed);
            self.added.store(added.wrapping_add(1), Ordering::Release);
        }
    }

    /// True if no owner has pending events.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.added.load(Ordering::Acquire) == self.removed.load(Ordering::Relaxed)
    }

    /// Consumer: takes the next owner and the kinds of its pending events.
    pub fn pop(&self) -> Option<(FlowId, Kinds<K>)> {
        let removed = self.removed.load(Ordering::Relaxed);
        if self.added.load(Ordering::Acquire) == removed {
            return None;
        }
        let place = removed as usize & (self.ring.len() - 1);
        let owner = self.ring[place].load(Ordering::Relaxed);
        self.removed.store(removed.wrapping_add(1), Ordering::Release);
        let kinds = self.pending[owner as usize].swap(0, Ordering::AcqRel);
        Some((FlowId(owner), Kinds::new(kinds)))
    }
}

#[cfg(test)]
mod tests;
