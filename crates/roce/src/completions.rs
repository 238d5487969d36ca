//! Completion queues with the rules of verbs: a queue holds a fixed number of completions, and one
//! more is an overrun. No entry is reserved when an operation is posted, because a program may post
//! many operations that produce no completion and have a short queue.

use super::api::{Completion, Status};
use alloc::collections::VecDeque;
use fairway_wire::Qpn;

#[derive(Debug)]
pub(crate) struct Completions {
    entries: VecDeque<Completion>,
    depth: u32,
    armed: Option<Awaited>,
    /// Number of entries that were in the queue at its last notification; they are the first ones.
    announced: usize,
    /// True if a completion was lost. No more are accepted.
    overrun: bool,
}

/// The completions for which a thread that armed a queue waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    Any,
    /// A completion that its sender marked as solicited, or one with an error.
    Solicited,
}

impl Awaited {
    fn includes(self, completion: &Completion) -> bool {
        let marked = completion.solicited || completion.status != Status::Success;
        self == Awaited::Any || marked
    }
}

/// The result of adding a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    Quietly,
    /// A thread was waiting for the completion. The queue is no longer armed.
    Awaited,
    /// The queue was full, and this is the first completion to be lost.
    Overrun,
    /// The queue has overrun before, so this completion is lost as well.
    Lost,
}

impl Completions {
    pub(crate) fn new(depth: u32) -> Completions {
        let entries = VecDeque::with_capacity(depth as usize);
        Completions { entries, depth, armed: None, announced: 0, overrun: false }
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Changes the depth. Returns false if more completions than that wait in the queue.
    pub(crate) fn resize(&mut self, depth: u32) -> bool {
        let count = self.entries.len();
        if count > depth as usize {
            return false;
        }
        self.entries.reserve_exact(depth as usize - count);
        self.depth = depth;
        true
    }

    /// Requests a notification of the next completion of this kind. Returns true if one that came
    /// after the last notification is already waiting: the notification is due at once, and the
    /// queue is not armed.
    pub(crate) fn arm(&mut self, awaited: Awaited) -> bool {
        // A later request does not narrow an earlier one for any completion.
        let awaited = if self.armed == Some(Awaited::Any) { Awaited::Any } else { awaited };
        let mut unannounced = self.entries.iter().skip(self.announced);
        let waits = unannounced.any(|completion| awaited.includes(completion));
        self.armed = (!waits).then_some(awaited);
        if waits {
            self.announced = self.entries.len();
        }
        waits
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    pub(crate) fn push(&mut self, completion: Completion) -> Pushed {
        if self.overrun {
            return Pushed::Lost;
        }
        if self.entries.len() >= self.depth as usize {
            self.overrun = true;
            return Pushed::Overrun;
        }
        self.entries.push_back(completion);
        match self.armed {
            Some(awaited) if awaited.includes(&completion) => {
                self.armed = None;
                self.announced = self.entries.len();
                Pushed::Awaited
            }
            _ => Pushed::Quietly,
        }
    }

    pub(crate) fn forget(&mut self, queue_pair: Qpn) {
        let announced = self.entries.iter().take(self.announced);
        self.announced = announced.filter(|entry| entry.queue_pair != queue_pair).count();
        self.entries.retain(|completion| completion.queue_pair != queue_pair);
    }

    /// True if the queue contains completions of this queue pair.
    pub(crate) fn holds(&self, queue_pair: Qpn) -> bool {
        self.entries.iter().any(|completion| completion.queue_pair == queue_pair)
    }

    pub(crate) fn pop(&mut self) -> Option<Completion> {
        self.announced = self.announced.saturating_sub(1);
        self.entries.pop_front()
    }
}
