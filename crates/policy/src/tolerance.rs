//! The reorder tolerance, learned from experience; shared by the loss detectors.
//!
//! A packet that `distance` others have passed is lost if `distance ≥ tolerance`. The tolerance
//! starts at 3 (TCP's three duplicate acknowledgements, RFC 5681). A packet that arrives after `d`
//! others have passed it raises the tolerance to `d + 1`, up to 512. After 32 losses without such a
//! late arrival the tolerance falls by a quarter of what it has learned.
//!
//! A large tolerance must not leave detection to the timer when little is in flight. A packet that
//! was passed at all and is `rtts` smoothed round trips old is therefore lost as well (the idea of
//! RACK, RFC 8985); and so is a packet that none has passed on its own path, if a packet sent that
//! much later on another path has been acknowledged. `rtts` starts at 2 and learns in the same way,
//! up to 64, because a network that delays packets by a fixed time delays them by many round trips
//! once those are short. With a smaller limit each such packet would be sent twice and slow the
//! sender down, so that fewer packets follow by which a loss can be detected.

use fairway_wire::Duration;

use crate::Evidence;

/// The initial tolerance, in packets.
pub(crate) const TOLERANCE_MIN: u32 = 3;
/// The largest tolerance, in packets.
pub(crate) const TOLERANCE_MAX: u32 = 512;
/// The initial age limit, in smoothed round trips.
const RTTS_MIN: u32 = 2;
/// The largest age limit, in smoothed round trips.
const RTTS_MAX: u32 = 64;
/// Losses without a late arrival after which a quarter of what was learned is forgotten.
const LOSSES_TO_FORGET: u32 = 32;

/// The expected amount of reordering.
#[derive(Clone, Debug)]
pub(crate) struct Tolerance {
    packets: u32,
    rtts: u32,
    losses_in_row: u32,
}

impl Tolerance {
    pub(crate) fn new() -> Self {
        Tolerance { packets: TOLERANCE_MIN, rtts: RTTS_MIN, losses_in_row: 0 }
    }

    /// The current tolerance in packets.
    #[cfg(test)]
    pub(crate) fn packets(&self) -> u32 {
        self.packets
    }

    /// True if a packet that `distance` others have passed is lost.
    pub(crate) fn is_exceeded(&mut self, distance: u32, evidence: &Evidence) -> bool {
        let limit = evidence.smoothed_rtt.times(u64::from(self.rtts));
        let waited = if distance > 0 { evidence.age } else { evidence.overtaken_by };
        let overdue = limit > Duration::ZERO && waited >= limit;
        let lost = overdue || distance >= self.packets;
        if lost {
            self.count_loss();
        }
        lost
    }

    fn count_loss(&mut self) {
        let losses = self.losses_in_row + 1;
        if losses < LOSSES_TO_FORGET {
            self.losses_in_row = losses;
            return;
        }
        self.losses_in_row = 0;
        let forget = |learned: u32, least: u32| learned - (learned - least).div_ceil(4);
        self.packets = forget(self.packets, TOLERANCE_MIN);
        self.rtts = forget(self.rtts, RTTS_MIN);
    }

    /// Learns from a packet that arrived after `distance` others; `was_declared_lost` is true if it
    /// had been declared lost.
    pub(crate) fn learn(&mut self, distance: u32, was_declared_lost: bool) {
        self.losses_in_row = 0;
        let packets = self.packets;
        if was_declared_lost && distance < packets {
            // Its distance did not cause the declaration, so its age did.
            self.rtts = (self.rtts + 1).min(RTTS_MAX);
        }
        self.packets = packets.max(distance.saturating_add(1)).min(TOLERANCE_MAX);
    }
}

#[cfg(test)]
mod tests;
