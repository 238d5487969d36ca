//! A histogram of message latencies, small enough that a thousand streams have one each.

use crate::Quantiles;

/// Steps per factor of two, so that a time is known to less than 1 %.
const STEPS: usize = 128;
/// Factors of two that the histogram covers: up to 2^OCTAVES picoseconds, 18 minutes.
const OCTAVES: usize = 50;

/// Number of messages, by latency step.
pub(crate) struct Latencies(Box<[u32]>);

impl Latencies {
    pub(crate) fn new() -> Latencies {
        Latencies(vec![0; STEPS * OCTAVES].into_boxed_slice())
    }

    /// Adds a time, in picoseconds.
    pub(crate) fn add(&mut self, ps: u64) {
        self.0[place(ps)] += 1;
    }

    /// Returns quantiles by the nearest rank; each time is represented by the middle of its step.
    pub(crate) fn quantiles(&self) -> Quantiles {
        let all: u64 = self.0.iter().map(|count| u64::from(*count)).sum();
        let at = |permille: u64| {
            let rank = (all * permille).div_ceil(1000).max(1);
            let mut below = 0;
            let found = self.0.iter().position(|count| {
                below += u64::from(*count);
                below >= rank
            });
            found.map_or(0, middle)
        };
        Quantiles { p50: at(500), p99: at(990), p999: at(999), max: at(1000) }
    }
}

fn place(ps: u64) -> usize {
    let ps = ps.max(STEPS as u64);
    let octave = (ps / STEPS as u64).ilog2() as usize;
    let step = (ps >> octave) as usize - STEPS;
    (octave * STEPS + step).min(STEPS * OCTAVES - 1)
}

fn middle(place: usize) -> u64 {
    let (octave, step) = (place / STEPS, place % STEPS);
    let low = ((STEPS + step) as u64) << octave;
    low + (1 << octave) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_known_to_one_percent() {
        let mut latencies = Latencies::new();
        assert_eq!(latencies.quantiles(), Quantiles::default());
        for us in 1..=1000u64 {
            latencies.add(us * 1_000_000);
        }
        let found = latencies.quantiles();
        for (got, us) in [(found.p50, 500), (found.p99, 990), (found.p999, 999), (found.max, 1000)]
        {
            assert!(got.abs_diff(us * 1_000_000) < us * 10_000, "{got} for {us} us");
        }
        // Times beyond the last step are counted in it.
        latencies.add(u64::MAX);
        assert!(latencies.quantiles().max > 1 << (OCTAVES + 6));
    }
}
