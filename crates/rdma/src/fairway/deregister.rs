//! Deregistration of memory: finds the operations that still use it, and removes it from them.

use fairway::embed::Core;
use fairway_ub::{ScatterList, SegmentId};

use super::tables::Verbs;
use crate::ProviderError;

impl Verbs {
    /// Refuses every access to a segment from now on. Returns the generation of its registration if
    /// some operation still uses it.
    pub(super) fn deregister(
        &mut self,
        core: &mut Core,
        segment: SegmentId,
    ) -> Result<Option<u32>, ProviderError> {
        let generation = self.regions.close(segment).ok_or(ProviderError::Missing)?;
        core.deregister(segment);
        // Packets that wait to be sent may be copies of packets whose operations have ended; no
        // operation shows that they refer to the segment.
        core.note_end();
        // Another registration may get the segment's number before these sends begin.
        for pair in self.pairs.iter_mut().flatten() {
            let begun = pair.begun() as usize;
            pair.sends.iter_mut().skip(begun).for_each(|send| send.lose(segment));
        }
        self.lose_receives_into(core, segment);
        for local in self.users_of(segment) {
            self.fail_oldest(core, local, fairway_roce::Status::LocalProtection);
        }
        core.drain_events();
        Ok((!self.is_released(core, segment, generation)).then_some(generation))
    }

    /// True if no operation uses a deregistered segment any more, except receives that wait for a
    /// message. The memory is then removed from those receives.
    pub(super) fn is_released(
        &mut self,
        core: &mut Core,
        segment: SegmentId,
        generation: u32,
    ) -> bool {
        // A later registration may have got the segment's number.
        if !self.regions.is_latest(segment, generation) {
            return true;
        }
        let references = core.nic.segment_references(segment);
        if references > self.receives_into(segment) {
            return false;
        }
        self.take_away(core, segment, generation);
        true
    }

    /// Ends all accesses to a segment's memory, even if operations still refer to it.
    pub(super) fn take_away(&mut self, core: &mut Core, segment: SegmentId, generation: u32) {
        core.note_end();
        if self.regions.is_latest(segment, generation) {
            core.memories.blind(segment);
            // A message for a receive that is still posted is refused.
            core.memories.redirect(segment, Some(ScatterList::EMPTY));
        }
    }
}
