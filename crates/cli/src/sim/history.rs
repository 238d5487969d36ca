//! State of the network over time, for a picture.

use fairway_sim::Simulation;

/// Largest number of moments; beyond that, every second one is dropped.
const MOMENTS: usize = 400;
/// Largest number of streams that are followed.
pub(super) const STREAMS: usize = 7;

/// The network at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct Moment {
    pub now_ps: u64,
    pub placed_bytes: u64,
    pub longest_bytes: u64,
    pub dropped: u64,
    /// Placed bytes and window of the first streams.
    pub streams: Vec<(u64, u64)>,
}

/// Moments of a run, at distances that grow with its length.
#[derive(Debug, Default)]
pub(super) struct History {
    moments: Vec<Moment>,
    /// Least distance of two moments, in picoseconds.
    every: u64,
}

impl History {
    /// The moments, from the first.
    pub(super) fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// Records the state of the network, unless the last record is too recent.
    pub(super) fn sample(&mut self, simulation: &Simulation) {
        let now = simulation.progress().now_ps;
        let due = self.moments.last().map_or(0, |last| last.now_ps.saturating_add(self.every));
        if now > due || self.moments.is_empty() {
            self.take(simulation);
        }
        if self.moments.len() >= MOMENTS {
            let mut number = 0;
            self.moments.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            let span = self.moments.last().map_or(0, |last| last.now_ps);
            self.every = (self.every * 2).max(span * 2 / MOMENTS as u64);
        }
    }

    /// Records the state at the end of the run.
    pub(super) fn end(&mut self, simulation: &Simulation) {
        let now = simulation.progress().now_ps;
        if self.moments.last().is_none_or(|last| last.now_ps < now) {
            self.take(simulation);
        }
    }

    fn take(&mut self, simulation: &Simulation) {
        let sample = simulation.sample();
        let streams = if simulation.scenario().streams.is_empty() {
            Vec::new()
        } else {
            let samples = simulation.streams().into_iter().take(STREAMS);
            samples.map(|stream| (stream.placed_bytes, stream.window_bytes.0)).collect()
        };
        self.moments.push(Moment {
            now_ps: sample.now_ps,
            placed_bytes: sample.placed_bytes,
            longest_bytes: sample.longest_bytes,
            dropped: sample.dropped,
            streams,
        });
    }
}
