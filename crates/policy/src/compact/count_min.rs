//! Count-min sketch: sums per key that are never too small and seldom much too large.
//!
//! A sketch has `depth` rows of `width` counters. A key has one counter in each row, and its sum is
//! at most the smallest of them. With `N` added in all, the probability that an estimate is more
//! than `e · N / width` too high is at most `e^(−depth)`. Adding raises a key's counters only up to
//! its new estimate, which leaves that estimate unchanged and makes those of other keys smaller
//! (conservative update).
//!
//! **Source:** Cormode and Muthukrishnan, *An improved data stream summary: the count-min sketch
//! and its applications*, 2005; Estan and Varghese, *New directions in traffic measurement and
//! accounting*, SIGCOMM 2002. SCR §4.3.3 estimates cumulative values with it.

use alloc::boxed::Box;
use alloc::vec;

use super::hash::{mix, nth};

/// A sketch of the sums of many keys.
#[derive(Clone, Debug)]
pub struct CountMin {
    counters: Box<[u64]>,
    width: usize,
}

impl CountMin {
    /// Creates `depth` rows of `width` counters of eight bytes, at least one of each.
    pub fn new(width: usize, depth: usize) -> CountMin {
        let width = width.max(1);
        CountMin { counters: vec![0; width * depth.max(1)].into_boxed_slice(), width }
    }

    /// Adds `amount` to the sum of `key`, and returns the new estimate of the sum.
    pub fn add(&mut self, key: u64, amount: u64) -> u64 {
        let sum = self.estimate(key).saturating_add(amount);
        let mixed = mix(key);
        for (row, counters) in self.counters.chunks_exact_mut(self.width).enumerate() {
            let counter = &mut counters[nth(mixed, row as u32, self.width)];
            *counter = (*counter).max(sum);
        }
        sum
    }

    /// The estimated sum of `key`, which is never below the true sum.
    pub fn estimate(&self, key: u64) -> u64 {
        let mixed = mix(key);
        let rows = self.counters.chunks_exact(self.width).enumerate();
        let counted = rows.map(|(row, counters)| counters[nth(mixed, row as u32, self.width)]);
        counted.min().unwrap_or(0)
    }

    /// Halves every sum, so that old amounts lose weight.
    pub fn halve(&mut self) {
        self.counters.iter_mut().for_each(|counter| *counter /= 2);
    }

    /// Sets all sums to zero.
    pub fn clear(&mut self) {
        self.counters.fill(0);
    }

    /// Allocated memory in bytes.
    pub fn state_bytes(&self) -> usize {
        core::mem::size_of_val(&*self.counters)
    }
}

#[cfg(test)]
mod tests;
