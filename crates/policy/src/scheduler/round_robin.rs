//! Weighted deficit round robin.
//!
//! **Rule:** each flow may send its quantum in its turn. What it could not use, because the next
//! chunk was larger, is added to its next turn. Quanta are in the ratio of the flows' fair shares;
//! the smallest of them is `quantum`. There are no dequeue rates, so the line is always used.
//!
//! **Source:** Shreedhar and Varghese, *Efficient Fair Queueing using Deficit Round Robin*, SIGCOMM
//! 1995. The protocol keeps the deficits; this policy sets the quanta.

use alloc::boxed::Box;
use alloc::vec;
use fairway_wire::Instant;

use super::shares::Shares;
use super::{FlowId, Hints, RateRegisters, Scheduler, Share, TransmitSample};

/// Scale at which fair shares are compared, fine enough for the smallest share.
const SCALE: u64 = 1 << 60;
/// Smallest quantum, in bytes: a flow may owe 256 KiB, and pays with its next turns, which the
/// device takes one by one.
pub const QUANTUM_MIN: u32 = 128;
/// Upper limit of all quanta: longer turns would make the other flows wait too long.
const LARGEST_QUANTUM: u64 = 16 * 1024 * 1024;

/// Parameters of [`RoundRobin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundRobinParameters {
    /// The quantum of the flow with the smallest fair share; at least [`QUANTUM_MIN`].
    pub quantum_bytes: u64,
    /// How hints are treated; [`PolicySpec::build_scheduler`](crate::PolicySpec::build_scheduler)
    /// implements it.
    pub hints: Hints,
}

impl Default for RoundRobinParameters {
    fn default() -> Self {
        let quantum_bytes = u64::from(crate::chunk::CHUNK_BYTES);
        RoundRobinParameters { quantum_bytes, hints: Hints::Ignore }
    }
}

/// The deficit round robin scheduler.
#[derive(Debug)]
pub struct RoundRobin {
    quantum_bytes: u64,
    shares: Shares,
    quanta: Box<[u32]>,
}

impl RoundRobin {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "drr";

    /// Creates the scheduler for `flows` flows.
    pub fn new(parameters: RoundRobinParameters, flows: u32) -> RoundRobin {
        let quantum_bytes = parameters.quantum_bytes.clamp(u64::from(QUANTUM_MIN), LARGEST_QUANTUM);
        RoundRobin {
            quantum_bytes,
            shares: Shares::new(flows),
            quanta: vec![quantum_bytes as u32; flows as usize].into_boxed_slice(),
        }
    }

    fn divide(&mut self) {
        let due = |flow: &FlowId| self.shares.due(*flow, SCALE).max(1);
        let least = self.shares.active().iter().map(due).min().unwrap_or(1);
        for flow in self.shares.active() {
            let bytes = u128::from(self.quantum_bytes) * u128::from(due(flow));
            let quantum = (bytes / u128::from(least)).min(u128::from(LARGEST_QUANTUM));
            self.quanta[flow.index()] = quantum as u32;
        }
    }
}

impl Scheduler for RoundRobin {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn flow_started(&mut self, _now: Instant, flow: FlowId, share: Share, rates: &RateRegisters) {
        if self.shares.start(flow, share) || self.shares.change(flow, share) {
            rates.set(flow, RateRegisters::UNLIMITED);
            self.divide();
        }
    }

    fn flow_ended(&mut self, _now: Instant, flow: FlowId, _rates: &RateRegisters) {
        if self.shares.end(flow) {
            self.divide();
        }
    }

    fn share_changed(&mut self, _now: Instant, flow: FlowId, share: Share, _rates: &RateRegisters) {
        if self.shares.change(flow, share) {
            self.divide();
        }
    }

    fn on_transmit(&mut self, _flow: FlowId, _sample: &TransmitSample, _rates: &RateRegisters) {}

    fn quantum_bytes(&self, flow: FlowId) -> Option<u32> {
        Some(self.quanta.get(flow.index()).copied().unwrap_or(self.quantum_bytes as u32))
    }

    fn event_bytes(&self) -> u32 {
        u32::MAX
    }
}

#[cfg(test)]
mod tests;
