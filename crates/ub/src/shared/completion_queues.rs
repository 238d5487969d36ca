//! The completion queues of a device.

use crate::api::{Completion, CompletionQueueId, SetupError};
use crate::completion::CompletionQueue;
use alloc::vec::Vec;
use fairway_policy::MemoryVisitor;

/// All completion queues, by number.
pub(crate) struct CompletionQueues {
    queues: Vec<Option<CompletionQueue<Completion>>>,
}

impl CompletionQueues {
    /// Reserves space for `count` queues, none of which exists.
    pub(crate) fn new(count: u32) -> CompletionQueues {
        CompletionQueues { queues: (0..count).map(|_| None).collect() }
    }

    /// Creates a queue of `depth` entries, if all queues together hold at most `completions_max`.
    pub(crate) fn create(
        &mut self,
        depth: u32,
        completions_max: u32,
    ) -> Result<CompletionQueueId, SetupError> {
        let used: u32 = self.queues.iter().flatten().map(CompletionQueue::depth).sum();
        if completions_max.saturating_sub(used) < depth {
            return Err(SetupError::Limit("completions"));
        }
        let free = self.queues.iter().position(Option::is_none);
        let index = free.ok_or(SetupError::Limit("completion_queues"))?;
        self.queues[index] = Some(CompletionQueue::new(depth));
        Ok(CompletionQueueId::new(index as u32))
    }

    /// Removes a queue that holds no completion and has no entry reserved, unless a Jetty uses it.
    pub(crate) fn destroy(
        &mut self,
        id: CompletionQueueId,
        is_used: bool,
    ) -> Result<(), SetupError> {
        let slot = self.queues.get_mut(id.index()).ok_or(SetupError::Missing)?;
        let queue = slot.as_ref().ok_or(SetupError::Missing)?;
        if is_used || !queue.is_idle() {
            return Err(SetupError::Busy);
        }
        *slot = None;
        Ok(())
    }

    pub(crate) fn exists(&self, id: CompletionQueueId) -> bool {
        self.queues.get(id.index()).is_some_and(Option::is_some)
    }

    /// The queue of a Jetty, by its index.
    #[inline]
    pub(crate) fn of_jetty(&mut self, index: u16) -> &mut CompletionQueue<Completion> {
        // Jetties hold their queues: a queue cannot be destroyed before them.
        self.queues[usize::from(index)].as_mut().expect("a Jetty's completion queue exists")
    }

    /// Names the memory of the first queue.
    pub(crate) fn visit_memory(&self, visitor: &mut MemoryVisitor<'_>) {
        visitor.element(&self.queues, 0);
    }

    /// Takes the oldest completion of a queue.
    #[inline]
    pub(crate) fn pop(&mut self, id: CompletionQueueId) -> Option<Completion> {
        self.queues.get_mut(id.index())?.as_mut()?.pop()
    }

    /// Entries reserved for completions in all queues together.
    pub(crate) fn reserved(&self) -> u32 {
        self.queues.iter().flatten().map(CompletionQueue::reserved).sum()
    }
}
