//! DCQCN (Zhu et al., SIGCOMM 2015): the rate of a RoCE queue pair, as RNICs control it.
//!
//! The receiver turns congestion marks into notifications (CNPs); each cuts the rate by a share
//! that follows how often they come, and without any the rate recovers: first towards what it was,
//! then beyond. Integers only; time is looked at when something happens.

use fairway_wire::{Duration, Instant};

/// Parameters, named as in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DcqcnRateParameters {
    /// The rate of the link, in bits per second: where a flow begins, and what it never exceeds.
    pub line_rate: u64,
    /// It is never slower, in bits per second.
    pub rate_min: u64,
    /// `g` is one in 2^`gain_shift`.
    pub gain_shift: u32,
    /// `K`: without notifications for so long, the share of the next cut shrinks.
    pub alpha_interval: Duration,
    /// `T`: the rate is raised so often,
    pub increase_interval: Duration,
    /// `B`: and whenever so many bytes were sent.
    pub increase_bytes: u64,
    /// `F`: so many raises go half of the way back to the old rate.
    pub fast_steps: u32,
    /// `R_AI`: then the rate aimed at rises by this, in bits per second;
    pub additive: u64,
    /// `R_HAI`: and when both kinds of raise have had their fast steps, by multiples of this.
    pub hyper: u64,
}

impl DcqcnRateParameters {
    /// The paper's, for a link of this rate.
    pub const fn new(line_rate: u64) -> DcqcnRateParameters {
        DcqcnRateParameters {
            line_rate,
            rate_min: line_rate / 1000,
            gain_shift: 8,
            alpha_interval: Duration::from_us(55),
            increase_interval: Duration::from_us(55),
            increase_bytes: 10 << 20,
            fast_steps: 5,
            additive: 40_000_000,
            hyper: 400_000_000,
        }
    }
}

/// `alpha` is a fraction of this.
const ONE: u64 = 1 << 20;

/// The rate of one flow.
#[derive(Clone, Debug)]
pub struct DcqcnRate {
    parameters: DcqcnRateParameters,
    /// `R_C`.
    rate: u64,
    /// `R_T`.
    target: u64,
    alpha: u64,
    /// It was notified at least once: before that, there is nothing to do.
    notified: bool,
    alpha_at: Instant,
    increase_at: Instant,
    bytes: u64,
    /// Raises by time and by bytes since the last cut.
    by_time: u32,
    by_bytes: u32,
}

impl DcqcnRate {
    /// A flow that begins at line rate.
    pub fn new(parameters: &DcqcnRateParameters) -> DcqcnRate {
        DcqcnRate {
            parameters: *parameters,
            rate: parameters.line_rate,
            target: parameters.line_rate,
            alpha: ONE,
            notified: false,
            alpha_at: Instant::ZERO,
            increase_at: Instant::ZERO,
            bytes: 0,
            by_time: 0,
            by_bytes: 0,
        }
    }

    /// A notification has come.
    pub fn on_notification(&mut self, now: Instant) {
        self.catch_up(now);
        self.notified = true;
        self.target = self.rate;
        let cut = (u128::from(self.rate) * u128::from(self.alpha) / u128::from(2 * ONE)) as u64;
        self.rate = (self.rate - cut).max(self.parameters.rate_min);
        self.alpha = self.alpha - (self.alpha >> self.parameters.gain_shift)
            + (ONE >> self.parameters.gain_shift);
        self.alpha_at = now + self.parameters.alpha_interval;
        self.increase_at = now + self.parameters.increase_interval;
        (self.bytes, self.by_time, self.by_bytes) = (0, 0, 0);
    }

    /// `bytes` leave. How long they keep the flow busy at its rate; nothing at line rate, where the
    /// link itself sets the pace.
    pub fn on_sent(&mut self, now: Instant, bytes: u32) -> Duration {
        self.catch_up(now);
        if self.rate >= self.parameters.line_rate {
            return Duration::ZERO;
        }
        self.bytes += u64::from(bytes);
        while self.bytes >= self.parameters.increase_bytes {
            self.bytes -= self.parameters.increase_bytes;
            self.by_bytes += 1;
            self.raise();
        }
        let picoseconds = u128::from(bytes) * 8 * 1_000_000_000_000 / u128::from(self.rate.max(1));
        Duration::from_ps(picoseconds as u64)
    }

    /// The rate, in bits per second.
    pub fn rate(&mut self, now: Instant) -> u64 {
        self.catch_up(now);
        self.rate
    }

    /// Does what was due until now.
    fn catch_up(&mut self, now: Instant) {
        if !self.notified {
            return;
        }
        while self.increase_at.is_before(now) && self.rate < self.parameters.line_rate {
            self.increase_at = self.increase_at + self.parameters.increase_interval;
            self.by_time += 1;
            self.raise();
        }
        while self.alpha_at.is_before(now) && self.alpha >> self.parameters.gain_shift > 0 {
            self.alpha_at = self.alpha_at + self.parameters.alpha_interval;
            self.alpha -= self.alpha >> self.parameters.gain_shift;
        }
    }

    fn raise(&mut self) {
        let fast = self.parameters.fast_steps;
        let (more, less) = (self.by_time.max(self.by_bytes), self.by_time.min(self.by_bytes));
        if less > fast {
            self.target += u64::from(less - fast) * self.parameters.hyper;
        } else if more > fast {
            self.target += self.parameters.additive;
        }
        self.target = self.target.min(self.parameters.line_rate);
        // Rounded up, so that it arrives.
        self.rate = self.rate.midpoint(self.target + 1).min(self.target);
    }
}

#[cfg(test)]
mod tests;
