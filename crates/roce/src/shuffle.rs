//! Numbers in an order that cannot be predicted.

#![allow(deprecated)] // `SipHasher`: the only keyed hash of the core library.

use alloc::vec::Vec;
use core::hash::{Hasher, SipHasher};

/// Returns the numbers from `first` up to `end`, without `end`, in an order that is drawn from all
/// orders by SipHash-2-4 of a counter. The order cannot be predicted without `seed`, whichever part
/// of it is known.
pub fn shuffled(first: u32, end: u32, seed: u64) -> Vec<u32> {
    let key = SipHasher::new_with_keys(seed, !seed);
    let mut numbers: Vec<u32> = (first..end).collect();
    for last in (1..numbers.len()).rev() {
        let mut hasher = key.clone();
        hasher.write_u64(last as u64);
        // The bias of the remainder is at most the length of the list in 2^64.
        numbers.swap(last, (hasher.finish() % (last as u64 + 1)) as usize);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once_and_no_two_follow_one_another_as_before() {
        let numbers = shuffled(2, 65_536, 7);
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(2..65_536));
        let follow = numbers.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 64).count();
        // On average 127 of 65,533 pairs.
        assert!(follow < 200, "{follow}");
        assert_ne!(numbers[..8], shuffled(2, 65_536, 8)[..8]);
        assert_eq!(numbers, shuffled(2, 65_536, 7));
    }

    #[test]
    fn short_lists_are_shuffled_too() {
        assert!(shuffled(5, 5, 1).is_empty());
        assert_eq!(shuffled(5, 6, 1), [5]);
        let swapped = (0..1000).filter(|seed| shuffled(0, 2, *seed) == [1, 0]).count();
        assert!((400..600).contains(&swapped), "{swapped}");
    }
}
