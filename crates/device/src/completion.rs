//! Completion queues. Capacity for a completion is reserved when its operation is posted, so a
//! queue never overflows and no completion is ever lost.

use alloc::collections::VecDeque;

/// A queue of completions of type `C`, which each protocol defines.
#[derive(Debug)]
pub struct CompletionQueue<C> {
    entries: VecDeque<C>,
    depth: u32,
    reserved: u32,
}

impl<C> CompletionQueue<C> {
    /// Creates an empty queue with capacity for `depth` completions.
    pub fn new(depth: u32) -> Self {
        CompletionQueue { entries: VecDeque::with_capacity(depth as usize), depth, reserved: 0 }
    }

    /// Capacity of the queue, in completions.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Reserves capacity for one completion. Returns false if there is none.
    #[inline]
    pub fn reserve(&mut self) -> bool {
        if self.entries.len() as u32 + self.reserved >= self.depth {
            return false;
        }
        self.reserved += 1;
        true
    }

    /// Releases reserved capacity without a completion.
    #[inline]
    pub fn unreserve(&mut self) {
        assert!(self.reserved > 0, "completion room given back twice");
        self.reserved -= 1;
    }

    /// Adds a completion, using reserved capacity.
    #[inline]
    pub fn push(&mut self, completion: C) {
        self.unreserve();
        self.entries.push_back(completion);
    }

    /// Removes and returns the oldest completion.
    #[inline]
    pub fn pop(&mut self) -> Option<C> {
        let first = self.entries.pop_front();
        if self.entries.is_empty() {
            // The next completions use memory that is still in the caches, instead of cycling
            // through all of it.
            self.entries.clear();
        }
        first
    }

    /// True if the queue is empty, and no capacity is reserved.
    pub fn is_idle(&self) -> bool {
        self.reserved == 0 && self.entries.is_empty()
    }

    /// Number of completions for which capacity is reserved.
    pub fn reserved(&self) -> u32 {
        self.reserved
    }
}
