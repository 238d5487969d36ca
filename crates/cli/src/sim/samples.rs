//! What is recorded of a run while it goes on: series of lines, and states for a picture.

use fairway_sim::{Sample, Simulation};

use super::SimOptions;
use super::history::History;
use super::results::us;
use super::streams::StreamSeries;
use crate::failure::Failure;

/// Largest number of intervals of a series in a run, which limits the memory that its lines take.
const INTERVALS_MAX: u64 = 1_000_000;

/// The records of a run.
pub(super) struct Samples {
    seed: u64,
    /// Time between two lines, in picoseconds.
    every: u64,
    /// Time at which the next line is due. Lines are due at the multiples of `every`.
    due: u64,
    intervals: u64,
    /// Time and placed bytes of the last line.
    sampled: (u64, u64),
    pub(super) series: Option<String>,
    pub(super) streams: Option<StreamSeries>,
    pub(super) history: Option<History>,
}

impl Samples {
    pub(super) fn new(options: &SimOptions, seed: u64) -> Samples {
        let every = options.series_every();
        Samples {
            seed,
            every,
            due: every,
            intervals: 0,
            sampled: (0, 0),
            series: options.series.as_ref().map(|_| String::new()),
            streams: options.stream_series.as_ref().map(|_| StreamSeries::new(seed)),
            history: options.plot.as_ref().map(|_| History::default()),
        }
    }

    /// Records the state before the next events. A line that became due within the window that has
    /// just run has the state, and the time, of that window's end; between then and the next events
    /// nothing changes, and lines have the times at which they are due.
    ///
    /// # Errors
    /// If the series gets too many lines.
    pub(super) fn take(&mut self, simulation: &Simulation) -> Result<(), Failure> {
        if let Some(history) = &mut self.history {
            history.sample(simulation);
        }
        if self.series.is_none() && self.streams.is_none() {
            return Ok(());
        }
        let now = simulation.progress().now_ps;
        let idle_until = simulation.next_ps().unwrap_or(now).max(now);
        if idle_until < self.due {
            return Ok(());
        }
        let sample = simulation.sample();
        if self.due <= now {
            self.line(simulation, &sample, now)?;
        }
        while self.due <= idle_until {
            self.line(simulation, &sample, self.due)?;
        }
        Ok(())
    }

    /// Records the state at the end of the run.
    ///
    /// # Errors
    /// If the series gets too many lines.
    pub(super) fn end(&mut self, simulation: &Simulation) -> Result<(), Failure> {
        if let Some(history) = &mut self.history {
            history.end(simulation);
        }
        if self.series.is_none() && self.streams.is_none() {
            return Ok(());
        }
        let sample = simulation.sample();
        let now = simulation.progress().now_ps;
        while self.due < now {
            self.line(simulation, &sample, self.due)?;
        }
        if self.sampled.0 < now { self.line(simulation, &sample, now) } else { Ok(()) }
    }

    /// Adds a line of the state at `now`, and one for each stream.
    fn line(&mut self, simulation: &Simulation, sample: &Sample, now: u64) -> Result<(), Failure> {
        self.intervals += 1;
        if self.intervals > INTERVALS_MAX {
            return Err(Failure::usage(format!(
                "--series-every {}us makes more than {INTERVALS_MAX} intervals up to {} us of the \
                 run: give a longer time, or end the run earlier (--end)",
                us(self.every),
                us(now)
            )));
        }
        self.due = (now / self.every + 1) * self.every;
        if let Some(streams) = &mut self.streams {
            streams.sample(simulation, now);
        }
        if let Some(series) = &mut self.series {
            let (span, bytes) = (now - self.sampled.0, sample.placed_bytes - self.sampled.1);
            let rate = bytes as f64 * 8e3 / span as f64;
            series.push_str(&format!(
                "{},{},{},{rate:.3},{},{},{},{},{},{},{}\n",
                self.seed,
                us(now),
                sample.placed_bytes,
                sample.in_flight,
                sample.waiting_bytes,
                sample.longest_bytes,
                sample.longest_port,
                sample.paused_ports,
                sample.dropped,
                sample.completed,
            ));
        }
        self.sampled = (now, sample.placed_bytes);
        Ok(())
    }
}
