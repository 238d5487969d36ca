//! How long a thread that waits for a call polls before it sleeps.
//!
//! Ranks come to a call some tens of microseconds apart, and a thread that has fallen asleep needs
//! as long to be woken. A thread that polls meanwhile takes a core, which a host has to spare if it
//! has as many cores as ranks. Otherwise another rank needs it: with 4 ranks on 2 cores, polling
//! for 50 us made all-reduce of 1 KiB to 1 MiB 1.1 to 1.5 times as slow, while with 2 ranks and
//! 100 us it took 0.6 to 0.9 of the time (`front/python/tools/gloo_bench.py`).

use fairway::{Completion, Jetty};
use std::time::{Duration, Instant};

/// Time for which a thread polls on a host with enough cores.
const SPIN: Duration = Duration::from_micros(100);

/// The time for rank `rank` of a group whose ranks are on these hosts.
pub(crate) fn time(rank: u32, hosts: &[u32]) -> Duration {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let here = hosts.iter().filter(|host| **host == hosts[rank as usize]).count();
    if here <= cores { SPIN } else { Duration::ZERO }
}

/// Polls once, and then for `time` until there is a completion. Returns the number of completions.
pub(crate) fn poll(jetty: &Jetty, completions: &mut Vec<Completion>, time: Duration) -> usize {
    let polled = jetty.poll(completions);
    if polled > 0 || time.is_zero() {
        return polled;
    }
    let since = Instant::now();
    loop {
        let polled = jetty.poll(completions);
        if polled > 0 || since.elapsed() >= time {
            return polled;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_poll_only_where_each_rank_has_a_core() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let crowded = vec![0; cores + 1];
        assert_eq!(time(0, &crowded), Duration::ZERO);
        assert_eq!(time(0, &crowded[1..]), SPIN);
        // Ranks of other hosts have cores of their own.
        let mut apart = vec![1; cores];
        apart.push(0);
        assert_eq!(time(0, &apart), SPIN);
        assert_eq!(time(cores as u32, &apart), SPIN);
    }
}
