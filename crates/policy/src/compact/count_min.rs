//! How much of each? Never too little, seldom much too much.
//!
//! `depth` rows of `width` counters; a key has one counter in each row, and what it counted is at
//! most the least of them. With `N` added in all, the estimate is more than `e · N / width` too
//! high with a chance of at most `e^(−depth)`. Adding raises a key's counters no further than to
//! its new estimate, which leaves that as it is and makes those of other keys smaller (conservative
//! update).
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
    /// `depth` rows of `width` counters of eight bytes, at least one of each.
    pub fn new(width: usize, depth: usize) -> CountMin {
        let width = width.max(1);
        CountMin { counters: vec![0; width * depth.max(1)].into_boxed_slice(), width }
    }

    /// Adds `amount` to the sum of `key`, and returns the estimate of it.
    pub fn add(&mut self, key: u64, amount: u64) -> u64 {
        let sum = self.estimate(key).saturating_add(amount);
        let mixed = mix(key);
        for (row, counters) in self.counters.chunks_exact_mut(self.width).enumerate() {
            let counter = &mut counters[nth(mixed, row as u32, self.width)];
            *counter = (*counter).max(sum);
        }
        sum
    }

    /// What was added to `key`, or more.
    pub fn estimate(&self, key: u64) -> u64 {
        let mixed = mix(key);
        let rows = self.counters.chunks_exact(self.width).enumerate();
        let counted = rows.map(|(row, counters)| counters[nth(mixed, row as u32, self.width)]);
        counted.min().unwrap_or(0)
    }

    /// Halves every sum: what is old counts less and less.
    pub fn halve(&mut self) {
        self.counters.iter_mut().for_each(|counter| *counter /= 2);
    }

    /// Forgets all sums.
    pub fn clear(&mut self) {
        self.counters.fill(0);
    }

    /// Bytes of memory that it took.
    pub fn state_bytes(&self) -> usize {
        core::mem::size_of_val(&*self.counters)
    }
}

#[cfg(test)]
mod tests;
