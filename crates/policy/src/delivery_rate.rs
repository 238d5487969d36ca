//! The rate at which data is acknowledged, measured once per round trip.

use fairway_wire::{Duration, Instant};

/// Round trips of which the highest rate counts. While a packet that was lost twice holds up
/// acknowledgements, round trip after round trip seems to deliver little.
const ROUND_TRIPS: usize = 4;

/// Delivery rate of a path, from the bytes acknowledged in each of the last round trips.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeliveryRate {
    /// When the current round trip began; `None` before the first acknowledgement.
    began: Option<Instant>,
    bytes: u64,
    /// Rates of the last round trips in bytes per second, the newest first.
    rates: [u64; ROUND_TRIPS],
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
            self.rates.rotate_right(1);
            self.rates[0] = self.bytes.saturating_mul(1_000_000_000) / elapsed.as_ns().max(1);
            (self.began, self.bytes) = (Some(now), 0);
        }
    }

    /// The highest rate of the last round trips, in bytes per second.
    pub(crate) fn rate(&self) -> u64 {
        self.rates.into_iter().fold(0, u64::max)
    }
}

#[cfg(test)]
mod tests;
