//! What a scheduler hears: slots for the events of flows, and which flows have news.

use super::ready_queue::{EventKind, ReadyQueue};
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
    /// Its tenant and its weight: the latest.
    Share,
    /// Bytes have left: added up.
    Transmit,
    /// What the application asks for, in the controller's own terms: the latest.
    Hint,
}

impl Kind {
    /// How many there are.
    pub const COUNT: usize = 4;
}

impl EventKind for Kind {
    const ALL: &'static [Kind] = &[Kind::Life, Kind::Share, Kind::Transmit, Kind::Hint];

    fn index(self) -> usize {
        self as usize
    }
}

/// Slots for all kinds of events of so many flows, and the flows with news in the order in which
/// they came to have some.
#[derive(Debug)]
pub struct EventQueue {
    slots: Box<[[Slot; Kind::COUNT]]>,
    ready: ReadyQueue<Kind>,
    /// By flow: how often the controller was run for it, wrapping.
    handled: Box<[AtomicU32]>,
    /// Bytes from which on a transmit event is worth looking at.
    threshold: AtomicU32,
}

impl EventQueue {
    /// For flows 0 to `flows` - 1.
    pub fn new(flows: u32) -> EventQueue {
        EventQueue {
            slots: (0..flows).map(|_| Default::default()).collect(),
            ready: ReadyQueue::new(flows),
            handled: (0..flows).map(|_| AtomicU32::new(0)).collect(),
            threshold: AtomicU32::new(0),
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

    /// Which flows have some.
    pub fn ready(&self) -> &ReadyQueue<Kind> {
        &self.ready
    }

    /// Producer: something was added to the slot.
    #[inline]
    pub fn mark(&self, flow: FlowId, kind: Kind) {
        self.ready.mark(flow, kind);
    }

    /// Consumer: from how many bytes on it wants to hear of what a flow has sent.
    pub fn set_threshold(&self, bytes: u32) {
        self.threshold.store(bytes, Ordering::Relaxed);
    }

    /// Consumer: the controller was run for a flow.
    #[inline]
    pub fn note_handled(&self, flow: FlowId) {
        let count = &self.handled[flow.index()];
        // One writer.
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// How often the controller was run for the flows of this number, wrapping.
    pub fn handled(&self, flow: FlowId) -> u32 {
        self.handled.get(flow.index()).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Producer: see [`Self::set_threshold`].
    #[inline]
    pub fn threshold(&self) -> u32 {
        self.threshold.load(Ordering::Relaxed)
    }
}
