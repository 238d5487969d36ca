//! What a rank keeps about each other rank: slots, calls under way, and messages to send.

use crate::call::Digest;
use crate::header::{CALLS, Header, PAIRWISE};
use crate::rank::{Token, Work};
use crate::schedule::StepIndex;
use std::collections::VecDeque;

/// A call that this rank has begun with another one, and from which messages may come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) sequence: u32,
    pub(crate) digest: Digest,
    pub(crate) work: Work,
}

/// What waits to be sent to a rank's slots, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Queued {
    /// A step.
    Step(Work, StepIndex),
    /// The key of the output buffer.
    Key(Work),
}

/// One other rank.
#[derive(Debug)]
pub(crate) struct Link {
    /// Slots at the other rank that are free, as a mask.
    free: u32,
    /// Slots of this rank that are free again, which the other one has not been notified of.
    returned: u32,
    /// Slots of this rank that name bytes of the other one, which waits for their return.
    borrowed: u32,
    /// True if the slots are to be returned as soon as there is nothing else to do.
    is_due: bool,
    /// True if free slots are returned only when they are many, or the other rank waits for one.
    returns_late: bool,
    /// Number of the next call with messages of the other rank or to it, apart from sends and
    /// receives.
    next: u32,
    /// Digest of what came since the last such call: calls without messages, and labels.
    passed: Option<Digest>,
    /// Numbers of the next send to the other rank and of the next receive from it.
    next_send: u32,
    next_receive: u32,
    expected: VecDeque<Expected>,
    /// Messages of calls that this rank has not begun yet.
    early: Vec<Header>,
    ordered: VecDeque<Queued>,
    ready: VecDeque<(Work, StepIndex)>,
    /// True if bytes to the other rank, or from it, go through slots in every call.
    stages_sends: bool,
    stages_receives: bool,
    /// Length from which on the other rank reads messages from the memory of this one.
    lends_from: Option<u32>,
    /// For each slot of the other rank: the step whose bytes it reads from this one's memory.
    lent: Vec<Option<Token>>,
}

impl Link {
    pub(crate) fn new(slots: u32) -> Link {
        Link {
            free: u32::MAX >> (u32::BITS - slots),
            returned: 0,
            borrowed: 0,
            is_due: false,
            returns_late: false,
            next: 0,
            passed: None,
            next_send: 0,
            next_receive: 0,
            expected: VecDeque::new(),
            early: Vec::new(),
            ordered: VecDeque::new(),
            ready: VecDeque::new(),
            stages_sends: false,
            stages_receives: false,
            lends_from: None,
            lent: vec![None; slots as usize],
        }
    }

    /// Lets bytes to the other rank go through slots in every call.
    pub(crate) fn stage_sends(&mut self) {
        self.stages_sends = true;
    }

    pub(crate) fn stages_sends(&self) -> bool {
        self.stages_sends
    }

    /// Expects that bytes from the other rank come through slots in every call.
    pub(crate) fn stage_receives(&mut self) {
        self.stages_receives = true;
    }

    pub(crate) fn stages_receives(&self) -> bool {
        self.stages_receives
    }

    /// Lets the other rank read messages of `bytes` and more from this one's memory.
    pub(crate) fn lend_from(&mut self, bytes: u32) {
        self.lends_from = Some(bytes);
    }

    /// True if the other rank reads a message of this length from this one's memory.
    pub(crate) fn lends(&self, bytes: u32) -> bool {
        self.lends_from.is_some_and(|from| bytes >= from)
    }

    /// Records that the other rank reads the bytes of a step, until it returns the slot.
    pub(crate) fn lend(&mut self, slot: u8, token: Token) {
        self.lent[usize::from(slot)] = Some(token);
    }

    /// The steps whose bytes the other rank has read, because it has returned these slots.
    pub(crate) fn take_lent(&mut self, mask: u32) -> Vec<Token> {
        let returned = self.lent.iter_mut().enumerate().filter(|(slot, _)| mask & 1 << slot != 0);
        returned.filter_map(|(_, token)| token.take()).collect()
    }

    /// True if the other rank still reads bytes of a call.
    pub(crate) fn has_lent(&self, work: Work) -> bool {
        let is_of_call = |token: &Token| matches!(token, Token::Step(other, _) if *other == work);
        self.lent.iter().flatten().any(is_of_call)
    }

    /// Passes a call without messages, or a label: the next call with messages is compared with the
    /// other rank's together with it.
    pub(crate) fn pass(&mut self, digest: Digest) {
        self.passed = Some(digest.after(self.passed));
    }

    /// Takes the digest of what was passed since the last call with messages.
    pub(crate) fn take_passed(&mut self) -> Option<Digest> {
        self.passed.take()
    }

