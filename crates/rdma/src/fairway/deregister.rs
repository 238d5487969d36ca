//! Memory that the program takes back: what still uses it, and how it is taken from that.

use fairway::embed::Core;
use fairway_engine::SegmentId;

use super::tables::Verbs;
use crate::ProviderError;

impl Verbs {
    /// Refuses every access to a segment from now on. `Some`, and which registration it was, if
    /// some operation still uses it.
    pub(super) fn deregister(
        &mut self,
        core: &mut Core,
        segment: SegmentId,
    ) -> Result<Option<u32>, ProviderError> {
        let generation = self.regions.close(segment).ok_or(ProviderError::Missing)?;
        core.deregister(segment);
        // Packets that wait to be sent may be copies of ones whose operations are over: no
        // operation would say that they name it.
        core.note_end();
        // Another registration may get its number before they begin.
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

    /// Does no operation use a deregistered segment any more, but receives that wait for a message?
    /// Then their memory is taken from them.
    pub(super) fn is_released(
        &mut self,
        core: &mut Core,
        segment: SegmentId,
        generation: u32,
    ) -> bool {
        // A later registration may have got its number.
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

    /// Nothing of a segment's memory is touched any more, even if operations still name it.
    pub(super) fn take_away(&mut self, core: &mut Core, segment: SegmentId, generation: u32) {
        core.note_end();
        if self.regions.is_latest(segment, generation) {
            core.memories.blind(segment);
        }
    }
}
