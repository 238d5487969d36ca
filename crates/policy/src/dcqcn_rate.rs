//! The rate of a flow under DCQCN, for any source of notifications: notification packets for a RoCE
//! queue pair, or the marks that acknowledgements echo for a channel.
//!
//! **Control law**, with the current rate `Rc`, the target rate `Rt` and the share of marks `α`:
//!
//! ```text
//! notification:                                Rt = Rc;  Rc ·= 1 − α / 2;  α = (1 − g) α + g
//! 55 us without one:                           α = (1 − g) α
//! every 55 us, and every 10 MB:                T += 1, or B += 1, and
//!   max(T, B) < F        fast recovery         Rc = (Rc + Rt) / 2
//!   otherwise            additive increase     Rt += R_AI;  Rc = (Rc + Rt) / 2
//!   min(T, B) > F        hyper increase        Rt += (min(T, B) − F) · R_HAI;  Rc = (Rc + Rt) / 2
//! ```
//!
//! A notification resets T and B, and the time and bytes counted towards the next step of each, to
//! zero. A flow starts at line rate with α = 1. Timers are evaluated when an event occurs; periods
//! that have passed since are made up for.
//!
//! **Source:** Zhu et al., *Congestion Control for Large-Scale RDMA Deployments*, SIGCOMM 2015, §3
//! and §5: g = 1/256, F = 5, R_AI = 40 Mb/s. The paper gives no R_HAI; it is ten times R_AI, as in
//! QCN, from which that phase comes.

use fairway_wire::{Duration, Instant};

/// F, the number of steps of fast recovery.
const FAST_STEPS: u32 = 5;
/// The value of α = 1.
pub(crate) const ALPHA_ONE: u64 = 1 << 32;
/// Most periods that are made up for: enough for α to vanish and the rate to be full.
const CATCH_UP_MAX: u32 = 4096;
const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// Parameters of a [`DcqcnRate`]. Rates are in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DcqcnRateParameters {
    /// The highest rate, which is also the initial one.
    pub line_bits: u64,
    /// The lowest rate.
    pub min_bits: u64,
    /// Additive increase (R_AI).
    pub increase_bits: u64,
    /// Hyper increase (R_HAI).
    pub hyper_bits: u64,
    /// 1 / g; not zero.
    pub gain: u64,
    /// The period of the rate's timer (T) and of α's timer; not zero.
    pub timer: Duration,
    /// Bytes of one step of the byte counter (B); not zero.
    pub counter_bytes: u64,
}

impl DcqcnRateParameters {
    /// Upper limit of all rates: 1 Pb/s, so that no product below overflows.
    pub const HIGHEST_BITS: u64 = 1_000_000_000_000_000;

    /// The paper's parameters, for a link of this rate.
    pub const fn new(line_bits: u64) -> Self {
        DcqcnRateParameters {
            line_bits,
            min_bits: line_bits / 1000,
            increase_bits: 40_000_000,
            hyper_bits: 400_000_000,
            gain: 256,
            timer: Duration::from_us(55),
            counter_bytes: 10_000_000,
        }
    }

    /// The nearest parameters that are valid.
    fn sound(self) -> Self {
        let min_bits = self.min_bits.clamp(8, Self::HIGHEST_BITS);
        DcqcnRateParameters {
            min_bits,
            line_bits: self.line_bits.clamp(min_bits, Self::HIGHEST_BITS),
            gain: self.gain.max(1),
            timer: self.timer.max(Duration::from_ps(1)),
            counter_bytes: self.counter_bytes.max(1),
            ..self
        }
    }
}

/// The rate of one flow.
#[derive(Clone, Debug)]
pub struct DcqcnRate {
    parameters: DcqcnRateParameters,
    /// The current rate Rc.
    rate_bits: u64,
    /// The target rate Rt.
    target_bits: u64,
    /// α, in the fixed point of [`ALPHA_ONE`].
    pub(crate) alpha: u64,
    pub(crate) timer_steps: u32,
    pub(crate) byte_steps: u32,
    /// Bytes towards the next step of the byte counter.
    pub(crate) counted_bytes: u64,
    /// When the timers last expired; `None` before the first event.
    rate_timer: Option<Instant>,
    alpha_timer: Option<Instant>,
}

impl DcqcnRate {
    /// Creates the rate of a flow, which begins at line rate.
    pub fn new(parameters: &DcqcnRateParameters) -> Self {
        let parameters = parameters.sound();
        DcqcnRate {
            parameters,
            rate_bits: parameters.line_bits,
            target_bits: parameters.line_bits,
            alpha: ALPHA_ONE,
            timer_steps: 0,
            byte_steps: 0,
            counted_bytes: 0,
            rate_timer: None,
            alpha_timer: None,
        }
    }

    /// The current rate Rc in bits per second, as of the last event.
    pub fn rate_bits(&self) -> u64 {
        self.rate_bits
    }

    /// The target rate Rt in bits per second.
    pub fn target_bits(&self) -> u64 {
        self.target_bits
    }

    /// Reacts to a notification.
    pub fn on_notification(&mut self, now: Instant) {
        self.advance(now);
        self.target_bits = self.rate_bits;
        let cut = u128::from(self.rate_bits) * u128::from(self.alpha) / u128::from(2 * ALPHA_ONE);
        self.rate_bits = (self.rate_bits - cut as u64).max(self.parameters.min_bits);
        self.alpha += (ALPHA_ONE - self.alpha) / self.parameters.gain;
        self.timer_steps = 0;
        self.byte_steps = 0;
        self.counted_bytes = 0;
        self.rate_timer = Some(now);
        self.alpha_timer = Some(now);
    }

    /// Accounts for `bytes` that are sent. Returns how long they occupy the flow at its rate; zero
    /// at line rate, where the link itself sets the pace.
    pub fn on_sent(&mut self, now: Instant, bytes: u32) -> Duration {
        self.advance(now);
        if self.rate_bits >= self.parameters.line_bits {
            return Duration::ZERO;
        }
        self.count(bytes);
        let picoseconds = u128::from(bytes) * 8 * PS_PER_SECOND / u128::from(self.rate_bits);
        Duration::from_ps(picoseconds as u64)
    }

    /// The rate now, in bits per second.
    pub fn rate(&mut self, now: Instant) -> u64 {
        self.advance(now);
        self.rate_bits
    }

    /// Runs the timers up to `now`.
    pub(crate) fn advance(&mut self, now: Instant) {
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

    /// Counts bytes towards a step of the byte counter.
    pub(crate) fn count(&mut self, bytes: u32) {
        self.counted_bytes += u64::from(bytes);
        let steps = self.counted_bytes / self.parameters.counter_bytes;
        self.counted_bytes %= self.parameters.counter_bytes;
        for _ in 0..steps.min(u64::from(CATCH_UP_MAX)) {
            self.byte_steps = self.byte_steps.saturating_add(1);
            self.increase();
        }
    }

    /// Increases the rate by one step of the timer or the byte counter, which has been counted
    /// already.
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
}

/// The number of expired periods of a timer that last expired at `last`, and the time of the latest
/// expiry.
fn elapsed(last: Option<Instant>, now: Instant, period: Duration) -> (Instant, u32) {
    let Some(last) = last else { return (now, 0) };
    let since = now.elapsed_since(last);
    let periods = since.as_ps() / period.as_ps();
    if periods > u64::from(CATCH_UP_MAX) {
        return (now, CATCH_UP_MAX);
    }
    (last + period.times(periods), periods as u32)
}

#[cfg(test)]
mod tests;
