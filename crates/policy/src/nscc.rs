//! NSCC: a window controlled by the queueing delay and by congestion marks together.
//!
//! **Control law**, at every acknowledgement, where `delay` is the round trip without the base
//! round trip, `mean` its slow average, and `n` the number of bytes acknowledged:
//!
//! ```text
//! not marked, delay < target:   w += n · 4 · packet · a · b · (target − delay) / (target · w)
//!   and after a window without queue:          w += n · a / 4          (fast increase)
//! not marked, delay ≥ target:   w += n · 5 · packet · a / w            (fair increase)
//! marked, delay < target:       nothing: the path choice moves away
//! marked, mean > target:        w ·= max(1 − 0.8 · (mean − target) / mean, 1/2)
//!                               at most once per round trip
//! lost bytes:                   w −= lost
//! every round trip:             w += 0.15 · packet · a
//! ```
//!
//! *Quick adapt*: if in a period of one base round trip and one target delay packets were lost or
//! delayed by more than four targets, and fewer bytes than an eighth of the largest window arrived,
//! the window becomes what has arrived. Losses of what was in flight then do not count.
//!
//! `a` is the bandwidth-delay product (two thirds of the largest window) divided by 150 kB, that of
//! 100 Gb/s and 12 us; `b` is `target` divided by 12 us.
//!
//! **Source:** Network Signal-based Congestion Control of the Ultra Ethernet specification (2025),
//! §3.6.13, and the constants of the consortium's public simulator.
//!
//! **Where this differs:**
//! * One acknowledgement covers many packets, of which some are marked: the unmarked bytes
//!   increase the window, and any mark may decrease it. The weight of a sample in `mean` grows with
//!   the number of packets (1/320 for each).
//! * The window grows, and quick adapt applies, only if the window limited the sender within the
//!   last round trip: a sender that had little to send has not met a queue.
//! * Losses that a time-out detected reduce the window and do not trigger quick adapt: what was in
//!   flight is lost, and nothing is known of the queue.
//! * While delays show no queue (`mean` is below a quarter of `target`), losses count only beyond a
//!   tolerated share of the bytes sent (3 %), or if a time-out detected them: a link that loses
//!   packets is no congestion. What was taken for a loss is given back if it turns out to be
//!   reordering, whether or not marks arrived in between: late packets come out of long queues,
//!   so they are marked. What a mark took in the meantime stays taken.
//! * Back-pressure of the receiver counts as a mark with a delay of twice the target.

use fairway_wire::{Duration, Instant};

use crate::base_round_trip::BaseRoundTrip;
use crate::chunk::{chunk_bytes, packet_bytes};
use crate::limited::Limited;
use crate::losses::LossShare;
use crate::{AckSample, CongestionControl, LossSample};

/// Bandwidth-delay product at which `a` is one, in bytes.
const REFERENCE_BYTES: u64 = 150_000;
/// Target at which `b` is one.
const REFERENCE_DELAY: Duration = Duration::from_us(12);
/// Packets after which a sample of the delay would have replaced `mean`.
const MEAN_PACKETS: u64 = 320;
/// Largest decrease at once, and its gain, in thousandths.
const FALL_MAX_PERMILLE: u64 = 500;
const GAIN_PERMILLE: u64 = 800;
/// Quick adapt needs fewer bytes than this part of the largest window.
const QUICK_PART: u64 = 8;
/// Delay, in targets, from which on quick adapt applies without a loss.
const QUICK_TARGETS: u64 = 4;
/// A delay below this part of the target is no queue.
const NO_QUEUE_PART: u64 = 8;
/// A mean delay of this part of the target shows a queue, so that every loss counts.
const QUEUE_PART: u64 = 4;

/// Parameters of [`Nscc`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NsccParameters {
    /// Round trip without queues; zero for the least that is measured.
    pub base: Duration,
    /// Target queueing delay; zero for three quarters of the base round trip.
    pub target: Duration,
    /// The smallest window; never less than one packet.
    pub min_bytes: u64,
    /// The largest window, one and a half bandwidth-delay products; at most
    /// [`NsccParameters::LARGEST_BYTES`].
    pub max_bytes: u64,
    /// The initial window.
    pub initial_bytes: u64,
    /// Share of the bytes sent, in thousandths, that may be lost without a reaction while delays
    /// show no queue.
    pub tolerated_loss_permille: u64,
}

impl NsccParameters {
    /// Upper limit of all windows: 1 TiB, so that no product below overflows.
    pub const LARGEST_BYTES: u64 = 1 << 40;
}

impl Default for NsccParameters {
    fn default() -> Self {
        NsccParameters {
            base: Duration::ZERO,
            target: Duration::ZERO,
            min_bytes: 0,
            max_bytes: 8 * 1024 * 1024,
            initial_bytes: 512 * 1024,
            tolerated_loss_permille: 30,
        }
    }
}

