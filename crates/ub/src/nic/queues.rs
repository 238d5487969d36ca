//! Completion queues, and the staging memory in which early payload waits.

use super::UbDevice;
use crate::api::{CompletionQueueId, SegmentId, SetupError};

impl UbDevice {
    /// Creates a completion queue that holds `depth` entries.
    ///
    /// # Errors
    /// `Limit` if queues or entries run out.
    pub fn create_completion_queue(&mut self, depth: u32) -> Result<CompletionQueueId, SetupError> {
        self.shared.queues.create(depth, self.shared.config.limits().completions)
    }

    /// Sets the staging memory for the payload of packets that wait for their turn:
    /// `Limits::deferred` places of `packet_bytes` each, from the start of the segment, which must
    /// stay registered. Without staging memory, packets that arrive too early are sent back.
    ///
    /// # Errors
    /// `Missing` if the segment is not registered, `Parameter` if it is too short.
    pub fn set_staging(&mut self, segment: SegmentId, packet_bytes: u32) -> Result<(), SetupError> {
        let record = self.shared.segments.get(segment.number()).ok_or(SetupError::Missing)?;
        let needed = u64::from(self.shared.config.limits().deferred) * u64::from(packet_bytes);
        if record.length() < needed {
            return Err(SetupError::Parameter("segment length"));
        }
        self.shared.segments.hold(segment.number());
        self.shared.deferred.set_staging(segment, packet_bytes);
        Ok(())
    }

    /// Sets the address of a segment in the memory of its owner. The protocol uses it to find that
    /// a READ and a later WRITE touch the same bytes through two segments. By default it is the
    /// address that peers use.
    pub fn set_segment_place(&mut self, segment: SegmentId, place: u64) {
        self.shared.segments.set_place(segment.number(), place);
    }

    /// Removes the staging memory. Packets that arrive too early from now on are sent back.
    ///
    /// # Panics
    /// If it holds the payload of a packet.
    pub fn clear_staging(&mut self) {
        if let Some(segment) = self.shared.deferred.take_staging() {
            self.shared.release(segment.number());
        }
    }

    /// Removes an empty completion queue.
    ///
    /// # Errors
    /// `Missing` if there is no such queue; `Busy` while a Jetty uses it or completions wait in it.
    pub fn destroy_completion_queue(&mut self, id: CompletionQueueId) -> Result<(), SetupError> {
        let is_used = self.shared.jetties.uses_queue(id.number() as u16);
        self.shared.queues.destroy(id, is_used)
    }
}
