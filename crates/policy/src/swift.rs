//! Swift: a window controlled by delay.
//!
//! **Control law**, at every acknowledgement with a round trip `delay`:
//!
//! ```text
//! target = base_target + hops · ħ
//!        + fs_range · clamp((1/√w − 1/√fs_max) / (1/√fs_min − 1/√fs_max), 0, 1)
//! delay < target:   w += ai · acked / w                              (ai bytes per round trip)
//! delay ≥ target:   w ·= max(1 − β · (delay − target) / delay, 1 − max_mdf)
//! ```
//!
//! At a loss `w ·= 1 − max_mdf`; after five time-outs in a row `w = min`. The window falls at most
//! once per round trip. Small windows get a higher target (flow scaling), so that many flows share
//! a queue fairly: `fs_min` is the smallest window and `fs_max` 1 MiB, unless set.
//!
//! If the part of the delay that the hosts caused is known, there are two windows: one for the
//! fabric, controlled by the rest of the delay, and one for the endpoints, controlled by their
//! smoothed part with a target of its own. The smaller one applies.
//!
//! **Source:** Kumar et al., *Swift: Delay is Simple and Effective for Congestion Control in the
//! Datacenter*, SIGCOMM 2020, Algorithm 1 and §3.1–§3.6, with β = 0.8 and max_mdf = 0.5. SCR's
//! testbed (§A.6) is `target=1us:hop=2us:range=2us`, with one hop and rates of 32 to 96 Gb/s for
//! the range.
//!
//! **Where this differs**, because hosts here are software and paths are sprayed:
//! * One window per channel (and one more for its endpoints), in bytes. If the endpoints' part is
//!   not known, the target is for the whole round trip including both hosts.
//! * `delay` is the lower of the sample and the smoothed round trip, because one late wake-up of a
//!   thread is not a queue.
//! * The window grows only while it limits the sender.
//! * Loss detected by later acknowledgements counts only beyond a tolerated share of the bytes sent
//!   (3 % by default): delay indicates queues, so a little loss without delay is a bad link. A
//!   decrease for a loss that turns out to be reordering is undone.
//! * Back-pressure of the receiver counts as a delay of twice the target.
//! * The window never falls below two packets, so the pacing of windows below one is not needed.

use fairway_wire::{Duration, Instant};

use crate::chunk::{CHUNK_BYTES, chunk_bytes, packet_bytes};
use crate::compact::ewma;
use crate::losses::LossShare;
use crate::{AckSample, CongestionControl, LossSample};

/// β, in thousandths.
const BETA_PERMILLE: u64 = 800;
/// Largest decrease of the window at once, in thousandths.
const MAX_MDF_PERMILLE: u64 = 500;
/// A new sample of the endpoints' delay has a weight of an eighth.
const ENDPOINT_SHIFT: u32 = 3;
/// Consecutive time-outs after which the window restarts from its minimum.
const TIMEOUTS_TO_RESET: u32 = 5;
/// Window from which on flow scaling adds nothing to the target, unless it is set.
const SCALING_MAX_BYTES: u64 = 1024 * 1024;

/// Parameters of [`Swift`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwiftParameters {
    /// The target delay (base_target); not zero.
    pub target: Duration,
    /// Delay that flow scaling adds for the smallest window (fs_range).
    pub range: Duration,
    /// Delay that each hop adds (ħ); zero to ignore hops.
    pub hop: Duration,
    /// The target delay of the endpoints; not zero.
    pub endpoint: Duration,
    /// Window at which flow scaling adds most (fs_min); zero for the smallest.
    pub scaling_min_bytes: u64,
    /// Window from which on flow scaling adds nothing (fs_max).
    pub scaling_max_bytes: u64,
    /// Additive increase per round trip in bytes (ai).
    pub increase_bytes: u64,
    /// The smallest window; never less than two packets.
    pub min_bytes: u64,
    /// The largest window, at most [`SwiftParameters::LARGEST_BYTES`].
    pub max_bytes: u64,
    /// The initial window.
    pub initial_bytes: u64,
    /// Share of the bytes sent, in thousandths, that may be lost without a reaction.
    pub tolerated_loss_permille: u64,
}

impl SwiftParameters {
    /// Upper limit of all windows: 1 TiB, so that no product below overflows.
    pub const LARGEST_BYTES: u64 = 1 << 40;
}

impl Default for SwiftParameters {
    fn default() -> Self {
        SwiftParameters {
            target: Duration::from_us(300),
            range: Duration::from_us(150),
            hop: Duration::ZERO,
            endpoint: Duration::from_us(100),
            scaling_min_bytes: 0,
            scaling_max_bytes: SCALING_MAX_BYTES,
            increase_bytes: CHUNK_BYTES as u64,
            min_bytes: 64 * 1024,
            max_bytes: 8 * 1024 * 1024,
            initial_bytes: 512 * 1024,
            tolerated_loss_permille: 30,
        }
    }
}

