//! CUBIC: a window that grows with the cube of the time since the last congestion.
//!
//! **Control law**, in bytes, with `mss` one packet and `t` the time since growth began:
//!
//! ```text
//! congestion:   w_max = w (or w · (1 + β) / 2, if w < w_max);  w = max(β · w, min(w, b))
//! b           = delivery rate · least round trip; 0 for marks, or if more was lost than tolerated;
//!               the highest rate of the last four round trips
//! K           = ∛((w_max − w) / (C · mss))
//! W_cubic(t)  = C · mss · (t − K)³ + w_max
//! w_est      += α · mss · acked / w        α = 3 (1 − β) / (1 + β), and 1 beyond the old window
//! acknowledged: w = w_est, if W_cubic(t) < w_est; otherwise
//!               w += (clamp(W_cubic(t + rtt), w, 1.5 w) − w) · acked / w
//! ```
//!
//! Below the threshold (slow start) `w += acked`. A congestion mark counts like a loss. A time-out
//! restarts from the smallest window, with the threshold at the window to which a loss would have
//! reduced it. Below 500 MB/s, sending is paced at `1.25 · w / rtt`, in slow start at twice `w /
//! rtt`, and a chunk has at most the bytes of 25 us.
//!
//! **Source:** RFC 9438, §4, with C = 0.4 packets/s³ and β = 0.7; the initial window is that of RFC
//! 6928, ten packets. UCCL runs CUBIC on its RDMA testbed (paper §6.1).
//!
//! **Where this differs:**
//! * The window has a maximum: on a path without loss or marks it would grow for ever.
//! * Losses of packets that were sent before the last reaction cause no other one (RFC 6675, §4).
//! * While less than half of the window is used, neither it nor `t` grows (§5.8, RFC 7661).
//! * A loss counts as congestion if round trips show a queue of an eighth of the round trip or
//!   more. Without such a queue it is attributed to a bad link, as long as no more than a share (3
//!   % by default) is lost. With `loss=0` every loss counts and reduces the window to β, as in the
//!   RFC. Where the hosts' part of round trips is known (a process over UDP), only the rest is
//!   looked at, and what exceeds its least value by less than `jitter` is no queue: a program that
//!   waits for its core delays packets as a long queue does.
//! * The window does not fall below the bandwidth-delay product of the path (`b`), as in TCP
//!   Westwood (Mascolo et al., MOBICOM 2001): with a queue of a quarter of the bandwidth-delay
//!   product, β would leave the link idle. With a queue of 0.43 of it or more, `b` is below `β · w`
//!   and changes nothing, so that beside flows that yield the window is the RFC's CUBIC.
//! * Beside flows that do not yield (BBR in a short queue), it yields and grows as two or three
//!   flows would: as `n` flows, with `1 − (1 − β) / n` for β, `n · C` for C and `n · α` for α
//!   (`rivals`).
//! * Back-pressure of the receiver counts as a mark.

mod rivals;

use fairway_wire::{Duration, Instant};

use self::rivals::Rivals;
use crate::base_round_trip::BaseRoundTrip;
use crate::chunk::{burst_bytes, chunk_bytes, paced_chunk_bytes, packet_bytes};
use crate::delivery_rate::DeliveryRate;
use crate::losses::LossReaction;
use crate::{AckSample, CongestionControl, LossSample};

/// β, in thousandths.
const BETA_PERMILLE: u64 = 700;
/// C, in tenths of packets per second cubed.
const C_TENTHS: u128 = 4;
/// Cubic microseconds per cubic second. Microseconds are the unit of time, because picoseconds
/// cubed would not fit.
const US3_PER_S3: u128 = 1_000_000_000_000_000_000;
/// α = 3 (1 − β) / (1 + β) = 9 / 17.
const ALPHA: (u64, u64) = (9, 17);
/// Share of the round trip, in thousandths, from which on a queue is congestion.
const CROWDED_PERMILLE: u64 = 125;
/// Pacing rate in percent of the window per round trip, in slow start and later (as in Linux).
const PACE_START_PERCENT: u64 = 200;
const PACE_PERCENT: u64 = 125;
/// Rate in bytes per second from which on sending is not paced: a burst is then no more than 100 us
/// of the rate.
const PACED_BELOW: u64 = 500_000_000;
/// Share of loss, in thousandths, above which a window of [`Cubic::wide`] falls for the first time.
const FIRST_FALL_PERMILLE: u64 = 10;
/// Minimum number of bytes over which the share of losses is computed.
const LOSS_HORIZON_BYTES: u64 = 2 * 1024 * 1024;
/// Largest distance from the plateau, 10,000 s: its cube is far beyond every window.
const FAR_US: u64 = 10_000_000_000;

