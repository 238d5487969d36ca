//! The state machine of one rank: executes schedules, several at a time.
//!
//! | the caller | calls | until |
//! |---|---|---|
//! | begins a call | [`Rank::start`] | |
//! | has received a message | [`Rank::handle_arrival`] | |
//! | has executed an output, now or later | [`Rank::handle_end`] | |
//! | has done any of these | [`Rank::poll`] | `None` |
//! | waits for the end of a call | [`Rank::is_done`], then [`Rank::finish`] | |
//!
//! Messages may arrive in any order, and before the call to which they belong. A message occupies a
//! slot at its receiver until the receiver returns it, so a rank bounds what its peers send ahead.

mod execution;
mod messages;
mod numbers;

use crate::call::{Call, Kind};
use crate::header::{Content, Header};
use crate::link::{Link, Queued};
use crate::schedule::{Action, Place, Schedule, Span, StepIndex};
use execution::Execution;
use numbers::Numbers;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// How bytes reach the output buffer of another rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Through a slot, from which the receiver copies them: no key has to be exchanged first.
    Staged,
    /// Straight to their place, after the receiver has sent the key of its output buffer.
    Direct,
    /// The receiver reads long messages from the memory of their sender ([`Rank::lend_sends`]), and
    /// others are staged. All ranks are on one host.
    Lent,
}

/// A call under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work(u64);

/// What [`Rank::handle_end`] is to be called with when an [`Output`] has been executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Token {
    /// A step of a call.
    Step(Work, StepIndex),
    /// The key of a rank's output buffer has been taken from this slot.
    Key(Work, u32, u8),
}

/// Bytes in the memory of this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Memory {
    /// Bytes of the input buffer.
    Input(Span),
    /// Bytes of the output buffer.
    Output(Span),
    /// The first bytes of a slot for messages of a rank.
    Slot {
        /// The sending rank.
        from: u32,
        /// The slot.
        slot: u8,
        /// Length in bytes.
        bytes: u32,
    },
    /// Bytes in the memory of another rank: their address is in the slot. They are only ever the
    /// second operand of a combination.
    Lent {
        /// The sending rank.
        from: u32,
        /// The slot.
        slot: u8,
        /// Length in bytes.
        bytes: u32,
    },
}

/// The place of a message at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The slot that the header names.
    Slot,
    /// The output buffer, from this offset on.
    Output(u64),
    /// The slot that the header names, in which the driver puts the address of the bytes instead of
    /// the bytes. The write ends by itself when the receiver has read them.
    Lent,
}

/// A message with bytes of this rank. The write has ended when the bytes may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The step.
    pub token: Token,
    /// The call.
    pub work: Work,
    /// The other rank.
    pub to: u32,
    /// The bytes.
    pub bytes: Memory,
    /// Where they go.
    pub target: Target,
    /// The header of the message.
    pub header: Header,
}

/// What the caller is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Output {
    /// Write bytes to another rank, and then deliver the header to it.
    Write(Write),
    /// Write the key of the call's output buffer into a slot of another rank.
    SendKey {
        /// The call.
        work: Work,
        /// The other rank.
        to: u32,
        /// The header of the message, which names the slot.
        header: Header,
    },
    /// Take the key of another rank's output buffer from a slot.
    TakeKey {
        /// To be returned when it has been taken.
        token: Token,
        /// The call.
        work: Work,
        /// The other rank.
        from: u32,
        /// The slot.
        slot: u8,
    },
    /// Read bytes from the memory of another rank: their address is in the slot.
    Fetch {
        /// The step.
        token: Token,
        /// The call.
        work: Work,
        /// The other rank.
        from: u32,
        /// The slot.
        slot: u8,
        /// To here.
        into: Memory,
    },
    /// Deliver a header without bytes.
    Notify {
        /// The other rank.
        to: u32,
        /// The header.
        header: Header,
    },
    /// Combine elements.
    Combine {
        /// The step.
        token: Token,
        /// The call.
        work: Work,
        /// The ranges to combine.
        both: [Memory; 2],
        /// Where the result goes: one of the two, or the output.
        into: Memory,
        /// True if the result has the elements of all ranks.
        is_last: bool,
    },
    /// Copy bytes.
    Copy {
        /// The step.
        token: Token,
        /// The call.
        work: Work,
        /// From here.
        from: Memory,
        /// To here.
        into: Memory,
    },
}

/// A message that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankError {
    /// The rank `peer` has called another operation than this one did, or has another label
    /// ([`Rank::label_next`]).
    Mismatch {
        /// The other rank.
        peer: u32,
    },
    /// The rank `peer` reports that the group is over ([`Header::failed`]).
    Failed {
        /// The rank that reports it.
        peer: u32,
        /// The rank to blame.
        rank: u32,
        /// The reason.
        reason: u8,
    },
    /// The rank `peer` has sent a message that no rank sends.
    Invalid {
        /// The other rank.
        peer: u32,
    },
}

