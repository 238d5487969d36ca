//! Completion queues, and the stash in which early payload waits.

use super::Nic;
use crate::api::{CompletionQueueId, JettyState, SegmentId, SetupError};
use crate::completion::CompletionQueue;

impl Nic {
    /// Makes a completion queue that holds `depth` entries.
    ///
    /// # Errors
    /// `Limit` if queues or entries run out.
    pub fn create_completion_queue(&mut self, depth: u32) -> Result<CompletionQueueId, SetupError> {
        let used: u32 = self.shared.queues.iter().flatten().map(CompletionQueue::depth).sum();
        if self.shared.limits.completions.saturating_sub(used) < depth {
            return Err(SetupError::Limit("completions"));
        }
        let free = self.shared.queues.iter().position(Option::is_none);
        let index = free.ok_or(SetupError::Limit("completion_queues"))?;
        self.shared.queues[index] = Some(CompletionQueue::new(depth));
        Ok(CompletionQueueId::new(index as u32))
    }

    /// Names the memory in which the payload of packets that wait for their turn is set aside:
    /// `Limits::held` places of `packet_bytes` each, from the start of the segment, which is to
    /// stay registered. Without it, what comes too early is sent back.
    ///
    /// # Errors
    /// `Missing` if it is not registered, `Parameter` if it is too short.
    pub fn set_stash(&mut self, segment: SegmentId, packet_bytes: u32) -> Result<(), SetupError> {
        let record = self.shared.segments.get(segment.number()).ok_or(SetupError::Missing)?;
        let needed = u64::from(self.shared.limits.held) * u64::from(packet_bytes);
        if record.length() < needed {
            return Err(SetupError::Parameter("segment length"));
        }
        self.shared.segments.hold(segment.number());
        self.shared.stash = Some(segment);
        self.shared.stash_packet = packet_bytes;
        Ok(())
    }

    /// Sets where a segment lies in the memory of its owner. By it the engine finds that a READ and
    /// a later WRITE touch the same bytes through two segments. By default it is the address that
    /// peers use.
    pub fn set_segment_place(&mut self, segment: SegmentId, place: u64) {
        self.shared.segments.set_place(segment.number(), place);
    }

    /// Takes the stash away again. What comes too early from now on is sent back.
    ///
    /// # Panics
    /// If something is held in it.
    pub fn clear_stash(&mut self) {
        assert!(self.shared.held.in_use() == 0, "the stash is in use");
        if let Some(segment) = self.shared.stash.take() {
            self.shared.let_go(segment.number());
        }
    }

    /// Removes an empty completion queue.
    ///
    /// # Errors
    /// `Missing`; `Busy` while a Jetty uses it or completions wait in it.
    pub fn destroy_completion_queue(&mut self, id: CompletionQueueId) -> Result<(), SetupError> {
        let slot = self.shared.queues.get_mut(id.index()).ok_or(SetupError::Missing)?;
        let queue = slot.as_ref().ok_or(SetupError::Missing)?;
        let number = id.number() as u16;
        let used = self.shared.jetties.iter().any(|jetty| {
            !matches!(jetty.state, JettyState::Reset | JettyState::Group)
                && (jetty.send_queue == number || jetty.receive_queue == number)
        });
        if used || !queue.is_idle() {
            return Err(SetupError::Busy);
        }
        *slot = None;
        Ok(())
    }
}
