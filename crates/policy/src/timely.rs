//! Timely: a rate controlled by the gradient of the round trip.
//!
//! **Control law**, at every completion event (a segment acknowledged) with a round trip `rtt`:
//!
//! ```text
//! diff  = (1 − α) · diff + α · (rtt − previous rtt);   gradient = diff / min_rtt
//! rtt < T_low:        rate += δ
//! rtt > T_high:       rate ·= 1 − β · (1 − T_high / rtt)
//! gradient ≤ 0:       rate += N · δ       N = 5 from the fifth such event in a row on, else 1
//! gradient > 0:       rate ·= 1 − β · gradient
//! ```
//!
//! **Source:** Mittal et al., *TIMELY: RTT-based Congestion Control for the Datacenter*, SIGCOMM
//! 2015, Algorithm 1 and §4.3. δ = 10 Mb/s, β = 0.8, T_low = 50 us, T_high = 500 us and segments of
//! 64 KiB are the paper's; α = 0.875 and min_rtt = 20 us are those of Zhu et al., *ECN or Delay*,
//! CoNEXT 2016, which took them from the authors.
//!
//! **Where this differs**, because hosts here are software and paths are sprayed:
//! * `rtt` is the lower of the sample and the smoothed round trip, over all paths of the channel.
//! * The rate never falls by more than half at once.
//! * The paper's network is lossless. Here a time-out, and loss beyond a tolerated share of the
//!   bytes sent (3 %), halve the rate, at most once per round trip; a decrease for a loss that
//!   turns out to be reordering is undone.
//! * Back-pressure of the receiver counts as a round trip of twice T_high.
//! * A window limits the bytes in flight.

use fairway_wire::{Duration, Instant};

use crate::chunk::{burst_bytes, chunk_bytes, packet_bytes};
use crate::losses::LossReaction;
use crate::{AckSample, CongestionControl, LossSample};

/// Consecutive events without a rise of the round trip after which the rate grows faster.
const EVENTS_TO_HURRY: u32 = 5;
/// Factor of the faster growth.
const HURRY: u64 = 5;
/// The value of one in the fixed-point numbers of gradients and decreases.
const ONE: u64 = 1_000_000;
/// Largest decrease of the rate at once.
const FALL_MAX: u64 = ONE / 2;

/// Parameters of [`Timely`]. Rates are in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelyParameters {
    /// Round trip below which the rate grows whatever the gradient (T_low).
    pub low: Duration,
    /// Round trip above which the rate falls whatever the gradient (T_high); not zero.
    pub high: Duration,
    /// Divisor of differences of the round trip; not zero.
    pub min_rtt: Duration,
    /// Additive increase per event (δ).
    pub increase_bits: u64,
    /// Weight of a new difference (α), in thousandths.
    pub alpha_permille: u64,
    /// Multiplicative decrease (β), in thousandths.
    pub beta_permille: u64,
    /// Acknowledged bytes of one completion event.
    pub segment_bytes: u64,
    /// The lowest rate.
    pub min_bits: u64,
    /// The highest rate.
    pub max_bits: u64,
    /// The initial rate.
    pub initial_bits: u64,
    /// Bytes that may be in flight.
    pub window_bytes: u64,
    /// Share of the bytes sent, in thousandths, that may be lost without a reaction.
    pub tolerated_loss_permille: u64,
}

impl Default for TimelyParameters {
    fn default() -> Self {
        TimelyParameters {
            low: Duration::from_us(50),
            high: Duration::from_us(500),
            min_rtt: Duration::from_us(20),
            increase_bits: 10_000_000,
            alpha_permille: 875,
            beta_permille: 800,
            segment_bytes: 64 * 1024,
            min_bits: 40_000_000,
            max_bits: 100_000_000_000,
            initial_bits: 10_000_000_000,
            window_bytes: 8 * 1024 * 1024,
            tolerated_loss_permille: 30,
        }
    }
}

/// The Timely congestion control.
#[derive(Clone, Debug)]
pub struct Timely {
    parameters: TimelyParameters,
    rate_bits: u64,
    previous_rtt: Option<Duration>,
    /// Smoothed difference of the round trip.
    difference_ns: i64,
    /// Consecutive events at which the round trip did not rise.
    calm_events: u32,
    /// Bytes acknowledged since the last event.
    acked_bytes: u64,
    losses: LossReaction,
    /// The rate before the last decrease for loss.
    rate_before_loss: u64,
}

