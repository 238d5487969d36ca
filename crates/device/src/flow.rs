//! What a scheduler lets the flows of a NIC send.
//!
//! [`Schedule`] connects a device's flows with a [`Scheduler`]: it announces that flows begin, end
//! and send, and reads the dequeue rates and quanta that the scheduler sets. Each flow has a
//! [`FlowGate`], which is checked before each packet. The gate is shut while the flow is ahead of
//! its dequeue rate, and when the flow has used up its turn. The device defines its flows, keeps
//! their gates, and decides in which order the flows take turns.

use crate::control::{EventQueue, Kind, Processor, TransmitState, share_value};
use crate::pace::{Pace, time_for};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use fairway_policy::{FlowId, RateRegisters, Scheduler, Share};
use fairway_wire::{Duration, Instant};

/// Largest burst that may be sent back to back at a dequeue rate, in bytes; at least a packet.
const BURST_BYTES: u64 = 32 * 1024;
/// Delay for which a flow whose packet was sent late may make up.
const GRACE: Duration = Duration::from_ms(2);
/// Interval at which a paced flow reads its rate again. A higher rate is announced
/// ([`Schedule::pop_raised`]); this is for a data path that sleeps while another thread raises it.
const LOOK_AGAIN: Duration = Duration::from_ms(1);
const PS_PER_SECOND: u128 = 1_000_000_000_000;
/// Largest debt of a flow against its future turns, in bytes.
const DEBT_MAX: i32 = 256 * 1024;

/// Whether a flow may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The flow may send a packet.
    Open,
    /// The flow is ahead of its dequeue rate. It may try again at this time, at the latest.
    Paced(Instant),
    /// The flow has had its turn, until all others have had theirs.
    Spent,
}

/// A flow's state against its dequeue rate and its turn.
#[derive(Clone, Copy, Debug)]
pub struct FlowGate {
    pace: Pace,
    /// The dequeue rate at which `pace` was last charged.
    rate: u64,
    /// Bytes that the flow may still send in its turn; negative if it owes bytes.
    tokens: i32,
    /// True if the flow has waited for its dequeue rate, and has kept up with it since then.
    paced: bool,
    /// Bytes sent of which the scheduler has not been notified.
    unannounced: u32,
}

impl FlowGate {
    /// The gate of a flow that begins now. It has a whole turn, because the present round of turns
    /// may take long.
    pub fn new(now: Instant) -> FlowGate {
        FlowGate {
            pace: Pace::new(now),
            rate: RateRegisters::UNLIMITED,
            tokens: i32::MAX,
            paced: false,
            unannounced: 0,
        }
    }

    /// Called when a flow without anything to send has something: no time is made up for.
    pub fn begin(&mut self, now: Instant) {
        self.pace.begin(now);
        self.paced = false;
    }

    /// Takes the whole turn away.
    pub fn spend_turn(&mut self) {
        self.tokens = 0;
    }
}

/// The connection of a device's flows with their scheduler, if there is one.
#[derive(Debug)]
pub struct Schedule {
    rates: Arc<RateRegisters>,
    /// Queue for the scheduler's events, if there is a scheduler.
    events: Option<Arc<EventQueue>>,
    /// By flow: number of times it has begun or ended, as in [`Kind::Life`]; odd while the flow
    /// exists.
    lives: Vec<u32>,
    /// True if the scheduler counts turns.
    takes_turns: bool,
    /// Time that a burst takes at its dequeue rate, if it has less than [`BURST_BYTES`].
    burst: Duration,
    /// The rate, in bytes per second, from which on a burst has [`BURST_BYTES`].
    burst_rate: u64,
}

impl Schedule {
    /// Size of a flow's entries in the tables, in bytes.
    pub const FLOW_BYTES: usize = size_of::<u64>() + 2 * size_of::<u32>();

    /// The schedule of flows 0 to `flows` - 1, without a scheduler. A flow may send for `burst` at
    /// once, as measured at its dequeue rate: at least a packet, and at most 32 KiB.
    pub fn new(flows: u32, burst: Duration) -> Schedule {
        let burst_rate = u128::from(BURST_BYTES) * PS_PER_SECOND / u128::from(burst.as_ps().max(1));
        Schedule {
            burst,
            burst_rate: u64::try_from(burst_rate).unwrap_or(u64::MAX),
            // Registers that do not exist read as unlimited.
            rates: Arc::new(RateRegisters::new(0)),
            events: None,
            lives: alloc::vec![0; flows as usize],
            takes_turns: false,
        }
    }

    /// Replaces the scheduler, and returns the processor that runs the new one; `None` for no
    /// scheduler. Present flows have to begin again ([`Self::begin`]). Memory is allocated here.
    pub fn set_scheduler(&mut self, scheduler: Option<Box<dyn Scheduler>>) -> Option<Processor> {
        (self.events, self.takes_turns) = (None, false);
        let flows = if scheduler.is_some() { self.lives.len() as u32 } else { 0 };
        self.rates = Arc::new(RateRegisters::new(flows));
        scheduler.map(|scheduler| {
            let queue = Arc::new(EventQueue::new(flows));
            self.events = Some(queue.clone());
            Processor::new(scheduler, queue, self.rates.clone())
        })
    }

    /// True if there is a scheduler.
    #[inline]
    pub fn has_scheduler(&self) -> bool {
        self.events.is_some()
    }

    /// True if a flow's turn has been found limited ([`Self::check`]) since the scheduler was set.
    #[inline]
    pub fn takes_turns(&self) -> bool {
        self.takes_turns
    }

