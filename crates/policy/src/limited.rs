//! Whether the window limits the sender.
//!
//! A window that is not used should not grow, because nothing shows that the network can carry more
//! of it. Acknowledgements come in bursts, and only the first of a burst finds that the window held
//! data back: it lets the sender go on, and the wire is busy while the others arrive. A law that
//! grows by each of them separately therefore needs to know whether the window was the limit within
//! the last round trip.

use fairway_wire::{Duration, Instant};

use crate::AckSample;

/// When the window last limited the sender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limited {
    last: Option<Instant>,
}

impl Limited {
    /// Processes a sample, and returns true if the window limited the sender within the last
    /// `round_trip`.
    pub(crate) fn note(&mut self, sample: &AckSample, round_trip: Duration) -> bool {
        if sample.window_limited {
            self.last = Some(sample.now);
        }
        self.last.is_some_and(|last| sample.now.elapsed_since(last) <= round_trip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_the_limit_for_a_round_trip_after_it_was() {
        let mut limited = Limited::default();
        let mut at = |us, window_limited| {
            let now = Instant::ZERO + Duration::from_us(us);
            let sample = AckSample { now, window_limited, ..AckSample::default() };
            limited.note(&sample, Duration::from_us(10))
        };
        assert!(!at(0, false));
        assert!(at(1, true));
        assert!(at(11, false));
        assert!(!at(12, false));
        assert!(at(13, true));
    }
}
