//! The path with the least round trip.
//!
//! **Rule:** a chunk takes the path with the least smoothed round trip of those that were looked
//! at: the path of the chunk before, and four more in turn, so that a choice costs the same for 256
//! paths as for 16, and every path is looked at again within 64 choices. A path without a
//! measurement counts as the fastest, so that it is soon measured. In a tie, the path with fewer
//! packets in flight is taken.
//!
//! **Source:** the lowest round trip first is the default of multipath TCP (Paasch et al.,
//! *Experimental Evaluation of Multipath TCP Schedulers*, CSWS 2014, §2.2).
//!
//! **Where this differs:** that scheduler looks at every path, and leaves one whose window is full.
//! Here one congestion control has all paths, so a path takes all chunks until its round trip has
//! grown; `p2c`, which draws, spreads them.

use crate::{ChunkRequest, PathChoice, PathView};

/// Paths that a choice looks at beside the current one.
const LOOKED_AT: usize = 4;

/// The path choice that takes the least round trip.
#[derive(Clone, Debug, Default)]
pub struct LeastRoundTrip {
    path: usize,
    /// The path that is looked at next.
    next: usize,
}

impl LeastRoundTrip {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "least-rtt";
}

impl PathChoice for LeastRoundTrip {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(&mut self, paths: &[PathView], _request: &ChunkRequest) -> usize {
        let mut best = paths.get(self.path).filter(|view| view.usable).map(|_| self.path);
        let mut looked_at = 0;
        // Paths that do not work are passed over.
        for _ in 0..paths.len() {
            if looked_at == LOOKED_AT {
                break;
            }
            let path = self.next % paths.len();
            self.next = path + 1;
            if paths[path].usable {
                looked_at += 1;
                let is_better = best.is_none_or(|best| is_better(&paths[path], &paths[best]));
                best = if is_better { Some(path) } else { best };
            }
        }
        self.path = best.unwrap_or(0);
        self.path
    }
}

fn is_better(path: &PathView, than: &PathView) -> bool {
    (path.smoothed_rtt, path.in_flight) < (than.smoothed_rtt, than.in_flight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use fairway_wire::{Duration, Instant};

    fn path(us: u64) -> PathView {
        PathView { smoothed_rtt: Duration::from_us(us), usable: true, ..PathView::default() }
    }

    fn choose(least: &mut LeastRoundTrip, paths: &[PathView]) -> usize {
        least.choose(paths, &ChunkRequest { now: Instant::from_ps(0), bytes: 1, random: 0 })
    }

    #[test]
    fn the_least_of_256_is_found_within_64_choices_and_left_when_it_grows() {
        let mut paths = [path(50); 256];
        paths[200] = path(20);
        paths[77] = path(30);
        let mut least = LeastRoundTrip::default();
        let chosen: Vec<usize> = (0..64).map(|_| choose(&mut least, &paths)).collect();
        assert_eq!(chosen[63], 200);
        assert!(chosen.contains(&77) && (0..64).all(|_| choose(&mut least, &paths) == 200));
        paths[200] = path(40);
        let chosen: Vec<usize> = (0..64).map(|_| choose(&mut least, &paths)).collect();
        assert_eq!(chosen[63], 77);
    }

    #[test]
    fn unmeasured_paths_come_first_and_dead_ones_never() {
        let mut paths = [path(10), path(0), path(5), path(5)];
        let mut least = LeastRoundTrip::default();
        assert_eq!(choose(&mut least, &paths), 1);
        paths[1] = path(20);
        paths[2].in_flight = 3;
        assert_eq!(choose(&mut least, &paths), 3);
        paths[3].usable = false;
        assert_eq!(choose(&mut least, &paths), 2);
        paths.iter_mut().for_each(|path| path.usable = false);
        assert_eq!(choose(&mut least, &paths), 0);
    }
}
