//! Completion queues of verbs: they hold as many completions as they were made for, and one more is
//! an overrun. Nothing is reserved: a program may post many operations that make no completion and
//! have a short queue.

use super::api::{Completion, Status};
use alloc::collections::VecDeque;
use fairway_wire::Qpn;

#[derive(Debug)]
pub(crate) struct Completions {
    entries: VecDeque<Completion>,
    depth: u32,
    armed: Option<Awaited>,
    /// The first so many entries were in the queue at its last notification.
    announced: usize,
    /// One was lost. No more are taken.
    overrun: bool,
}

/// What a thread that armed a queue waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    Any,
    /// A completion that its sender marked, or one of an error.
    Solicited,
}

impl Awaited {
    fn includes(self, completion: &Completion) -> bool {
        let marked = completion.solicited || completion.status != Status::Success;
        self == Awaited::Any || marked
    }
}

/// What became of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    Quietly,
    /// A thread has waited for it. The queue is not armed any more.
    Awaited,
    /// It found no room, the first to do so.
    Overrun,
    /// It went the way of the first that found no room.
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

    /// False if more wait in it than that.
    pub(crate) fn resize(&mut self, depth: u32) -> bool {
        let count = self.entries.len();
        if count > depth as usize {
            return false;
        }
        self.entries.reserve_exact(depth as usize - count);
        self.depth = depth;
        true
    }

    /// Asks to be notified of the next completion of this kind. True if one waits already that came
    /// after the last notification: the next one is due at once, and the queue is not armed.
    pub(crate) fn arm(&mut self, awaited: Awaited) -> bool {
        // A request for any completion is not narrowed by a later one.
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

    /// There are some of this queue pair.
    pub(crate) fn holds(&self, queue_pair: Qpn) -> bool {
        self.entries.iter().any(|completion| completion.queue_pair == queue_pair)
    }

    pub(crate) fn pop(&mut self) -> Option<Completion> {
        self.announced = self.announced.saturating_sub(1);
        self.entries.pop_front()
    }
}
