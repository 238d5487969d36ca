//! What a message says of itself beside its bytes: the 64 bits of immediate data it carries.
//!
//! Bits 0 to 31 are immediate data or a key, 32 to 34 say which, and bit 35 that the receiver is to
//! be woken.

use fairway_engine::wire::roce::Tail;
use fairway_roce::CompletionKind;

/// What kind of message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    Send,
    Immediate(u32),
    Invalidate(u32),
    /// A WRITE with immediate data.
    Write(u32),
}

const SOLICITED: u64 = 1 << 35;

impl Note {
    pub(super) fn of(tail: &Tail) -> Note {
        match *tail {
            Tail::Nothing => Note::Send,
            Tail::Immediate(value) => Note::Immediate(value),
            Tail::Invalidate(key) => Note::Invalidate(key),
        }
    }

    pub(super) fn encode(self, solicited: bool) -> u64 {
        let (kind, value) = match self {
            Note::Send => (0, 0),
            Note::Immediate(value) => (1, value),
            Note::Invalidate(key) => (2, key),
            Note::Write(value) => (3, value),
        };
        kind << 32 | u64::from(value) | if solicited { SOLICITED } else { 0 }
    }

    /// What any 64 bits mean, and whether the receiver is to be woken.
    pub(super) fn decode(bits: u64) -> (Note, bool) {
        let value = bits as u32;
        let note = match bits >> 32 & 7 {
            1 => Note::Immediate(value),
            2 => Note::Invalidate(value),
            3 => Note::Write(value),
            _ => Note::Send,
        };
        (note, bits & SOLICITED != 0)
    }

    pub(super) fn kind(self) -> CompletionKind {
        match self {
            Note::Write(_) => CompletionKind::ReceiveWrite,
            Note::Send | Note::Immediate(_) | Note::Invalidate(_) => CompletionKind::Receive,
        }
    }

    pub(super) fn tail(self) -> Tail {
        match self {
            Note::Send => Tail::Nothing,
            Note::Immediate(value) | Note::Write(value) => Tail::Immediate(value),
            Note::Invalidate(key) => Tail::Invalidate(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_survives_the_wire() {
        for note in
            [Note::Send, Note::Immediate(u32::MAX), Note::Invalidate(0x1234_5678), Note::Write(0)]
        {
            for solicited in [false, true] {
                assert_eq!(Note::decode(note.encode(solicited)), (note, solicited));
            }
        }
    }
}
