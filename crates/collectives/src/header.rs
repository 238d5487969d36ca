//! What a message between two ranks says about itself: 64 bits, which travel as immediate data.
//!
//! | bits | field |
//! |---|---|
//! | 0–2 | content |
//! | 3–14 | number of the call, of those with messages between the two ranks, modulo 2^12 |
//! | 15 | 1 if the call is a send or receive: those have numbers of their own, for each direction |
//! | 16–31 | digest of the call, and of those without messages that came directly before it |
//! | 32–39 | slot |
//! | 40–63 | number of the message from this rank to that one in the call |
//!
//! A message that returns slots has a mask of them in bits 32 to 63; one which reports that the
//! group is over has the rank to blame in bits 32 to 55 and a reason in bits 56 to 63.
//!
//! Each message occupies a slot until its receiver has handled it, so a rank is fewer calls ahead
//! of another one than there are slots. A call without messages between the two would not be
//! bounded in that way, and takes no number.

use crate::call::Digest;

/// Number of calls after which their numbers repeat.
pub(crate) const CALLS: u32 = 1 << 12;

/// The bit of a number that sends and receives have.
pub(crate) const PAIRWISE: u32 = CALLS;

/// Number of different values of a call's number.
pub(crate) const SEQUENCES: u32 = 2 * CALLS;

/// Maximum number of messages from one rank to another in a call.
pub(crate) const MESSAGES_MAX: u32 = 1 << 24;

/// What a message brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes in the slot.
    Slot,
    /// Bytes in their place in the output buffer.
    Placed,
    /// The slot has the key of the output buffer, so that bytes can be placed there.
    Key,
    /// Slots that may be used again.
    Freed,
    /// The end of the group.
    Failed,
    /// The slot names bytes in the sender's memory, which the receiver is to read from there. They
    /// are the receiver's to read until it returns the slot.
    Lent,
}

const CONTENTS: [Content; 6] =
    [Content::Slot, Content::Placed, Content::Key, Content::Freed, Content::Failed, Content::Lent];

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the message brings.
    pub content: Content,
    /// Number of the call between the two ranks.
    pub(crate) sequence: u32,
    /// Digest of the call.
    pub(crate) digest: Digest,
    /// The slot that the message occupies.
    pub slot: u8,
    /// Number of the message.
    pub(crate) number: u32,
}

impl Header {
    /// A message that returns the slots of `mask`.
    pub(crate) fn freed(mask: u32) -> Header {
        Header::with_word(Content::Freed, mask)
    }

    /// A message which reports that the group is over: `rank`, of which 24 bits are kept, is to
    /// blame, and `reason` is a number of the caller's.
    pub fn failed(rank: u32, reason: u8) -> Header {
        Header::with_word(Content::Failed, u32::from(reason) << 24 | rank & 0xff_ffff)
    }

    fn with_word(content: Content, word: u32) -> Header {
        let (slot, number) = (word as u8, word >> 8);
        Header { content, sequence: 0, digest: Digest(0), slot, number }
    }

    /// The mask or rank of a message made by [`Header::freed`] or [`Header::failed`].
    pub(crate) fn word(self) -> u32 {
        self.number << 8 | u32::from(self.slot)
    }

    /// Encodes the header.
    pub fn to_bits(self) -> u64 {
        let content = CONTENTS.iter().position(|content| *content == self.content);
        content.expect("every content is listed") as u64
            | u64::from(self.sequence % SEQUENCES) << 3
            | u64::from(self.digest.0) << 16
            | u64::from(self.slot) << 32
            | u64::from(self.number) << 40
    }

    /// Decodes a header; `None` if there is no such content.
    pub fn from_bits(bits: u64) -> Option<Header> {
        Some(Header {
            content: *CONTENTS.get((bits & 7) as usize)?,
            sequence: (bits >> 3) as u32 % SEQUENCES,
            digest: Digest((bits >> 16) as u16),
            slot: (bits >> 32) as u8,
            number: (bits >> 40) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_is_decoded_as_it_was_encoded() {
        for content in CONTENTS {
            for (sequence, digest, slot, number) in
                [(0, 0, 0, 0), (SEQUENCES - 1, u16::MAX, u8::MAX, MESSAGES_MAX - 1), (5, 6, 7, 8)]
            {
                let header = Header { content, sequence, digest: Digest(digest), slot, number };
                assert_eq!(Header::from_bits(header.to_bits()), Some(header));
            }
        }
        assert_eq!(Header::from_bits(7), None);
        assert_eq!(Header::freed(0xdead_beef).word(), 0xdead_beef);
    }
}