    /// Begins a call with messages. Returns its number, and those that have already arrived.
    pub(crate) fn begin(&mut self, digest: Digest, work: Work) -> (u32, Vec<Header>) {
        let sequence = self.next;
        self.next = (self.next + 1) % CALLS;
        let early = self.expect(Expected { sequence, digest, work });
        (sequence, early)
    }

    /// Begins to send, outside of the order of other calls. Returns the number of the send.
    pub(crate) fn begin_send(&mut self) -> u32 {
        let sequence = PAIRWISE | self.next_send;
        self.next_send = (self.next_send + 1) % CALLS;
        sequence
    }

    /// Begins to receive, likewise. Returns the messages that have already arrived.
    pub(crate) fn begin_receive(&mut self, digest: Digest, work: Work) -> Vec<Header> {
        let sequence = PAIRWISE | self.next_receive;
        self.next_receive = (self.next_receive + 1) % CALLS;
        self.expect(Expected { sequence, digest, work })
    }

    fn expect(&mut self, expected: Expected) -> Vec<Header> {
        self.expected.push_back(expected);
        let is_of_call = |header: &mut Header| header.sequence == expected.sequence;
        self.early.extract_if(.., is_of_call).collect()
    }

    /// The call to which a message belongs, if this rank has begun it.
    pub(crate) fn expected(&self, sequence: u32) -> Option<Expected> {
        self.expected.iter().find(|expected| expected.sequence == sequence).copied()
    }

    /// Keeps a message of a later call. False if the message belongs to a call that is over. The
    /// later ones are at most as many as the slots of the message's receiver.
    pub(crate) fn keep(&mut self, header: Header) -> bool {
        let is_pairwise = header.sequence & PAIRWISE != 0;
        let next = if is_pairwise { self.next_receive } else { self.next };
        let ahead = (header.sequence % CALLS + CALLS - next) % CALLS;
        if ahead < CALLS / 2 {
            self.early.push(header);
        }
        ahead < CALLS / 2
    }

    /// Removes a call that is over.
    pub(crate) fn end(&mut self, work: Work) {
        self.expected.retain(|expected| expected.work != work);
    }

    /// Adds something to be sent to slots after all that was added before.
    pub(crate) fn push(&mut self, queued: Queued) {
        self.ordered.push_back(queued);
    }

    /// Adds a step that can be sent at once, to the output buffer.
    pub(crate) fn push_ready(&mut self, work: Work, step: StepIndex) {
        self.ready.push_back((work, step));
    }

    /// The next to be sent to slots.
    pub(crate) fn first(&self) -> Option<Queued> {
        self.ordered.front().copied()
    }

    /// Removes the first.
    pub(crate) fn pop(&mut self) {
        self.ordered.pop_front();
    }

    /// Removes the next step to be sent to the output buffer.
    pub(crate) fn pop_ready(&mut self) -> Option<(Work, StepIndex)> {
        self.ready.pop_front()
    }

    /// True if the other rank has a free slot.
    pub(crate) fn has_slot(&self) -> bool {
        self.free != 0
    }

    /// Occupies a slot of the other rank.
    pub(crate) fn take_slot(&mut self) -> u8 {
        let slot = self.free.trailing_zeros();
        assert!(slot < u32::BITS, "the caller has checked that there is a free slot");
        self.free &= !(1 << slot);
        slot as u8
    }

    /// Handles the notification that slots of the other rank are free. False if some were free.
    pub(crate) fn handle_freed(&mut self, mask: u32, slots: u32) -> bool {
        let all = u32::MAX >> (u32::BITS - slots);
        let is_valid = mask & self.free == 0 && mask & !all == 0;
        self.free |= mask & all;
        is_valid
    }

    /// Returns free slots only when they are many, or the other rank waits for one.
    pub(crate) fn return_late(&mut self) {
        self.returns_late = true;
    }

    /// Records that a slot names bytes of the other rank.
    pub(crate) fn borrow(&mut self, slot: u8) {
        self.borrowed |= 1 << slot;
    }

    /// Frees a slot of this rank. Returns true if slots are due to be returned from now on.
    pub(crate) fn free(&mut self, slot: u8) -> bool {
        let was_due = self.is_due;
        self.is_due |= !self.returns_late || self.borrowed & 1 << slot != 0;
        self.borrowed &= !(1 << slot);
        self.returned |= 1 << slot;
        self.is_due && !was_due
    }

    /// True if a quarter of the slots or more are to be returned, so that the other rank may wait
    /// for them.
    pub(crate) fn is_short(&self, slots: u32) -> bool {
        4 * self.returned.count_ones() >= slots
    }

    /// Takes the slots that are to be returned.
    pub(crate) fn take_returned(&mut self) -> Option<u32> {
        self.is_due = false;
        Some(std::mem::take(&mut self.returned)).filter(|mask| *mask != 0)
    }
}
