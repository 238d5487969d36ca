//! Segment keys: the data with which a peer can access a segment.

use std::fmt;
use std::str::FromStr;

use fairway_ub::RemoteRange;
use fairway_ub::wire::TokenId;

/// The key to a segment: a peer that has it may access the segment as its rights allow. Send it to
/// peers by any means, as 24 bytes or as text (48 hexadecimal digits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SegmentKey {
    /// The segment's number at its node.
    pub token_id: u32,
    /// The secret that authorises access.
    pub token_value: u32,
    /// The address of the first byte in the peers' address space.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
}

impl SegmentKey {
    /// Length of the encoding in bytes.
    pub const BYTES: usize = 24;

    /// Encodes the key: four big-endian fields, in the order above.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.token_id.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.token_value.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.address.to_be_bytes());
        bytes[16..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Decodes a key; the inverse of [`SegmentKey::to_bytes`]. Every byte string is some key.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        SegmentKey { token_id: word(0), token_value: word(4), address: long(8), length: long(16) }
    }

    /// Returns the place `offset` bytes into the segment. The owner of the segment checks it when
    /// it is accessed.
    pub fn at(&self, offset: u64) -> RemoteSlice {
        RemoteSlice { key: *self, offset }
    }
}

/// A place in a peer's segment. The length of an access is that of the operation's local side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteSlice {
    /// The segment.
    pub key: SegmentKey,
    /// Offset from the segment's start, in bytes.
    pub offset: u64,
}

impl RemoteSlice {
    pub(crate) fn range(&self) -> RemoteRange {
        RemoteRange {
            token_id: TokenId::new(self.key.token_id),
            token_value: self.key.token_value,
            // Overflow wraps to an address outside the segment, which its owner refuses.
            address: self.key.address.wrapping_add(self.offset),
        }
    }
}

impl From<SegmentKey> for RemoteSlice {
    fn from(key: SegmentKey) -> Self {
        key.at(0)
    }
}

impl From<&SegmentKey> for RemoteSlice {
    fn from(key: &SegmentKey) -> Self {
        key.at(0)
    }
}

impl fmt::Display for SegmentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Error for a text that is not a segment key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyError;

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a segment key is 48 hexadecimal digits: copy it whole")
    }
}

impl std::error::Error for KeyError {}

impl FromStr for SegmentKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let text = text.trim().as_bytes();
        if text.len() != 2 * Self::BYTES {
            return Err(KeyError);
        }
        let mut bytes = [0; Self::BYTES];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16).ok_or(KeyError);
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        Ok(SegmentKey::from_bytes(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: SegmentKey = SegmentKey {
        token_id: 0x0001_2345,
        token_value: 0xdead_beef,
        address: 0x1122_3344_5566_7788,
        length: 4096,
    };

    #[test]
    fn a_key_survives_bytes_and_text() {
        assert_eq!(SegmentKey::from_bytes(&KEY.to_bytes()), KEY);
        let text = KEY.to_string();
        assert_eq!(text, "00012345deadbeef11223344556677880000000000001000");
        assert_eq!(text.parse(), Ok(KEY));
        assert_eq!(format!(" {}\n", text.to_uppercase()).parse(), Ok(KEY));
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "00", &"g".repeat(48), &"0".repeat(49), &"é".repeat(24)] {
            assert_eq!(text.parse::<SegmentKey>(), Err(KeyError));
        }
    }
}
