//! The better of two random paths.
//!
//! **Rule:** draw two different usable paths and take the one with the lower smoothed round
//! trip. A path that has not been measured counts as the fastest, so that it soon will be; a tie
//! goes to the one with fewer packets in flight, then to the first drawn.
//!
//! **Source:** Mitzenmacher, *The Power of Two Choices in Randomized Load Balancing*, 2001; UCCL
//! §4.1 uses it with round trips over 256 paths.

use crate::{ChunkRequest, PathChoice, PathView};

/// The better of two random usable paths.
#[derive(Clone, Debug, Default)]
pub struct PowerOfTwo;

impl PowerOfTwo {
    /// The name under which it is chosen.
    pub const NAME: &'static str = "p2c";
}

impl PathChoice for PowerOfTwo {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(&mut self, paths: &[PathView], request: &ChunkRequest) -> usize {
        let usable = paths.iter().filter(|path| path.usable).count() as u32;
        if usable <= 1 {
            return nth_usable(paths, 0);
        }
        // Half of the random number draws one of n, the other half one of the n − 1 others.
        let first = ((request.random & 0xffff) * usable) >> 16;
        let other = ((request.random >> 16) * (usable - 1)) >> 16;
        let second = if other >= first { other + 1 } else { other };
        let (first, second) = (nth_usable(paths, first), nth_usable(paths, second));
        if is_better(paths.get(second), paths.get(first)) { second } else { first }
    }
}

/// Index of usable path number `n`; 0 if there is none.
fn nth_usable(paths: &[PathView], n: u32) -> usize {
    let mut usable = paths.iter().enumerate().filter(|(_, path)| path.usable);
    usable.nth(n as usize).map_or(0, |(index, _)| index)
}

fn is_better(path: Option<&PathView>, than: Option<&PathView>) -> bool {
    let rank = |path: &PathView| (path.smoothed_rtt, path.in_flight);
    path.map(rank) < than.map(rank)
}

#[cfg(test)]
mod tests;
