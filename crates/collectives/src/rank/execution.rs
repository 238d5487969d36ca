//! A call under way at one rank.

use super::{Memory, Protocol, Work};
use crate::call::Digest;
use crate::header::{Content, Header};
use crate::schedule::{Action, Place, Region, Schedule, StepIndex};
use std::sync::Arc;

/// State of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for so many steps.
    Waiting(u32),
    /// Can be executed, or is being executed. A step that receives begins here.
    Ready,
    /// Has arrived, but has not been copied to its place or read yet.
    Arrived,
    /// Has ended.
    Ended,
}

/// The slot of a step, and whether it names bytes in the memory of their sender.
#[derive(Clone, Copy, Debug)]
struct Held {
    slot: u8,
    is_lent: bool,
}

/// What the end of a step makes possible.
pub(super) struct Ended {
    /// Slots that are free, with the ranks that sent to them.
    pub(super) freed: Vec<(u32, u8)>,
    /// Steps that can be executed.
    pub(super) ready: Vec<StepIndex>,
}

/// A call under way.
#[derive(Debug)]
pub(super) struct Execution {
    work: Work,
    schedule: Arc<Schedule>,
    protocol: Protocol,
    /// Number of the call with each rank.
    sequences: Vec<u32>,
    /// Digest of the call for each rank.
    digests: Vec<Digest>,
    states: Vec<State>,
    /// The slot of each step that has received bytes into one.
    slots: Vec<Option<Held>>,
    /// Number of steps that still use the slot of a step.
    users: Vec<u32>,
    /// For each rank: whether its key has arrived, and the steps that wait for it.
    keys: Vec<(bool, Vec<StepIndex>)>,
    /// Number of steps that have not ended.
    left: usize,
    /// True if receivers copy the bytes of slots, and combine nothing.
    lends_slots: bool,
}

impl Execution {
    pub(super) fn new(
        work: Work,
        schedule: Arc<Schedule>,
        protocol: Protocol,
        sequences: Vec<u32>,
        digests: Vec<Digest>,
    ) -> Execution {
        let states = schedule.steps().iter().map(|step| match step.after.len() {
            0 => State::Ready,
            count => State::Waiting(count as u32),
        });
        let (states, left) = (states.collect(), schedule.steps().len());
        let (slots, users) = (vec![None; left], schedule.users().to_vec());
        let keys = vec![(false, Vec::new()); sequences.len()];
        Execution {
            work,
            schedule,
            protocol,
            sequences,
            digests,
            states,
            slots,
            users,
            keys,
            left,
            lends_slots: false,
        }
    }

    /// Lets other ranks read the bytes of messages to slots from this rank's memory: nothing is
    /// combined.
    pub(super) fn lend_slots(&mut self) {
        self.lends_slots = true;
    }

    /// True if the receiver of a message to this place may read its bytes from this rank's memory.
    pub(super) fn lends(&self, place: Place) -> bool {
        let is_allowed = self.lends_slots
            || self.schedule.combines_from_sender()
            || matches!(place, Place::Output(_));
        is_allowed && self.protocol == Protocol::Lent
    }

    pub(super) fn work(&self) -> Work {
        self.work
    }

    pub(super) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    pub(super) fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// The steps that wait for no other.
    pub(super) fn ready_at_start(&self) -> Vec<StepIndex> {
        let all = (0..self.states.len() as u32).map(StepIndex);
        all.filter(|step| self.states[step.index()] == State::Ready).collect()
    }

    /// The header of a message.
    pub(super) fn header(&self, to: u32, content: Content, slot: u8, number: u32) -> Header {
        let (sequence, digest) = (self.sequences[to as usize], self.digests[to as usize]);
        Header { content, sequence, digest, slot, number }
    }

    /// The memory of a region whose bytes have arrived.
    pub(super) fn memory(&self, region: Region) -> Memory {
        if let Region::Received(step) = region
            && let Action::Receive { from, bytes, .. } = self.schedule.action(step)
            && let Some(Held { slot, is_lent }) = self.slots[step.index()]
        {
            return match is_lent {
                true => Memory::Lent { from, slot, bytes },
                false => Memory::Slot { from, slot, bytes },
            };
        }
        region.in_buffer().expect("a step that uses a slot waits until it has been filled")
    }

    /// Marks the step that waits for a message as begun. `None` if there is none.
    pub(super) fn arrive(&mut self, from: u32, number: u32) -> Option<(StepIndex, Place, u32)> {
        let step = *self.schedule.arrivals(from).get(number as usize)?;
        if self.states[step.index()] != State::Ready {
            return None;
        }
        self.states[step.index()] = State::Arrived;
        match self.schedule.action(step) {
            Action::Receive { place, bytes, .. } => Some((step, place, bytes)),
            _ => None,
        }
    }

