//! Loss detection by the receiver's reorder tolerance.
//!
//! **Rule:** a packet is lost when the receiver reports that a gap is wider than its out-of-order
//! tolerance distance, and the sender's gap is wider than its own tolerance
//! ([`Evidence::beyond_tolerance`] is true only if both hold). This detector keeps no state.
//!
//! **Source:** ORNIC §3.3 (OTD).

use crate::{Evidence, LateArrival, LossDetector};

/// A loss detector that follows the receiver's reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceiverDistance;

impl ReceiverDistance {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "receiver";
}

impl LossDetector for ReceiverDistance {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn compares_across_paths(&self) -> bool {
        true
    }

    fn is_lost(&mut self, evidence: &Evidence) -> bool {
        evidence.beyond_tolerance
    }

    fn on_reordering(&mut self, _late: &LateArrival) {}
}

#[cfg(test)]
mod tests;
