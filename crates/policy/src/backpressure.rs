//! Receiver back-pressure: a rate that falls when the receiver signals pressure and grows
//! otherwise.
//!
//! **Control law:**
//!
//! ```text
//! the receiver signals pressure:    rate ·= 1 − β     at most once per round trip
//! a round trip without a signal:    rate += δ
//! ```
//!
//! The rate starts at line rate. The receiver signals pressure by a flag in its acknowledgements,
//! whatever the reason (its memory, its bus, its processors, pools that run short). Congestion of
//! the network is ignored, except for losses.
//!
//! **Source:** SCR §A.8 and Fig. 20c, receiver-initiated ECN-like back-pressure: multiplicative
//! decrease and additive increase. The paper gives no factors: β is set to 1/2, and δ = 40 Mb/s is
//! DCQCN's R_AI.
//!
//! **Where this differs:** a time-out, and loss beyond a tolerated share (3 %), count as pressure;
//! a decrease for a loss that turns out to be reordering is undone. Decreases for losses are a
//! round trip apart, whenever the packets were sent: the window lets whole messages leave before
//! the first decrease, so that in an incast of 100 senders decreases only for losses of packets
//! sent since the last one took 9 % longer. A window limits the bytes in flight.

use fairway_wire::Instant;

use crate::chunk::{burst_bytes, chunk_bytes, packet_bytes};
use crate::losses::LossReaction;
use crate::{AckSample, CongestionControl, LossSample};

/// Parameters of [`Backpressure`]. Rates are in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackpressureParameters {
    /// The highest rate, which is also the initial one.
    pub line_bits: u64,
    /// The lowest rate.
    pub min_bits: u64,
    /// Additive increase per round trip (δ).
    pub increase_bits: u64,
    /// Multiplicative decrease (β), in thousandths.
    pub beta_permille: u64,
    /// Bytes that may be in flight.
    pub window_bytes: u64,
    /// Share of the bytes sent, in thousandths, that may be lost without a reaction.
    pub tolerated_loss_permille: u64,
}

impl Default for BackpressureParameters {
    fn default() -> Self {
        BackpressureParameters {
            line_bits: 100_000_000_000,
            min_bits: 40_000_000,
            increase_bits: 40_000_000,
            beta_permille: 500,
            window_bytes: 8 * 1024 * 1024,
            tolerated_loss_permille: 30,
        }
    }
}

/// The back-pressure congestion control.
#[derive(Clone, Debug)]
pub struct Backpressure {
    parameters: BackpressureParameters,
    rate_bits: u64,
    /// When the rate last changed.
    changed: Option<Instant>,
    losses: LossReaction,
    rate_before_loss: u64,
}

impl Backpressure {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "backpressure";
    /// Upper limit of all rates: 1 Pb/s, so that no product below overflows.
    const HIGHEST_BITS: u64 = 1_000_000_000_000_000;

    /// Creates the control with `parameters`, for packets of `mtu_bytes`.
    pub fn new(parameters: BackpressureParameters, mtu_bytes: u32) -> Self {
        let min_bits = parameters.min_bits.clamp(8, Self::HIGHEST_BITS);
        let line_bits = parameters.line_bits.clamp(min_bits, Self::HIGHEST_BITS);
        let window_bytes = parameters.window_bytes.max(2 * packet_bytes(mtu_bytes));
        Backpressure {
            parameters: BackpressureParameters {
                min_bits,
                line_bits,
                beta_permille: parameters.beta_permille.min(1000),
                window_bytes,
                ..parameters
            },
            rate_bits: line_bits,
            changed: None,
            losses: LossReaction::new(parameters.tolerated_loss_permille, window_bytes)
                .a_round_trip_apart(),
            rate_before_loss: 0,
        }
    }

    fn fall(&mut self, now: Instant) {
        let kept = 1000 - self.parameters.beta_permille;
        self.rate_bits = (self.rate_bits * kept / 1000).max(self.parameters.min_bits);
        self.changed = Some(now);
    }
}

impl CongestionControl for Backpressure {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn window_bytes(&self) -> u64 {
        self.parameters.window_bytes
    }

    fn on_ack(&mut self, sample: &AckSample) {
        self.losses.acked(sample.acked_bytes, self.parameters.window_bytes);
        let apart = |last| sample.now.elapsed_since(last) >= sample.smoothed_rtt;
        if !self.changed.is_none_or(apart) {
            return;
        }
        if sample.pressure {
            self.fall(sample.now);
            self.rate_before_loss = 0;
        } else {
            let grown = self.rate_bits.saturating_add(self.parameters.increase_bits);
            self.rate_bits = grown.min(self.parameters.line_bits);
            self.changed = Some(sample.now);
        }
    }

    fn on_loss(&mut self, sample: &LossSample) {
        if self.losses.counts(sample, self.parameters.window_bytes) {
            self.rate_before_loss = self.rate_bits;
            self.fall(sample.now);
        }
    }

    fn on_spurious(&mut self, _now: Instant, _packets: u32) {
        self.rate_bits = self.rate_bits.max(self.rate_before_loss);
        self.rate_before_loss = 0;
        self.losses.forgive();
    }

    fn pacing_bytes_per_second(&self) -> Option<u64> {
        Some(self.rate_bits / 8)
    }

    fn pacing_burst_bytes(&self) -> u32 {
        burst_bytes(self.rate_bits / 8)
    }

    fn chunk_bytes(&self, remaining: u64) -> u32 {
        chunk_bytes(self.parameters.window_bytes, remaining)
    }
}

#[cfg(test)]
mod tests;