/// Parameters of [`Cubic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CubicParameters {
    /// The smallest window; never less than two packets.
    pub min_bytes: u64,
    /// The largest window, at most [`CubicParameters::LARGEST_BYTES`].
    pub max_bytes: u64,
    /// The initial window; zero for ten packets.
    pub initial_bytes: u64,
    /// Share of the bytes sent, in thousandths, that may be lost without a reaction while round
    /// trips show no queue.
    pub tolerated_loss_permille: u64,
    /// Where the hosts' part of round trips is known: the delay up to which the rest is no queue,
    /// because programs do not send and receive more evenly than that.
    pub jitter: Duration,
}

impl CubicParameters {
    /// Upper limit of all windows: 1 TiB, so that no product below overflows.
    pub const LARGEST_BYTES: u64 = 1 << 40;
}

impl Default for CubicParameters {
    fn default() -> Self {
        CubicParameters {
            min_bytes: 0,
            max_bytes: 32 * 1024 * 1024,
            initial_bytes: 0,
            tolerated_loss_permille: 30,
            jitter: Duration::from_us(100),
        }
    }
}

/// The window's state, which is restored if a reaction to loss proves wrong.
#[derive(Clone, Copy, Debug)]
struct State {
    window_bytes: u64,
    /// The window at the last congestion, W_max: the plateau of the curve.
    plateau_bytes: u64,
    /// The window before the last congestion.
    prior_bytes: u64,
    /// The window at which slow start ends.
    threshold_bytes: u64,
}

/// A period of growth without congestion.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Instant,
    /// K: the time at which the curve reaches its plateau.
    plateau_at_us: u64,
    /// The window that additive increase alone would have, W_est, and its fraction.
    reno_bytes: u64,
    reno_fraction: u64,
}

/// The CUBIC congestion control.
#[derive(Clone, Debug)]
pub struct Cubic {
    parameters: CubicParameters,
    packet_bytes: u64,
    state: State,
    epoch: Option<Epoch>,
    before_loss: Option<State>,
    /// Something has been acknowledged since the last time-out.
    has_progress: bool,
    /// Growth of the window that has not added up to a byte yet.
    growth: u64,
    last_mark: Option<Instant>,
    last_ack: Option<Instant>,
    /// True if the window falls from the bytes in flight, when they are fewer than the window.
    falls_from_flight: bool,
    flight_bytes: u64,
    losses: LossReaction,
    rivals: Rivals,
    base: BaseRoundTrip,
    delivery: DeliveryRate,
    smoothed_rtt: Duration,
    /// The latest round trip that was measured, without the hosts' part if that is known.
    last_rtt: Duration,
    /// The hosts' part of the latest round trip is known.
    knows_hosts: bool,
}

impl Cubic {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "cubic";

    /// Creates the control with `parameters`, for packets of `mtu_bytes`.
    pub fn new(parameters: CubicParameters, mtu_bytes: u32) -> Self {
        let packet_bytes = packet_bytes(mtu_bytes);
        let most = CubicParameters::LARGEST_BYTES;
        let min_bytes = parameters.min_bytes.clamp(2 * packet_bytes, most);
        let max_bytes = parameters.max_bytes.clamp(min_bytes, most);
        let initial_bytes = match parameters.initial_bytes {
            0 => 10 * packet_bytes,
            bytes => bytes,
        };
        let initial_bytes = initial_bytes.clamp(min_bytes, max_bytes);
        Cubic {
            parameters: CubicParameters { min_bytes, max_bytes, initial_bytes, ..parameters },
            packet_bytes,
            state: State {
                window_bytes: initial_bytes,
                plateau_bytes: 0,
                prior_bytes: 0,
                threshold_bytes: most,
            },
            epoch: None,
            before_loss: None,
            has_progress: true,
            growth: 0,
            last_mark: None,
            last_ack: None,
            falls_from_flight: false,
            flight_bytes: initial_bytes,
            losses: LossReaction::new(parameters.tolerated_loss_permille, LOSS_HORIZON_BYTES),
            rivals: Rivals::default(),
            base: BaseRoundTrip::default(),
            delivery: DeliveryRate::default(),
            smoothed_rtt: Duration::ZERO,
            last_rtt: Duration::ZERO,
            knows_hosts: false,
        }
    }

