//! Completion queues. Room for a completion is reserved when its operation is posted, so a queue
//! never overflows and no completion is ever lost.

use alloc::collections::VecDeque;

/// A queue of completions of type `C`: each protocol has its own.
#[derive(Debug)]
pub struct CompletionQueue<C> {
    entries: VecDeque<C>,
    depth: u32,
    reserved: u32,
}

impl<C> CompletionQueue<C> {
    /// An empty queue with room for `depth` completions.
    pub fn new(depth: u32) -> Self {
        CompletionQueue { entries: VecDeque::with_capacity(depth as usize), depth, reserved: 0 }
    }

    /// Completions that it has room for.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Sets room aside for one completion; false if there is none.
    pub fn reserve(&mut self) -> bool {
        if self.entries.len() as u32 + self.reserved >= self.depth {
            return false;
        }
        self.reserved += 1;
        true
    }

    /// Gives reserved room back without a completion.
    pub fn unreserve(&mut self) {
        assert!(self.reserved > 0, "completion room given back twice");
        self.reserved -= 1;
    }

    /// Uses reserved room.
    pub fn push(&mut self, completion: C) {
        self.unreserve();
        self.entries.push_back(completion);
    }

    /// Takes the oldest completion out.
    pub fn pop(&mut self) -> Option<C> {
        let first = self.entries.pop_front();
        if self.entries.is_empty() {
            // What comes next goes where the caches are warm, and not once round all of the memory.
            self.entries.clear();
        }
        first
    }

    /// True if it holds no completion, and none is to come.
    pub fn is_idle(&self) -> bool {
        self.reserved == 0 && self.entries.is_empty()
    }

    /// Completions for which room is reserved.
    pub fn reserved(&self) -> u32 {
        self.reserved
    }
}