/// A window controlled by a delay.
#[derive(Clone, Debug)]
struct Window {
    bytes: u64,
    /// Growth of the window that has not added up to a byte yet: `growth / bytes`.
    growth: u64,
    last_decrease: Option<Instant>,
}

impl Window {
    fn new(bytes: u64) -> Window {
        Window { bytes, growth: 0, last_decrease: None }
    }

    /// True if a round trip has passed since the window last fell. Before the first round trip is
    /// known, losses detected at one instant, on whatever paths, count as one.
    fn may_decrease(&self, now: Instant, round_trip: Duration) -> bool {
        let apart = round_trip.max(Duration::from_ps(1));
        self.last_decrease.is_none_or(|last| now.elapsed_since(last) >= apart)
    }

    /// Grows by `ai · acked / w`, and keeps the fraction for the next call.
    fn increase(&mut self, acked_bytes: u32, parameters: &SwiftParameters) {
        let step = parameters.increase_bytes.saturating_mul(u64::from(acked_bytes));
        self.growth = self.growth.saturating_add(step);
        let whole = self.growth / self.bytes;
        self.growth %= self.bytes;
        self.bytes = (self.bytes + whole).min(parameters.max_bytes);
    }

    /// Multiplies the window by `1 − fall_permille / 1000`.
    fn decrease(&mut self, now: Instant, fall_permille: u64, parameters: &SwiftParameters) {
        let kept = 1000 - fall_permille.min(MAX_MDF_PERMILLE);
        self.bytes = (self.bytes * kept / 1000).max(parameters.min_bytes);
        self.growth = 0;
        self.last_decrease = Some(now);
    }

    /// Adjusts the window to `delay`, measured in the round trip of `sample`. Returns true if it
    /// fell.
    fn follow(&mut self, delay: &Delay, sample: &AckSample, parameters: &SwiftParameters) -> bool {
        let Delay { measured, target, round_trip } = *delay;
        if measured < target {
            if sample.window_limited {
                self.increase(sample.acked_bytes, parameters);
            }
            return false;
        }
        let falls = self.may_decrease(sample.now, round_trip);
        if falls {
            let excess_ns = measured.saturating_sub(target).as_ns();
            let fall = BETA_PERMILLE.saturating_mul(excess_ns) / measured.as_ns().max(1);
            self.decrease(sample.now, fall, parameters);
        }
        falls
    }
}

/// A measured delay and its target.
#[derive(Clone, Copy, Debug)]
struct Delay {
    measured: Duration,
    target: Duration,
    round_trip: Duration,
}

/// The Swift congestion control.
#[derive(Clone, Debug)]
pub struct Swift {
    parameters: SwiftParameters,
    /// The window for the fabric, or for the whole round trip if only that is known.
    window: Window,
    /// The window for the endpoints, once their part of the delay has been reported.
    endpoint: Option<Window>,
    /// The endpoints' part of the delay, smoothed.
    endpoint_delay: Duration,
    /// Number of hops of the last round trip.
    hops: u8,
    timeouts_in_row: u32,
    /// The last time-out that was counted: paths that time out together count once.
    last_timeout: Option<Instant>,
    losses: LossShare,
    /// The window before the last fall for loss, until a fall for delay confirms it.
    window_before_loss: u64,
    /// The square root, rounded down.
    root: fn(u64) -> u64,
    /// `1/√fs_max`, and the difference between it and `1/√fs_min`.
    scaling_least: u64,
    scaling_span: u64,
}

impl Swift {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "swift";

    /// Creates the control with `parameters`, for packets of `mtu_bytes`.
    pub fn new(parameters: SwiftParameters, mtu_bytes: u32) -> Self {
        Swift::with_root(parameters, mtu_bytes, u64::isqrt)
    }

    /// As [`Self::new`], with `root` as the square root, rounded down: in a sandbox, the one of the
    /// host takes less time.
    pub fn with_root(parameters: SwiftParameters, mtu_bytes: u32, root: fn(u64) -> u64) -> Self {
        let least = 2 * packet_bytes(mtu_bytes);
        let min_bytes = parameters.min_bytes.clamp(least, SwiftParameters::LARGEST_BYTES);
        let max_bytes = parameters.max_bytes.clamp(min_bytes, SwiftParameters::LARGEST_BYTES);
        let initial_bytes = parameters.initial_bytes.clamp(min_bytes, max_bytes);
        let smallest = match parameters.scaling_min_bytes {
            0 => min_bytes,
            bytes => bytes,
        };
        let scaling_least = inverse_root(parameters.scaling_max_bytes, root);
        let scaling_span = inverse_root(smallest, root).saturating_sub(scaling_least);
        Swift {
            parameters: SwiftParameters { min_bytes, max_bytes, initial_bytes, ..parameters },
            window: Window::new(initial_bytes),
            endpoint: None,
            endpoint_delay: Duration::ZERO,
            hops: 0,
            timeouts_in_row: 0,
            last_timeout: None,
            losses: LossShare::new(initial_bytes),
            window_before_loss: 0,
            root,
            scaling_least,
            scaling_span,
        }
    }

