//! Finds pooled records by their key: hash chains threaded through the records themselves.
//!
//! Chains rather than open addressing, because the records sit in pools anyway: removing one moves
//! nothing, the index is never full, and there are at least two heads per record, so a chain is
//! hardly ever longer than three. Where a peer chooses the keys, [`HashIndex::has_room`] bounds the
//! chain, and with it every look-up.

use crate::pool::{Index, Pool};
use alloc::vec::Vec;

/// Longest chain of records whose keys a peer chooses.
const CHAIN_MAX: u32 = 32;

/// A record that can be in one [`HashIndex`].
pub(super) trait Chained: Sized {
    /// The field for the next record of its chain.
    fn chain(&mut self) -> &mut Option<Index<Self>>;
    /// The next record of its chain.
    fn next(&self) -> Option<Index<Self>>;
}

/// The heads of the chains. Memory is allocated once.
#[derive(Debug)]
pub(super) struct HashIndex<T> {
    heads: Vec<Option<Index<T>>>,
}

impl<T: Chained> HashIndex<T> {
    pub(super) fn new(capacity: u32) -> Self {
        let heads = (capacity as usize * 2).next_power_of_two();
        HashIndex { heads: alloc::vec![None; heads] }
    }

    /// The records of a chain, in order.
    fn chain<'a>(&self, records: &'a Pool<T>, hash: u64) -> impl Iterator<Item = Index<T>> + 'a {
        let first = self.heads[self.head(hash)];
        core::iter::successors(first, |&at| records[at].next())
    }

    pub(super) fn find(
        &self,
        records: &Pool<T>,
        hash: u64,
        matches: impl Fn(&T) -> bool,
    ) -> Option<Index<T>> {
        self.chain(records, hash).find(|&at| matches(&records[at]))
    }

    pub(super) fn insert(&mut self, records: &mut Pool<T>, hash: u64, index: Index<T>) {
        let head = self.head(hash);
        *records[index].chain() = self.heads[head].replace(index);
    }

    pub(super) fn remove(&mut self, records: &mut Pool<T>, hash: u64, index: Index<T>) {
        let head = self.head(hash);
        let next = records[index].chain().take();
        if self.heads[head] == Some(index) {
            self.heads[head] = next;
            return;
        }
        let before = self.chain(records, hash).find(|&at| records[at].next() == Some(index));
        match before {
            Some(before) => *records[before].chain() = next,
            None => debug_assert!(false, "record {index:?} is not in the index"),
        }
    }

    /// True if another record with this hash may be inserted without making look-ups slow.
    pub(super) fn has_room(&self, records: &Pool<T>, hash: u64) -> bool {
        self.chain(records, hash).take(CHAIN_MAX as usize).count() < CHAIN_MAX as usize
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
