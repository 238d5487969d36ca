//! Hints as weights: an application's hint sets the weight of its flow.
//!
//! **Rule:** a hint `h > 0` is the flow's weight, at most 65,535, in place of the one of its
//! [`Share`]; with 0, the initial value, the share's own weight holds. No hint changes the tenant
//! of a flow or the weight of the tenant: among tenants with weights an application can gain only
//! from flows of its own tenant.
//!
//! **Source:** in SCR §4.1 applications give hints to the control through memory they share with
//! it; the policy defines what a hint means. This is the simplest meaning that the schedulers here
//! have in common.

use alloc::boxed::Box;
use alloc::vec;
use fairway_wire::Instant;

use super::{FlowId, RateRegisters, Scheduler, Share, TransmitSample};

/// How a scheduler treats hints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hints {
    /// Hints are ignored.
    #[default]
    Ignore,
    /// A hint is the flow's weight.
    Weight,
}

#[derive(Clone, Copy, Debug, Default)]
struct FlowShare {
    share: Share,
    hint: u16,
}

impl FlowShare {
    fn share(&self) -> Share {
        let weight = if self.hint == 0 { self.share.weight } else { self.hint };
        Share { weight, ..self.share }
    }
}

/// A scheduler that receives hints as changes of weights.
pub struct HintedWeights {
    scheduler: Box<dyn Scheduler>,
    flows: Box<[FlowShare]>,
}

impl HintedWeights {
    /// Makes `scheduler` follow the hints of `flows` flows.
    pub fn new(scheduler: Box<dyn Scheduler>, flows: u32) -> HintedWeights {
        HintedWeights { scheduler, flows: vec![FlowShare::default(); flows as usize].into() }
    }
}

impl Scheduler for HintedWeights {
    fn name(&self) -> &'static str {
        self.scheduler.name()
    }

    fn flow_started(&mut self, now: Instant, flow: FlowId, share: Share, rates: &RateRegisters) {
        // A hint belongs to one life of a flow: the next flow with its number has hints of its own.
        if let Some(record) = self.flows.get_mut(flow.index()) {
            *record = FlowShare { share, hint: 0 };
        }
        self.scheduler.flow_started(now, flow, share, rates);
    }

    fn flow_ended(&mut self, now: Instant, flow: FlowId, rates: &RateRegisters) {
        self.scheduler.flow_ended(now, flow, rates);
    }

    fn share_changed(&mut self, now: Instant, flow: FlowId, share: Share, rates: &RateRegisters) {
        let Some(record) = self.flows.get_mut(flow.index()) else { return };
        record.share = share;
        self.scheduler.share_changed(now, flow, record.share(), rates);
    }

    fn on_transmit(&mut self, flow: FlowId, sample: &TransmitSample, rates: &RateRegisters) {
        self.scheduler.on_transmit(flow, sample, rates);
    }

    fn on_hint(&mut self, now: Instant, flow: FlowId, hint: u64, rates: &RateRegisters) {
        let Some(record) = self.flows.get_mut(flow.index()) else { return };
        let before = record.share();
        record.hint = u16::try_from(hint).unwrap_or(u16::MAX);
        // A repeated hint must not cause everything to be divided anew.
        if record.share() != before {
            self.scheduler.share_changed(now, flow, record.share(), rates);
        }
    }

    fn quantum_bytes(&self, flow: FlowId) -> Option<u32> {
        self.scheduler.quantum_bytes(flow)
    }

    fn event_bytes(&self) -> u32 {
        self.scheduler.event_bytes()
    }
}

#[cfg(test)]
mod tests;