impl fmt::Display for RankError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RankError::Mismatch { peer } => write!(f, "rank {peer} called another operation"),
            RankError::Failed { peer, rank, .. } => {
                write!(f, "rank {peer} reports that the group is over because of rank {rank}")
            }
            RankError::Invalid { peer } => {
                write!(f, "rank {peer} sent a message that is not part of any operation")
            }
        }
    }
}

impl std::error::Error for RankError {}

/// One rank of a group.
#[derive(Debug)]
pub struct Rank {
    rank: u32,
    slots: u32,
    /// Length of a slot in bytes, if it is known ([`Rank::bound_slots`]).
    slot_bytes: u32,
    /// One for each rank; the rank's own is unused.
    links: Vec<Link>,
    next: u64,
    executions: Vec<Execution>,
    /// Combinations and copies that can be executed, and keys to take.
    local: VecDeque<Output>,
    /// Ranks to which something may be sent, each once.
    active: VecDeque<u32>,
    is_active: Vec<bool>,
    /// Ranks to which slots are to be returned, each once.
    returning: VecDeque<u32>,
}

impl Rank {
    /// The rank `rank` of `ranks`. For messages of each other rank it has `slots` slots.
    ///
    /// # Panics
    /// There is no such rank, or the number of slots is out of the range of a schedule's.
    pub fn new(rank: u32, ranks: u32, slots: u32) -> Rank {
        assert!(rank < ranks, "ranks count from 0");
        assert!((Schedule::SLOTS_MIN..=Schedule::SLOTS_MAX).contains(&slots), "slots fit a mask");
        Rank {
            rank,
            slots,
            slot_bytes: u32::MAX,
            links: (0..ranks).map(|_| Link::new(slots)).collect(),
            next: 0,
            executions: Vec::new(),
            local: VecDeque::new(),
            active: VecDeque::new(),
            is_active: vec![false; ranks as usize],
            returning: VecDeque::new(),
        }
    }

    /// Refuses messages that would be longer than a slot, which has `bytes`. A peer that executes
    /// the call in another way may send to a slot what this rank expects in its output.
    pub fn bound_slots(&mut self, bytes: u32) {
        self.slot_bytes = bytes;
    }

    /// Sends to the rank `peer` through slots even in calls of [`Protocol::Direct`], because that
    /// is the shortest way to it: its slots are in memory that both share. The other rank may
    /// expect it ([`Rank::stage_receives`]), but need not.
    ///
    /// # Panics
    /// There is no such rank.
    pub fn stage_sends(&mut self, peer: u32) {
        self.links[peer as usize].stage_sends();
    }

    /// The rank `peer` sends to this one through slots in every call that begins from now on
    /// ([`Rank::stage_sends`]), so that it needs no key of an output buffer.
    ///
    /// # Panics
    /// There is no such rank.
    pub fn stage_receives(&mut self, peer: u32) {
        self.links[peer as usize].stage_receives();
    }

    /// Lets the rank `peer`, which can read the memory of this one, read the bytes of messages of
    /// `bytes` and more from there in calls of [`Protocol::Lent`], where the schedule allows it.
    ///
    /// # Panics
    /// There is no such rank.
    pub fn lend_sends(&mut self, peer: u32, bytes: u32) {
        self.links[peer as usize].lend_from(bytes);
    }

    /// Returns free slots to the other ranks only when they are a quarter of all, unless their
    /// sender waits for that: fewer messages, while each sender still has most of its slots.
    pub fn return_late(&mut self) {
        self.links.iter_mut().for_each(Link::return_late);
    }

    /// Begins a call. All ranks that take part must begin their common calls in the same order, and
    /// choose the same algorithm and protocol. An exchange that is not collective is not of that
    /// order: a rank's sends to another one are matched with the other's receives, in their order.
    ///
    /// # Errors
    /// A message that has already arrived belongs to another call. The call has begun nonetheless.
    pub fn start(
        &mut self,
        call: &Call,
        schedule: Arc<Schedule>,
        protocol: Protocol,
    ) -> Result<Work, (Work, RankError)> {
        let work = Work(self.next);
        self.next += 1;
        let Numbers { sequences, digests, early } = self.begin_with_all(call, &schedule, work);
        // A rank that sends an exchange does not know the places of its messages.
        let is_exchange = call.kind() == Kind::Exchange;
        if protocol == Protocol::Direct && !is_exchange {
            let needs_key = |peer: &u32| !self.links[*peer as usize].stages_receives();
            let peers: Vec<u32> = schedule.placing_ranks().filter(needs_key).collect();
            for peer in peers {
                self.links[peer as usize].push(Queued::Key(work));
                self.activate(peer);
            }
        }
        for (at, step) in schedule.steps().iter().enumerate() {
            if let Action::Send { to, place: Place::Slot, .. } = step.action {
                self.links[to as usize].push(Queued::Step(work, StepIndex(at as u32)));
                self.activate(to);
            }
        }
        let mut execution = Execution::new(work, schedule, protocol, sequences, digests);
        if is_exchange {
            execution.lend_slots();
        }
        let ready = execution.ready_at_start();
        self.executions.push(execution);
        ready.into_iter().for_each(|step| self.make_ready(work, step));
        for (peer, header) in early {
            self.handle_arrival(peer, header).map_err(|error| (work, error))?;
        }
        Ok(work)
    }

