//! Completion queues. Room for a completion is reserved when its operation is posted, so a queue
//! never overflows and no completion is ever lost.

use crate::api::Completion;
use alloc::collections::VecDeque;

/// Of completions of Jetties, or of RoCE queue pairs.
#[derive(Debug)]
pub(crate) struct CompletionQueue<C = Completion> {
    entries: VecDeque<C>,
    depth: u32,
    reserved: u32,
}

impl<C> CompletionQueue<C> {
    pub(crate) fn new(depth: u32) -> Self {
        CompletionQueue { entries: VecDeque::with_capacity(depth as usize), depth, reserved: 0 }
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Sets room aside for one completion; false if there is none.
    pub(crate) fn reserve(&mut self) -> bool {
        if self.entries.len() as u32 + self.reserved >= self.depth {
            return false;
        }
        self.reserved += 1;
        true
    }

    /// Gives reserved room back without a completion.
    pub(crate) fn unreserve(&mut self) {
        assert!(self.reserved > 0, "completion room given back twice");
        self.reserved -= 1;
    }

    /// Uses reserved room.
    pub(crate) fn push(&mut self, completion: C) {
        self.unreserve();
        self.entries.push_back(completion);
    }

    pub(crate) fn pop(&mut self) -> Option<C> {
        let first = self.entries.pop_front();
        if self.entries.is_empty() {
            // What comes next goes where the caches are warm, and not once round all of the memory.
            self.entries.clear();
        }
        first
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.reserved == 0 && self.entries.is_empty()
    }

    pub(crate) fn reserved(&self) -> u32 {
        self.reserved
    }
}
