//! Events for a scheduler: a slot for each flow and kind, and a queue of the flows with pending
//! events.

use super::ready_queue::{EventKind, ReadyQueue};
use super::slot::Slot;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};
use fairway_policy::FlowId;

/// Kinds of events, and how pending ones are coalesced (SCR Table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A flow begins or ends: the number of such changes; the latest is kept. The number is odd
    /// while the flow exists.
    Life,
    /// The flow's tenant and its weight; the latest is kept.
    Share,
    /// Bytes that were sent; they are added up.
    Transmit,
    /// The application's hint, in the controller's own terms; the latest is kept.
    Hint,
}

/// What limits a flow, as of its last transmit event: the value of that event's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum TransmitState {
    /// The flow has nothing left to send.
    Drained,
    /// The flow has more to send.
    Backlogged,
    /// The flow has more to send, and waits for its dequeue rate and for nothing else.
    Paced,
}

impl Kind {
    /// Number of kinds.
    pub const COUNT: usize = 4;
}

impl EventKind for Kind {
    const ALL: &'static [Kind] = &[Kind::Life, Kind::Share, Kind::Transmit, Kind::Hint];

    fn index(self) -> usize {
        self as usize
    }
}

/// Slots for all kinds of events of a number of flows, and the flows with pending events in the
/// order in which their first event came.
#[derive(Debug)]
pub struct EventQueue {
    slots: Box<[[Slot; Kind::COUNT]]>,
    ready: ReadyQueue<Kind>,
    /// By flow: how often the controller was run for it, wrapping.
    handled: Box<[AtomicU32]>,
    /// Bytes from which on a transmit event is announced.
    threshold: AtomicU32,
}

impl EventQueue {
    /// Creates a queue for flows 0 to `flows` - 1.
    pub fn new(flows: u32) -> EventQueue {
        EventQueue {
            slots: (0..flows).map(|_| Default::default()).collect(),
            ready: ReadyQueue::new(flows),
            handled: (0..flows).map(|_| AtomicU32::new(0)).collect(),
            threshold: AtomicU32::new(0),
        }
    }

    /// Number of flows for which there is room.
    pub fn flows(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The slot where events of a flow and kind accumulate.
    ///
    /// # Panics
    /// If there is no such flow.
    #[inline]
    pub fn slot(&self, flow: FlowId, kind: Kind) -> &Slot {
        &self.slots[flow.index()][kind as usize]
    }

    /// The queue of flows with pending events.
    pub fn ready(&self) -> &ReadyQueue<Kind> {
        &self.ready
    }

    /// Producer: announces that something was added to the slot.
    #[inline]
    pub fn mark(&self, flow: FlowId, kind: Kind) {
        self.ready.mark(flow, kind);
    }

    /// Consumer: sets the bytes that a flow must have sent before its transmit event is announced.
    pub fn set_threshold(&self, bytes: u32) {
        self.threshold.store(bytes, Ordering::Relaxed);
    }

    /// Consumer: counts that the controller was run for a flow.
    #[inline]
    pub fn note_handled(&self, flow: FlowId) {
        let count = &self.handled[flow.index()];
        // Load and store suffice, because there is one writer.
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// How often the controller was run for flows of this number, wrapping.
    pub fn handled(&self, flow: FlowId) -> u32 {
        self.handled.get(flow.index()).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Producer: the bytes set by [`Self::set_threshold`].
    #[inline]
    pub fn threshold(&self) -> u32 {
        self.threshold.load(Ordering::Relaxed)
    }
}