    /// Handles a message from another rank, whose bytes are in place.
    ///
    /// # Errors
    /// The message does not fit: the group cannot go on.
    ///
    /// # Panics
    /// `from` is no other rank of the group.
    pub fn handle_arrival(&mut self, from: u32, header: Header) -> Result<(), RankError> {
        assert!(from != self.rank, "a rank sends nothing to itself");
        let invalid = RankError::Invalid { peer: from };
        let link = &mut self.links[from as usize];
        match header.content {
            Content::Failed => {
                let (rank, reason) = (header.word() & 0xff_ffff, (header.word() >> 24) as u8);
                return Err(RankError::Failed { peer: from, rank, reason });
            }
            Content::Freed => {
                let is_valid = link.handle_freed(header.word(), self.slots);
                let read = link.take_lent(header.word());
                read.into_iter().for_each(|token| self.handle_end(token));
                self.activate(from);
                return if is_valid { Ok(()) } else { Err(invalid) };
            }
            Content::Slot | Content::Placed | Content::Key | Content::Lent => {}
        }
        if u32::from(header.slot) >= self.slots {
            return Err(invalid);
        }
        let Some(expected) = link.expected(header.sequence) else {
            if link.keep(header) {
                return Ok(());
            }
            // A call in which all was sent through slots may be over before the key arrives.
            if header.content == Content::Key && link.stages_sends() {
                self.free(from, header.slot);
                return Ok(());
            }
            return Err(invalid);
        };
        if expected.digest != header.digest {
            return Err(RankError::Mismatch { peer: from });
        }
        let work = expected.work;
        if header.content == Content::Key {
            let token = Token::Key(work, from, header.slot);
            self.local.push_back(Output::TakeKey { token, work, from, slot: header.slot });
            return Ok(());
        }
        self.receive(work, from, header).ok_or(invalid)
    }

    /// Handles bytes of a call. `None` if no step waits for them.
    fn receive(&mut self, work: Work, from: u32, header: Header) -> Option<()> {
        let at = self.position(work)?;
        let execution = &mut self.executions[at];
        let (step, place, bytes) = execution.arrive(from, header.number)?;
        if header.content == Content::Slot && bytes > self.slot_bytes {
            return None;
        }
        match (header.content, place) {
            (Content::Slot, Place::Slot) => {
                execution.hold(step, header.slot);
                self.end_step(at, step);
            }
            (Content::Slot, Place::Output(offset)) => {
                // The slot is free when the bytes have been copied.
                execution.hold(step, header.slot);
                let token = Token::Step(work, step);
                let from = Memory::Slot { from, slot: header.slot, bytes };
                let into = Memory::Output(Span { offset, bytes });
                self.local.push_back(Output::Copy { token, work, from, into });
            }
            (Content::Lent, Place::Slot) if execution.schedule().combines_from_sender() => {
                execution.hold_lent(step, header.slot);
                self.links[from as usize].borrow(header.slot);
                self.end_step(at, step);
            }
            (Content::Lent, Place::Output(offset)) => {
                // The slot is free when the bytes have been read.
                execution.hold(step, header.slot);
                self.links[from as usize].borrow(header.slot);
                let (token, slot) = (Token::Step(work, step), header.slot);
                let into = Memory::Output(Span { offset, bytes });
                self.local.push_back(Output::Fetch { token, work, from, slot, into });
            }
            (Content::Placed, Place::Output(_)) => {
                self.free(from, header.slot);
                self.end_step(at, step);
            }
            _ => return None,
        }
        Some(())
    }

    /// Handles the end of what an [`Output`] asked for.
    pub fn handle_end(&mut self, token: Token) {
        match token {
            Token::Key(work, from, slot) => {
                self.free(from, slot);
                if let Some(at) = self.position(work) {
                    let waiting = self.executions[at].take_key(from);
                    waiting.into_iter().for_each(|step| self.make_ready(work, step));
                }
            }
            Token::Step(work, step) => {
                if let Some(at) = self.position(work) {
                    self.end_step(at, step);
                }
            }
        }
    }

