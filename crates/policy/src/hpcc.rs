//! HPCC: a window that keeps the busiest link of its way just below full.
//!
//! Switches tell how much of their links is used ([`Cci::link_use`]): 1 is a link that carries all
//! it can, and bytes that wait in its queue count on top, as the part of a round trip that they
//! take. For an acknowledgement that reports `U`, with the window `w₀` of a round trip ago:
//!
//! ```text
//! U ≥ η, or after s such increases:   w ← w₀ · η/U + a
//! otherwise:                          w ← w₀ + a
//! ```
//!
//! and once per window of acknowledged bytes `w₀ ← w`. So the window reacts to every
//! acknowledgement, but to the same congestion only once.
//!
//! **Source:** *HPCC: High Precision Congestion Control*, SIGCOMM 2019, algorithm 1 and §3.3: `η`
//! 0.95, `s` 5. The 8-bit code of the use is that of *PINT: Probabilistic In-band Network
//! Telemetry*, SIGCOMM 2020, §4.3: switches compute the use, and a packet has the greatest of its
//! way.
//!
//! **Where this differs:**
//! * HPCC's networks lose nothing. Here a time-out, and loss beyond a tolerated share of the bytes
//!   sent (3 %), halve the window, at most once per round trip.
//! * A round trip is over when as many bytes as the window are acknowledged.
//! * On several paths, the greatest use of the packets that an acknowledgement covers counts. Some
//!   link of many is nearly always fuller than `η`; switches that average over two round trips
//!   instead of one even that out, and let longer queues stand.
//! * `a` is by default a third of `1 − η` of the initial window. (The paper recommends `1 − η` of
//!   the initial window, a bandwidth-delay product, divided by the number of flows that share a
//!   link.)
//! * The window grows only if it limited the sender within the last round trip.
//! * Without switches that write the field nothing changes the window but losses. Only the
//!   simulator's switches do.

use fairway_wire::{Cci, Instant};

use crate::chunk::{chunk_bytes, packet_bytes};
use crate::limited::Limited;
use crate::losses::LossReaction;
use crate::{AckSample, CongestionControl, LossSample};

/// Parameters of [`Hpcc`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HpccParameters {
    /// Use of the busiest link that is aimed at (η), in thousandths.
    pub target_permille: u64,
    /// Additive increases in a row before a multiplicative one (s).
    pub stages: u64,
    /// Additive increase per round trip (a), in bytes; 0 for a third of `1 − η` of the initial
    /// window.
    pub increase_bytes: u64,
    /// Window at the beginning.
    pub initial_bytes: u64,
    /// The smallest window; never less than two packets.
    pub min_bytes: u64,
    /// The largest window, at most [`HpccParameters::LARGEST_BYTES`].
    pub max_bytes: u64,
    /// Share of the bytes sent, in thousandths, that may be lost without a reaction.
    pub tolerated_loss_permille: u64,
}

impl HpccParameters {
    /// Upper limit of all windows: 1 TiB.
    pub const LARGEST_BYTES: u64 = 1 << 40;
}

impl Default for HpccParameters {
    fn default() -> Self {
        HpccParameters {
            target_permille: 950,
            stages: 5,
            increase_bytes: 0,
            initial_bytes: 128 * 1024,
            min_bytes: 0,
            max_bytes: 8 * 1024 * 1024,
            tolerated_loss_permille: 30,
        }
    }
}

/// The HPCC congestion control.
#[derive(Clone, Debug)]
pub struct Hpcc {
    parameters: HpccParameters,
    window_bytes: u64,
    /// The window of a round trip ago (w₀).
    reference_bytes: u64,
    /// Bytes acknowledged since the reference was set.
    acked_bytes: u64,
    /// Additive increases since the last multiplicative change.
    stage: u64,
    limited: Limited,
    losses: LossReaction,
    window_before_loss: u64,
}

impl Hpcc {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "hpcc";

    /// Creates the control with `parameters`, for packets of `mtu_bytes`.
    pub fn new(parameters: HpccParameters, mtu_bytes: u32) -> Self {
        let most = HpccParameters::LARGEST_BYTES;
        let min_bytes = parameters.min_bytes.clamp(2 * packet_bytes(mtu_bytes), most);
        let max_bytes = parameters.max_bytes.clamp(min_bytes, most);
        let window_bytes = parameters.initial_bytes.clamp(min_bytes, max_bytes);
        let target_permille = parameters.target_permille.clamp(1, 1000);
        let increase_bytes = match parameters.increase_bytes {
            0 => window_bytes / 3000 * (1000 - target_permille),
            bytes => bytes.min(most),
        };
        let parameters =
            HpccParameters { target_permille, increase_bytes, min_bytes, max_bytes, ..parameters };
        Hpcc {
            parameters,
            window_bytes,
            reference_bytes: window_bytes,
            acked_bytes: 0,
            stage: 0,
            limited: Limited::default(),
            losses: LossReaction::new(parameters.tolerated_loss_permille, window_bytes),
            window_before_loss: 0,
        }
    }

    fn clamped(&self, window: u64) -> u64 {
        window.clamp(self.parameters.min_bytes, self.parameters.max_bytes)
    }

    /// Processes an acknowledgement that reports the use of the busiest link.
    fn follow(&mut self, cci: Cci, may_grow: bool) {
        let HpccParameters { target_permille, stages, increase_bytes, .. } = self.parameters;
        let link_use = u128::from(cci.link_use().max(1));
        let target = u128::from(target_permille) * u128::from(Cci::FULL_LINK) / 1000;
        let is_full = link_use >= target;
        let in_proportion = is_full || self.stage >= stages;
        let base = match in_proportion {
            true => (u128::from(self.reference_bytes) * target / link_use) as u64,
            false => self.reference_bytes,
        };
        let next = self.clamped(base.saturating_add(increase_bytes));
        self.window_bytes = if may_grow { next } else { next.min(self.window_bytes) };
        if is_full {
            self.window_before_loss = 0;
        }
        if self.acked_bytes >= self.reference_bytes {
            self.acked_bytes = 0;
            self.reference_bytes = self.window_bytes;
            self.stage = if in_proportion { 0 } else { self.stage + 1 };
        }
    }
}

impl CongestionControl for Hpcc {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    fn on_ack(&mut self, sample: &AckSample) {
        self.losses.acked(sample.acked_bytes, self.window_bytes);
        self.acked_bytes = self.acked_bytes.saturating_add(u64::from(sample.acked_bytes));
        let is_limited = self.limited.note(sample, sample.smoothed_rtt);
        if sample.cci.is_written() {
            self.follow(sample.cci, is_limited);
        }
    }

    fn on_loss(&mut self, sample: &LossSample) {
        if self.losses.counts(sample, self.window_bytes) {
            self.window_before_loss = self.window_bytes;
            self.window_bytes = self.clamped(self.window_bytes / 2);
            (self.reference_bytes, self.acked_bytes, self.stage) = (self.window_bytes, 0, 0);
        }
    }

    fn on_spurious(&mut self, _now: Instant, _packets: u32) {
        self.window_bytes = self.window_bytes.max(self.window_before_loss);
        self.reference_bytes = self.reference_bytes.max(self.window_before_loss);
        self.window_before_loss = 0;
        self.losses.forgive();
    }

    fn chunk_bytes(&self, remaining: u64) -> u32 {
        chunk_bytes(self.window_bytes, remaining)
    }
}

#[cfg(test)]
mod tests;
