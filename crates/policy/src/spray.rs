//! Packet spraying in turn.
//!
//! **Rule:** each chunk takes the next usable path after that of the last chunk.
//!
//! **Source:** packet spraying (Dixit et al., INFOCOM 2013; UCCL §4.1), in turn instead of at
//! random and with the granularity of a chunk.

use crate::{ChunkRequest, PathChoice, PathView};

/// Round robin over the usable paths.
#[derive(Clone, Debug, Default)]
pub struct Spray {
    next: usize,
}

impl Spray {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "spray";

    /// Creates a path choice that starts with path 0.
    pub fn new() -> Self {
        Spray::default()
    }
}

impl PathChoice for Spray {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(&mut self, paths: &[PathView], _request: &ChunkRequest) -> usize {
        let count = paths.len().max(1);
        let first = self.next % count;
        let usable = |index: &usize| paths.get(*index).is_some_and(|path| path.usable);
        let chosen = (first..count).chain(0..first).find(usable).unwrap_or(first);
        self.next = (chosen + 1) % count;
        chosen
    }
}

#[cfg(test)]
mod tests;
