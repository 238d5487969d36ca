//! Receives that are set aside for messages that are not next in order yet.

use crate::jetty::Receive;
use crate::pool::Index;
use fairway_wire::JettyId;

/// A tracker's receives that are set aside for messages in the order of their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserved {
    /// The first of the receives that are set aside, a linked list.
    pub(crate) first: Option<Index<Receive>>,
    /// The Jetty that owns these receives and to which `given` refers.
    pub(crate) jetty: JettyId,
    /// Every message before this one was given a receive, or one is set aside for it.
    pub(crate) given: u16,
    /// Messages before this one may have lost the receive that was set aside for them.
    pub(crate) deprived: u16,
}

impl Reserved {
    pub(crate) const NEW: Reserved =
        Reserved { first: None, jetty: JettyId::new(0), given: 0, deprived: 0 };

    /// Notes that the turn of all messages before `next` has passed.
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
