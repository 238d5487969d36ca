//! Receives that are matched in order.
//!
//! A Jetty *in sequence* gives the k-th message of a peer Jetty that requires its receives in order
//! the k-th receive, however early it arrives, and completes that receive only when every operation
//! with a number of the target's order that was posted before has been executed. So a peer need not
//! wait before it sends more: its messages are placed as they arrive, and received in the order in
//! which they were posted.
//!
//! A message that arrives early takes the next receive *after* those of the messages it has
//! overtaken: these are set aside for them, in a list of the peer's tracker. A receive that is set
//! aside for a message that never arrives returns to the front of the others when its turn has
//! passed. Receives that were set aside are flushed with their Jetty, although their messages may
//! still arrive: until the turn of those has passed, an early message leaves the last receive to
//! the message that is next. A Jetty sets receives aside for one peer Jetty at a time, and only one
//! Jetty does so for a peer Jetty; any other message that arrives early is sent back, and arrives
//! again later.

use super::Jetties;
use crate::arrival::Arrival;
use crate::jetty::Receive;
use crate::order::{KeyedIndex, SequenceStatus, Tracker, Trackers, is_after};
use crate::pool::{Index, Pool};
use alloc::vec::Vec;
use fairway_wire::{JettyId, Refusal};

/// By Jetty number: whether it is in sequence, and its tracker.
#[derive(Debug)]
pub(super) struct ReceiveMatching {
    is_on: Vec<bool>,
    /// The tracker for which receives are set aside, if any are.
    tracker: Vec<Option<KeyedIndex<Tracker>>>,
}

/// The receive that matches a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchedReceive {
    /// The receive posted first.
    First(Index<Receive>),
    /// A receive that was set aside for the message.
    Reserved(Index<Receive>),
}

impl MatchedReceive {
    pub(crate) fn index(self) -> Index<Receive> {
        match self {
            MatchedReceive::First(index) | MatchedReceive::Reserved(index) => index,
        }
    }
}

impl ReceiveMatching {
    pub(super) fn new(jetties: u32) -> Self {
        let jetties = jetties as usize;
        ReceiveMatching { is_on: alloc::vec![false; jetties], tracker: alloc::vec![None; jetties] }
    }

    pub(super) fn set(&mut self, jetty: JettyId, is_on: bool) {
        self.is_on[jetty.value() as usize] = is_on;
    }

    fn is_on(&self, jetty: JettyId) -> bool {
        self.is_on.get(jetty.value() as usize).is_some_and(|&is_on| is_on)
    }
}

impl Jetties {
    /// True if a Jetty is in sequence.
    pub(crate) fn is_in_sequence(&self, jetty: JettyId) -> bool {
        self.matching.is_on(jetty)
    }

    /// The receive for message `sequence` of a peer Jetty. It stays in its list; receives for
    /// messages before it that have not arrived are set aside. `takes_last` injects a bug: the last
    /// receive is not left to a message that is next and has lost the receive set aside for it.
    pub(crate) fn match_receive(
        &mut self,
        trackers: &mut Trackers,
        tracker: KeyedIndex<Tracker>,
        jetty: JettyId,
        sequence: u16,
        takes_last: bool,
    ) -> Result<MatchedReceive, Refusal> {
        let this = &trackers[tracker];
        let reserved = this.reserved;
        let next = this.next_receive();
        let early = this.receive_status(sequence) != SequenceStatus::Next;
        let found = self
            .receives_of(reserved.first)
            .find(|&at| reserved.jetty == jetty && self.receives[at].sequence == sequence);
        if let Some(found) = found {
            return Ok(MatchedReceive::Reserved(found));
        }
        let (first, open) = (reserved.given, reserved.given != next);
        let is_known = reserved.jetty == jetty || !(open || reserved.first.is_some());
        if !is_known || is_after(first, sequence) {
            // The peer sends to other Jetties too, or the receive chosen for the message was
            // returned.
            let receive = self.receive_for(jetty, early).ok_or(Refusal::ReceiverNotReady)?;
            return Ok(MatchedReceive::First(receive));
        }
        let missing = (0..sequence.wrapping_sub(first))
            .map(|ahead| first.wrapping_add(ahead))
            .filter(|&other| !trackers[tracker].is_skipped(other))
            .count();
        if missing > 0
            && self.matching.tracker[jetty.value() as usize].is_some_and(|own| own != tracker)
        {
            return Err(Refusal::OutOfOrder);
        }
        let is_next_deprived = is_after(reserved.deprived, next) && !takes_last;
        if !self.has_receives(jetty, missing + 1 + usize::from(is_next_deprived)) {
            return Err(Refusal::ReceiverNotReady);
        }
        trackers[tracker].reserved.jetty = jetty;
        let mut at = first;
        while at != sequence {
            if !trackers[tracker].is_skipped(at) {
                self.set_aside(trackers, tracker, jetty, at);
            }
            at = at.wrapping_add(1);
        }
        trackers[tracker].reserved.given = sequence;
        self.next_receive(jetty).map(MatchedReceive::First).ok_or(Refusal::ReceiverNotReady)
    }

