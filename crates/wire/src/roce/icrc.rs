//! The invariant CRC: it covers everything in a packet that may not change on its way (IBTA vol 1,
//! 7.8.1 and Annex A17).

use super::codec::padding;
use super::crc32::{Crc32, injected};
use super::outer::{Network, Outer};
use super::{ICRC_LEN, MAX_HEADER};

/// Offset of the byte with FECN and BECN, which switches may set.
const BTH_CONGESTION: usize = 4;

/// Bytes of IPv4 and UDP headers from the identification field on.
const BEHIND_IDENTIFICATION: usize = 16 + 8;

/// Bytes of a datagram that are put together with the headers in front of it: so many that an
/// implementation by CPU instructions, which needs 128 bytes, takes all of them.
const LEAD: usize = 128;
const _: () = assert!(LEAD >= MAX_HEADER);

/// An invariant CRC that is being computed. The payload is added piece by piece, from wherever it
/// lies.
#[derive(Clone, Copy, Debug)]
pub struct Icrc(Crc32);

/// The end of a datagram: padding and CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    bytes: [u8; 3 + ICRC_LEN],
    padding: usize,
}

impl Trailer {
    /// The bytes that follow the payload: 4 to 7.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[3 - self.padding..]
    }
}

impl Icrc {
    /// Starts the CRC with the headers of a datagram of `datagram_len` bytes in all, padding and
    /// CRC included. `header` is the output of [`encode`](super::encode()), or the start of a
    /// datagram that arrived.
    pub fn new(outer: &Outer, header: &[u8], datagram_len: usize) -> Icrc {
        Self::new_with(outer, header, datagram_len, by_table)
    }

    /// The same by another implementation of CRC-32, such as CPU instructions. `update` receives
    /// the CRC-32 of the bytes so far and more bytes, and returns the CRC-32 of all of them.
    /// `header` may have payload behind it.
    pub fn new_with(
        outer: &Outer,
        header: &[u8],
        datagram_len: usize,
        update: impl Fn(u32, &[u8]) -> u32,
    ) -> Icrc {
        // The headers are put together so that one call adds them; the longest are LRH, IPv6 and
        // UDP.
        let mut start = [0; 8 + 40 + 8 + LEAD];
        let mut length = 0;
        outer.pseudo_header(datagram_len, |piece| {
            start[length..length + piece.len()].copy_from_slice(piece);
            length += piece.len();
        });
        let short = header.len().min(LEAD);
        let (first, rest) = header.split_at(short);
        start[length..length + short].copy_from_slice(first);
        if short > BTH_CONGESTION {
            start[length + BTH_CONGESTION] = 0xff;
        }
        let crc = update(Crc32::new().value(), &start[..length + short]);
        Icrc(Crc32::from_value(if rest.is_empty() { crc } else { update(crc, rest) }))
    }

    /// Adds the next piece of payload.
    pub fn update(&mut self, payload: &[u8]) {
        self.0.update(payload);
    }

    /// The CRC as it stands in the datagram, after payload *and padding* were added.
    pub const fn finish(self) -> [u8; ICRC_LEN] {
        self.0.value().to_le_bytes()
    }

    /// The padding (zeros) that `payload_len` bytes of payload need, and the CRC. Only the payload
    /// may have been added before.
    pub fn trailer(mut self, payload_len: usize) -> Trailer {
        let padding = padding(payload_len);
        self.update(&[0; 3][..padding]);
        let mut bytes = [0; 3 + ICRC_LEN];
        bytes[3..].copy_from_slice(&self.finish());
        Trailer { bytes, padding }
    }

    /// True if the last four bytes of a whole datagram are its CRC.
    pub fn verify(outer: &Outer, datagram: &[u8]) -> bool {
        Self::verify_with(outer, datagram, by_table)
    }

    /// Verifies the CRC by another implementation of CRC-32, as in [`Self::new_with`].
    pub fn verify_with(outer: &Outer, datagram: &[u8], update: impl Fn(u32, &[u8]) -> u32) -> bool {
        difference(outer, datagram, update) == Some(0)
    }

    /// The identification with which an IPv4 datagram's CRC is right, independent of the one in
    /// `outer`; `None` if no identification makes it right. For receivers behind a UDP socket,
    /// which does not show that field.
    ///
    /// A damaged datagram passes with a probability of 2^−16, and not 2^−32 as with
    /// [`Self::verify`]. `None` for IPv6, which has no such field.
    pub fn identification(outer: &Outer, datagram: &[u8]) -> Option<u16> {
        Self::identification_with(outer, datagram, by_table)
    }

    /// The same by another implementation of CRC-32, as in [`Self::verify_with`]. It is fastest if
    /// `outer` has the right identification.
    pub fn identification_with(
        outer: &Outer,
        datagram: &[u8],
        update: impl Fn(u32, &[u8]) -> u32,
    ) -> Option<u16> {
        let Network::V4 { identification, .. } = outer.network else { return None };
        let difference = difference(outer, datagram, update)?;
        if difference == 0 {
            return Some(identification);
        }
        let distance = BEHIND_IDENTIFICATION + datagram.len() - ICRC_LEN;
        let change = injected(difference, distance);
        let [first, second, 0, 0] = change.to_le_bytes() else { return None };
        Some(identification ^ u16::from_be_bytes([first, second]))
    }
}

/// The exclusive or of the CRC at a datagram's end and the CRC of its bytes. `None` if the datagram
/// is too short to have a CRC.
fn difference(outer: &Outer, datagram: &[u8], update: impl Fn(u32, &[u8]) -> u32) -> Option<u32> {
    let (covered, icrc) = datagram.split_last_chunk::<ICRC_LEN>()?;
    let computed = Icrc::new_with(outer, covered, datagram.len(), update);
    Some(u32::from_le_bytes(computed.finish()) ^ u32::from_le_bytes(*icrc))
}

fn by_table(crc: u32, bytes: &[u8]) -> u32 {
    let mut crc = Crc32::from_value(crc);
    crc.update(bytes);
    crc.value()
}
