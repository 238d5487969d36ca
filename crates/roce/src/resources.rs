//! Responder resources: READs and atomics that a peer may request again (9.4.5, 9.7.5.1).
//!
//! Each queue pair keeps the last `read_depth` of them. A READ that is requested again is executed
//! again. An atomic is not: its result is kept and sent again.

use super::shared::Granted;
use alloc::vec::Vec;
use fairway_wire::Psn;

#[cfg(test)]
mod tests;

/// A READ or atomic of the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resource {
    /// Its first PSN.
    pub(crate) first: Psn,
    /// Number of PSNs of its answer.
    pub(crate) packets: u32,
    pub(crate) kind: ResourceKind,
    pub(crate) stage: Stage,
    /// True if the whole answer has been sent before, and is sent again.
    pub(crate) is_repeat: bool,
}

impl Resource {
    pub(crate) fn new(first: Psn, packets: u32, kind: ResourceKind) -> Resource {
        Resource { first, packets, kind, stage: Stage::Waiting, is_repeat: false }
    }

    /// Sends the answer again, from packet `next` on.
    pub(crate) fn repeat(&mut self, next: u32) {
        self.is_repeat |= self.stage == Stage::Answered;
        self.stage = Stage::Answering { next };
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceKind {
    /// The answer's packets from `from` on contain `length` bytes in all, which begin at `granted`.
    Read { granted: Granted, length: u32, from: u32 },
    /// The word at `granted`, and its old value once the operation was executed.
    Atomic { granted: Granted, compare: Option<u64>, operand: u64, old: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// An earlier packet has not been placed yet.
    Waiting,
    /// The caller has to execute the atomic.
    Due,
    /// The caller is executing the atomic.
    Executing,
    /// Packet `next` of the answer is to be sent.
    Answering { next: u32 },
    /// The answer was sent; the record is kept in case the peer requests it again.
    Answered,
}

/// The table: a ring in which the oldest entry is overwritten first.
#[derive(Debug)]
pub(crate) struct Resources {
    entries: Vec<Resource>,
    depth: usize,
    next: usize,
    /// True if all entries are known to be answered.
    answered: bool,
    /// The entry that is the first to be answered as long as it has not been answered, unless
    /// another one has changed since: an answer has many packets, and the table many entries.
    first: Option<usize>,
}

impl Resources {
    pub(crate) fn new() -> Resources {
        Resources { entries: Vec::new(), depth: 0, next: 0, answered: true, first: None }
    }

    /// Empties the table and sets its depth.
    pub(crate) fn reset(&mut self, depth: u8) {
        self.entries.clear();
        self.depth = usize::from(depth);
        self.entries.reserve_exact(self.depth);
        (self.next, self.answered, self.first) = (0, true, None);
    }

    /// True if there is room for one more: not if the oldest has yet to be executed or answered. If
    /// its answer is being sent again, a peer that requests one more has received the first answer
    /// meanwhile: only the packet that requested it again was late.
    pub(crate) fn has_room(&self) -> bool {
        match self.entries.get(self.next) {
            Some(oldest) => oldest.stage == Stage::Answered || oldest.is_repeat,
            None => self.entries.len() < self.depth,
        }
    }

    /// Adds an entry in place of the oldest. The caller has checked [`Self::has_room`].
    pub(crate) fn insert(&mut self, resource: Resource) -> u32 {
        let at = self.next;
        (self.answered, self.first) = (false, None);
        match self.entries.get_mut(at) {
            Some(entry) => *entry = resource,
            None => self.entries.push(resource),
        }
        self.next = (at + 1) % self.depth;
        at as u32
    }

    pub(crate) fn get(&mut self, at: Option<u32>) -> Option<&mut Resource> {
        self.first = None;
        self.entries.get_mut(at? as usize)
    }

    /// True if no entry has to be executed or answered.
    pub(crate) fn are_answered(&mut self) -> bool {
        self.answered = self.answered || self.unanswered().next().is_none();
        self.answered
    }

    /// The entries that have to be executed or answered.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = &Resource> {
        self.entries.iter().filter(|entry| entry.stage != Stage::Answered)
    }

    /// The entry whose PSNs include `psn`. The caller may set it to be answered again.
    pub(crate) fn find(&mut self, psn: Psn) -> Option<&mut Resource> {
        (self.answered, self.first) = (false, None);
        self.entries.iter_mut().find(|entry| {
            let index = psn.distance_from(entry.first);
            index >= 0 && (index as u32) < entry.packets
        })
    }

    /// Cancels the answers from this PSN on.
    pub(crate) fn call_off(&mut self, psn: Psn) {
        for resource in &mut self.entries {
            if psn.is_before(resource.first.plus(resource.packets)) {
                resource.stage = Stage::Answered;
            }
        }
    }

    /// True if an entry begins after `psn`.
    pub(crate) fn any_after(&self, psn: Psn) -> bool {
        self.entries.iter().any(|entry| entry.packets > 0 && psn.is_before(entry.first))
    }

    /// Removes answers from long before `psn`, which no peer requests again.
    pub(crate) fn forget_old(&mut self, psn: Psn) {
        for entry in &mut self.entries {
            let age = psn.distance_from(entry.first);
            if entry.stage == Stage::Answered && !(0..1 << 22).contains(&age) {
                entry.packets = 0;
            }
        }
    }

    /// The earliest entry in PSN order that has to be answered, if nothing before it is unfinished.
    pub(crate) fn first_to_answer(&mut self) -> Option<&mut Resource> {
        let is_answering = |entry: &Resource| matches!(entry.stage, Stage::Answering { .. });
        if self.first.is_none_or(|at| !is_answering(&self.entries[at])) {
            self.first = self.first_unanswered().filter(|at| is_answering(&self.entries[*at]));
        }
        self.first.map(|at| &mut self.entries[at])
    }

    /// The place of the earliest entry in PSN order that has to be executed or answered.
    fn first_unanswered(&mut self) -> Option<usize> {
        if self.are_answered() {
            return None;
        }
        let entries = self.entries.iter().enumerate();
        let busy = entries.filter(|(_, entry)| entry.stage != Stage::Answered);
        let first = busy.reduce(|a, b| if b.1.first.is_before(a.1.first) { b } else { a });
        first.map(|(at, _)| at)
    }
}
