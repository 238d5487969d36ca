//! Whether the control loop is written down, and what was.

use super::UbDevice;
use crate::control::TraceRecord;
use alloc::vec::Vec;
use fairway_wire::Instant;

impl UbDevice {
    /// Writes down from now on what controllers are told and decide, with room for `records` of it
    /// between two calls of [`Self::take_trace`]; 0 for no longer. Memory is taken here.
    pub fn set_trace(&mut self, now: Instant, records: u32) {
        self.shared.flows.now = now;
        let limits = self.shared.config.limits();
        let (channels, flows) = (limits.channels, limits.flows);
        self.shared.flows.set_trace(records, channels, flows);
    }

    /// Adds what was written down since it was last asked to `to`, oldest first; gives how many
    /// records found no room since [`Self::set_trace`].
    pub fn take_trace(&mut self, now: Instant, to: &mut Vec<TraceRecord>) -> u64 {
        self.shared.flows.now = now;
        self.shared.flows.take_trace(to)
    }
}
