//! Have I seen this before? Sometimes wrongly yes, never wrongly no.
//!
//! Eight bits per key it is made for and three hashes: when it holds that many keys, three in a
//! hundred others are taken for seen, `(1 − e^(−3/8))³ = 0.031`. Identifies the first packet of a
//! flow whose number is too wide for an array (SCR §4.3.3; §6.1 has these sizes for 8192 flows: 8
//! KB).
//!
//! **Source:** Bloom, *Space/time trade-offs in hash coding with allowable errors*, CACM 1970.

use alloc::boxed::Box;
use alloc::vec;

use super::hash::{mix, nth};

const HASHES: u32 = 3;
const WORD_BITS: usize = 64;

/// A set that may take a key for a member that is none.
#[derive(Clone, Debug)]
pub struct BloomFilter {
    words: Box<[u64]>,
}

impl BloomFilter {
    /// For `capacity` keys: a byte for each, in words of eight.
    pub fn new(capacity: usize) -> BloomFilter {
        BloomFilter { words: vec![0; capacity.div_ceil(8).max(1)].into_boxed_slice() }
    }

    /// Puts the key in. True if it was not there before: for certain, if true.
    pub fn insert(&mut self, key: u64) -> bool {
        let mut is_new = false;
        for (word, bit) in self.places(key) {
            is_new |= self.words[word] & bit == 0;
            self.words[word] |= bit;
        }
        is_new
    }

    /// Might the key be in it? For certain not, if false.
    pub fn contains(&self, key: u64) -> bool {
        self.places(key).iter().all(|(word, bit)| self.words[*word] & bit != 0)
    }

    /// Forgets all keys.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Bytes of memory that it took.
    pub fn state_bytes(&self) -> usize {
        core::mem::size_of_val(&*self.words)
    }

    fn places(&self, key: u64) -> [(usize, u64); HASHES as usize] {
        let mixed = mix(key);
        core::array::from_fn(|index| {
            let place = nth(mixed, index as u32, self.words.len() * WORD_BITS);
            (place / WORD_BITS, 1 << (place % WORD_BITS))
        })
    }
}

#[cfg(test)]
mod tests;
