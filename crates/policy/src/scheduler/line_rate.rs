//! The rate of the line, specified or measured, shared by the schedulers.
//!
//! **`line=auto`:** a *measurement* lifts every dequeue rate, so that only the line and the host
//! limit sending. It adds up all flows' transmit events while at least one flow has more to send.
//! It ends after 1 ms and 256 KiB, whichever comes later; if all flows run out of work it starts
//! over. With `m` the bytes measured per second, the estimate `C` becomes
//!
//! ```text
//! C = m, if m > C or there was none;   C −= (C − m) / 8   otherwise
//! ```
//!
//! Then rates hold again, and the next measurement begins 64 ms later, with the first event of a
//! flow that has more to send. A total above `C` between two measurements raises it at once. A
//! faster line is thus detected after one measurement, and a slower one by half after six, about
//! 0.4 s; about one part in sixty of the time has no limits. Until the first measurement there are
//! none.
//!
//! **Source:** none; BBR's probing (Cardwell et al., *BBR: Congestion-Based Congestion Control*,
//! 2016) has the idea that a limit must be lifted to learn what is beyond it.

use alloc::boxed::Box;
use alloc::vec;
use fairway_wire::{Duration, Instant};

use super::{FlowId, TransmitSample, per_second};

/// Minimum duration of a measurement, and minimum number of bytes sent in it.
const MEASURE: Duration = Duration::from_ms(1);
const MEASURE_BYTES: u64 = 256 * 1024;
/// Time between measurements.
const PAUSE: Duration = Duration::from_ms(64);

/// Reaction to an event that the schedulers have to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// No reaction.
    None,
    /// Lift all rates, because a measurement begins.
    Lift,
    /// Set all rates, because the line's rate has changed or holds again.
    Set,
}

/// The rate of the line, and the state of its measurement.
#[derive(Debug)]
pub(super) struct LineRate {
    bytes_per_second: u64,
    given: bool,
    lifted: bool,
    /// When the current interval began, if a flow has more to send.
    began: Option<Instant>,
    bytes: u64,
    set_at: Instant,
    /// Which flows had more to send at their last events, and how many.
    backlogged: Box<[bool]>,
    backlogs: u32,
}

impl LineRate {
    /// Starts with a line of `bits_per_second`, or with a measurement if that is zero.
    pub(super) fn new(bits_per_second: u64, flows: u32) -> LineRate {
        let given = bits_per_second > 0;
        LineRate {
            bytes_per_second: if given { (bits_per_second / 8).max(1) } else { 0 },
            given,
            lifted: !given,
            began: None,
            bytes: 0,
            set_at: Instant::ZERO,
            backlogged: vec![false; if given { 0 } else { flows as usize }].into_boxed_slice(),
            backlogs: 0,
        }
    }

    /// The rate in bytes per second; zero until the first measurement ends.
    pub(super) fn bytes_per_second(&self) -> u64 {
        self.bytes_per_second
    }

    /// True while no dequeue rate holds.
    pub(super) fn is_lifted(&self) -> bool {
        self.lifted
    }

    /// True if the rate was specified, so that it is not measured.
    pub(super) fn is_given(&self) -> bool {
        self.given
    }

    /// Records the end of a flow.
    pub(super) fn ended(&mut self, flow: FlowId) {
        self.set_backlogged(flow, false);
    }

    /// Evaluates a transmit event of a flow.
    pub(super) fn observe(&mut self, flow: FlowId, sample: &TransmitSample) -> News {
        if self.given {
            return News::None;
        }
        let waited = self.backlogs > 0;
        self.set_backlogged(flow, sample.backlogged);
        match self.began {
            // If no flow had more to send before, the line may have been idle.
            Some(began) if waited => {
                self.bytes += sample.bytes;
                let elapsed = sample.now.elapsed_since(began);
                if elapsed >= MEASURE && self.bytes >= MEASURE_BYTES {
                    let measured = per_second(self.bytes, elapsed);
                    if self.end_of_interval(sample.now, measured) {
                        return News::Set;
                    }
                }
            }
            _ => self.begin(sample.now),
        }
        let due = !self.lifted && self.backlogs > 0;
        if due && sample.now.elapsed_since(self.set_at) >= PAUSE {
            self.lifted = true;
            self.begin(sample.now);
            return News::Lift;
        }
        News::None
    }

    /// Ends an interval. Returns true if rates have to be set.
    fn end_of_interval(&mut self, now: Instant, measured: u64) -> bool {
        self.begin(now);
        let before = self.bytes_per_second;
        if measured > before {
            self.bytes_per_second = measured;
        } else if self.lifted {
            self.bytes_per_second -= (before - measured) / 8;
        }
        let held = !core::mem::replace(&mut self.lifted, false);
        if !held {
            self.set_at = now;
        }
        !held || self.bytes_per_second > before
    }

    fn begin(&mut self, now: Instant) {
        self.began = (self.backlogs > 0).then_some(now);
        self.bytes = 0;
    }

    fn set_backlogged(&mut self, flow: FlowId, backlogged: bool) {
        let Some(slot) = self.backlogged.get_mut(flow.index()) else { return };
        if core::mem::replace(slot, backlogged) != backlogged {
            self.backlogs = if backlogged { self.backlogs + 1 } else { self.backlogs - 1 };
        }
    }
}

#[cfg(test)]
mod tests;
