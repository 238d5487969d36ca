//! What the peer has under way to this side: its messages, its requests and its wrong keys.

use super::refuse::KeyBudget;
use crate::arrival::Arrival;
use crate::limits::Profile;
use crate::pool::Index;
use alloc::boxed::Box;
use fairway_wire::Instant;

/// The peer's messages by the slots that it chose for them, and the answers to its requests.
#[derive(Debug)]
pub(super) struct Inbound {
    /// Arrivals by the slot the peer chose.
    slots: Box<[Option<Index<Arrival>>]>,
    /// Answers to the peer's requests that are on their way.
    answers: u32,
    keys: KeyBudget,
}

impl Inbound {
    pub(super) fn new(slots: u32) -> Inbound {
        Inbound {
            slots: alloc::vec![None; slots as usize].into_boxed_slice(),
            answers: 0,
            keys: KeyBudget::default(),
        }
    }

    /// True if the peer has nothing under way, and never used a wrong key.
    pub(super) fn is_untouched(&self) -> bool {
        self.messages().next().is_none() && self.answers == 0 && self.keys.is_untouched()
    }

    /// The incoming message that uses a slot, if any. The outer `None` means that there is no such
    /// slot.
    #[inline]
    pub(super) fn by_slot(&self, slot: u8) -> Option<Option<Index<Arrival>>> {
        self.slots.get(usize::from(slot)).copied()
    }

    /// Records the incoming message that uses a slot, which must exist.
    #[inline]
    pub(super) fn occupy(&mut self, slot: u8, arrival: Index<Arrival>) {
        self.slots[usize::from(slot)] = Some(arrival);
    }

    /// Frees a slot if this message still uses it.
    #[inline]
    pub(super) fn vacate(&mut self, slot: u8, arrival: Index<Arrival>) {
        let place = &mut self.slots[usize::from(slot)];
        if *place == Some(arrival) {
            *place = None;
        }
    }

    /// The incoming messages that use a slot.
    pub(super) fn messages(&self) -> impl Iterator<Item = Index<Arrival>> + '_ {
        self.slots.iter().flatten().copied()
    }

    /// Answers to the peer's requests that are on their way.
    #[inline]
    pub(super) fn answers(&self) -> u32 {
        self.answers
    }

    /// Counts an answer that is to be sent.
    #[inline]
    pub(super) fn begin_answer(&mut self) {
        self.answers += 1;
    }

    /// Uncounts an answer that has arrived, or will not be sent.
    #[inline]
    pub(super) fn end_answer(&mut self) {
        self.answers -= 1;
    }

    /// Counts a wrong key that the peer used for something that exists. True, once, if the caller
    /// is to be notified that this happens too often.
    pub(super) fn count_wrong_key(&mut self, now: Instant, profile: &Profile) -> bool {
        self.keys.spend(now, profile)
    }
}
