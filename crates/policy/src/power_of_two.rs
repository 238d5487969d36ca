//! The better of two random paths.
//!
//! **Rule:** draw two different usable paths and take the one with the shorter smoothed round trip.
//! A path without a measurement counts as the fastest, so that it is soon measured. In a tie, the
//! path with fewer packets in flight is taken, then the first drawn.
//!
//! Where there are more paths than packets in flight, both round trips are those of queues that are
//! gone, or unknown. With `memory=on` a path is taken again before two are drawn: when a packet of
//! a chunk is acknowledged soon, the chunk's path goes to the end of a list, once for each chunk,
//! and chunks take the paths of the list first. A path that lost packets leaves the list.
//!
//! ```text
//! soon:   time until the acknowledgement ≤ (3/2 + r/2) · the shortest such time of the channel
//! r       drawn from 0 to 1 for each packet, so that not all senders leave a link at once
//! ```
//!
//! **Source:** Mitzenmacher, *The Power of Two Choices in Randomized Load Balancing*, 2001; UCCL
//! §4.1 uses it with round trips over 256 paths. Mitzenmacher, Prabhakar and Shah, *Load Balancing
//! with Memory*, FOCS 2002, also compare with a choice that is remembered.
//!
//! **Where this differs:** there the remembered choice is compared with the ones drawn; here it is
//! compared with the shortest time, when it is measured.

use fairway_wire::Duration;

use crate::reuse::{ElapsedTimes, ReuseList};
use crate::{ChunkRequest, LossSample, PathAck, PathChoice, PathView};

/// Whether paths are taken again that were fast just now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// Every chunk draws two paths.
    #[default]
    Off,
    /// They are, before two paths are drawn.
    On,
}

/// Parameters of [`PowerOfTwo`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerOfTwoParameters {
    /// Whether paths are taken again that were fast just now.
    pub memory: Memory,
}

/// The path choice that takes the better of two random usable paths.
#[derive(Clone, Debug, Default)]
pub struct PowerOfTwo {
    parameters: PowerOfTwoParameters,
    reuse: ReuseList,
    times: ElapsedTimes,
    random: u32,
}

impl PowerOfTwo {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "p2c";

    /// Creates the path choice with `parameters`.
    pub fn new(parameters: PowerOfTwoParameters) -> PowerOfTwo {
        PowerOfTwo { parameters, ..PowerOfTwo::default() }
    }

    fn remembers(&self) -> bool {
        self.parameters.memory == Memory::On
    }

    /// True if a packet that was acknowledged after this time was fast.
    fn is_soon(&mut self, elapsed: Duration) -> bool {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let part = 1536 + u64::from(self.random >> 23);
        elapsed <= self.times.least.times(part).divided_by(1024)
    }

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

    fn prepare(&mut self) {
        if self.remembers() {
            self.reuse.prepare();
        }
    }

    fn choose(&mut self, paths: &[PathView], request: &ChunkRequest) -> usize {
        let usable = |path: usize| paths[path].usable;
        let draw = || PowerOfTwo::among(paths, request.random, usable).unwrap_or(0);
        if !self.remembers() {
            return draw();
        }
        self.reuse.prepare();
        self.random ^= request.random;
        let path = self.reuse.take(paths).unwrap_or_else(draw);
        self.reuse.note_chunk(path);
        path
    }

    fn on_ack(&mut self, path: usize, ack: &PathAck) {
        if !self.remembers() {
            return;
        }
        if let Some(elapsed) = ack.elapsed {
            self.times.add(elapsed);
            let again = self.is_soon(elapsed);
            self.reuse.note_delivery(path, again);
        }
    }

    fn on_loss(&mut self, path: usize, _sample: &LossSample) {
        self.reuse.forget(path);
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
