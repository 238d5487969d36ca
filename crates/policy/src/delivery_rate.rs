//! The rate at which data is acknowledged, measured once per round trip.

use fairway_wire::{Duration, Instant};

/// Delivery rate of a path, from the bytes acknowledged in each of the last two round trips.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeliveryRate {
    /// When the current round trip began; `None` before the first acknowledgement.
    began: Option<Instant>,
    bytes: u64,
    last: u64,
    before: u64,
}

impl DeliveryRate {
    /// Counts `bytes` as acknowledged; `round_trip` is the length of a round trip.
    pub(crate) fn add(&mut self, now: Instant, bytes: u32, round_trip: Duration) {
        let Some(began) = self.began else {
            self.began = Some(now);
            return;
        };
        self.bytes += u64::from(bytes);
        let elapsed = now.elapsed_since(began);
        if elapsed > Duration::ZERO && elapsed >= round_trip {
            self.before = self.last;
            self.last = self.bytes.saturating_mul(1_000_000_000) / elapsed.as_ns().max(1);
            (self.began, self.bytes) = (Some(now), 0);
        }
    }

    /// The higher rate of the last two round trips, in bytes per second.
    pub(crate) fn rate(&self) -> u64 {
        self.last.max(self.before)
    }
}

#[cfg(test)]
mod tests;
