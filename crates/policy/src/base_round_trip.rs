//! The base round trip of a path, which is the round trip without queues: the shortest one measured
//! recently.
//!
//! "Recently" means the current interval of ten seconds and the one before it. After a change to a
//! longer route, the longer round trip is used after twenty seconds at the latest (BBR keeps its
//! minimum for ten).

use fairway_wire::{Duration, Instant};

/// Length of one interval.
const STRETCH: Duration = Duration::from_secs(10);

/// The shortest round trip of two intervals.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BaseRoundTrip {
    /// When the current interval began; `None` before the first sample.
    began: Option<Instant>,
    present: Duration,
    before: Duration,
}

impl BaseRoundTrip {
    /// Adds a measured round trip.
    pub(crate) fn add(&mut self, now: Instant, sample: Duration) {
        match self.began {
            None => (self.began, self.present, self.before) = (Some(now), sample, sample),
            Some(began) if now.elapsed_since(began) >= STRETCH => {
                (self.began, self.before, self.present) = (Some(now), self.present, sample);
            }
            Some(_) => self.present = self.present.min(sample),
        }
    }

    /// The shortest round trip of both intervals; zero before the first sample.
    pub(crate) fn get(&self) -> Duration {
        self.present.min(self.before)
    }

    /// The part of `round_trip` that would remain without queues, in thousandths; `None` if no
    /// round trip has been measured.
    pub(crate) fn permille_of(&self, round_trip: Duration) -> Option<u64> {
        self.began?;
        let base = self.get().as_ns();
        Some((base.saturating_mul(1000) / round_trip.as_ns().max(1)).min(1000))
    }
}

#[cfg(test)]
mod tests;