    /// Creates a window that is `max_bytes` until congestion, for a sender that something else also
    /// limits: the window then falls from the bytes that were in flight (RFC 9438, §4.6). It first
    /// falls when more than a hundredth of the bytes sent is lost; a collision of a few packets in
    /// a switch is less. Its reactions are a round trip apart, whenever packets were sent: credit
    /// limits the sender anyway, and in incasts over switches that trim packets the rule of sending
    /// took `homa` 2 % longer.
    pub(crate) fn wide(max_bytes: u64, mtu_bytes: u32) -> Self {
        let default = CubicParameters::default();
        let parameters = CubicParameters { max_bytes, initial_bytes: max_bytes, ..default };
        let cubic = Cubic::new(parameters, mtu_bytes);
        Cubic { falls_from_flight: true, losses: cubic.losses.a_round_trip_apart(), ..cubic }
    }

    /// The window at the moment of congestion.
    fn struck_bytes(&self) -> u64 {
        match self.falls_from_flight {
            true => self.state.window_bytes.min(self.flight_bytes),
            false => self.state.window_bytes,
        }
    }

    /// Reacts to congestion: the window falls to `kept_permille` of itself, or to the minimum.
    fn fall(&mut self, kept_permille: u64, to_least: bool) {
        let window = self.struck_bytes();
        let least = self.parameters.min_bytes;
        // Fast convergence (§4.7): a flow that lost ground leaves room for others.
        let plateau = if window < self.state.plateau_bytes {
            window * (1000 + BETA_PERMILLE) / 2000
        } else {
            window
        };
        let threshold_bytes = (window * kept_permille / 1000).max(least);
        self.state = State {
            window_bytes: if to_least { least } else { threshold_bytes },
            // After a time-out, the next epoch has its plateau where slow start ends (§4.8).
            plateau_bytes: if to_least { 0 } else { plateau },
            prior_bytes: window,
            threshold_bytes,
        };
        self.epoch = None;
        self.growth = 0;
    }

    fn begin_epoch(&mut self, now: Instant) -> Epoch {
        let window = self.state.window_bytes;
        let below = self.state.plateau_bytes.saturating_sub(window);
        self.state.plateau_bytes = self.state.plateau_bytes.max(window);
        let per_second3 = self.curvature();
        let plateau_at_us = cube_root(u128::from(below) * 10 * US3_PER_S3 / per_second3);
        Epoch { began: now, plateau_at_us, reno_bytes: window, reno_fraction: 0 }
    }

    /// C · mss of all flows that this sender counts as, in tenths of bytes per second cubed.
    fn curvature(&self) -> u128 {
        C_TENTHS * u128::from(self.packet_bytes) * u128::from(self.rivals.flows())
    }

    /// β for that many flows, of which one yields, in thousandths.
    fn beta_permille(&self) -> u64 {
        1000 - (1000 - BETA_PERMILLE) / self.rivals.flows()
    }

    /// W_cubic at `at_us` after the epoch began.
    fn curve(&self, epoch: &Epoch, at_us: u64) -> u64 {
        let distance = u128::from(at_us.abs_diff(epoch.plateau_at_us).min(FAR_US));
        let cube = distance * distance * distance;
        // Dividing by cubic seconds first, with three more digits, keeps the product small enough.
        let milli = cube / (US3_PER_S3 / 1000) * self.curvature() / 10_000;
        let most = u128::from(CubicParameters::LARGEST_BYTES);
        let offset = milli.min(most) as u64;
        if at_us < epoch.plateau_at_us {
            self.state.plateau_bytes.saturating_sub(offset)
        } else {
            self.state.plateau_bytes + offset
        }
    }

