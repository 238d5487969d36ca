//! The trace of the control loop: switching it on, and taking its records.

use super::UbDevice;
use crate::control::TraceRecord;
use alloc::vec::Vec;
use fairway_wire::Instant;

impl UbDevice {
    /// Records from now on the events and decisions of controllers, with room for `records` records
    /// between two calls of [`Self::take_trace`]; 0 switches the trace off. Memory is allocated
    /// here.
    pub fn set_trace(&mut self, now: Instant, records: u32) {
        self.shared.flows.now = now;
        let limits = self.shared.config.limits();
        let (channels, flows) = (limits.channels, limits.flows);
        self.shared.flows.set_trace(records, channels, flows);
    }

    /// Appends the records since the last call to `to`, oldest first. Returns how many records
    /// found no room since [`Self::set_trace`].
    pub fn take_trace(&mut self, now: Instant, to: &mut Vec<TraceRecord>) -> u64 {
        self.shared.flows.now = now;
        self.shared.flows.take_trace(to)
    }
}
