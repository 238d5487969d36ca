//! The better of two random paths.
//!
//! **Rule:** draw two different usable paths and take the one with the shorter smoothed round trip.
//! A path without a measurement counts as the fastest, so that it is soon measured. In a tie, the
//! path with fewer packets in flight is taken, then the first drawn.
//!
//! **Source:** Mitzenmacher, *The Power of Two Choices in Randomized Load Balancing*, 2001; UCCL
//! §4.1 uses it with round trips over 256 paths.

use crate::{ChunkRequest, PathChoice, PathView};

/// The path choice that takes the better of two random usable paths.
#[derive(Clone, Debug, Default)]
pub struct PowerOfTwo;

impl PowerOfTwo {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "p2c";

    /// The better of two random paths among those that suit; `None` if there are none.
    pub(crate) fn among(
        paths: &[PathView],
        random: u32,
        suits: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let count = (0..paths.len()).filter(|path| suits(*path)).count() as u32;
        if count <= 1 {
            return nth(paths, 0, suits);
        }
        // Half of the random number draws one of n, the other half one of the n − 1 others.
        let first = ((random & 0xffff) * count) >> 16;
        let other = ((random >> 16) * (count - 1)) >> 16;
        let second = if other >= first { other + 1 } else { other };
        let (first, second) = (nth(paths, first, &suits)?, nth(paths, second, &suits)?);
        Some(if is_better(&paths[second], &paths[first]) { second } else { first })
    }
}

impl PathChoice for PowerOfTwo {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(&mut self, paths: &[PathView], request: &ChunkRequest) -> usize {
        let usable = |path: usize| paths[path].usable;
        PowerOfTwo::among(paths, request.random, usable).unwrap_or(0)
    }
}

/// Number `n` of the paths that suit.
fn nth(paths: &[PathView], n: u32, suits: impl Fn(usize) -> bool) -> Option<usize> {
    (0..paths.len()).filter(|path| suits(*path)).nth(n as usize)
}

fn is_better(path: &PathView, than: &PathView) -> bool {
    (path.smoothed_rtt, path.in_flight) < (than.smoothed_rtt, than.in_flight)
}

#[cfg(test)]
mod tests;