/// The NSCC congestion control.
#[derive(Clone, Debug)]
pub struct Nscc {
    parameters: NsccParameters,
    /// Increases per window of acknowledged bytes: fair, and additional per round trip.
    fair_bytes: u64,
    extra_bytes: u64,
    /// `a`, in thousandths.
    scale_permille: u64,
    packet_bytes: u64,
    window_bytes: u64,
    base: BaseRoundTrip,
    /// Mean queueing delay.
    mean: Duration,
    /// Growth that has not added up to a byte yet: `growth / window`.
    growth: u64,
    /// Bytes acknowledged in a row without a queue.
    clear_bytes: u64,
    last_decrease: Option<Instant>,
    limited: Limited,
    last_extra: Option<Instant>,
    quick: QuickAdapt,
    losses: LossShare,
    /// Bytes that losses took from the window and that are given back if the packets were only
    /// late. A decrease by marks reduces them in proportion.
    taken_bytes: u64,
}

/// State of quick adapt.
#[derive(Clone, Copy, Debug, Default)]
struct QuickAdapt {
    /// When the current period ends; `None` before the first.
    ends: Option<Instant>,
    /// Bytes acknowledged in this period.
    arrived_bytes: u64,
    /// Set if bytes were lost since the last quick adapt.
    is_triggered: bool,
    /// Set if the window did not limit the sender for a round trip in this period.
    was_idle: bool,
    /// Bytes that were in flight at the last quick adapt and of which nothing is known yet.
    ignored_bytes: u64,
}

impl Nscc {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "nscc";

    /// Creates the control with `parameters`, for packets of `mtu_bytes`.
    pub fn new(parameters: NsccParameters, mtu_bytes: u32) -> Self {
        let packet_bytes = packet_bytes(mtu_bytes);
        let min_bytes = parameters.min_bytes.clamp(packet_bytes, NsccParameters::LARGEST_BYTES);
        let max_bytes = parameters.max_bytes.clamp(min_bytes, NsccParameters::LARGEST_BYTES);
        let initial_bytes = parameters.initial_bytes.clamp(min_bytes, max_bytes);
        let scale_permille = (max_bytes / 3 * 2 * 1000 / REFERENCE_BYTES).max(1);
        Nscc {
            parameters: NsccParameters { min_bytes, max_bytes, initial_bytes, ..parameters },
            fair_bytes: 5 * packet_bytes * scale_permille / 1000,
            extra_bytes: 15 * packet_bytes * scale_permille / 100_000,
            scale_permille,
            packet_bytes,
            window_bytes: initial_bytes,
            base: BaseRoundTrip::default(),
            mean: Duration::ZERO,
            growth: 0,
            clear_bytes: 0,
            last_decrease: None,
            limited: Limited::default(),
            last_extra: None,
            quick: QuickAdapt::default(),
            losses: LossShare::new(initial_bytes),
            taken_bytes: 0,
        }
    }

    /// The base round trip; zero if none is known.
    fn base(&self) -> Duration {
        match self.parameters.base {
            Duration::ZERO => self.base.get(),
            base => base,
        }
    }

    /// The target queueing delay.
    fn target(&self) -> Duration {
        match self.parameters.target {
            Duration::ZERO => Duration::from_ps(self.base().as_ps() / 4 * 3),
            target => target,
        }
    }

    fn set_window(&mut self, bytes: u64) {
        self.window_bytes = bytes.clamp(self.parameters.min_bytes, self.parameters.max_bytes);
    }

    /// Moves the mean towards a delay that `packets` packets had.
    fn note_delay(&mut self, delay: Duration, packets: u32) {
        let weight = u64::from(packets).clamp(1, MEAN_PACKETS);
        let (mean, delay) = (self.mean.as_ps(), delay.as_ps());
        let step = |distance: u64| (u128::from(distance) * u128::from(weight)) as u64;
        self.mean = Duration::from_ps(if delay > mean {
            mean + step(delay - mean) / MEAN_PACKETS
        } else {
            mean - step(mean - delay) / MEAN_PACKETS
        });
    }

    /// Adds `per_window` bytes for each window of acknowledged bytes.
    fn grow(&mut self, acked_bytes: u64, per_window: u64) {
        self.growth = self.growth.saturating_add(per_window.saturating_mul(acked_bytes));
        let whole = self.growth / self.window_bytes;
        self.growth %= self.window_bytes;
        self.set_window(self.window_bytes.saturating_add(whole));
    }

    /// Grows after bytes that arrived without a mark.
    fn increase(&mut self, acked_bytes: u64, delay: Duration, target: Duration) {
        if delay >= target {
            self.clear_bytes = 0;
            return self.grow(acked_bytes, self.fair_bytes);
        }
        if delay < target.divided_by(NO_QUEUE_PART) {
            self.clear_bytes = self.clear_bytes.saturating_add(acked_bytes);
            if self.clear_bytes > self.window_bytes {
                let fast = acked_bytes.saturating_mul(self.scale_permille) / 4000;
                return self.set_window(self.window_bytes.saturating_add(fast));
            }
        } else {
            self.clear_bytes = 0;
        }
        let room = target.saturating_sub(delay).as_ns();
        let most = 4 * self.packet_bytes * self.scale_permille / 1000;
        let per_window = u128::from(most) * u128::from(room) / u128::from(REFERENCE_DELAY.as_ns());
        self.grow(acked_bytes, per_window as u64);
    }

