//! DCQCN: a rate that congestion marks reduce and that recovers with time.
//!
//! **Control law:** that of [`DcqcnRate`], with at most one notification in 50 us from the marks
//! that acknowledgements echo.
//!
//! **Source:** Zhu et al., *Congestion Control for Large-Scale RDMA Deployments*, SIGCOMM 2015,
//! §3 and §5.
//!
//! **Where this differs:**
//! * The receiver sends no notification packets: acknowledgements echo the marks, so the sender
//!   limits their rate. Back-pressure of the receiver counts as a mark.
//! * The timers are evaluated when an event occurs.
//! * The paper's network is lossless. Here a time-out, and loss beyond a tolerated share of the
//!   bytes sent (3 %), is a notification, at most once per round trip.
//! * The byte counter counts acknowledged bytes; a window limits the bytes in flight.

use fairway_wire::{Duration, Instant};

use crate::chunk::{burst_bytes, chunk_bytes, packet_bytes};
use crate::dcqcn_rate::{DcqcnRate, DcqcnRateParameters};
use crate::losses::LossReaction;
use crate::{AckSample, CongestionControl, LossSample};

/// Parameters of [`Dcqcn`]. Rates are in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DcqcnParameters {
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
    /// Shortest time between two notifications.
    pub spacing: Duration,
    /// Bytes that may be in flight.
    pub window_bytes: u64,
    /// Share of the bytes sent, in thousandths, that may be lost without a reaction.
    pub tolerated_loss_permille: u64,
}

impl DcqcnParameters {
    /// Upper limit of all rates.
    pub const HIGHEST_BITS: u64 = DcqcnRateParameters::HIGHEST_BITS;
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
    rate: DcqcnRate,
    last_notification: Option<Instant>,
    losses: LossReaction,
}

impl Dcqcn {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "dcqcn";

    /// Creates the control with `parameters`, for packets of `mtu_bytes`.
    pub fn new(parameters: DcqcnParameters, mtu_bytes: u32) -> Self {
        let window_bytes = parameters.window_bytes.max(2 * packet_bytes(mtu_bytes));
        let DcqcnParameters { line_bits, min_bits, increase_bits, hyper_bits, .. } = parameters;
        let DcqcnParameters { gain, timer, counter_bytes, .. } = parameters;
        Dcqcn {
            parameters: DcqcnParameters { window_bytes, ..parameters },
            rate: DcqcnRate::new(&DcqcnRateParameters {
                line_bits,
                min_bits,
                increase_bits,
                hyper_bits,
                gain,
                timer,
                counter_bytes,
            }),
            last_notification: None,
            losses: LossReaction::new(parameters.tolerated_loss_permille, window_bytes),
        }
    }

    /// The current rate Rc in bits per second.
    pub fn rate_bits(&self) -> u64 {
        self.rate.rate_bits()
    }

    /// The target rate Rt in bits per second.
    pub fn target_bits(&self) -> u64 {
        self.rate.target_bits()
    }

    fn notify(&mut self, now: Instant) {
        self.rate.on_notification(now);
        self.last_notification = Some(now);
    }
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
        self.rate.advance(sample.now);
        self.rate.count(sample.acked_bytes);
        let apart = |last| sample.now.elapsed_since(last) >= self.parameters.spacing;
        let marked = sample.marked_packets > 0 || sample.pressure;
        if marked && self.last_notification.is_none_or(apart) {
            self.notify(sample.now);
        }
    }

    fn on_loss(&mut self, sample: &LossSample) {
        self.rate.advance(sample.now);
        if self.losses.counts(sample, self.parameters.window_bytes) {
            self.notify(sample.now);
        }
    }

    fn on_spurious(&mut self, _now: Instant, _packets: u32) {
        self.losses.forgive();
    }

    fn pacing_bytes_per_second(&self) -> Option<u64> {
        Some(self.rate.rate_bits() / 8)
    }

    fn pacing_burst_bytes(&self) -> u32 {
        burst_bytes(self.rate.rate_bits() / 8)
    }

    fn chunk_bytes(&self, remaining: u64) -> u32 {
        chunk_bytes(self.parameters.window_bytes, remaining)
    }
}

#[cfg(test)]
mod tests;
