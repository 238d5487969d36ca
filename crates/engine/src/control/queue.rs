//! Which flows have news, from one producer to one consumer.

use super::slot::Slot;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};
use fairway_policy::FlowId;

/// What an event is about, and how those that are not yet dealt with come together (SCR Table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A flow begins or ends: the number of such changes, the latest kept. It is odd while
    /// there is one.
    Life,
    /// To whom it belongs and what it is worth: the latest.
    Share,
    /// Bytes have left: added up.
    Transmit,
    /// What the application asks for, in the law's own terms: the latest.
    Hint,
}

/// A set of kinds, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(pub u32);

impl Kind {
    /// How many there are.
    pub const COUNT: usize = 4;
    /// All of them, in the order in which they are told of.
    pub const ALL: [Kind; Self::COUNT] = [Kind::Life, Kind::Share, Kind::Transmit, Kind::Hint];

    const fn bit(self) -> u32 {
        1 << self as u8
    }
}

impl Kinds {
    /// Is it one of them?
    pub const fn has(self, kind: Kind) -> bool {
        self.0 & kind.bit() != 0
    }
}

/// Slots for all kinds of events of so many flows, and the flows with news in the order in which
/// they came to have some.
#[derive(Debug)]
pub struct EventQueue {
    slots: Box<[[Slot; Kind::COUNT]]>,
    /// By flow: kinds with news. A flow is in the ring if there are any.
    pending: Box<[AtomicU32]>,
    ring: Box<[AtomicU32]>,
    /// Bytes from which on a transmit event is worth looking at.
    threshold: AtomicU32,
    /// How many entries were ever added (by the producer) and taken (by the consumer), wrapping.
    added: AtomicU32,
    removed: AtomicU32,
}

impl EventQueue {
    /// For flows 0 to `flows` - 1.
    pub fn new(flows: u32) -> EventQueue {
        // A flow gets in again only after its bits were taken, and its place is free by then.
        let places = (flows as usize).max(1).next_power_of_two();
        let zeros = |count: usize| (0..count).map(|_| AtomicU32::new(0)).collect();
        EventQueue {
            slots: (0..flows).map(|_| Default::default()).collect(),
            pending: zeros(flows as usize),
            ring: zeros(places),
            threshold: AtomicU32::new(0),
            added: AtomicU32::new(0),
            removed: AtomicU32::new(0),
        }
    }

    /// Flows that there is room for.
    pub fn flows(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Where the events of a kind come together.
    ///
    /// # Panics
    /// If there is no such flow.
    #[inline]
    pub fn slot(&self, flow: FlowId, kind: Kind) -> &Slot {
        &self.slots[flow.index()][kind as usize]
    }

    /// Consumer: from how many bytes on it wants to hear of what a flow has sent.
    pub fn set_threshold(&self, bytes: u32) {
        self.threshold.store(bytes, Ordering::Relaxed);
    }

    /// Producer: see [`Self::set_threshold`].
    #[inline]
    pub fn threshold(&self) -> u32 {
        self.threshold.load(Ordering::Relaxed)
    }

    /// Producer: something was added to the slot.
    #[inline]
    pub fn announce(&self, flow: FlowId, kind: Kind) {
        // Always written: whoever takes the bits away sees what was added to the slot before. A bit
        // that is only looked at may be one that the consumer has taken and not yet acted upon.
        if self.pending[flow.index()].fetch_or(kind.bit(), Ordering::AcqRel) == 0 {
            let added = self.added.load(Ordering::Relaxed);
            let place = added as usize & (self.ring.len() - 1);
            self.ring[place].store(flow.0, Ordering::Relaxed);
            self.added.store(added.wrapping_add(1), Ordering::Release);
        }
    }

    /// Is there nothing?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.added.load(Ordering::Acquire) == self.removed.load(Ordering::Relaxed)
    }

    /// Consumer: the next flow, and what there is news of.
    pub fn pop(&self) -> Option<(FlowId, Kinds)> {
        let removed = self.removed.load(Ordering::Relaxed);
        if self.added.load(Ordering::Acquire) == removed {
            return None;
        }
        let place = removed as usize & (self.ring.len() - 1);
        let flow = self.ring[place].load(Ordering::Relaxed);
        self.removed.store(removed.wrapping_add(1), Ordering::Release);
        let kinds = self.pending[flow as usize].swap(0, Ordering::AcqRel);
        Some((FlowId(flow), Kinds(kinds)))
    }
}

#[cfg(test)]
mod tests;
