//! Loss detection by distance in the channel.
//!
//! **Rule:** a packet is lost when the highest acknowledged PSN is a threshold or more ahead of it.
//! On one path this is TCP's duplicate-acknowledgement threshold; with spraying the threshold has
//! to learn how far the paths differ ([`tolerance`](crate::tolerance)).
//!
//! **Source:** RFC 6675 (DupThresh) with the adaptation of RFC 4653; IRN (SIGCOMM 2018) uses a
//! fixed threshold.

use crate::tolerance::Tolerance;
use crate::{Evidence, LateArrival, LossDetector};

/// A loss detector that declares a packet lost if the channel is far ahead of it.
#[derive(Clone, Debug)]
pub struct SackThreshold {
    tolerance: Tolerance,
}

impl SackThreshold {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "sack";

    /// Creates a detector that expects hardly any reordering.
    pub fn new() -> Self {
        SackThreshold { tolerance: Tolerance::new() }
    }
}

impl Default for SackThreshold {
    fn default() -> Self {
        SackThreshold::new()
    }
}

impl LossDetector for SackThreshold {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn compares_across_paths(&self) -> bool {
        true
    }

    fn is_lost(&mut self, evidence: &Evidence) -> bool {
        self.tolerance.is_exceeded(evidence.psn_distance, evidence)
    }

    fn on_reordering(&mut self, late: &LateArrival) {
        self.tolerance.learn(late.psn_distance, late.was_declared_lost);
    }
}

#[cfg(test)]
mod tests;
