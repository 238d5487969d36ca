//! The memory of ranks: where slots, copies and buffers lie in a host's segment, and the check that
//! every byte is placed once.

use super::Member;
use crate::endpoint::SLOT_BITS;
use crate::group::{GroupPlan, Planned};
use crate::placement::Coverage;
use fairway_collectives::{Content, Header, Memory, Protocol, Source, Target, Write};

/// The pieces of a rank's memory, in their order in the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Piece {
    /// Slots for the messages of other ranks.
    Slots,
    /// Copies of short messages.
    Copies,
    /// The buffer that is input and output.
    Buffer,
}

/// Number of pieces of a rank.
pub(crate) const PIECES: u32 = 3;

/// Offset of a piece of the rank at this position of its host.
fn offset(place: u32, piece: Piece) -> u64 {
    u64::from(place * PIECES + piece as u32) << SLOT_BITS
}

impl Member {
    /// Where the slot of a message is in the memory of its receiver's host.
    pub(super) fn slot_of(&self, plan: &GroupPlan, to: u32, header: Header) -> u64 {
        offset(plan.place(to), Piece::Slots) + self.outbox.remote_slot_offset(header.slot)
    }

    /// Where the bytes of a message go in the memory of its receiver's host.
    pub(super) fn goal(&self, plan: &GroupPlan, write: &Write) -> u64 {
        match write.target {
            Target::Slot => self.slot_of(plan, write.to, write.header),
            Target::Output(at) => offset(plan.place(write.to), Piece::Buffer) + at,
            Target::Lent => unreachable!("no rank of a simulation lends its memory"),
        }
    }

    /// Offset and length of the local bytes of an operation of the rank at this position.
    pub(super) fn local(&self, place: u32, source: Source) -> (u64, u32) {
        match source {
            Source::Copied { at, bytes } => (offset(place, Piece::Copies) + at, bytes),
            Source::Own(_, Memory::Slot { from, slot, bytes }) => {
                (offset(place, Piece::Slots) + self.outbox.slot_offset(from, slot), bytes)
            }
            Source::Own(_, Memory::Input(span) | Memory::Output(span)) => {
                (offset(place, Piece::Buffer) + span.offset, span.bytes)
            }
            Source::Own(_, Memory::Lent { .. }) => unreachable!("no rank sends what is lent"),
            Source::Nothing => (offset(place, Piece::Slots), 0),
        }
    }
}

/// Bytes in the slots and in the buffer of a rank that are in place.
#[derive(Debug)]
pub(super) struct Places {
    slot_bytes: u32,
    slots: Coverage,
    buffer: Coverage,
}

impl Places {
    pub(super) fn new(slot_bytes: u32) -> Places {
        Places { slot_bytes, slots: Coverage::default(), buffer: Coverage::default() }
    }

    /// A message from another host has arrived, whose slot begins at `slot`.
    ///
    /// # Panics
    /// If some of its bytes are missing, or the slot has others.
    pub(super) fn arrive(&mut self, header: Header, slot: u64, bytes: u32) {
        match header.content {
            Content::Slot | Content::Key => {
                self.slots.take(slot, bytes);
                assert!(!self.slots.has_some(slot, self.slot_bytes), "a slot has one message");
            }
            // The call knows the places in the buffer.
            Content::Placed | Content::Freed | Content::Failed | Content::Lent => {}
        }
    }

    /// A call is done.
    ///
    /// # Panics
    /// If some bytes of the output are missing, or others were written.
    pub(super) fn end_call(&mut self, planned: &Planned, is_near: impl Fn(u32) -> bool) {
        if planned.protocol == Protocol::Direct {
            for (from, offset, bytes) in planned.schedule.placed() {
                if !is_near(from) {
                    self.buffer.take(offset, bytes);
                }
            }
        }
        assert!(self.buffer.is_empty(), "bytes that belong to no message: {:?}", self.buffer);
    }
}

impl super::Members {
    /// Records payload that is in place.
    ///
    /// # Panics
    /// If it does not belong there, or was placed there before.
    pub(crate) fn placed(&mut self, place: u64, length: u32) {
        let (number, within) = ((place >> SLOT_BITS) as u32, place & ((1 << SLOT_BITS) - 1));
        let Some(places) = &mut self.members[(number / PIECES) as usize].places else { return };
        match number % PIECES {
            piece if piece == Piece::Slots as u32 => places.slots.place(within, length),
            piece if piece == Piece::Buffer as u32 => places.buffer.place(within, length),
            piece => panic!("{length} bytes were placed at {within} of piece {piece}"),
        }
    }
}
