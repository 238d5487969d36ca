//! Static: every flow gets its part of the line, even if it does not use that part.
//!
//! **Control law**, whenever a flow starts, ends or changes its share:
//!
//! ```text
//! rate_i = max(C · w_i / Σ w, min)
//! ```
//!
//! `C` is the rate of the line. With tenants' weights, `w_i / Σ w` is the tenant's part among
//! tenants times the flow's part among the tenant's flows.
//!
//! **Source:** the static allocation of SCR §5.1, `Link_Capacity / Num_Of_Flow`.
//!
//! **Where this differs:** the paper's `min` is 1 Gb/s at 100 Gb/s, because its NIC is inaccurate
//! at small rates; here it is 1 Mb/s. If no option gives the rate of the line, it is measured (see
//! the module [`line_rate`](super::line_rate)).

use fairway_wire::Instant;

use super::line_rate::{LineRate, News};
use super::shares::Shares;
use super::{FlowId, Hints, RateRegisters, Scheduler, Share, TransmitSample};

/// Parameters of [`StaticShare`]. Rates are in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticParameters {
    /// The rate of the line; zero to measure it.
    pub line_bits: u64,
    /// The minimum rate of a flow.
    pub min_bits: u64,
    /// How hints are treated; [`PolicySpec::build_scheduler`](crate::PolicySpec::build_scheduler)
    /// implements it.
    pub hints: Hints,
}

impl Default for StaticParameters {
    fn default() -> Self {
        StaticParameters { line_bits: 0, min_bits: 1_000_000, hints: Hints::Ignore }
    }
}

/// The static scheduler.
#[derive(Debug)]
pub struct StaticShare {
    min_bytes_per_second: u64,
    shares: Shares,
    line: LineRate,
}

impl StaticShare {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "static";

    /// Creates the scheduler for `flows` flows.
    pub fn new(parameters: StaticParameters, flows: u32) -> StaticShare {
        StaticShare {
            min_bytes_per_second: parameters.min_bits / 8,
            shares: Shares::new(flows),
            line: LineRate::new(parameters.line_bits, flows),
        }
    }

    fn publish(&self, rates: &RateRegisters) {
        for flow in self.shares.active() {
            let due = self.shares.due(*flow, self.line.bytes_per_second());
            let rate = match self.line.is_lifted() {
                true => RateRegisters::UNLIMITED,
                false => due.max(self.min_bytes_per_second),
            };
            rates.set(*flow, rate);
        }
    }
}

impl Scheduler for StaticShare {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn flow_started(&mut self, now: Instant, flow: FlowId, share: Share, rates: &RateRegisters) {
        if self.shares.start(flow, share) {
            self.publish(rates);
        } else {
            self.share_changed(now, flow, share, rates);
        }
    }

    fn flow_ended(&mut self, _now: Instant, flow: FlowId, rates: &RateRegisters) {
        if self.shares.end(flow) {
            self.line.ended(flow);
            rates.set(flow, RateRegisters::UNLIMITED);
            self.publish(rates);
        }
    }

    fn share_changed(&mut self, _now: Instant, flow: FlowId, share: Share, rates: &RateRegisters) {
        if self.shares.change(flow, share) {
            self.publish(rates);
        }
    }

    fn on_transmit(&mut self, flow: FlowId, sample: &TransmitSample, rates: &RateRegisters) {
        if self.shares.is_active(flow) && self.line.observe(flow, sample) != News::None {
            self.publish(rates);
        }
    }

    fn event_bytes(&self) -> u32 {
        if self.line.is_given() { u32::MAX } else { 0 }
    }
}

#[cfg(test)]
mod tests;
