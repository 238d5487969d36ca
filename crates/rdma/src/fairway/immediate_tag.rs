//! The 64 bits of immediate data of every SEND and WRITE_IMM between queue pairs.
//!
//! Bits 0 to 31 are the program's immediate data or a key, bits 32 to 34 the kind of message, and
//! bit 35 is set if the receiver is to be woken (a solicited event).

use fairway_roce::CompletionKind;
use fairway_ub::wire::roce::Tail;

/// The kind of a message, with its immediate data or key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImmediateTag {
    Send,
    Immediate(u32),
    Invalidate(u32),
    /// A WRITE with immediate data.
    Write(u32),
}

const SOLICITED: u64 = 1 << 35;

impl ImmediateTag {
    pub(super) fn of(tail: &Tail) -> ImmediateTag {
        match *tail {
            Tail::Nothing => ImmediateTag::Send,
            Tail::Immediate(value) => ImmediateTag::Immediate(value),
            Tail::Invalidate(key) => ImmediateTag::Invalidate(key),
        }
    }

    pub(super) fn encode(self, solicited: bool) -> u64 {
        let (kind, value) = match self {
            ImmediateTag::Send => (0, 0),
            ImmediateTag::Immediate(value) => (1, value),
            ImmediateTag::Invalidate(key) => (2, key),
            ImmediateTag::Write(value) => (3, value),
        };
        kind << 32 | u64::from(value) | if solicited { SOLICITED } else { 0 }
    }

    /// Decodes 64 bits. Returns the tag, and whether the receiver is to be woken.
    pub(super) fn decode(bits: u64) -> (ImmediateTag, bool) {
        let value = bits as u32;
        let tag = match bits >> 32 & 7 {
            1 => ImmediateTag::Immediate(value),
            2 => ImmediateTag::Invalidate(value),
            3 => ImmediateTag::Write(value),
            _ => ImmediateTag::Send,
        };
        (tag, bits & SOLICITED != 0)
    }

    pub(super) fn kind(self) -> CompletionKind {
        match self {
            ImmediateTag::Write(_) => CompletionKind::ReceiveWrite,
            ImmediateTag::Send | ImmediateTag::Immediate(_) | ImmediateTag::Invalidate(_) => {
                CompletionKind::Receive
            }
        }
    }

    pub(super) fn tail(self) -> Tail {
        match self {
            ImmediateTag::Send => Tail::Nothing,
            ImmediateTag::Immediate(value) | ImmediateTag::Write(value) => Tail::Immediate(value),
            ImmediateTag::Invalidate(key) => Tail::Invalidate(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_survives_the_wire() {
        for tag in [
            ImmediateTag::Send,
            ImmediateTag::Immediate(u32::MAX),
            ImmediateTag::Invalidate(0x1234_5678),
            ImmediateTag::Write(0),
        ] {
            for solicited in [false, true] {
                assert_eq!(ImmediateTag::decode(tag.encode(solicited)), (tag, solicited));
            }
        }
    }
}
