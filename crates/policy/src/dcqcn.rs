//! DCQCN: a rate that congestion marks cut and time lets recover.
//!
//! **Control law**, with the current rate `Rc`, the target rate `Rt` and the share of marks `α`:
//!
//! ```text
//! notification (marks, at most one in 50 us):  Rt = Rc;  Rc ·= 1 − α / 2;  α = (1 − g) α + g
//! 55 us without one:                           α = (1 − g) α
//! every 55 us, and every 10 MB:                T += 1, or B += 1, and
//!   max(T, B) < F        fast recovery         Rc = (Rc + Rt) / 2
//!   otherwise            additive increase     Rt += R_AI;  Rc = (Rc + Rt) / 2
//!   min(T, B) > F        hyper increase        Rt += (min(T, B) − F) · R_HAI;  Rc = (Rc + Rt) / 2
//! ```
//!
//! A notification sets T and B, and what has run towards the next of each, to zero. A flow starts
//! at line rate with α = 1.
//!
//! **Source:** Zhu et al., *Congestion Control for Large-Scale RDMA Deployments*, SIGCOMM 2015,
//! §3 and §5: g = 1/256, F = 5, R_AI = 40 Mb/s. The paper names no R_HAI; it is ten times R_AI, as
//! in QCN, from which that phase comes.
//!
//! **Where this differs:**
//! * The receiver has no notification packets: acknowledgements echo the marks, so the sender
//!   does the spacing. A receiver that asks its peers to slow down counts as a mark.
//! * The timers run when something is heard; what was missed is caught up with.
//! * The paper's network loses nothing. Here a time-out, and loss beyond a tolerated share of
//!   what was sent (3 %), is a notification, at most once per round trip.
//! * The byte counter counts what is acknowledged; a window bounds what is in flight.

use fairway_wire::{Duration, Instant};

use crate::chunk::{burst_bytes, chunk_bytes};
use crate::losses::LossReaction;
use crate::{AckSample, CongestionControl, LossSample};

/// F, the steps of fast recovery.
const FAST_STEPS: u32 = 5;
/// α = 1.
const ALPHA_ONE: u64 = 1 << 32;
/// Periods that are caught up with at most: enough for α to vanish and the rate to be full.
const CATCH_UP_MAX: u32 = 4096;

/// What can be set about [`Dcqcn`]. Rates are in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DcqcnParameters {
    /// The highest rate, which is also the first.
    pub line_bits: u64,
    /// The lowest rate.
    pub min_bits: u64,
    /// Additive increase (R_AI).
    pub increase_bits: u64,
    /// Hyper increase (R_HAI).
    pub hyper_bits: u64,
    /// 1 / g; not zero.
    pub gain: u64,
    /// The period of the rate's timer (T) and of α's; not zero.
    pub timer: Duration,
    /// The bytes that are one step of the byte counter (B); not zero.
    pub counter_bytes: u64,
    /// The least time between two notifications.
    pub spacing: Duration,
    /// Bytes that may be in flight.
    pub window_bytes: u64,
    /// Share of the bytes sent, in thousandths, that may be lost without a reaction.
    pub tolerated_loss_permille: u64,
}

impl DcqcnParameters {
    /// No rate is higher: 1 Pb/s, so that no product below overflows.
    pub const HIGHEST_BITS: u64 = 1_000_000_000_000_000;
}

impl Default for DcqcnParameters {
    fn default() -> Self {
        DcqcnParameters {
            line_bits: 100_000_000_000,
            min_bits: 40_000_000,
            increase_bits: 40_000_000,
            hyper_bits: 400_000_000,
            gain: 256,
            timer: Duration::from_us(55),
            counter_bytes: 10_000_000,
            spacing: Duration::from_us(50),
            window_bytes: 8 * 1024 * 1024,
            tolerated_loss_permille: 30,
        }
    }
}

/// The DCQCN congestion control.
#[derive(Clone, Debug)]
pub struct Dcqcn {
    parameters: DcqcnParameters,
    /// Rc.
    rate_bits: u64,
    /// Rt.
    target_bits: u64,
    /// α, in the fixed point of [`ALPHA_ONE`].
    alpha: u64,
    timer_steps: u32,
    byte_steps: u32,
    /// Bytes towards the next step of the byte counter.
    counted_bytes: u64,
    /// When the timers last ran out; `None` before anything was heard.
    rate_timer: Option<Instant>,
    alpha_timer: Option<Instant>,
    last_notification: Option<Instant>,
    losses: LossReaction,
}

impl Dcqcn {
    /// The name under which it is chosen.
    pub const NAME: &'static str = "dcqcn";

