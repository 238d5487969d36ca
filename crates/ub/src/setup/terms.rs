//! The terms of a channel that both sides know, and from which they derive the key of its header
//! checks.

use fairway_wire::{Cna, KEY_LEN, Tpn};

/// The terms that both sides know of a channel which they set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The nonce of the HELLO.
    pub nonce: u64,
    /// The client's end.
    pub client: End,
    /// The server's end.
    pub server: End,
}

/// One end of a channel, as the other side knows it from CONFIRM or ACCEPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The node address.
    pub cna: Cna,
    /// The channel number.
    pub tpn: Tpn,
    /// The public key.
    pub key: [u8; KEY_LEN],
}

/// Bytes of an end: node address, channel number, public key.
const END_BYTES: usize = 8 + KEY_LEN;
/// Bytes of the terms: the nonce and both ends.
const TERMS_BYTES: usize = 8 + 2 * END_BYTES;

impl Terms {
    /// The terms as both sides hash them: nonce, client's end, server's end, all big-endian.
    pub fn bytes(&self) -> [u8; TERMS_BYTES] {
        let mut bytes = [0; TERMS_BYTES];
        bytes[..8].copy_from_slice(&self.nonce.to_be_bytes());
        let ends = [&self.client, &self.server];
        for (room, end) in bytes[8..].chunks_exact_mut(END_BYTES).zip(ends) {
            room[..4].copy_from_slice(&end.cna.value().to_be_bytes());
            room[4..8].copy_from_slice(&end.tpn.value().to_be_bytes());
            room[8..].copy_from_slice(&end.key);
        }
        bytes
    }
}
