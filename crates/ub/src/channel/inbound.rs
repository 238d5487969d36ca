//! What the peer has under way to this side: its messages, its questions and its wrong keys.

use super::refuse::KeyBudget;
use crate::arrival::Arrival;
use crate::limits::Profile;
use crate::pool::Index;
use alloc::boxed::Box;
use fairway_wire::Instant;

/// The peer's messages by the slots that it chose for them, and the answers to its questions.
#[derive(Debug)]
pub(super) struct Inbound {
    /// Arrivals by the slot the peer chose.
    slots: Box<[Option<Index<Arrival>>]>,
    /// Answers to the peer's questions that are on their way.
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

    /// The message that is on its way by a slot, if there is one. `None` if there is no such slot.
    #[inline]
    pub(super) fn by_slot(&self, slot: u8) -> Option<Option<Index<Arrival>>> {
        self.slots.get(usize::from(slot)).copied()
    }

    /// A message is on its way by a slot, which there is.
    #[inline]
    pub(super) fn occupy(&mut self, slot: u8, arrival: Index<Arrival>) {
        self.slots[usize::from(slot)] = Some(arrival);
    }

    /// A message is on its way by a slot no more, unless another one is.
    #[inline]
    pub(super) fn vacate(&mut self, slot: u8, arrival: Index<Arrival>) {
        let place = &mut self.slots[usize::from(slot)];
        if *place == Some(arrival) {
            *place = None;
        }
    }

    /// The messages that are on their way by a slot.
    pub(super) fn messages(&self) -> impl Iterator<Item = Index<Arrival>> + '_ {
        self.slots.iter().flatten().copied()
    }

    /// Answers to the peer's questions that are on their way.
    #[inline]
    pub(super) fn answers(&self) -> u32 {
        self.answers
    }

    /// An answer is to be sent.
    #[inline]
    pub(super) fn begin_answer(&mut self) {
        self.answers += 1;
    }

    /// An answer has arrived, or will not be sent.
    #[inline]
    pub(super) fn end_answer(&mut self) {
        self.answers -= 1;
    }

    /// The peer has named something that is there with a wrong key. True if the caller is to be
    /// told that it does so too often, which happens once.
    pub(super) fn count_wrong_key(&mut self, now: Instant, profile: &Profile) -> bool {
        self.keys.spend(now, profile)
    }
}
