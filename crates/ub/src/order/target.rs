//! The target's tracker: which operations of one Jetty of one node have been executed here.

use super::reserved::Reserved;
use crate::arrival::{Arrival, UnreportedReceive};
use crate::deferred::Deferred;
use crate::list::List;
use crate::message::Message;
use crate::pool::Index;

/// Sequence numbers tracked beyond the first one that is missing.
const WINDOW: u16 = 128;

/// One tracker per Jetty and node from which relaxed, strict or in-order transactions have arrived:
/// keyed by source node *and* Jetty, because Jetty numbers of two nodes are independent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracker {
    /// Sequence numbers beyond `next` that were executed: bit i is `next + 1 + i`.
    executed: u128,
    /// Every transaction before this one was executed.
    next: u16,
    /// In-order receives beyond `next_receive` that will never arrive.
    skipped: u128,
    /// Every in-order receive before this one has completed.
    next_receive: u16,
    /// Transactions that wait to be executed: a list through the held records.
    pub(crate) deferred: Option<Index<Deferred>>,
    /// In-order receives that wait to complete: a list through the unreported receives.
    pub(super) unreported: Option<Index<UnreportedReceive>>,
    /// Receives that are set aside for messages to come.
    pub(crate) reserved: Reserved,
    /// Messages in memory order that wait for their turn: a list through the arrivals.
    pub(crate) waiting: Option<Index<Arrival>>,
    /// Answers to READs in memory order that have not arrived.
    pub(crate) reading: List<Index<Message>>,
}

/// Position of a numbered transaction relative to those executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SequenceStatus {
    /// Everything before the transaction was executed.
    Next,
    /// An operation before the transaction is missing.
    Early,
    /// The transaction is too far ahead to be tracked.
    Beyond,
    /// The transaction was executed before.
    Past,
}

impl Tracker {
    pub(crate) const NEW: Tracker = Tracker {
        executed: 0,
        next: 0,
        skipped: 0,
        next_receive: 0,
        deferred: None,
        unreported: None,
        reserved: Reserved::NEW,
        waiting: None,
        reading: List::EMPTY,
    };

    pub(crate) fn status(&self, sequence: u16) -> SequenceStatus {
        let ahead = sequence.wrapping_sub(self.next);
        match ahead {
            0 => SequenceStatus::Next,
            1..=WINDOW if self.executed & bit(ahead) != 0 => SequenceStatus::Past,
            1..=WINDOW => SequenceStatus::Early,
            _ if (ahead as i16) < 0 => SequenceStatus::Past,
            _ => SequenceStatus::Beyond,
        }
    }

    /// Marks a transaction that was executed, or never will be. True if that advanced `next`.
    pub(crate) fn mark(&mut self, sequence: u16) -> bool {
        match self.status(sequence) {
            SequenceStatus::Next => {
                let run = self.executed.trailing_ones();
                // Bit 0 is `next + 1`: a run of n executed ones moves `next` by n + 1.
                self.executed = self.executed.checked_shr(run + 1).unwrap_or(0);
                self.next = self.next.wrapping_add(run as u16 + 1);
                true
            }
            SequenceStatus::Early => {
                self.executed |= bit(sequence.wrapping_sub(self.next));
                false
            }
            SequenceStatus::Past | SequenceStatus::Beyond => false,
        }
    }

    pub(crate) fn receive_status(&self, sequence: u16) -> SequenceStatus {
        match sequence.wrapping_sub(self.next_receive) {
            0 => SequenceStatus::Next,
            1..=WINDOW => SequenceStatus::Early,
            ahead if (ahead as i16) < 0 => SequenceStatus::Past,
            _ => SequenceStatus::Beyond,
        }
    }
}

impl Tracker {
    /// Notes that the receive that was next has completed.
    pub(crate) fn receive_done(&mut self) {
        self.next_receive = self.next_receive.wrapping_add(1);
        // Receives behind it that will never arrive are skipped at once.
        let run = self.skipped.trailing_ones();
        self.skipped = self.skipped.checked_shr(run + 1).unwrap_or(0);
        self.next_receive = self.next_receive.wrapping_add(run as u16);
        self.reserved.pass(self.next_receive);
    }

    /// The first in-order receive that has not completed, and may still arrive.
    pub(crate) fn next_receive(&self) -> u16 {
        self.next_receive
    }

    /// Skips the receives before this one: the channels that carried them have ended.
    pub(crate) fn give_up_receives_before(&mut self, sequence: u16) {
        while self.receive_status(sequence) == SequenceStatus::Early {
            self.receive_done();
        }
    }

    /// Moves `next_receive` forward, and leaves behind what was skipped
    /// ([`InjectedBug::KeepSkipped`](crate::InjectedBug::KeepSkipped)).
    pub(crate) fn jump_to_receive(&mut self, sequence: u16) {
        self.next_receive = sequence;
    }

    /// True if everything before a transaction has been executed.
    pub(crate) fn has_reached(&self, sequence: u16) -> bool {
        self.next.wrapping_sub(sequence) as i16 >= 0
    }

    /// True if a receive may complete that has to wait for its turn, and until everything before
    /// `after` has been executed.
    pub(crate) fn may_receive(&self, sequence: u16, after: Option<u16>) -> bool {
        self.receive_status(sequence) == SequenceStatus::Next
            && after.is_none_or(|after| self.has_reached(after))
    }

    /// True if it is known that this receive will never arrive.
    pub(crate) fn is_skipped(&self, sequence: u16) -> bool {
        match sequence.wrapping_sub(self.next_receive) {
            ahead @ 1..=WINDOW => self.skipped & bit(ahead) != 0,
            _ => false,
        }
    }

    /// True if no receive with this number is waited for: one was reported, or skipped.
    pub(crate) fn has_passed_receive(&self, sequence: u16) -> bool {
        self.receive_status(sequence) == SequenceStatus::Past || self.is_skipped(sequence)
    }

    /// Notes that a receive will never arrive.
    pub(crate) fn skip_receive(&mut self, sequence: u16) {
        match self.receive_status(sequence) {
            SequenceStatus::Next => self.receive_done(),
            SequenceStatus::Early => {
                self.skipped |= bit(sequence.wrapping_sub(self.next_receive));
            }
            SequenceStatus::Past | SequenceStatus::Beyond => {}
        }
    }
}

fn bit(ahead: u16) -> u128 {
    1 << (ahead - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receives_that_were_skipped_stay_so_when_earlier_ones_are_given_up() {
        let mut tracker = Tracker::NEW;
        tracker.skip_receive(2);
        tracker.skip_receive(5);
        // Receives 1, 3 and 9 wait for their turn; 0 will not arrive any more.
        for (sequence, next) in [(1, 3), (3, 4), (9, 10)] {
            tracker.give_up_receives_before(sequence);
            assert!(tracker.may_receive(sequence, None), "{sequence}: {}", tracker.next_receive());
            tracker.receive_done();
            assert_eq!(tracker.next_receive(), next);
        }
    }

    #[test]
    fn receives_are_given_up_across_the_end_of_the_numbers() {
        let mut tracker = Tracker { next_receive: u16::MAX - 1, ..Tracker::NEW };
        tracker.skip_receive(u16::MAX);
        tracker.give_up_receives_before(3);
        assert_eq!(tracker.next_receive(), 3);
        tracker.give_up_receives_before(3);
        tracker.give_up_receives_before(2);
        assert_eq!(tracker.next_receive(), 3);
    }
}
