//! Messages of peers that are being received, and those of them that wait for their turn.

use crate::arrival::{Arrival, Turn};
use crate::pool::{Index, Pool};
use alloc::vec::Vec;
use fairway_policy::MemoryVisitor;

/// The records of messages of peers that are being received.
pub(crate) struct Arrivals {
    pool: Pool<Arrival>,
    /// Messages in memory order that had to wait for their turn and have not ended.
    waiting: u32,
    /// Message slots of all open channels: as many records are reserved for messages that do not
    /// wait.
    slots_open: u32,
    /// Messages in memory order that their initiator abandoned before they were next in order.
    given_up: Vec<Index<Arrival>>,
}

impl Arrivals {
    pub(crate) fn new(capacity: u32) -> Arrivals {
        Arrivals {
            pool: Pool::new(capacity),
            waiting: 0,
            slots_open: 0,
            given_up: Vec::with_capacity(capacity as usize),
        }
    }

    /// Names the memory of the first records.
    pub(crate) fn visit_memory(&self, visitor: &mut MemoryVisitor<'_>) {
        visitor.value(self.pool.first(2));
    }

    #[inline]
    pub(crate) fn get(&self, index: Index<Arrival>) -> Option<&Arrival> {
        self.pool.get(index)
    }

    /// Adds a record. `None` if all are taken.
    #[inline]
    pub(crate) fn add(&mut self, arrival: Arrival) -> Option<Index<Arrival>> {
        self.pool.add(arrival)
    }

    #[inline]
    pub(crate) fn is_exhausted(&self) -> bool {
        self.pool.is_exhausted()
    }

    pub(crate) fn ever_taken(&self) -> impl Iterator<Item = Index<Arrival>> + use<> {
        self.pool.ever_taken()
    }

    pub(crate) fn in_use(&self) -> u32 {
        self.pool.in_use()
    }

    /// Frees a record.
    pub(crate) fn free(&mut self, index: Index<Arrival>) {
        if self.pool[index].has_waited {
            self.waiting -= 1;
            self.given_up.retain(|at| *at != index);
        }
        self.pool[index].channel = None;
        self.pool.remove(index);
    }

    // ---- messages that wait ----

    /// Reserves records for the messages of a channel that has been opened.
    pub(crate) fn keep_slots(&mut self, slots: u32) {
        self.slots_open += slots;
    }

    /// Releases the records that were reserved for the messages of a channel that has ended.
    pub(crate) fn release_slots(&mut self, slots: u32) {
        self.slots_open -= slots;
    }

    /// Makes a message wait for its turn, in the list that begins at `first`. False if too many
    /// wait.
    pub(crate) fn wait(
        &mut self,
        first: &mut Option<Index<Arrival>>,
        index: Index<Arrival>,
    ) -> bool {
        // A waiting message ends late, possibly after its sender has reused its slot.
        let kept = self.slots_open + 1;
        if self.pool.capacity().saturating_sub(kept) <= self.waiting {
            return false;
        }
        self.waiting += 1;
        let arrival = &mut self.pool[index];
        arrival.next_waiting = first.replace(index);
        (arrival.turn, arrival.has_waited) = (Turn::Waits, true);
        true
    }

    /// Removes a message that is now next in order from the list that begins at `first`.
    pub(crate) fn end_waiting(
        &mut self,
        first: &mut Option<Index<Arrival>>,
        index: Index<Arrival>,
    ) {
        self.unlink_waiting(first, index);
        self.pool[index].turn = Turn::Come;
    }

    /// Takes a message out of the list of waiting ones that begins at `first`.
    pub(crate) fn unlink_waiting(
        &mut self,
        first: &mut Option<Index<Arrival>>,
        index: Index<Arrival>,
    ) {
        let next = self.pool[index].next_waiting.take();
        let mut at = *first;
        if at == Some(index) {
            *first = next;
            return;
        }
        while let Some(before) = at {
            at = self.pool[before].next_waiting;
            if at == Some(index) {
                self.pool[before].next_waiting = next;
                return;
            }
        }
    }

    /// Records that the initiator of a waiting message has abandoned it.
    pub(crate) fn give_up(&mut self, index: Index<Arrival>) {
        self.given_up.push(index);
    }

    /// True if [`Self::pop_given_up`] returns a message.
    #[inline]
    pub(crate) fn has_given_up(&self) -> bool {
        !self.given_up.is_empty()
    }

    /// Takes a message that its initiator abandoned while it waited.
    #[inline]
    pub(crate) fn pop_given_up(&mut self) -> Option<Index<Arrival>> {
        self.given_up.pop()
    }
}

impl core::ops::Index<Index<Arrival>> for Arrivals {
    type Output = Arrival;

    #[inline]
    fn index(&self, index: Index<Arrival>) -> &Arrival {
        &self.pool[index]
    }
}

impl core::ops::IndexMut<Index<Arrival>> for Arrivals {
    #[inline]
    fn index_mut(&mut self, index: Index<Arrival>) -> &mut Arrival {
        &mut self.pool[index]
    }
}
