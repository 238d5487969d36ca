//! The flows that have news, from one producer to one consumer.

use alloc::boxed::Box;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering};
use fairway_policy::FlowId;

/// What an event is about: a small enumeration, each value a bit of [`Kinds`].
pub trait EventKind: Copy + 'static {
    /// All of them, in the order in which they are told of. At most 32.
    const ALL: &'static [Self];

    /// Its place among them.
    fn index(self) -> usize;
}

/// A set of kinds, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds<K>(pub u32, PhantomData<K>);

impl<K: EventKind> Kinds<K> {
    /// The kinds whose bits are set.
    pub const fn new(bits: u32) -> Self {
        Kinds(bits, PhantomData)
    }

    /// Is it one of them?
    pub fn has(self, kind: K) -> bool {
        self.0 & 1 << kind.index() != 0
    }
}

/// Owners with news, in the order in which they came to have some. Each stands in it once, however
/// much comes. An owner is a flow, or whatever else is told apart by a dense number.
#[derive(Debug)]
pub struct ReadyQueue<K> {
    /// By owner: kinds with news. An owner is in the ring if there are any.
    pending: Box<[AtomicU32]>,
    ring: Box<[AtomicU32]>,
    /// How many entries were ever added (by the producer) and taken (by the consumer), wrapping.
    added: AtomicU32,
    removed: AtomicU32,
    kind: PhantomData<fn() -> K>,
}

impl<K: EventKind> ReadyQueue<K> {
    /// For owners 0 to `owners` - 1.
    pub fn new(owners: u32) -> ReadyQueue<K> {
        // An owner gets in again only after its bits were taken, and its place is free by then.
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

    /// Owners that there is room for.
    pub fn owners(&self) -> u32 {
        self.pending.len() as u32
    }

    /// Producer: something was added to the owner's slot.
    ///
    /// # Panics
    /// If there is no such owner.
    #[inline]
    pub fn mark(&self, owner: FlowId, kind: K) {
        let bit = 1 << kind.index();
        // Always written: the thread that takes the bits sees what was added to the slot before. A
        // bit that is only looked at may be one that the consumer has taken and not yet acted upon.
        if self.pending[owner.index()].fetch_or(bit, Ordering::AcqRel) == 0 {
            let added = self.added.load(Ordering::Relaxed);
            let place = added as usize & (self.ring.len() - 1);
            self.ring[place].store(owner.0, Ordering::Relaxed);
            self.added.store(added.wrapping_add(1), Ordering::Release);
        }
    }

    /// Is there nothing?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.added.load(Ordering::Acquire) == self.removed.load(Ordering::Relaxed)
    }

    /// Consumer: the next owner, and what there is news of.
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
