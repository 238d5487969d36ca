//! Back-off of a message that was refused because it came before others.

use super::Message;
use crate::pool::Index;

/// A message that came before others skips at most `2^7` retry times. Dozens of them may wait, and
/// if the window has room for one packet each attempt takes a round trip.
const PASSES_MAX: u8 = 8;
/// The same with [`InjectedBug::RetrySoon`] injected.
const PASSES_INJECTED: u8 = 5;

/// The back-off of a message that came before others: the correct one, or with an injected bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OvertakingPlan {
    Patient,
    /// Whenever the oldest message has completed, all begin again
    /// ([`InjectedBug::RetryAll`](crate::InjectedBug::RetryAll)).
    ForEachFirst,
    /// As `ForEachFirst`, and they wait less
    /// ([`InjectedBug::RetrySoon`](crate::InjectedBug::RetrySoon)).
    ForEachFirstSoon,
}

/// Refusals of a message that came before others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overtaking {
    /// Refusals in a row.
    refusals: u8,
    /// Number of retry times that the message still skips.
    passes: u8,
    /// The oldest message that it came before, if it was refused for that.
    first: Option<Index<Message>>,
}

impl Overtaking {
    pub(super) const NONE_YET: Overtaking = Overtaking { refusals: 0, passes: 0, first: None };

    /// Records that the message was refused because it came before others, of which `first` is the
    /// oldest. It is tried again at growing intervals (after 1, 1, 2, 4 and so on to 128 waits)
    /// until enough of those have completed: each attempt takes a slot, and room on the wire, from
    /// them.
    pub(super) fn note(&mut self, first: Option<Index<Message>>, plan: OvertakingPlan) {
        let (again, most) = match plan {
            OvertakingPlan::Patient => (self.first.is_some(), PASSES_MAX),
            OvertakingPlan::ForEachFirst => (self.first == first, PASSES_MAX),
            OvertakingPlan::ForEachFirstSoon => (self.first == first, PASSES_INJECTED),
        };
        self.refusals = if again { (self.refusals + 1).min(most) } else { 0 };
        self.first = first;
        self.passes = ((1_u32 << self.refusals) >> 1) as u8;
    }

    /// True if the message was refused because it came before others.
    pub(super) fn has_happened(&self) -> bool {
        self.first.is_some()
    }

    /// Makes the message skip no more retry times.
    pub(super) fn skip_no_more(&mut self) {
        self.passes = 0;
    }

    /// Called when a retry time has come. True if the message skips it: it does while `first` is
    /// the oldest message that it came before. `goes` says whether it is tried when that has
    /// changed.
    pub(super) fn lets_pass(&mut self, first: Option<Index<Message>>, goes: bool) -> bool {
        if self.passes == 0 || (self.first != first && goes) {
            return false;
        }
        self.first = first;
        self.passes -= 1;
        true
    }
}
