//! Loss detection by the order of packets on a path.
//!
//! **Rule:** packets of one path do not overtake each other, so a packet is lost when enough
//! packets sent later *on its path* have been acknowledged. In an ideal network one is enough; the
//! module [`tolerance`](crate::tolerance) learns the number from experience. Reordering between
//! paths, which spraying causes all the time, has no effect.
//!
//! **Source:** per-path sequence order as in MP-RDMA (NSDI 2018) and UCCL §4.1.

use crate::tolerance::Tolerance;
use crate::{Evidence, LateArrival, LossDetector};

/// A loss detector that declares a packet lost if later packets of its own path passed it.
#[derive(Clone, Debug)]
pub struct PathOrder {
    tolerance: Tolerance,
}

impl PathOrder {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "path-order";

    /// Creates a detector that expects hardly any reordering.
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

    /// True, because the last packets of a burst have nothing behind them on their own path.
    fn compares_across_paths(&self) -> bool {
        true
    }

    fn is_lost(&mut self, evidence: &Evidence) -> bool {
        self.tolerance.is_exceeded(evidence.path_distance, evidence)
    }

    fn on_reordering(&mut self, late: &LateArrival) {
        if late.path_distance > 0 || late.was_declared_lost {
            self.tolerance.learn(late.path_distance, late.was_declared_lost);
        }
    }
}

#[cfg(test)]
mod tests;
