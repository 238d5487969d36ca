//! Greedy: no dequeue rates, and the default turns of a NIC.
//!
//! **Rule:** none. Every flow sends whenever the NIC serves it, which favours large messages.
//!
//! **Source:** the default queue-pair scheduler of RDMA NICs (SCR §5.1).

use fairway_wire::Instant;

use super::{FlowId, RateRegisters, Scheduler, Share, TransmitSample};

/// The scheduler of a default NIC.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl Greedy {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "greedy";
}

impl Scheduler for Greedy {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// Removes a rate that another scheduler may have left.
    fn flow_started(&mut self, _now: Instant, flow: FlowId, _share: Share, rates: &RateRegisters) {
        rates.set(flow, RateRegisters::UNLIMITED);
    }

    fn flow_ended(&mut self, _now: Instant, _flow: FlowId, _rates: &RateRegisters) {}

    fn share_changed(&mut self, _: Instant, _: FlowId, _: Share, _: &RateRegisters) {}

    fn on_transmit(&mut self, _flow: FlowId, _sample: &TransmitSample, _rates: &RateRegisters) {}

    fn event_bytes(&self) -> u32 {
        u32::MAX
    }
}

#[cfg(test)]
mod tests;
