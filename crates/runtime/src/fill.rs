//! Fills packets up to the length of those before them, so that one call sends them all.
//!
//! The kernel cuts what a call sends at equal distances, so a packet that is shorter than the one
//! before it ends a call. A call costs as much as copying 20 KiB. The end of a fill is the length
//! of the packet, by which its receiver removes the rest ([`fairway_wire::unfilled_len`]).

use fairway_port::Train;
use fairway_wire::fill_end;

/// Part of a packet's length by which a packet on a network may be filled.
const NETWORK_PART: usize = 32;

/// By how much packets to a destination may be filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fill {
    /// Not at all: the peer does not expect it.
    #[default]
    Never,
    /// By a few percent: a network carries the bytes.
    Sparingly,
    /// By as much as the packet is long that joins because of it: the destination is this host, and
    /// no network carries the bytes.
    Freely,
}

impl Fill {
    /// Fills the last packet of `train`, which is shorter than the others, if a packet of `next`
    /// bytes may follow it then.
    pub(crate) fn apply(self, train: &mut Train, next: usize) {
        let most = match self {
            Fill::Never => 0,
            Fill::Sparingly => train.segment_size() / NETWORK_PART,
            Fill::Freely => next,
        };
        let last = train.packet_len(train.len() - 1);
        train.fill_last(most, next, fill_end(last));
    }
}
