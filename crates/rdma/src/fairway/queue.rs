//! Completion queues with the semantics of verbs: nothing is reserved, so one completion too many
//! is an overrun.

use std::collections::VecDeque;

use fairway_roce::{Completion, Status};

pub(super) struct CompletionQueue {
    entries: VecDeque<Completion>,
    depth: u32,
    armed: Armed,
    /// Number of entries, from the front, that were in the queue when its owner was last notified.
    announced: usize,
    /// True once a completion was lost: no more are accepted.
    overrun: bool,
    /// Number of uses by queue pairs: one for sends and one for receives of each.
    pub(super) users: u32,
}

/// The completions of which the owner requests a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    No,
    Solicited,
    Any,
}

impl Armed {
    fn awaits(self, completion: &Completion) -> bool {
        match self {
            Armed::No => false,
            Armed::Solicited => completion.solicited || completion.status != Status::Success,
            Armed::Any => true,
        }
    }
}

/// The result of adding a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    Quietly,
    /// The owner has requested a notification of this completion.
    Awaited,
    /// The completion is the first for which there was no room.
    Overrun,
}

impl CompletionQueue {
    pub(super) fn new(depth: u32) -> Self {
        // Memory for a deep queue is allocated as it is needed.
        let entries = VecDeque::with_capacity(depth.min(1024) as usize);
        CompletionQueue { entries, depth, armed: Armed::No, announced: 0, overrun: false, users: 0 }
    }

    /// Changes the depth. Returns false if the queue contains more completions than that, counting
    /// the `due` ones that are about to be added.
    pub(super) fn resize(&mut self, depth: u32, due: usize) -> bool {
        let fits = self.entries.len() + due <= depth as usize;
        if fits {
            self.depth = depth;
        }
        fits
    }

    /// Requests a notification of the next completion. Returns true if the queue contains a
    /// matching completion that was added after the last notification: then the owner is notified
    /// at once, and the queue is not armed.
    pub(super) fn arm(&mut self, solicited_only: bool) -> bool {
        // If one thread waits for any completion, that request stays although another thread
        // requests solicited ones only.
        let armed = match (solicited_only, self.armed) {
            (true, Armed::No | Armed::Solicited) => Armed::Solicited,
            (true, Armed::Any) | (false, _) => Armed::Any,
        };
        let mut unannounced = self.entries.iter().skip(self.announced);
        let there = unannounced.any(|completion| armed.awaits(completion));
        self.armed = if there { Armed::No } else { armed };
        if there {
            self.announced = self.entries.len();
        }
        there
    }

    pub(super) fn push(&mut self, completion: Completion) -> Pushed {
        if self.entries.len() >= self.depth as usize || self.overrun {
            let first = !std::mem::replace(&mut self.overrun, true);
            return if first { Pushed::Overrun } else { Pushed::Quietly };
        }
        self.entries.push_back(completion);
        if !self.armed.awaits(&completion) {
            return Pushed::Quietly;
        }
        self.armed = Armed::No;
        self.announced = self.entries.len();
        Pushed::Awaited
    }

    pub(super) fn take(&mut self, out: &mut [Completion]) -> usize {
        let count = out.len().min(self.entries.len());
        self.announced = self.announced.saturating_sub(count);
        for (to, completion) in out.iter_mut().zip(self.entries.drain(..count)) {
            *to = completion;
        }
        if self.entries.is_empty() {
            // The next completions use memory that is still in the caches.
            self.entries.clear();
        }
        count
    }

    /// True if the queue contains completions of this queue pair.
    pub(super) fn holds(&self, number: fairway_ub::wire::Qpn) -> bool {
        self.entries.iter().any(|completion| completion.queue_pair == number)
    }

    /// Removes the completions of a queue pair that was removed or reset.
    pub(super) fn forget(&mut self, number: fairway_ub::wire::Qpn) {
        let announced = self.entries.iter().take(self.announced);
        self.announced = announced.filter(|entry| entry.queue_pair != number).count();
        self.entries.retain(|completion| completion.queue_pair != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairway_roce::{CompletionKind, Peer};
    use fairway_ub::wire::{Qpn, roce::Tail};

    fn completion(status: Status, solicited: bool) -> Completion {
        Completion {
            id: 0,
            queue_pair: Qpn::new(7),
            status,
            kind: CompletionKind::Receive,
            bytes: 0,
            tail: Tail::Nothing,
            value: 0,
            from: Peer::default(),
            solicited,
        }
    }

    #[test]
    fn armed_queue_notifies_once_and_only_for_requested_completions() {
        let mut queue = CompletionQueue::new(16);
        let mut out = [completion(Status::Success, true); 8];
        assert_eq!(queue.push(completion(Status::Success, true)), Pushed::Quietly);
        queue.take(&mut out);
        queue.arm(true);
        assert_eq!(queue.push(completion(Status::Success, false)), Pushed::Quietly);
        assert_eq!(queue.push(completion(Status::Success, true)), Pushed::Awaited);
        assert_eq!(queue.push(completion(Status::Success, true)), Pushed::Quietly);
        queue.take(&mut out);
        queue.arm(true);
        assert_eq!(queue.push(completion(Status::Flushed, false)), Pushed::Awaited);
        queue.take(&mut out);
        queue.arm(false);
        queue.arm(true);
        assert_eq!(queue.push(completion(Status::Success, false)), Pushed::Awaited);
    }

    #[test]
    fn arming_reports_a_completion_that_was_not_polled() {
        let one = completion(Status::Success, false);
        let mut queue = CompletionQueue::new(16);
        assert!(!queue.arm(false));
        assert_eq!(queue.push(one), Pushed::Awaited);
        assert_eq!(queue.push(one), Pushed::Quietly);
        // The completion is not solicited, so the queue is armed.
        assert!(!queue.arm(true));
        assert!(queue.arm(false));
        // The owner was notified, and the queue is not armed any more.
        assert_eq!(queue.push(one), Pushed::Quietly);
        assert!(queue.arm(false));
        assert!(!queue.arm(false), "all of them were reported");
        assert_eq!(queue.push(one), Pushed::Awaited);
        assert_eq!(queue.take(&mut [one; 8]), 4);
        assert!(!queue.arm(false));
        assert_eq!(queue.push(one), Pushed::Awaited);
    }

    #[test]
    fn one_too_many_is_an_overrun_and_the_queue_takes_no_more() {
        let mut queue = CompletionQueue::new(2);
        let one = completion(Status::Success, false);
        assert_eq!(queue.push(one), Pushed::Quietly);
        assert_eq!(queue.push(one), Pushed::Quietly);
        assert!(!queue.resize(1, 0));
        assert!(!queue.resize(2, 1) && queue.resize(2, 0));
        assert_eq!(queue.push(one), Pushed::Overrun);
        assert_eq!(queue.push(one), Pushed::Quietly);
        assert_eq!(queue.take(&mut [one; 8]), 2);
        assert_eq!(queue.push(one), Pushed::Quietly);
        assert_eq!(queue.take(&mut [one; 8]), 0);
    }
}
