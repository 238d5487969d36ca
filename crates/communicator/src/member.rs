//! What a rank tells the others at the rendezvous.

use crate::lending::SealKey;
use fairway::SegmentKey;
use std::net::SocketAddr;

/// First bytes of a record. The last one is the version.
const MAGIC: [u8; 4] = *b"FWM\x02";

/// One rank, as the others need to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Where its NIC listens.
    pub(crate) address: SocketAddr,
    /// A number of its host, equal for ranks of one host.
    pub(crate) host: u64,
    /// Number and token of its Jetty.
    pub(crate) jetty: u32,
    pub(crate) token: u32,
    /// Slots for messages.
    pub(crate) slots: SegmentKey,
    /// Descriptions of its calls.
    pub(crate) status: SegmentKey,
    /// Number and length of its slots.
    pub(crate) shape: (u32, u32),
    /// By which the other ranks of its host read what it lends.
    pub(crate) seal: SealKey,
}

impl Member {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.host.to_be_bytes());
        let process = self.seal.process;
        for word in [self.jetty, self.token, self.shape.0, self.shape.1, process] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(self.seal.address.to_be_bytes());
        bytes.extend(self.seal.value.to_be_bytes());
        bytes.extend(self.slots.to_bytes());
        bytes.extend(self.status.to_bytes());
        bytes.extend(self.address.to_string().as_bytes());
        bytes
    }

    /// Decodes a record; `None` if it is none of this version.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Member> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (host, rest) = rest.split_first_chunk::<8>()?;
        let mut words = [0; 5];
        let mut rest = rest;
        for word in &mut words {
            let (bytes, after) = rest.split_first_chunk::<4>()?;
            (*word, rest) = (u32::from_be_bytes(*bytes), after);
        }
        let (address, rest) = rest.split_first_chunk::<8>()?;
        let (value, rest) = rest.split_first_chunk::<8>()?;
        let (address, value) = (u64::from_be_bytes(*address), u64::from_be_bytes(*value));
        let (slots, rest) = rest.split_first_chunk::<{ SegmentKey::BYTES }>()?;
        let (status, rest) = rest.split_first_chunk::<{ SegmentKey::BYTES }>()?;
        Some(Member {
            address: str::from_utf8(rest).ok()?.parse().ok()?,
            host: u64::from_be_bytes(*host),
            jetty: words[0],
            token: words[1],
            slots: SegmentKey::from_bytes(slots),
            status: SegmentKey::from_bytes(status),
            shape: (words[2], words[3]),
            seal: SealKey { process: words[4], address, value },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_decoded_as_they_were_encoded_and_others_refused() {
        let key = |word| SegmentKey { token_id: word, token_value: 2, address: 3, length: 4 };
        let address = "[fe80::1%3]:4810".parse().unwrap_or_else(|_| ([127, 0, 0, 1], 4810).into());
        let (slots, status) = (key(5), key(6));
        let seal = SealKey { process: 10, address: 11, value: 12 };
        let (host, jetty, token, shape) = (7, 8, 9, (1, 2));
        let member = Member { address, host, jetty, token, slots, status, shape, seal };
        let bytes = member.to_bytes();
        assert_eq!(Member::from_bytes(&bytes), Some(member));
        for end in 0..MAGIC.len() + 92 {
            assert_eq!(Member::from_bytes(&bytes[..end]), None, "{end} bytes");
        }
        assert_eq!(Member::from_bytes(b"GET / HTTP/1.1"), None);
    }
}
