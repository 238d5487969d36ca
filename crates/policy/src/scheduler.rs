//! The interface between the protocol and a scheduler.
//!
//! A scheduler decides how the flows of a NIC share its capacity (SCR §4.2, §5.1). It sets the
//! *dequeue rate* of each flow, at which the protocol takes messages from the application's memory,
//! and the *quantum*, which a flow may send in its turn. It receives coalesced transmit events,
//! which contain what has been sent since the last one.

use fairway_wire::{Duration, Instant};

mod eager;
mod greedy;
mod hints;
mod line_rate;
#[cfg(test)]
mod model;
mod registers;
mod round_robin;
mod shares;
mod static_share;
mod water_filling;

pub use eager::Eager;
pub use greedy::Greedy;
pub use hints::{HintedWeights, Hints};
pub use registers::RateRegisters;
pub use round_robin::{QUANTUM_MIN, RoundRobin, RoundRobinParameters};
pub use static_share::{StaticParameters, StaticShare};
pub use water_filling::{Join, Leave, Start, WaterFilling, WaterFillingParameters};

/// A flow of a NIC: the data that one Jetty sends over one TP channel, or the answers to a peer's
/// READs. It is a dense index, which is reused after [`Scheduler::flow_ended`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

impl FlowId {
    /// The number as an index of arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The tenant of a flow, and the weights of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The number of the tenant.
    pub tenant: u16,
    /// The flow's weight among those of its tenant; the default is 1.
    pub weight: u16,
    /// The tenant's weight among tenants; zero if tenants are ignored, and flows are compared with
    /// each other whatever tenant they belong to.
    pub tenant_weight: u16,
}

impl Default for Share {
    fn default() -> Self {
        Share { tenant: 0, weight: 1, tenant_weight: 0 }
    }
}

/// Data that a flow has sent since its last sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransmitSample {
    /// When the last packet of the sample left.
    pub now: Instant,
    /// Number of bytes, headers included.
    pub bytes: u64,
    /// Number of packet events that were coalesced into this one.
    pub events: u32,
    /// True if the flow has more to send: its dequeue rate, its turn or the network limited it, not
    /// a lack of work.
    pub backlogged: bool,
    /// True if the flow keeps up with its dequeue rate and is ahead of it now, so that its next
    /// packet has to wait for the rate and for nothing else.
    pub paced: bool,
}

/// Decides how flows share a NIC. One object per NIC.
pub trait Scheduler: Send {
    /// Name of the policy in a specification.
    fn name(&self) -> &'static str;
    /// A flow has something to send for the first time, or again after it had ended.
    fn flow_started(&mut self, now: Instant, flow: FlowId, share: Share, rates: &RateRegisters);
    /// A flow has been without work for a while, or is gone: the others may use its share.
    fn flow_ended(&mut self, now: Instant, flow: FlowId, rates: &RateRegisters);
    /// The share of a flow that has started was changed.
    fn share_changed(&mut self, now: Instant, flow: FlowId, share: Share, rates: &RateRegisters);
    /// A flow has sent something.
    fn on_transmit(&mut self, flow: FlowId, sample: &TransmitSample, rates: &RateRegisters);
    /// The application has stored a new hint for a flow: a number whose meaning the scheduler
    /// defines.
    fn on_hint(&mut self, _now: Instant, _flow: FlowId, _hint: u64, _rates: &RateRegisters) {}
    /// Bytes that a flow may send in its turn; `None` for the default turns of a NIC: a chunk of
    /// each message.
    fn quantum_bytes(&self, _flow: FlowId) -> Option<u32> {
        None
    }
    /// Bytes from which on a transmit event of a flow requires a decision; until then events are
    /// only added up ("until threshold", SCR §4.3.2).
    fn event_bytes(&self) -> u32 {
        0
    }
}

/// `bytes` in `elapsed`, per second; the largest number if no time has passed.
fn per_second(bytes: u64, elapsed: Duration) -> u64 {
    const PS_PER_SECOND: u128 = 1_000_000_000_000;
    if elapsed == Duration::ZERO {
        return u64::MAX;
    }
    let rate = quotient(u128::from(bytes) * PS_PER_SECOND, u128::from(elapsed.as_ps()));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// `value / divisor`, zero if the divisor is zero. Almost all values have 64 bits, and a division
/// of 128 bits is a function of a hundred instructions and more where policies are modules.
fn quotient(value: u128, divisor: u128) -> u128 {
    match (u64::try_from(value), u64::try_from(divisor)) {
        (Ok(value), Ok(divisor)) => u128::from(value.checked_div(divisor).unwrap_or(0)),
        _ => value.checked_div(divisor).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;
