//! Finds pooled records by their key: hash chains threaded through the records themselves.
//!
//! Chains rather than open addressing, because the records sit in pools anyway: taking one out
//! moves nothing, the index is never full, and there are at least two heads per record, so a chain
//! is hardly ever longer than three. Where a stranger chooses the keys, [`Index::has_room`] bounds
//! the chain, and with it every look-up.

use crate::pool::{NONE, Pool};
use alloc::vec::Vec;

/// No chain of records whose keys a stranger chooses gets longer.
const CHAIN_MAX: u32 = 32;

/// A record that can be in one [`Index`].
pub(super) trait Chained {
    /// Where the index of the next record of its chain is.
    fn chain(&mut self) -> &mut u32;
    /// The index of the next record of its chain.
    fn next(&self) -> u32;
}

/// The heads of the chains. Memory is taken once.
#[derive(Debug)]
pub(super) struct Index {
    heads: Vec<u32>,
}

impl Index {
    pub(super) fn new(capacity: u32) -> Self {
        let heads = (capacity as usize * 2).next_power_of_two();
        Index { heads: alloc::vec![NONE; heads] }
    }

    pub(super) fn find<T: Chained>(
        &self,
        records: &Pool<T>,
        hash: u64,
        matches: impl Fn(&T) -> bool,
    ) -> Option<u32> {
        let mut at = self.heads[self.head(hash)];
        while at != NONE {
            if matches(&records[at]) {
                return Some(at);
            }
            at = records[at].next();
        }
        None
    }

    pub(super) fn insert<T: Chained>(&mut self, records: &mut Pool<T>, hash: u64, index: u32) {
        let head = self.head(hash);
        *records[index].chain() = core::mem::replace(&mut self.heads[head], index);
    }

    pub(super) fn remove<T: Chained>(&mut self, records: &mut Pool<T>, hash: u64, index: u32) {
        let head = self.head(hash);
        let next = core::mem::replace(records[index].chain(), NONE);
        if self.heads[head] == index {
            self.heads[head] = next;
            return;
        }
        let mut at = self.heads[head];
        while at != NONE {
            if records[at].next() == index {
                *records[at].chain() = next;
                return;
            }
            at = records[at].next();
        }
        debug_assert!(false, "record {index} is not in the index");
    }

    /// May another record with this hash be inserted without making look-ups slow?
    pub(super) fn has_room<T: Chained>(&self, records: &Pool<T>, hash: u64) -> bool {
        let mut at = self.heads[self.head(hash)];
        for _ in 0..CHAIN_MAX {
            if at == NONE {
                return true;
            }
            at = records[at].next();
        }
        false
    }

    fn head(&self, hash: u64) -> usize {
        hash as usize & (self.heads.len() - 1)
    }
}

/// Mixes two words so that every bit of both moves every bit of the result (the finaliser of
/// SplitMix64).
pub(super) fn mix(first: u64, second: u64) -> u64 {
    let word = first ^ second.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}