    /// With `parameters`, for packets of `mtu_bytes`.
    pub fn new(parameters: DcqcnParameters, mtu_bytes: u32) -> Self {
        let highest = DcqcnParameters::HIGHEST_BITS;
        let min_bits = parameters.min_bits.clamp(8, highest);
        let line_bits = parameters.line_bits.clamp(min_bits, highest);
        let window_bytes = parameters.window_bytes.max(2 * u64::from(mtu_bytes.max(1)));
        let losses = LossReaction::new(parameters.tolerated_loss_permille, window_bytes);
        Dcqcn {
            parameters: DcqcnParameters {
                min_bits,
                line_bits,
                window_bytes,
                gain: parameters.gain.max(1),
                timer: parameters.timer.max(Duration::from_ps(1)),
                counter_bytes: parameters.counter_bytes.max(1),
                ..parameters
            },
            rate_bits: line_bits,
            target_bits: line_bits,
            alpha: ALPHA_ONE,
            timer_steps: 0,
            byte_steps: 0,
            counted_bytes: 0,
            rate_timer: None,
            alpha_timer: None,
            last_notification: None,
            losses,
        }
    }

    /// The current rate Rc in bits per second.
    pub fn rate_bits(&self) -> u64 {
        self.rate_bits
    }

    /// The target rate Rt in bits per second.
    pub fn target_bits(&self) -> u64 {
        self.target_bits
    }

    fn notify(&mut self, now: Instant) {
        self.target_bits = self.rate_bits;
        let cut = u128::from(self.rate_bits) * u128::from(self.alpha) / u128::from(2 * ALPHA_ONE);
        self.rate_bits = (self.rate_bits - cut as u64).max(self.parameters.min_bits);
        self.alpha += (ALPHA_ONE - self.alpha) / self.parameters.gain;
        self.timer_steps = 0;
        self.byte_steps = 0;
        self.counted_bytes = 0;
        self.rate_timer = Some(now);
        self.alpha_timer = Some(now);
        self.last_notification = Some(now);
    }

    /// One step of the timer or the byte counter, which has been counted.
    fn increase(&mut self) {
        let fewer = self.timer_steps.min(self.byte_steps);
        if fewer > FAST_STEPS {
            let hyper = u64::from(fewer - FAST_STEPS).saturating_mul(self.parameters.hyper_bits);
            self.target_bits = self.target_bits.saturating_add(hyper);
        } else if self.timer_steps.max(self.byte_steps) >= FAST_STEPS {
            self.target_bits = self.target_bits.saturating_add(self.parameters.increase_bits);
        }
        self.target_bits = self.target_bits.min(self.parameters.line_bits);
        self.rate_bits = (self.rate_bits + self.target_bits).div_ceil(2);
    }

    /// Runs the timers up to `now`.
    fn advance(&mut self, now: Instant) {
        let timer = self.parameters.timer;
        let (alpha_timer, periods) = elapsed(self.alpha_timer, now, timer);
        self.alpha_timer = Some(alpha_timer);
        for _ in 0..periods {
            self.alpha -= self.alpha / self.parameters.gain;
        }
        let (rate_timer, periods) = elapsed(self.rate_timer, now, timer);
        self.rate_timer = Some(rate_timer);
        for _ in 0..periods {
            self.timer_steps = self.timer_steps.saturating_add(1);
            self.increase();
        }
    }

    fn count(&mut self, acked_bytes: u32) {
        self.counted_bytes += u64::from(acked_bytes);
        let steps = self.counted_bytes / self.parameters.counter_bytes;
        self.counted_bytes %= self.parameters.counter_bytes;
        for _ in 0..steps.min(u64::from(CATCH_UP_MAX)) {
            self.byte_steps = self.byte_steps.saturating_add(1);
            self.increase();
        }
    }
}

/// The periods of a timer that last ran out at `last`, and when it has now.
fn elapsed(last: Option<Instant>, now: Instant, period: Duration) -> (Instant, u32) {
    let Some(last) = last else { return (now, 0) };
    let since = now.since(last);
    let periods = since.as_ps() / period.as_ps();
    if periods > u64::from(CATCH_UP_MAX) {
        return (now, CATCH_UP_MAX);
    }
    (last + period.times(periods), periods as u32)
}

impl CongestionControl for Dcqcn {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn window_bytes(&self) -> u64 {
        self.parameters.window_bytes
    }

    fn on_ack(&mut self, sample: &AckSample) {
        self.losses.acked(sample.acked_bytes, self.parameters.window_bytes);
        self.advance(sample.now);
        self.count(sample.acked_bytes);
        let apart = |last| sample.now.since(last) >= self.parameters.spacing;
        let marked = sample.marked_packets > 0 || sample.pressure;
        if marked && self.last_notification.is_none_or(apart) {
            self.notify(sample.now);
        }
    }

    fn on_loss(&mut self, sample: &LossSample) {
        self.advance(sample.now);
        if self.losses.counts(sample, self.parameters.window_bytes) {
            self.notify(sample.now);
        }
    }

    fn on_spurious(&mut self, _now: Instant, _packets: u32) {
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