    /// Returns the next thing to do. Combinations and copies come before messages, and returned
    /// slots last, unless many are to be returned.
    pub fn poll(&mut self) -> Option<Output> {
        if let Some(output) = self.local.pop_front() {
            return Some(output);
        }
        while let Some(peer) = self.active.front().copied() {
            if let Some(output) = self.next_message(peer) {
                // The next message goes to another rank, if there is one.
                self.active.rotate_left(1);
                return Some(output);
            }
            self.active.pop_front();
            self.is_active[peer as usize] = false;
        }
        while let Some(to) = self.returning.pop_front() {
            if let Some(mask) = self.links[to as usize].take_returned() {
                return Some(Output::Notify { to, header: Header::freed(mask) });
            }
        }
        None
    }

    /// True if every step of a call has ended, so that its buffers belong to the caller again.
    pub fn is_done(&self, work: Work) -> bool {
        self.position(work).is_none_or(|at| self.executions[at].is_done())
    }

    /// Forgets a call that is done, or that the group gives up.
    pub fn finish(&mut self, work: Work) {
        self.links.iter_mut().for_each(|link| link.end(work));
        self.executions.retain(|execution| execution.work() != work);
    }

    /// Ranks for whose messages or keys a call waits, or which are to read bytes of it, in
    /// ascending order, each once.
    pub fn awaited(&self, work: Work) -> Vec<u32> {
        let Some(at) = self.position(work) else { return Vec::new() };
        let mut ranks = self.executions[at].awaited();
        let links = (0..).zip(&self.links);
        ranks.extend(links.filter(|(_, link)| link.has_lent(work)).map(|(rank, _)| rank));
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// The same ranks, and those to which a message of the call has not ended, which most often
    /// waits for a slot there.
    pub fn awaited_or_sent_to(&self, work: Work) -> Vec<u32> {
        let mut ranks = self.awaited(work);
        if let Some(at) = self.position(work) {
            ranks.extend(self.executions[at].receivers());
        }
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    fn position(&self, work: Work) -> Option<usize> {
        self.executions.iter().position(|execution| execution.work() == work)
    }

    fn activate(&mut self, peer: u32) {
        if !std::mem::replace(&mut self.is_active[peer as usize], true) {
            self.active.push_back(peer);
        }
    }

    /// Frees a slot. Notifies its sender at once if many are free.
    fn free(&mut self, from: u32, slot: u8) {
        if self.links[from as usize].free(slot) {
            self.returning.push_back(from);
        }
        if self.links[from as usize].is_short(self.slots)
            && let Some(mask) = self.links[from as usize].take_returned()
        {
            self.local.push_back(Output::Notify { to: from, header: Header::freed(mask) });
        }
    }

    /// Ends a step, and makes ready those that waited for it only.
    fn end_step(&mut self, at: usize, step: StepIndex) {
        let execution = &mut self.executions[at];
        let work = execution.work();
        let ended = execution.end(step);
        ended.freed.into_iter().for_each(|(from, slot)| self.free(from, slot));
        ended.ready.into_iter().for_each(|step| self.make_ready(work, step));
    }

    /// A step whose earlier steps have ended.
    fn make_ready(&mut self, work: Work, step: StepIndex) {
        let Some(at) = self.position(work) else { return };
        let execution = &mut self.executions[at];
        let token = Token::Step(work, step);
        let memory = |region| execution.memory(region);
        match execution.schedule().action(step) {
            Action::Receive { .. } => {}
            Action::Combine { left, right, into, is_last } => {
                let (both, into) = ([memory(left), memory(right)], memory(into));
                self.local.push_back(Output::Combine { token, work, both, into, is_last });
            }
            Action::Copy { from, into } => {
                let (from, into) = (memory(from), memory(into));
                self.local.push_back(Output::Copy { token, work, from, into });
            }
            Action::Send { to, place: Place::Slot, .. } => self.activate(to),
            Action::Send { to, place: Place::Output(_), .. } => {
                let is_staged = self.links[to as usize].stages_sends();
                let execution = &mut self.executions[at];
                if is_staged || execution.may_place(to, step) {
                    self.links[to as usize].push_ready(work, step);
                    self.activate(to);
                }
            }
        }
    }
}

impl Memory {
    /// Length in bytes.
    pub fn bytes(self) -> u32 {
        match self {
            Memory::Input(span) | Memory::Output(span) => span.bytes,
            Memory::Slot { bytes, .. } | Memory::Lent { bytes, .. } => bytes,
        }
    }
}