    /// Congestion avoidance: sets the window to the larger of the curve and additive increase.
    fn avoid_congestion(&mut self, sample: &AckSample) {
        let now = sample.now;
        let mut epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin_epoch(now),
        };
        let window = self.state.window_bytes;
        let acked = u64::from(sample.acked_bytes);
        let (numerator, denominator) =
            if epoch.reno_bytes < self.state.prior_bytes { ALPHA } else { (1, 1) };
        let numerator = numerator * self.rivals.flows();
        let step = (self.packet_bytes * numerator).saturating_mul(acked) / denominator;
        epoch.reno_fraction = epoch.reno_fraction.saturating_add(step);
        epoch.reno_bytes += epoch.reno_fraction / window;
        epoch.reno_bytes = epoch.reno_bytes.min(self.parameters.max_bytes);
        epoch.reno_fraction %= window;
        let at_us = now.elapsed_since(epoch.began).as_us();
        self.state.window_bytes = if self.curve(&epoch, at_us) < epoch.reno_bytes {
            window.max(epoch.reno_bytes)
        } else {
            let ahead = at_us.saturating_add(sample.smoothed_rtt.as_us());
            let target = self.curve(&epoch, ahead).clamp(window, window + window / 2);
            self.growth = self.growth.saturating_add((target - window).saturating_mul(acked));
            let whole = self.growth / window;
            self.growth %= window;
            window + whole
        };
        self.epoch = Some(epoch);
    }

    /// True if round trips show a queue.
    fn is_crowded(&self, smoothed_rtt: Duration) -> bool {
        match self.knows_hosts {
            true => self.shows_queue(self.last_rtt),
            false => self.shows_queue(smoothed_rtt.max(self.last_rtt)),
        }
    }

    /// True if this round trip is so long that there must be a queue.
    fn shows_queue(&self, round_trip: Duration) -> bool {
        let empty = self.base.permille_of(round_trip);
        let jitter = if self.knows_hosts { self.parameters.jitter } else { Duration::ZERO };
        empty.is_some_and(|empty| empty < 1000 - CROWDED_PERMILLE)
            && round_trip.saturating_sub(self.base.get()) >= jitter
    }

    /// The part of the window that the path carries without a queue, in thousandths.
    fn carried_permille(&self) -> u64 {
        let carried = self.delivery.rate().saturating_mul(self.base.get().as_us()) / 1_000_000;
        carried.saturating_mul(1000) / self.struck_bytes().max(1)
    }

    fn loss_horizon(&self) -> u64 {
        self.state.window_bytes.max(LOSS_HORIZON_BYTES)
    }

    /// True if the window limited the sender, or at least half of it is in use (RFC 7661, §4.3). A
    /// paced sender seldom reaches its window.
    fn is_used(&self, sample: &AckSample) -> bool {
        let used = sample.bytes_in_flight + u64::from(sample.acked_bytes);
        sample.window_limited || 2 * used >= self.state.window_bytes
    }

    /// True if marks count as congestion, which they do once per round trip.
    fn is_marked(&mut self, sample: &AckSample) -> bool {
        let round_trip = sample.smoothed_rtt.max(Duration::from_ps(1));
        let apart = |last| sample.now.elapsed_since(last) >= round_trip;
        let marked = sample.marked_packets > 0 || sample.pressure;
        let counts = marked && self.last_mark.is_none_or(apart);
        if counts {
            self.last_mark = Some(sample.now);
        }
        counts
    }
}

impl CongestionControl for Cubic {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn window_bytes(&self) -> u64 {
        self.state.window_bytes
    }

