//! Bloom filter: a set with false positives and without false negatives.
//!
//! The filter has eight bits per key of its capacity and three hashes. When it is full, three
//! percent of other keys are reported as members, `(1 − e^(−3/8))³ = 0.031`. It identifies the
//! first packet of a flow whose number is too wide for an array (SCR §4.3.3; §6.1 has these sizes
//! for 8192 flows: 8 KB).
//!
//! **Source:** Bloom, *Space/time trade-offs in hash coding with allowable errors*, CACM 1970.

use alloc::boxed::Box;
use alloc::vec;

use super::hash::{mix, nth};

const HASHES: u32 = 3;
const WORD_BITS: usize = 64;

/// A set that may report a key as a member although it is not.
#[derive(Clone, Debug)]
pub struct BloomFilter {
    words: Box<[u64]>,
}

impl BloomFilter {
    /// Creates a filter for `capacity` keys: one byte per key, in words of eight.
    pub fn new(capacity: usize) -> BloomFilter {
        BloomFilter { words: vec![0; capacity.div_ceil(8).max(1)].into_boxed_slice() }
    }

    /// Adds the key. Returns true if it was certainly not a member before.
    pub fn insert(&mut self, key: u64) -> bool {
        let mut is_new = false;
        for (word, bit) in self.places(key) {
            is_new |= self.words[word] & bit == 0;
            self.words[word] |= bit;
        }
        is_new
    }

    /// Whether the key may be a member. False means that it certainly is not.
    pub fn contains(&self, key: u64) -> bool {
        self.places(key).iter().all(|(word, bit)| self.words[*word] & bit != 0)
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Allocated memory in bytes.
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
