//! What the engine asks of a scheduler, and what it tells it.
//!
//! A scheduler decides how the flows of a NIC share what it can send (SCR §4.2, §5.1). Its means
//! are the *dequeue rate* of each flow, by which the engine takes messages from the application's
//! memory, and the *quantum*, what a flow may send in its turn. It sees transmit events, coalesced:
//! what has left since the last one.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use fairway_wire::{Duration, Instant};

mod greedy;
mod hints;
mod line_rate;
#[cfg(test)]
mod model;
mod round_robin;
mod shares;
mod static_share;
mod water_filling;

pub use greedy::Greedy;
pub use hints::{HintedWeights, Hints};
pub use round_robin::{RoundRobin, RoundRobinParameters};
pub use static_share::{StaticParameters, StaticShare};
pub use water_filling::{Join, Leave, Start, WaterFilling, WaterFillingParameters};

/// A flow of a NIC: what one Jetty sends over one TP channel, or the answers to a peer's READs. A
/// dense index, which is used again after [`Scheduler::flow_ended`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

impl FlowId {
    /// Its place in arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The tenant that a flow belongs to, and its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The tenant, by number.
    pub tenant: u16,
    /// The flow's weight among those of its tenant; 1 is the usual one.
    pub weight: u16,
    /// The tenant's weight among tenants; zero if tenants do not count, and flows are compared with
    /// each other whatever tenant they belong to.
    pub tenant_weight: u16,
}

impl Default for Share {
    fn default() -> Self {
        Share { tenant: 0, weight: 1, tenant_weight: 0 }
    }
}

/// What a flow has sent since the last sample of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransmitSample {
    /// When the last of it left.
    pub now: Instant,
    /// Bytes, headers included.
    pub bytes: u64,
    /// Packet-granular events that were folded into this one.
    pub events: u32,
    /// The flow has more to send: what it did not send was held back by its dequeue rate, by its
    /// turn or by the network, not by lack of work.
    pub backlogged: bool,
}

/// The dequeue rates of all flows, in bytes per second, and what each may send in its turn. The
/// engine reads them before it sends; another thread may write them.
#[derive(Debug)]
pub struct RateRegisters {
    rates: Box<[AtomicU64]>,
    quanta: Box<[AtomicU32]>,
}

impl RateRegisters {
    /// No limit.
    pub const UNLIMITED: u64 = u64::MAX;

    /// Registers for so many flows, all without limit.
    pub fn new(flows: u32) -> RateRegisters {
        RateRegisters {
            rates: (0..flows).map(|_| AtomicU64::new(Self::UNLIMITED)).collect(),
            quanta: (0..flows).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// The rate of a flow; [`Self::UNLIMITED`] for one that does not exist.
    pub fn get(&self, flow: FlowId) -> u64 {
        self.rates.get(flow.index()).map_or(Self::UNLIMITED, |rate| rate.load(Ordering::Relaxed))
    }

    /// Sets the rate of a flow. Zero is taken for one byte per second: nothing is stopped for ever.
    pub fn set(&self, flow: FlowId, bytes_per_second: u64) {
        if let Some(rate) = self.rates.get(flow.index()) {
            rate.store(bytes_per_second.max(1), Ordering::Relaxed);
        }
    }

    /// What a flow may send in its turn, if turns are counted ([`Scheduler::quantum_bytes`]).
    pub fn quantum(&self, flow: FlowId) -> Option<u32> {
        let quantum = self.quanta.get(flow.index())?.load(Ordering::Relaxed);
        (quantum > 0).then_some(quantum)
    }

    /// Sets what a flow may send in its turn. Called by what runs a scheduler, when a flow has
    /// started or its share was changed.
    pub fn set_quantum(&self, flow: FlowId, bytes: Option<u32>) {
        if let Some(quantum) = self.quanta.get(flow.index()) {
            quantum.store(bytes.map_or(0, |bytes| bytes.max(1)), Ordering::Relaxed);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rates.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty()
    }
}

/// Decides how flows share a NIC. One object per NIC.
pub trait Scheduler: Send {
    /// The name under which it is chosen.
    fn name(&self) -> &'static str;
    /// A flow has something to send for the first time, or again after it had ended.
    fn flow_started(&mut self, now: Instant, flow: FlowId, share: Share, rates: &RateRegisters);
    /// A flow has been without work for a while, or is gone: its share is the others'.
    fn flow_ended(&mut self, now: Instant, flow: FlowId, rates: &RateRegisters);
    /// The share of a flow that has started was changed.
    fn share_changed(&mut self, now: Instant, flow: FlowId, share: Share, rates: &RateRegisters);
    /// A flow has sent something.
    fn on_transmit(&mut self, flow: FlowId, sample: &TransmitSample, rates: &RateRegisters);
    /// The application has stored a new hint for a flow: a number that means what the scheduler
    /// says it does.
    fn on_hint(&mut self, _now: Instant, _flow: FlowId, _hint: u64, _rates: &RateRegisters) {}
    /// Bytes a flow may send in its turn; `None` if turns are the default NIC's: a chunk of each
    /// message.
    fn quantum_bytes(&self, _flow: FlowId) -> Option<u32> {
        None
    }
    /// From how many bytes on a transmit event of a flow is worth a decision; until then events are
    /// only added up ("until threshold", SCR §4.3.2).
    fn event_bytes(&self) -> u32 {
        0
    }
}

/// `bytes` in `elapsed`, per second; as fast as can be said if no time has passed.
fn per_second(bytes: u64, elapsed: Duration) -> u64 {
    const PS_PER_SECOND: u128 = 1_000_000_000_000;
    let rate = (u128::from(bytes) * PS_PER_SECOND).checked_div(u128::from(elapsed.as_ps()));
    rate.map_or(u64::MAX, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
}
