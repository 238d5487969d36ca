//! A scheduler that is run for every event.

use alloc::boxed::Box;

use fairway_wire::Instant;

use super::{FlowId, RateRegisters, Scheduler, Share, TransmitSample};

/// A scheduler that is run for every event, however little has accumulated.
pub struct Eager(pub Box<dyn Scheduler>);

impl Scheduler for Eager {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn flow_started(&mut self, now: Instant, flow: FlowId, share: Share, rates: &RateRegisters) {
        self.0.flow_started(now, flow, share, rates);
    }
    fn flow_ended(&mut self, now: Instant, flow: FlowId, rates: &RateRegisters) {
        self.0.flow_ended(now, flow, rates);
    }
    fn share_changed(&mut self, now: Instant, flow: FlowId, share: Share, rates: &RateRegisters) {
        self.0.share_changed(now, flow, share, rates);
    }
    fn on_transmit(&mut self, flow: FlowId, sample: &TransmitSample, rates: &RateRegisters) {
        self.0.on_transmit(flow, sample, rates);
    }
    fn on_hint(&mut self, now: Instant, flow: FlowId, hint: u64, rates: &RateRegisters) {
        self.0.on_hint(now, flow, hint, rates);
    }
    fn quantum_bytes(&self, flow: FlowId) -> Option<u32> {
        self.0.quantum_bytes(flow)
    }
}