    /// The dequeue rate of a flow in bytes per second; [`RateRegisters::UNLIMITED`] for none.
    #[inline]
    pub fn rate(&self, flow: FlowId) -> u64 {
        self.rates.get(flow)
    }

    /// The rates that the scheduler sets.
    #[inline]
    pub fn registers(&self) -> &RateRegisters {
        &self.rates
    }

    /// True if [`Self::pop_raised`] may return a flow.
    #[inline]
    pub fn has_raised(&self) -> bool {
        self.rates.has_raised()
    }

    /// Returns a flow whose dequeue rate the scheduler has raised: if it waits for its rate, its
    /// gate may be open now, or sooner than it was ([`Self::check`]). The device calls this until
    /// it returns `None` before it decides that it has nothing to send.
    #[inline]
    pub fn pop_raised(&self) -> Option<FlowId> {
        self.rates.pop_raised()
    }

    /// How often the scheduler was run for flows of this number, wrapping; zero without one.
    pub fn handled(&self, flow: FlowId) -> u32 {
        self.events.as_ref().map_or(0, |events| events.handled(flow))
    }

    /// Announces that a flow begins.
    pub fn begin(&mut self, flow: FlowId, share: Share) {
        let life = &mut self.lives[flow.index()];
        *life = life.wrapping_add(1) | 1;
        let life = *life;
        self.rates.set(flow, RateRegisters::UNLIMITED);
        self.rates.set_quantum(flow, None);
        self.set_share(flow, share);
        self.notify(flow, Kind::Life, u64::from(life));
    }

    /// Announces that a flow ends.
    pub fn end(&mut self, flow: FlowId) {
        let life = &mut self.lives[flow.index()];
        *life = life.wrapping_add(1);
        let life = *life;
        self.notify(flow, Kind::Life, u64::from(life));
    }

    /// Announces a flow's new share.
    pub fn set_share(&self, flow: FlowId, share: Share) {
        self.notify(flow, Kind::Share, share_value(share));
    }

    /// Announces an application's new hint.
    pub fn set_hint(&self, flow: FlowId, hint: u64) {
        self.notify(flow, Kind::Hint, hint);
    }

    fn notify(&self, flow: FlowId, kind: Kind, value: u64) {
        if let Some(events) = &self.events {
            events.slot(flow, kind).keep_latest(value);
            events.mark(flow, kind);
        }
    }

    /// Charges a flow for a sent packet of `bytes`, headers included.
    #[inline]
    pub fn charge(&self, gate: &mut FlowGate, flow: FlowId, now: Instant, bytes: u32) {
        let Some(events) = &self.events else { return };
        let rate = self.rates.get(flow);
        if rate != RateRegisters::UNLIMITED {
            let is_full = rate >= self.burst_rate;
            let burst = if is_full { time_for(BURST_BYTES, rate) } else { self.burst };
            gate.pace.charge_within(now, bytes, rate, (burst, GRACE));
            let has_kept_up = gate.paced && gate.pace.is_ahead(now);
            gate.paced = has_kept_up || !gate.pace.is_open(now);
        } else {
            gate.paced = false;
        }
        gate.rate = rate;
        gate.tokens = gate.tokens.saturating_sub(bytes as i32).max(-DEBT_MAX);
        let state = if gate.paced { TransmitState::Paced } else { TransmitState::Backlogged };
        events.slot(flow, Kind::Transmit).accumulate_with(u64::from(bytes), state as u64);
        gate.unannounced = gate.unannounced.saturating_add(bytes);
        if gate.unannounced >= events.threshold() {
            gate.unannounced = 0;
            events.mark(flow, Kind::Transmit);
        }
    }

    /// Whether a flow may send its next packet.
    #[inline]
    pub fn check(&mut self, gate: &mut FlowGate, flow: FlowId, now: Instant) -> Gate {
        let rate = self.rates.get(flow);
        if rate == RateRegisters::UNLIMITED {
            if gate.rate != rate {
                gate.pace = Pace::new(now);
                gate.rate = rate;
            }
        } else if !gate.pace.is_open(now) {
            if gate.rate == RateRegisters::UNLIMITED {
                // Nothing has been charged lately, so the wait is none.
                gate.pace = Pace::new(now);
            } else if gate.rate != rate {
                gate.pace.rescale(now, gate.rate, rate);
                gate.rate = rate;
            }
            if !gate.pace.is_open(now) {
                return Gate::Paced(gate.pace.until.min(now + LOOK_AGAIN));
            }
        }
        let Some(quantum) = self.quantum(flow) else { return Gate::Open };
        self.takes_turns = true;
        gate.tokens = gate.tokens.min(quantum);
        if gate.tokens <= 0 { Gate::Spent } else { Gate::Open }
    }

    /// Bytes that a flow may send in its turn, if the scheduler counts turns.
    #[inline]
    pub fn quantum(&self, flow: FlowId) -> Option<i32> {
        self.rates.quantum(flow).map(|quantum| quantum.min(DEBT_MAX as u32) as i32)
    }

    /// Begins a flow's next turn. Bytes that the flow did not use in its last turn are lost.
    pub fn refill(&self, gate: &mut FlowGate, flow: FlowId) {
        let quantum = self.quantum(flow).unwrap_or(0);
        gate.tokens = gate.tokens.saturating_add(quantum).min(quantum);
    }

    /// Announces that a flow has nothing left to send, whatever it has sent before: it was not held
    /// back.
    pub fn drained(&self, flow: FlowId) {
        if let Some(events) = &self.events {
            let drained = TransmitState::Drained as u64;
            events.slot(flow, Kind::Transmit).accumulate_with(0, drained);
            events.mark(flow, Kind::Transmit);
        }
    }
}

#[cfg(test)]
mod tests;
