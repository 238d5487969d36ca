//! C-AQM as in OpenURMA: a window in proportion to the share of marked packets.
//!
//! **Control law**, for every acknowledged packet, with `r` the share of marked packets among the
//! last 32:
//!
//! ```text
//! w ← w · (1 − β · r) + a          β = 0.1, a = 4 packets
//! ```
//!
//! The window therefore settles where `r = a / (β · w)`, at 40 packets (all marked) or more.
//!
//! **With hints:** if switches write congestion information (C, I and a hint `h` of 0 to 255, UB
//! §5.2.2), marks do not count. A hint of 128 is that of a queue at its threshold, 255 that of a
//! short one. For an acknowledgement of `b` bytes:
//!
//! ```text
//! I:                          w ← w + a · b/w
//! I, h = 255 for a window:    w ← w + f · b                      (fast increase, f = 1)
//! C:                          w ← w − w/2 · max(128 − h, 0)/128 · b/w
//! ```
//!
//! So a window doubles in a round trip while no queue on its ways is long, then grows by `a` in a
//! round trip, and falls by at most half in one.
//!
//! After 32 acknowledged packets without such information, marks count again.
//!
//! **Source:** Unified Bus' C-AQM in the form of OpenURMA's two-node model (paper §11.2, Figure 45,
//! and its published controller): the constants, the history of 32 packets and the initial window
//! of 32 packets are that model's.
//!
//! **Where this differs:**
//! * The specification leaves the meaning of the hint to the vendor, and its sender sets a bit to
//!   request an increase. Here every data packet requests one. Only the simulator's switches
//!   write hints; live networks have marks only.
//! * On several paths, the worst information of the packets that an acknowledgement covers counts.
//! * The fast increase is not the specification's. It has that of NSCC as its model: without it a
//!   window of 32 packets needs thirty round trips to fill a link of 400 Gb/s and 12 us.
//! * The model has a window that is always fully used and a lossless network. Here the window grows
//!   only while it limits the sender (by hints: if it did within the last round trip); a time-out,
//!   and loss beyond a tolerated share of the bytes sent (3 %), halve it, at most once per round
//!   trip.
//! * Of the packets that one acknowledgement covers, the marked ones are processed first.
//! * Back-pressure of the receiver counts as a mark on every packet.

use fairway_wire::{Cci, Instant};

use crate::chunk::{chunk_bytes, packet_bytes};
use crate::limited::Limited;
use crate::losses::LossReaction;
use crate::{AckSample, CongestionControl, LossSample};

/// Number of packets whose marks are stored, one bit each.
const HISTORY: u64 = 32;
/// Initial window, in packets.
const INITIAL_PACKETS: u64 = 32;
/// Most packets that one acknowledgement counts for.
const PACKETS_MAX: u32 = 4096;

/// Acknowledged packets without congestion information after which marks count again.
const UNHINTED_MAX: u32 = 32;

/// Parameters of [`Caqm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaqmParameters {
    /// Multiplicative decrease per packet if all are marked (β), in thousandths.
    pub beta_permille: u64,
    /// Additive increase per packet (a), in packets.
    pub increase_packets: u64,
    /// Further increase by hints while no queue is long (f), in thousandths of the acknowledged
    /// bytes.
    pub fast_permille: u64,
    /// The initial window, in bytes; 0 for 32 packets.
    pub initial_bytes: u64,
    /// The smallest window; never less than two packets.
    pub min_bytes: u64,
    /// The largest window, at most [`CaqmParameters::LARGEST_BYTES`].
    pub max_bytes: u64,
    /// Share of the bytes sent, in thousandths, that may be lost without a reaction.
    pub tolerated_loss_permille: u64,
}

impl CaqmParameters {
    /// Upper limit of all windows: 1 TiB, so that no product below overflows.
    pub const LARGEST_BYTES: u64 = 1 << 40;
}

impl Default for CaqmParameters {
    fn default() -> Self {
        CaqmParameters {
            beta_permille: 100,
            increase_packets: 4,
            fast_permille: 1000,
            initial_bytes: 0,
            min_bytes: 0,
            max_bytes: 8 * 1024 * 1024,
            tolerated_loss_permille: 30,
        }
    }
}

/// The C-AQM congestion control.
#[derive(Clone, Debug)]
pub struct Caqm {
    parameters: CaqmParameters,
    increase_bytes: u64,
    window_bytes: u64,
    /// Marks of the last packets, the newest in the lowest bit; 1 for a marked packet.
    history: u32,
    /// Acknowledged packets since the last congestion information of a switch, at most
    /// [`UNHINTED_MAX`].
    unhinted: u32,
    /// Bytes acknowledged in a row over ways on which no queue is long.
    free_bytes: u64,
    limited: Limited,
    losses: LossReaction,
    window_before_loss: u64,
}

