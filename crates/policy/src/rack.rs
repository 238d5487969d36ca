//! Loss detection by time, across all paths.
//!
//! **Rule:** a packet is lost when a packet that was sent a *reordering window* later has been
//! acknowledged, on whatever path; or when one that was sent later at all has been acknowledged and
//! a round trip and a reordering window have passed since it was sent. It is lost as well if enough
//! packets of its own path have passed it ([`tolerance`](crate::tolerance)).
//!
//! A packet that arrives although newer ones have arrived shows by how much the delays of the paths
//! differ. The window is a quarter more than the largest such difference of late, between a
//! sixteenth of a round trip and four of them; at first the difference is assumed to be a round
//! trip. Every period without a difference as large forgets a quarter of it; a packet that was sent
//! twice for nothing makes the window a quarter larger, at most once per period. A period is a round
//! trip in which 96 packets were acknowledged, or as many round trips as that takes: a channel that
//! sends few packets sees few differences, and would forget between two of them.
//!
//! **Source:** RACK-TLP, RFC 8985, whose window is a quarter of the round trip and grows when
//! packets were sent twice for nothing; a distance learned from the spread of the paths as in ORNIC
//! (Eq. 3).

use fairway_wire::{Duration, Instant};

use crate::tolerance::Tolerance;
use crate::{Evidence, LateArrival, LossDetector};

/// Part of the round trip that the window is at least.
const LEAST_PART: u64 = 16;
/// Part of what was learned by which the window exceeds it.
const MARGIN_PART: u64 = 4;
/// Round trips that the window is at most.
const MOST_ROUND_TRIPS: u64 = 4;
/// Part of what was learned that each period forgets.
const FORGET_PART: u64 = 4;
/// Packets that are acknowledged in a period at least.
const FORGET_PACKETS: u32 = 96;

/// A loss detector that compares the times at which packets were sent.
#[derive(Clone, Debug)]
pub struct Rack {
    tolerance: Tolerance,
    /// The largest difference between the delays of packets that was seen of late.
    spread: Duration,
    /// The largest difference of this period, when that began, and packets acknowledged in it.
    spread_now: Duration,
    began: Instant,
    packets: u32,
    /// Set if a packet was sent twice for nothing in this period.
    was_hasty: bool,
}

impl Rack {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "rack";

    /// Creates a detector that expects hardly any reordering.
    pub fn new() -> Self {
        Rack {
            tolerance: Tolerance::new(),
            spread: Duration::ZERO,
            spread_now: Duration::ZERO,
            began: Instant::ZERO,
            packets: 0,
            was_hasty: false,
        }
    }

    /// The reordering window.
    fn window(&self, smoothed_rtt: Duration) -> Duration {
        let learned = self.spread.saturating_add(self.spread.divided_by(MARGIN_PART));
        learned.clamp(smoothed_rtt.divided_by(LEAST_PART), smoothed_rtt.times(MOST_ROUND_TRIPS))
    }
}

impl Default for Rack {
    fn default() -> Self {
        Rack::new()
    }
}

impl LossDetector for Rack {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn compares_across_paths(&self) -> bool {
        true
    }

    fn overdue_after(&self, smoothed_rtt: Duration) -> Option<Duration> {
        Some(smoothed_rtt.saturating_add(self.window(smoothed_rtt)))
    }

    fn is_lost(&mut self, evidence: &Evidence) -> bool {
        let window = self.window(evidence.smoothed_rtt);
        let overdue = window > Duration::ZERO && evidence.overtaken_by >= window;
        overdue || self.tolerance.is_exceeded(evidence.path_distance, evidence)
    }

    fn on_ack(&mut self, now: Instant, smoothed_rtt: Duration, packets: u32) {
        self.packets = self.packets.saturating_add(packets);
        if self.began == Instant::ZERO {
            // Nothing is known of the paths yet.
            (self.began, self.spread) = (now, smoothed_rtt);
        } else if now.elapsed_since(self.began) >= smoothed_rtt && self.packets >= FORGET_PACKETS {
            let kept = self.spread.saturating_sub(self.spread.divided_by(FORGET_PART));
            self.spread = kept.max(self.spread_now);
            (self.began, self.packets) = (now, 0);
            (self.spread_now, self.was_hasty) = (Duration::ZERO, false);
        }
    }

    fn on_reordering(&mut self, late: &LateArrival) {
        self.spread_now = self.spread_now.max(late.overtaken_by);
        if late.was_declared_lost && !self.was_hasty {
            // By how much it was late is not always known: the copy has another time of sending.
            self.spread_now = self.spread_now.max(self.window(late.smoothed_rtt));
            self.was_hasty = true;
        }
        self.spread = self.spread.max(self.spread_now);
        if late.path_distance > 0 {
            self.tolerance.learn(late.path_distance, late.was_declared_lost);
        }
    }
}

#[cfg(test)]
mod tests;
