//! Receives that are set aside for messages whose turn has not come.

use crate::jetty::Receive;
use crate::pool::Index;
use fairway_wire::JettyId;

/// What a tracker knows of receives that are set aside for messages in the order of their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserved {
    /// The first of the receives that are set aside, linked.
    pub(crate) first: Option<Index<Receive>>,
    /// Whose they are, and of whose receives `given` speaks.
    pub(crate) jetty: JettyId,
    /// Messages before this one were given a receive, or one is set aside for them.
    pub(crate) given: u16,
    /// Messages before this one may have lost the receive that was set aside for them.
    pub(crate) deprived: u16,
}

impl Reserved {
    pub(crate) const NEW: Reserved =
        Reserved { first: None, jetty: JettyId::new(0), given: 0, deprived: 0 };

    /// The turn of those before this one has passed.
    pub(crate) fn pass(&mut self, next: u16) {
        if is_after(next, self.given) {
            self.given = next;
        }
        if is_after(next, self.deprived) {
            self.deprived = next;
        }
    }
}

pub(crate) fn is_after(sequence: u16, other: u16) -> bool {
    sequence.wrapping_sub(other) as i16 > 0
}
