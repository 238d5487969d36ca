//! Fills packets up to the length of those before them, so that one call sends them all.
//!
//! The kernel cuts what a call sends at equal distances, so a packet that is shorter than the one
//! before it ends a call, and a call takes 3 to 4 us. But a network carries the fill, too, also one
//! that a relay between two addresses of one host emulates; so the fill is short. Its end is the
//! length of the packet, by which the receiver removes it ([`fairway_wire::decode_filled`]).

use fairway_port::Train;
use fairway_wire::fill_end;

/// Part of a packet's length by which a packet may be filled, and number of bytes by which each
/// packet may: at 1 Gb/s they take less than 1 us, a third of the time of a call.
const PART: usize = 32;
const BYTES: usize = 96;

/// Fills the last packet of `train`, which is shorter than the others, if a packet of `next` bytes
/// may follow it then.
pub(crate) fn fill_last(train: &mut Train, next: usize) {
    let most = (train.segment_size() / PART).max(BYTES);
    let last = train.packet_len(train.len() - 1);
    train.fill_last(most, next, fill_end(last));
}
