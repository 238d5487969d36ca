//! Greedy: no dequeue rates, turns as the NIC takes them.
//!
//! **Rule:** none. Every flow may send whenever the NIC gets to it, which favours large messages.
//!
//! **Source:** the default queue-pair scheduler of RDMA NICs (SCR §5.1).

use fairway_wire::Instant;

use super::{FlowId, RateRegisters, Scheduler, Share, TransmitSample};

/// The default NIC's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl Greedy {
    /// The name under which it is chosen.
    pub const NAME: &'static str = "greedy";
}

impl Scheduler for Greedy {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// Another scheduler may have left a rate.
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
