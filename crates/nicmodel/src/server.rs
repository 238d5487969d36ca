//! A server: work waits for it in the order it came, holds one of its units for a time, and is
//! done after another. What it holds limits the rate; what it takes makes the latency.

/// A server of one or more units.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    free_at: Vec<u64>,
    /// What was counted.
    pub(crate) tally: Tally,
}

/// What a server has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) jobs: u64,
    /// Time that units were held, in picoseconds.
    pub(crate) held_ps: u64,
    /// Time that jobs waited for a unit.
    pub(crate) waited_ps: u64,
}

impl Server {
    /// A server of so many units.
    pub(crate) fn new(units: usize) -> Server {
        Server { free_at: vec![0; units.max(1)], tally: Tally::default() }
    }

    /// A job comes at `now`; gives how long it waits.
    pub(crate) fn enter(&mut self, now: u64, hold: u64) -> u64 {
        let unit = self.free_at.iter_mut().min().expect("at least one unit");
        let start = now.max(*unit);
        *unit = start + hold;
        self.tally.jobs += 1;
        self.tally.held_ps += hold;
        self.tally.waited_ps += start - now;
        start - now
    }

    /// How long a job that came now would wait.
    pub(crate) fn backlog(&self, now: u64) -> u64 {
        self.free_at.iter().min().map_or(0, |free| free.saturating_sub(now))
    }

    /// How many units.
    pub(crate) fn units(&self) -> usize {
        self.free_at.len()
    }
}
