//! Loss by the order of a path.
//!
//! **Rule:** packets of one path do not overtake each other, so a packet is lost when enough
//! packets sent later *on its path* have been acknowledged. "Enough" is one in a perfect world;
//! the module [`tolerance`](crate::tolerance) says how many it is in this one, and how that is
//! learned. Reordering between paths, which spraying causes all the time, is not even noticed.
//!
//! **Source:** per-path sequence order as in MP-RDMA (NSDI 2018) and UCCL §4.1.

use crate::tolerance::Tolerance;
use crate::{Evidence, LossDetector};

/// A packet passed by later packets of its own path is lost.
#[derive(Clone, Debug)]
pub struct PathOrder {
    tolerance: Tolerance,
}

impl PathOrder {
    /// The name under which it is chosen.
    pub const NAME: &'static str = "path-order";

    /// Expecting hardly any reordering.
    pub fn new() -> Self {
        PathOrder { tolerance: Tolerance::new() }
    }
}

impl Default for PathOrder {
    fn default() -> Self {
        PathOrder::new()
    }
}

impl LossDetector for PathOrder {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// The end of a burst has nothing behind it on its own path.
    fn looks_across_paths(&self) -> bool {
        true
    }

    fn is_lost(&mut self, evidence: &Evidence) -> bool {
        self.tolerance.is_exceeded(evidence.path_distance, evidence)
    }

    fn on_reordering(&mut self, path_distance: u32, _psn_distance: u32, was_declared_lost: bool) {
        if path_distance > 0 || was_declared_lost {
            self.tolerance.learn(path_distance, was_declared_lost);
        }
    }
}

#[cfg(test)]
mod tests;
