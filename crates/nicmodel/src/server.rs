//! A server: jobs wait in order of arrival, occupy one of its units for a time, and are done after
//! a latency. Occupancy limits the rate; latency determines the duration.

/// A server of one or more units.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    free_at: Vec<u64>,
    /// Counters of the server.
    pub(crate) tally: Tally,
}

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) jobs: u64,
    /// Time for which units were occupied, in picoseconds.
    pub(crate) held_ps: u64,
    /// Time for which jobs waited for a unit, in picoseconds.
    pub(crate) waited_ps: u64,
}

impl Server {
    /// Makes a server with `units` units.
    pub(crate) fn new(units: usize) -> Server {
        Server { free_at: vec![0; units.max(1)], tally: Tally::default() }
    }

    /// Enters a job at `now` that occupies a unit for `hold`. Returns how long it waits.
    pub(crate) fn enter(&mut self, now: u64, hold: u64) -> u64 {
        let unit = self.free_at.iter_mut().min().expect("at least one unit");
        let start = now.max(*unit);
        *unit = start + hold;
        self.tally.jobs += 1;
        self.tally.held_ps += hold;
        self.tally.waited_ps += start - now;
        start - now
    }

    /// Time for which a job that arrived now would wait.
    pub(crate) fn backlog(&self, now: u64) -> u64 {
        self.free_at.iter().min().map_or(0, |free| free.saturating_sub(now))
    }

    /// Number of units.
    pub(crate) fn units(&self) -> usize {
        self.free_at.len()
    }
}
