//! The round trip of a path without queues: the least that was measured lately.
//!
//! "Lately" is the present stretch of ten seconds and the one before it, so that a route that
//! became longer is believed after twenty seconds at the latest (BBR keeps its least for ten).

use fairway_wire::{Duration, Instant};

/// How long one stretch lasts.
const STRETCH: Duration = Duration::from_secs(10);

/// The least round trip of two stretches of time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BaseRoundTrip {
    /// When the present stretch began; `None` before the first sample.
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

    /// The least of both stretches; zero before the first sample.
    pub(crate) fn get(&self) -> Duration {
        self.present.min(self.before)
    }

    /// The part of `round_trip` that is left without queues, in thousandths; `None` if no round
    /// trip has been measured.
    pub(crate) fn permille_of(&self, round_trip: Duration) -> Option<u64> {
        self.began?;
        let base = self.get().as_ns();
        Some((base.saturating_mul(1000) / round_trip.as_ns().max(1)).min(1000))
    }
}

#[cfg(test)]
mod tests;