    fn on_ack(&mut self, sample: &AckSample) {
        self.losses.acked(sample.acked_bytes, self.loss_horizon());
        self.has_progress |= sample.acked_bytes > 0;
        self.rivals.ended(sample.acked_bytes, 0);
        self.smoothed_rtt = sample.smoothed_rtt;
        self.delivery.add(sample.now, sample.acked_bytes, sample.smoothed_rtt);
        self.flight_bytes = sample.bytes_in_flight + u64::from(sample.acked_bytes);
        if let Some(rtt) = sample.rtt {
            let rtt = rtt.saturating_sub(sample.endpoint_delay.unwrap_or(Duration::ZERO));
            self.knows_hosts = sample.endpoint_delay.is_some();
            self.base.add(sample.now, rtt);
            self.last_rtt = rtt;
            self.rivals.measured(sample.now, rtt, self.shows_queue(rtt));
        }
        let idle = self.last_ack.map_or(Duration::ZERO, |last| sample.now.elapsed_since(last));
        self.last_ack = Some(sample.now);
        if self.is_marked(sample) {
            self.before_loss = None;
            self.fall(BETA_PERMILLE, false);
        } else if !self.is_used(sample) {
            if let Some(epoch) = &mut self.epoch {
                epoch.began = epoch.began + idle;
            }
        } else if self.state.window_bytes < self.state.threshold_bytes {
            self.state.window_bytes += u64::from(sample.acked_bytes);
        } else {
            self.avoid_congestion(sample);
        }
        self.state.window_bytes = self.state.window_bytes.min(self.parameters.max_bytes);
    }

    fn on_loss(&mut self, sample: &LossSample) {
        self.rivals.ended(0, sample.lost_bytes);
        let has_fallen = self.state.window_bytes < self.parameters.max_bytes;
        let may_fall =
            !self.falls_from_flight || has_fallen || self.losses.exceeds(FIRST_FALL_PERMILLE);
        let crowded = may_fall && self.is_crowded(sample.smoothed_rtt);
        if self.losses.counts_if(sample, self.loss_horizon(), crowded) {
            // Consecutive time-outs, as of a host that was suspended, are undone together.
            let climbing = self.state.window_bytes < self.state.threshold_bytes;
            let first = self.before_loss.filter(|_| sample.by_timeout && climbing);
            self.before_loss = Some(first.unwrap_or(self.state));
            let kept = if self.losses.is_exceeded() { 0 } else { self.carried_permille() };
            if sample.by_timeout {
                self.rivals = Rivals::default();
            } else {
                self.rivals.falls(sample.now, sample.smoothed_rtt, self.base.get());
            }
            // As long as nothing arrives, further time-outs tell nothing new about the path, so
            // slow start still ends where the first one has set its end (RFC 5681, §3.1).
            let has_progress = core::mem::replace(&mut self.has_progress, !sample.by_timeout);
            if has_progress || !sample.by_timeout {
                self.fall(kept.clamp(self.beta_permille(), 1000), sample.by_timeout);
            }
            // Losses that have caused a reaction must not cause another.
            self.losses.forgive();
        }
    }

    fn on_spurious(&mut self, _now: Instant, _packets: u32) {
        if let Some(before) = self.before_loss.take()
            && before.window_bytes > self.state.window_bytes
        {
            self.state = before;
            self.epoch = None;
            self.losses.forgive();
        }
    }

    fn pacing_bytes_per_second(&self) -> Option<u64> {
        let state = &self.state;
        let slow_start = state.window_bytes < state.threshold_bytes;
        let percent = if slow_start { PACE_START_PERCENT } else { PACE_PERCENT };
        let per_round = state.window_bytes.saturating_mul(percent) / 100;
        let (scaled, rtt_ns) = (per_round.saturating_mul(1_000_000_000), self.smoothed_rtt.as_ns());
        // Called for every packet, so a fast sender takes no division.
        let is_paced = rtt_ns > 0 && scaled < PACED_BELOW.saturating_mul(rtt_ns);
        is_paced.then(|| (scaled / rtt_ns).max(1))
    }

    fn pacing_burst_bytes(&self) -> u32 {
        self.pacing_bytes_per_second().map_or(0, burst_bytes)
    }

    fn paces_within_window(&self) -> bool {
        true
    }

    fn chunk_bytes(&self, remaining: u64) -> u32 {
        let chunk = chunk_bytes(self.state.window_bytes, remaining);
        self.pacing_bytes_per_second().map_or(chunk, |rate| chunk.min(paced_chunk_bytes(rate)))
    }
}

/// The largest number whose cube is at most `value`.
fn cube_root(value: u128) -> u64 {
    let highest = (128 - value.leading_zeros()) / 3;
    let mut root = 0u128;
    for bit in (0..=highest).rev() {
        let larger = root | 1 << bit;
        if larger.checked_pow(3).is_some_and(|cube| cube <= value) {
            root = larger;
        }
    }
    root as u64
}

#[cfg(test)]
mod tests;