    /// The target delay at the current window.
    pub fn target(&self) -> Duration {
        let base = self.parameters.target;
        let base = base.saturating_add(self.parameters.hop.times(u64::from(self.hops)));
        let span = self.scaling_span;
        if span == 0 {
            return base;
        }
        let root = inverse_root(self.window.bytes, self.root);
        let above = root.saturating_sub(self.scaling_least).min(span);
        // The unit is nanoseconds, because picoseconds times a root could exceed 2^64.
        let extra_ns = self.parameters.range.as_ns().saturating_mul(above) / span;
        base.saturating_add(Duration::from_ns(extra_ns))
    }

    /// Subtracts the endpoints' part from a round trip, and adjusts their window to it.
    fn split(&mut self, whole: Duration, sample: &AckSample) -> Duration {
        let Some(part) = sample.endpoint_delay else { return whole };
        let smoothed = match self.endpoint {
            Some(_) => ewma(self.endpoint_delay.as_ps(), part.as_ps(), ENDPOINT_SHIFT),
            None => part.as_ps(),
        };
        self.endpoint_delay = Duration::from_ps(smoothed);
        let delay = Delay {
            measured: self.endpoint_delay,
            target: self.parameters.endpoint,
            round_trip: whole,
        };
        let first = self.window.bytes;
        let window = self.endpoint.get_or_insert_with(|| Window::new(first));
        window.follow(&delay, sample, &self.parameters);
        whole.saturating_sub(part)
    }

    fn count_timeout(&mut self, sample: &LossSample) {
        let apart =
            |last| sample.now.elapsed_since(last) >= sample.smoothed_rtt.max(Duration::from_ps(1));
        if self.last_timeout.is_none_or(apart) {
            self.timeouts_in_row = self.timeouts_in_row.saturating_add(1);
            self.last_timeout = Some(sample.now);
        }
    }
}

/// `2^24 / √bytes`.
fn inverse_root(bytes: u64, root: fn(u64) -> u64) -> u64 {
    root((1 << 48) / bytes.max(1))
}

impl CongestionControl for Swift {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn window_bytes(&self) -> u64 {
        let endpoint = self.endpoint.as_ref().map_or(u64::MAX, |window| window.bytes);
        self.window.bytes.min(endpoint)
    }

    fn on_ack(&mut self, sample: &AckSample) {
        if sample.acked_bytes > 0 {
            self.timeouts_in_row = 0;
            self.losses.remember(sample.acked_bytes, 0, self.window.bytes);
        }
        self.hops = sample.hops;
        let target = self.target();
        let round_trip = match sample.rtt {
            Some(rtt) if sample.smoothed_rtt == Duration::ZERO => rtt,
            Some(rtt) => rtt.min(sample.smoothed_rtt),
            None => sample.smoothed_rtt,
        };
        let fabric = self.split(round_trip, sample);
        let measured = if sample.pressure { fabric.max(target.times(2)) } else { fabric };
        let delay = Delay { measured, target, round_trip };
        if self.window.follow(&delay, sample, &self.parameters) {
            self.window_before_loss = 0;
        }
    }

    fn on_loss(&mut self, sample: &LossSample) {
        self.losses.remember(0, sample.lost_bytes, self.window.bytes);
        if sample.by_timeout {
            self.count_timeout(sample);
        } else {
            self.timeouts_in_row = 0;
        }
        if self.timeouts_in_row >= TIMEOUTS_TO_RESET {
            self.window.bytes = self.parameters.min_bytes;
            self.window.growth = 0;
            self.window.last_decrease = Some(sample.now);
            self.window_before_loss = 0;
            return;
        }
        let too_much = self.losses.exceeds(self.parameters.tolerated_loss_permille);
        let counts = sample.by_timeout || too_much;
        if counts && self.window.may_decrease(sample.now, sample.smoothed_rtt) {
            self.window_before_loss = self.window.bytes;
            self.window.decrease(sample.now, MAX_MDF_PERMILLE, &self.parameters);
        }
    }

    fn on_spurious(&mut self, _now: Instant, _packets: u32) {
        self.window.bytes = self.window.bytes.max(self.window_before_loss);
        self.window_before_loss = 0;
        self.losses.forgive();
    }

    fn chunk_bytes(&self, remaining: u64) -> u32 {
        chunk_bytes(self.window_bytes(), remaining)
    }
}

#[cfg(test)]
mod tests;
