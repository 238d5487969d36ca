//! Channel numbers that peers use: a secret permutation of those that the protocol uses.
//!
//! The protocol numbers its channels consecutively, so that its numbers can be looked up without a
//! search, but they are easily guessed. The peer is given the number after encryption by a Feistel
//! network of four rounds, with keys drawn at every start: the result is any 24-bit number, and no
//! two are equal.

use fairway_ub::wire::Tpn;

/// A permutation of all channel numbers.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    keys: [u32; 4],
}

/// Number of bits in half of a channel number.
const HALF_BITS: u32 = 12;
const HALF: u32 = (1 << HALF_BITS) - 1;

impl Numbers {
    /// Draws the keys from `random`, which must come from the system's random source.
    pub(crate) fn new(random: [u8; 16]) -> Numbers {
        let key = |at: usize| [0, 1, 2, 3].map(|byte| random[4 * at + byte]);
        Numbers { keys: [0, 1, 2, 3].map(|at| u32::from_le_bytes(key(at))) }
    }

    /// Returns the number by which the peer names a local channel.
    pub(crate) fn peer_number(&self, own: Tpn) -> Tpn {
        let (mut high, mut low) = (own.value() >> HALF_BITS, own.value() & HALF);
        for key in self.keys {
            (high, low) = (low, high ^ scramble(low, key));
        }
        Tpn::new(high << HALF_BITS | low)
    }

    /// Returns the local number of the channel that the peer names by `peer_number`.
    pub(crate) fn own(&self, peer_number: Tpn) -> Tpn {
        let (mut high, mut low) = (peer_number.value() >> HALF_BITS, peer_number.value() & HALF);
        for key in self.keys.into_iter().rev() {
            (high, low) = (low ^ scramble(high, key), high);
        }
        Tpn::new(high << HALF_BITS | low)
    }
}

impl std::fmt::Debug for Numbers {
    /// Prints no keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Numbers").finish_non_exhaustive()
    }
}

/// Returns twelve bits that depend on all bits of half a number and of a key (the finishing steps
/// of MurmurHash3).
fn scramble(half: u32, key: u32) -> u32 {
    let mixed = (half ^ key).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae35);
    mixed >> (32 - HALF_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_maps_to_another_and_back() {
        let numbers = Numbers::new(*b"sixteen bytes of");
        let mut seen = vec![false; 1 << 24];
        for own in (0..1 << 24).map(Tpn::new) {
            let peer_number = numbers.peer_number(own);
            assert_eq!(numbers.own(peer_number), own);
            let seen = &mut seen[peer_number.value() as usize];
            assert!(!*seen, "{peer_number:?} is given twice");
            *seen = true;
        }
    }

    #[test]
    fn first_channels_of_two_nodes_have_unlike_numbers() {
        let first = |byte: u8| Numbers::new([byte; 16]).peer_number(Tpn::new(0x01_0000)).value();
        let numbers: std::collections::BTreeSet<u32> = (0..64).map(first).collect();
        assert!(numbers.len() > 60, "{numbers:?}");
    }
}