impl Caqm {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "caqm";

    /// Creates the control with `parameters`, for packets of `mtu_bytes`.
    pub fn new(parameters: CaqmParameters, mtu_bytes: u32) -> Self {
        let packet_bytes = packet_bytes(mtu_bytes);
        let most = CaqmParameters::LARGEST_BYTES;
        let min_bytes = parameters.min_bytes.clamp(2 * packet_bytes, most);
        let max_bytes = parameters.max_bytes.clamp(min_bytes, most);
        let initial_bytes = match parameters.initial_bytes {
            0 => INITIAL_PACKETS * packet_bytes,
            bytes => bytes,
        };
        let window_bytes = initial_bytes.clamp(min_bytes, max_bytes);
        let beta_permille = parameters.beta_permille.min(1000);
        Caqm {
            parameters: CaqmParameters { beta_permille, min_bytes, max_bytes, ..parameters },
            increase_bytes: parameters.increase_packets.saturating_mul(packet_bytes).min(most),
            window_bytes,
            history: 0,
            unhinted: UNHINTED_MAX,
            free_bytes: 0,
            limited: Limited::default(),
            losses: LossReaction::new(parameters.tolerated_loss_permille, window_bytes),
            window_before_loss: 0,
        }
    }

    /// Processes the acknowledgement of one packet.
    fn step(&mut self, marked: bool, may_grow: bool) {
        self.history = self.history << 1 | u32::from(marked);
        let ones = u64::from(self.history.count_ones());
        let fall = self.window_bytes * self.parameters.beta_permille * ones / (1000 * HISTORY);
        let next = (self.window_bytes - fall).saturating_add(self.increase_bytes);
        let next = if may_grow { next } else { next.min(self.window_bytes) };
        self.window_bytes = next.clamp(self.parameters.min_bytes, self.parameters.max_bytes);
    }
}

impl Caqm {
    /// Processes an acknowledgement of `bytes` bytes with the congestion information of switches.
    fn follow(&mut self, cci: Cci, bytes: u32, may_grow: bool) {
        let window = self.window_bytes;
        let acked = u64::from(bytes).min(window);
        let hint = u64::from(cci.hint());
        let is_free = cci.may_increase() && cci.hint() == u8::MAX;
        self.free_bytes = if is_free { self.free_bytes.saturating_add(acked) } else { 0 };
        let threshold = u64::from(Cci::AT_THRESHOLD);
        let next = if cci.is_congested() {
            window - acked * threshold.saturating_sub(hint) / (2 * threshold)
        } else if cci.may_increase() && may_grow {
            let additive = u128::from(self.increase_bytes) * u128::from(acked) / u128::from(window);
            let fast = match self.free_bytes > window {
                true => acked * self.parameters.fast_permille / 1000,
                false => 0,
            };
            window.saturating_add(additive as u64 + fast)
        } else {
            window
        };
        self.window_bytes = next.clamp(self.parameters.min_bytes, self.parameters.max_bytes);
    }
}

impl CongestionControl for Caqm {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    fn on_ack(&mut self, sample: &AckSample) {
        self.losses.acked(sample.acked_bytes, self.window_bytes);
        let packets = sample.acked_packets.max(sample.marked_packets).min(PACKETS_MAX);
        let is_limited = self.limited.note(sample, sample.smoothed_rtt);
        let hinted = sample.cci.is_written();
        self.unhinted = if hinted { 0 } else { (self.unhinted + packets).min(UNHINTED_MAX) };
        let marked = match sample.pressure {
            true => packets,
            false if self.unhinted < UNHINTED_MAX => {
                self.follow(sample.cci, sample.acked_bytes, is_limited);
                if sample.cci.is_congested() {
                    self.window_before_loss = 0;
                }
                return;
            }
            false => sample.marked_packets,
        };
        for packet in 0..packets {
            self.step(packet < marked, sample.window_limited);
        }
        if marked > 0 {
            self.window_before_loss = 0;
        }
    }

    fn on_loss(&mut self, sample: &LossSample) {
        if self.losses.counts(sample, self.window_bytes) {
            self.window_before_loss = self.window_bytes;
            self.window_bytes = (self.window_bytes / 2).max(self.parameters.min_bytes);
        }
    }

    fn on_spurious(&mut self, _now: Instant, _packets: u32) {
        self.window_bytes = self.window_bytes.max(self.window_before_loss);
        self.window_before_loss = 0;
        self.losses.forgive();
    }

    fn chunk_bytes(&self, remaining: u64) -> u32 {
        chunk_bytes(self.window_bytes, remaining)
    }
}

#[cfg(test)]
mod tests;