impl Timely {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "timely";

    /// Creates the control with `parameters`, for packets of `mtu_bytes`.
    pub fn new(parameters: TimelyParameters, mtu_bytes: u32) -> Self {
        let min_bits = parameters.min_bits.max(8);
        let max_bits = parameters.max_bits.clamp(min_bits, u64::MAX / ONE);
        let window_bytes = parameters.window_bytes.max(2 * packet_bytes(mtu_bytes));
        let losses = LossReaction::new(parameters.tolerated_loss_permille, window_bytes);
        Timely {
            parameters: TimelyParameters { min_bits, max_bits, window_bytes, ..parameters },
            rate_bits: parameters.initial_bits.clamp(min_bits, max_bits),
            previous_rtt: None,
            difference_ns: 0,
            calm_events: 0,
            acked_bytes: 0,
            losses,
            rate_before_loss: 0,
        }
    }

    /// The rate in bits per second.
    pub fn rate_bits(&self) -> u64 {
        self.rate_bits
    }

    fn increase(&mut self, steps: u64) {
        let more = self.parameters.increase_bits.saturating_mul(steps);
        self.rate_bits = self.rate_bits.saturating_add(more).min(self.parameters.max_bits);
    }

    /// Multiplies the rate by `1 − fall`, with `fall` in the fixed-point numbers of [`ONE`].
    fn decrease(&mut self, fall: u64) {
        let kept = ONE - fall.min(FALL_MAX);
        self.rate_bits = (self.rate_bits * kept / ONE).max(self.parameters.min_bits);
    }

    /// Processes one completion event.
    fn update(&mut self, rtt: Duration) {
        let previous = self.previous_rtt.replace(rtt).unwrap_or(rtt);
        // A day in nanoseconds is 2^47, so that the products fit.
        let ns = |span: Duration| span.as_ns().min(1 << 47) as i64;
        let alpha = self.parameters.alpha_permille.min(1000) as i64;
        let fresh = ns(rtt) - ns(previous);
        self.difference_ns = ((1000 - alpha) * self.difference_ns + alpha * fresh) / 1000;
        let TimelyParameters { low, high, beta_permille, .. } = self.parameters;
        if rtt < low {
            self.calm_events = 0;
            self.increase(1);
        } else if rtt > high {
            self.calm_events = 0;
            let excess = u128::from(rtt.as_ps() - high.as_ps()) * u128::from(ONE);
            let excess = (excess / u128::from(rtt.as_ps())) as u64;
            self.decrease(excess.saturating_mul(beta_permille) / 1000);
        } else if self.difference_ns <= 0 {
            self.calm_events = self.calm_events.saturating_add(1);
            self.increase(if self.calm_events >= EVENTS_TO_HURRY { HURRY } else { 1 });
        } else {
            self.calm_events = 0;
            let least_ns = self.parameters.min_rtt.as_ns().max(1);
            let gradient = self.difference_ns.unsigned_abs().saturating_mul(ONE) / least_ns;
            self.decrease(gradient.saturating_mul(beta_permille) / 1000);
        }
    }
}

impl CongestionControl for Timely {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn window_bytes(&self) -> u64 {
        self.parameters.window_bytes
    }

    fn on_ack(&mut self, sample: &AckSample) {
        self.losses.acked(sample.acked_bytes, self.parameters.window_bytes);
        self.acked_bytes = self.acked_bytes.saturating_add(u64::from(sample.acked_bytes));
        let Some(rtt) = sample.rtt else { return };
        if self.acked_bytes < self.parameters.segment_bytes {
            return;
        }
        self.acked_bytes = 0;
        let known = sample.smoothed_rtt > Duration::ZERO;
        let rtt = if known { rtt.min(sample.smoothed_rtt) } else { rtt };
        let pressed = self.parameters.high.times(2);
        self.update(if sample.pressure { rtt.max(pressed) } else { rtt });
    }

    fn on_loss(&mut self, sample: &LossSample) {
        if self.losses.counts(sample, self.parameters.window_bytes) {
            self.rate_before_loss = self.rate_bits;
            self.decrease(FALL_MAX);
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