    fn decrease(&mut self, now: Instant, target: Duration) {
        self.clear_bytes = 0;
        let apart = |last| now.elapsed_since(last) >= self.base();
        if self.mean <= target || !self.last_decrease.is_none_or(apart) {
            return;
        }
        let excess = self.mean.saturating_sub(target).as_ns();
        let fall = GAIN_PERMILLE.saturating_mul(excess) / self.mean.as_ns().max(1);
        let kept = 1000 - fall.min(FALL_MAX_PERMILLE);
        self.set_window(self.window_bytes * kept / 1000);
        self.taken_bytes = self.taken_bytes * kept / 1000;
        self.growth = 0;
        self.last_decrease = Some(now);
    }

    /// Ends a period if it is over. True if quick adapt set the window.
    fn adapt(&mut self, now: Instant, delay: Duration, in_flight: u64) -> bool {
        let Some(ends) = self.quick.ends else {
            self.begin_period(now);
            return false;
        };
        if now.is_before(ends) {
            return false;
        }
        let late = delay >= self.target().times(QUICK_TARGETS);
        let few = self.quick.arrived_bytes < self.parameters.max_bytes / QUICK_PART;
        let adapts = (self.quick.is_triggered || late) && few && !self.quick.was_idle;
        if adapts {
            self.set_window(self.quick.arrived_bytes.min(self.window_bytes));
            self.quick.is_triggered = false;
            self.quick.ignored_bytes = in_flight;
            self.growth = 0;
        }
        self.begin_period(now);
        adapts
    }

    fn begin_period(&mut self, now: Instant) {
        self.quick.ends = Some(now + self.base().saturating_add(self.target()));
        self.quick.arrived_bytes = 0;
        self.quick.was_idle = false;
    }
}

impl CongestionControl for Nscc {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    fn on_ack(&mut self, sample: &AckSample) {
        let now = sample.now;
        let acked_bytes = u64::from(sample.acked_bytes);
        self.losses.remember(sample.acked_bytes, 0, self.window_bytes);
        if let Some(rtt) = sample.rtt {
            self.base.add(now, rtt);
        }
        let target = self.target();
        let marked =
            if sample.pressure { sample.acked_packets.max(1) } else { sample.marked_packets };
        let delay = match sample.rtt {
            _ if sample.pressure => target.times(2),
            Some(rtt) => rtt.saturating_sub(self.base()),
            None => self.mean,
        };
        if sample.rtt.is_some() || sample.pressure {
            // A delay without a mark is not a queue of the network.
            let counted = match marked == 0 && delay > target {
                true => self.base().divided_by(4),
                false => delay,
            };
            self.note_delay(counted, sample.acked_packets);
        }
        self.quick.arrived_bytes += acked_bytes;
        self.quick.ignored_bytes = self.quick.ignored_bytes.saturating_sub(acked_bytes);
        let is_limited = self.limited.note(sample, self.base());
        self.quick.was_idle |= !is_limited;
        if self.adapt(now, delay, sample.bytes_in_flight) {
            return;
        }
        if marked > 0 && self.quick.ignored_bytes == 0 && delay >= target {
            self.decrease(now, target);
        }
        let packets = sample.acked_packets.max(1);
        let unmarked = u64::from(packets.saturating_sub(marked));
        if is_limited && unmarked > 0 {
            self.increase(acked_bytes * unmarked / u64::from(packets), delay, target);
        }
        let apart = |last| now.elapsed_since(last) >= self.base();
        if is_limited && self.last_extra.is_none_or(apart) {
            self.last_extra = Some(now);
            self.set_window(self.window_bytes + self.extra_bytes);
        }
    }

    fn on_loss(&mut self, sample: &LossSample) {
        let lost_bytes = u64::from(sample.lost_bytes);
        self.losses.remember(0, sample.lost_bytes, self.window_bytes);
        let has_queue = self.mean >= self.target().divided_by(QUEUE_PART);
        let too_much = self.losses.exceeds(self.parameters.tolerated_loss_permille);
        if !sample.by_timeout && !has_queue && !too_much {
            return;
        }
        let ignored = lost_bytes.min(self.quick.ignored_bytes);
        self.quick.ignored_bytes -= ignored;
        let packets = (lost_bytes / self.packet_bytes) as u32;
        self.note_delay(self.base(), packets);
        if !sample.by_timeout {
            self.quick.is_triggered = true;
            if self.adapt(sample.now, Duration::ZERO, 0) {
                return;
            }
        }
        let before = self.window_bytes;
        self.set_window(before.saturating_sub(lost_bytes - ignored));
        self.taken_bytes += before - self.window_bytes;
    }

    fn on_spurious(&mut self, _now: Instant, packets: u32) {
        let back = u64::from(packets).saturating_mul(self.packet_bytes).min(self.taken_bytes);
        self.taken_bytes -= back;
        self.set_window(self.window_bytes.saturating_add(back));
        self.losses.forgive();
    }

    fn chunk_bytes(&self, remaining: u64) -> u32 {
        chunk_bytes(self.window_bytes, remaining)
    }
}

#[cfg(test)]
mod tests;
