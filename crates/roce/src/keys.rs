//! Keys of registered memory: the segment's number, and a tag of [`KEY_TAG_BITS`] random bits.
//!
//! A peer that has the key of one registration must not be able to find those of others from it.

#![allow(deprecated)] // `SipHasher`: the only keyed hash of the core library.

use alloc::vec::Vec;
use core::hash::{Hasher, SipHasher};

/// Number of low bits of an R_Key that are a tag, drawn at random for every registration. The
/// segment's number is above them.
pub const KEY_TAG_BITS: u32 = 12;

/// All bits of a tag.
const TAG_MASK: u32 = (1 << KEY_TAG_BITS) - 1;

/// Returns the tag for a registration from a random number. It differs from `last`, the tag of the
/// segment number's last registration, because the key of that one must not give access any more.
pub fn key_tag(random: u64, last: Option<u32>) -> u32 {
    match last {
        None => random as u32 & TAG_MASK,
        // One of the other tags, all with the same probability.
        Some(last) => (last + 1 + (random % u64::from(TAG_MASK)) as u32) & TAG_MASK,
    }
}

/// Draws the tags of a device's keys: SipHash-2-4 of a counter, which cannot be predicted without
/// the seed.
#[derive(Debug)]
pub(crate) struct Tags {
    key: SipHasher,
    drawn: u64,
    /// The tag of the last registration, by segment.
    last: Vec<Option<u32>>,
}

impl Tags {
    pub(crate) fn new(seed: u64, segments: u32) -> Tags {
        let key = SipHasher::new_with_keys(seed, !seed);
        Tags { key, drawn: 0, last: alloc::vec![None; segments as usize] }
    }

    /// Returns the tag for a new registration of a segment's number.
    pub(crate) fn draw(&mut self, segment: usize) -> u32 {
        self.drawn += 1;
        let mut hasher = self.key.clone();
        hasher.write_u64(self.drawn);
        let tag = key_tag(hasher.finish(), self.last[segment]);
        self.last[segment] = Some(tag);
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn tag_is_any_but_the_last_one() {
        for last in [0, 7, TAG_MASK] {
            let tags: BTreeSet<_> =
                (0..u64::from(TAG_MASK)).map(|random| key_tag(random, Some(last))).collect();
            assert_eq!(tags.len(), TAG_MASK as usize);
            assert!(!tags.contains(&last) && tags.iter().all(|tag| *tag <= TAG_MASK));
        }
        assert_eq!(key_tag(u64::MAX, None), TAG_MASK);
    }

    #[test]
    fn tag_of_a_registration_does_not_follow_from_the_last_one() {
        let mut tags = Tags::new(5, 2);
        let drawn: Vec<u32> = (0..1000).map(|_| tags.draw(1)).collect();
        assert!(drawn.windows(2).all(|pair| pair[0] != pair[1]));
        let steps: BTreeSet<_> =
            drawn.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]) & TAG_MASK).collect();
        // 999 draws of 4,095 steps: on average 886 different ones.
        assert!(steps.len() > 800, "{}", steps.len());
        assert_ne!(Tags::new(6, 2).draw(1), Tags::new(5, 2).draw(1));
    }
}