    /// Takes the receive that was chosen for a message.
    pub(crate) fn take_matched(
        &mut self,
        trackers: &mut Trackers,
        tracker: KeyedIndex<Tracker>,
        jetty: JettyId,
        sequence: u16,
        matched: MatchedReceive,
    ) -> Option<Index<Receive>> {
        if let MatchedReceive::Reserved(index) = matched {
            self.unlink_reserved(trackers, tracker, index);
            return Some(index);
        }
        let reserved = &mut trackers[tracker].reserved;
        if reserved.jetty == jetty && reserved.given == sequence {
            reserved.given = sequence.wrapping_add(1);
        }
        self.take_receive(jetty)
    }

    fn set_aside(
        &mut self,
        trackers: &mut Trackers,
        tracker: KeyedIndex<Tracker>,
        jetty: JettyId,
        sequence: u16,
    ) {
        let Some(index) = self.take_receive(jetty) else { return };
        let reserved = &mut trackers[tracker].reserved;
        self.receives[index].sequence = sequence;
        self.receives[index].next = reserved.first.replace(index);
        self.matching.tracker[jetty.value() as usize] = Some(tracker);
    }

    /// Sets the receive of a message that was sent back aside for it. False if that is not
    /// possible.
    pub(crate) fn keep_receive(
        &mut self,
        trackers: &mut Trackers,
        tracker: KeyedIndex<Tracker>,
        arrival: &Arrival,
    ) -> bool {
        let jetty = arrival.jetty;
        let owner = self.matching.tracker[jetty.value() as usize];
        let Some(kept) = arrival.receive else { return false };
        let reserved = &mut trackers[tracker].reserved;
        let is_free = reserved.jetty == jetty || reserved.first.is_none();
        if !self.matching.is_on(jetty) || owner.is_some_and(|owner| owner != tracker) || !is_free {
            return false;
        }
        reserved.jetty = jetty;
        let receive = &mut self.receives[kept];
        receive.sequence = arrival.order.receive_sequence;
        receive.next = reserved.first.replace(kept);
        self.matching.tracker[jetty.value() as usize] = Some(tracker);
        true
    }

    fn unlink_reserved(
        &mut self,
        trackers: &mut Trackers,
        tracker: KeyedIndex<Tracker>,
        index: Index<Receive>,
    ) {
        let next = self.receives[index].next;
        let first = trackers[tracker].reserved.first;
        if first == Some(index) {
            trackers[tracker].reserved.first = next;
        } else {
            let before = self.receives_of(first).find(|&at| self.receives[at].next == Some(index));
            if let Some(before) = before {
                self.receives[before].next = next;
            }
        }
        let reserved = trackers[tracker].reserved;
        if reserved.first.is_none() {
            self.matching.tracker[reserved.jetty.value() as usize] = None;
        }
    }

    /// The receives that are set aside, the newest first.
    fn receives_of(
        &self,
        first: Option<Index<Receive>>,
    ) -> impl Iterator<Item = Index<Receive>> + '_ {
        linked(&self.receives, first)
    }

    /// True if a Jetty has at least `count` receives.
    fn has_receives(&self, jetty: JettyId, count: usize) -> bool {
        let Some(first) = self.next_receive(jetty) else { return false };
        let mut at = first;
        for _ in 1..count {
            match self.receives[at].next {
                Some(next) if next != first => at = next,
                _ => return false,
            }
        }
        true
    }

    /// Returns receives set aside for messages whose turn has passed to the front, the newest
    /// first.
    pub(crate) fn return_passed(&mut self, trackers: &mut Trackers, tracker: KeyedIndex<Tracker>) {
        let reserved = trackers[tracker].reserved;
        let next = trackers[tracker].next_receive();
        let mut at = reserved.first;
        while let Some(index) = at {
            at = self.receives[index].next;
            if is_after(next, self.receives[index].sequence) {
                self.unlink_reserved(trackers, tracker, index);
                self.return_receive(reserved.jetty, index);
            }
        }
    }

    /// Returns all receives that a tracker has set aside to the front.
    pub(crate) fn return_reserved(
        &mut self,
        trackers: &mut Trackers,
        tracker: KeyedIndex<Tracker>,
    ) {
        let reserved = trackers[tracker].reserved;
        let (first, jetty, given) = (reserved.first, reserved.jetty, reserved.given);
        if first.is_some() {
            trackers[tracker].reserved.deprived = given;
        }
        while let Some(index) = trackers[tracker].reserved.first {
            self.unlink_reserved(trackers, tracker, index);
            self.return_receive(jetty, index);
        }
    }

    /// Returns all receives that a Jetty has set aside to the front.
    pub(crate) fn return_reserved_of(&mut self, trackers: &mut Trackers, jetty: JettyId) {
        let tracker = self.matching.tracker[jetty.value() as usize];
        if let Some(tracker) = tracker {
            self.return_reserved(trackers, tracker);
        }
    }
}

/// The receives of a list.
fn linked(
    receives: &Pool<Receive>,
    first: Option<Index<Receive>>,
) -> impl Iterator<Item = Index<Receive>> + '_ {
    core::iter::successors(first, |&at| receives[at].next)
}