    /// Records the slot to which a step has received.
    pub(super) fn hold(&mut self, step: StepIndex, slot: u8) {
        self.slots[step.index()] = Some(Held { slot, is_lent: false });
    }

    /// Records the slot that names the bytes of a step in the memory of their sender.
    pub(super) fn hold_lent(&mut self, step: StepIndex, slot: u8) {
        self.slots[step.index()] = Some(Held { slot, is_lent: true });
    }

    /// True if a step waits for no other any more.
    pub(super) fn is_ready(&self, step: StepIndex) -> bool {
        self.states[step.index()] == State::Ready
    }

    /// True if a step may send to a rank's output buffer now. Otherwise it waits for its key.
    pub(super) fn may_place(&mut self, to: u32, step: StepIndex) -> bool {
        let (has_key, waiting) = &mut self.keys[to as usize];
        let may = *has_key || self.protocol != Protocol::Direct;
        if !may {
            waiting.push(step);
        }
        may
    }

    /// The key of a rank's output buffer is there. Returns the steps that waited for it.
    pub(super) fn take_key(&mut self, from: u32) -> Vec<StepIndex> {
        let (has_key, waiting) = &mut self.keys[from as usize];
        *has_key = true;
        std::mem::take(waiting)
    }

    /// Ends a step.
    pub(super) fn end(&mut self, step: StepIndex) -> Ended {
        self.states[step.index()] = State::Ended;
        self.left -= 1;
        let mut freed = Vec::new();
        let mut slots = [None; 3];
        match self.schedule.action(step) {
            // The slot of a step that nothing uses is free at once.
            Action::Receive { .. } if self.users[step.index()] == 0 => slots[0] = Some(step),
            Action::Receive { .. } => {}
            Action::Send { from, .. } => slots[0] = received(from),
            Action::Copy { from, into } => slots = [received(from), received(into), None],
            Action::Combine { left, right, into, .. } => {
                slots = [received(left), received(right), received(into)];
            }
        }
        for at in 0..slots.len() {
            if let Some(slot) = slots[at]
                && !slots[..at].contains(&slots[at])
            {
                freed.extend(self.release(slot));
            }
        }
        let mut ready = Vec::new();
        for waiting in self.schedule.waiting(step) {
            if let State::Waiting(count) = &mut self.states[waiting.index()] {
                *count -= 1;
                if *count == 0 {
                    self.states[waiting.index()] = State::Ready;
                    ready.push(*waiting);
                }
            }
        }
        Ended { freed, ready }
    }

    /// A step does not use the slot of `step` any more. Returns the slot if no other does.
    fn release(&mut self, step: StepIndex) -> Option<(u32, u8)> {
        let users = &mut self.users[step.index()];
        *users = users.saturating_sub(1);
        if *users > 0 {
            return None;
        }
        let slot = self.slots[step.index()].take()?.slot;
        match self.schedule.action(step) {
            Action::Receive { from, .. } => Some((from, slot)),
            _ => None,
        }
    }

    /// Ranks for whose messages or keys the call waits, in ascending order, each once.
    pub(super) fn awaited(&self) -> Vec<u32> {
        let steps = self.schedule.steps().iter().zip(&self.states);
        let senders = steps.filter_map(|(step, state)| match step.action {
            Action::Receive { from, .. } if matches!(state, State::Ready | State::Arrived) => {
                Some(from)
            }
            // It could not read the bytes, or has not yet.
            Action::Combine { right: Region::Received(lent), .. } if *state == State::Ready => {
                match self.schedule.action(lent) {
                    Action::Receive { from, .. } => Some(from),
                    _ => None,
                }
            }
            _ => None,
        });
        let keys = self.keys.iter().enumerate().filter(|(_, (_, waiting))| !waiting.is_empty());
        let mut ranks: Vec<_> = senders.chain(keys.map(|(rank, _)| rank as u32)).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// Ranks to which a message has not ended: most often it waits for a slot there.
    pub(super) fn receivers(&self) -> impl Iterator<Item = u32> {
        let steps = self.schedule.steps().iter().zip(&self.states);
        steps.filter_map(|(step, state)| match step.action {
            Action::Send { to, .. } if *state == State::Ready => Some(to),
            _ => None,
        })
    }
}

fn received(region: Region) -> Option<StepIndex> {
    match region {
        Region::Received(step) => Some(step),
        Region::Input(_) | Region::Output(_) => None,
    }
}

impl Region {
    /// The memory of a region in a buffer.
    fn in_buffer(self) -> Option<Memory> {
        match self {
            Region::Input(span) => Some(Memory::Input(span)),
            Region::Output(span) => Some(Memory::Output(span)),
            Region::Received(_) => None,
        }
    }
}
