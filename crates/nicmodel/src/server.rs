//! A server: jobs wait in order of arrival, occupy one of its units for a time, and are done after
//! a latency. Occupancy limits the rate; latency determines the duration.

/// A server of one or more units.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    free_at: Vec<u64>,
    tally: Tally,
}

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) jobs: u64,
    /// Time for which the jobs occupy units, in picoseconds. It is counted when a job enters, so it
    /// includes what is still to come.
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

    /// Counters of a run that ends at `end`, without the occupancy behind it. No job may have
    /// entered after `end`: only then is every unit busy without a pause from `end` until it is
    /// free.
    pub(crate) fn tally_until(&self, end: u64) -> Tally {
        let to_come: u64 = self.free_at.iter().map(|free| free.saturating_sub(end)).sum();
        Tally { held_ps: self.tally.held_ps - to_come, ..self.tally }
    }

    /// Number of units.
    pub(crate) fn units(&self) -> usize {
        self.free_at.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Server;

    #[test]
    fn occupancy_behind_the_end_of_a_run_does_not_count() {
        let mut server = Server::new(2);
        for (now, hold) in [(0, 10), (5, 10), (6, 10), (30, 40)] {
            server.enter(now, hold);
        }
        // The units are occupied from 0 to 20 and from 5 to 15, and one of them from 30 to 70.
        assert_eq!(server.tally_until(70).held_ps, 70);
        assert_eq!(server.tally_until(50).held_ps, 50);
        assert_eq!(server.tally_until(30).held_ps, 30);
        assert_eq!((server.tally_until(30).jobs, server.tally_until(30).waited_ps), (4, 4));
    }
}
