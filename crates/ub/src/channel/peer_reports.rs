//! Counts in the peer's acknowledgements.

use fairway_wire::{Ack, Msn};

/// Running counts of the peer, modulo 256, as its acknowledgements have reported them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerReports {
    marks: u8,
    duplicates: u8,
    /// The newest message whose start the peer has recorded.
    start_known: Option<Msn>,
}

impl PeerReports {
    /// Packets with a congestion mark, and duplicates, that an acknowledgement reports for the
    /// first time.
    pub(super) fn count(&mut self, ack: &Ack) -> (u32, u32) {
        (
            Self::advance(&mut self.marks, ack.marks),
            Self::advance(&mut self.duplicates, ack.duplicates),
        )
    }

    /// Running counts of marks and of duplicates, as reported last.
    pub(super) fn counts(&self) -> (u8, u8) {
        (self.marks, self.duplicates)
    }

    /// Advances a count; an acknowledgement that was overtaken does not set it back.
    fn advance(count: &mut u8, to: u8) -> u32 {
        let new = to.wrapping_sub(*count);
        if new >= 128 {
            return 0;
        }
        *count = to;
        u32::from(new)
    }

    /// True if the peer has not reported before that it has recorded where this message starts.
    pub(super) fn note_known(&mut self, message: Msn) -> bool {
        self.start_known.replace(message) != Some(message)
    }
}
