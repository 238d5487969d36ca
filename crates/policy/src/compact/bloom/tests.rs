use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[test]
fn three_in_a_hundred_are_taken_for_seen_at_capacity() {
    let mut filter = BloomFilter::new(8192);
    assert_eq!(filter.state_bytes(), 8192);
    let wrong = (0..8192u64).filter(|key| !filter.insert(key << 20)).count();
    // There are fewer while the filter fills: the mean of (1 − e^(−3x/8))³ for x up to 1 is about
    // 0.009.
    assert!((30..120).contains(&wrong), "{wrong}");
    let wrong = (0..100_000u64).filter(|key| filter.contains(key + (1 << 40))).count();
    assert!((2_600..3_600).contains(&wrong), "{wrong}");
    filter.clear();
    assert!(!filter.contains(0));
}

proptest! {
    #[test]
    fn members_are_always_found(keys in prop::collection::vec(any::<u64>(), 1..300)) {
        let mut filter = BloomFilter::new(keys.len() / 2);
        let mut exact = BTreeSet::new();
        for key in &keys {
            let is_new = filter.insert(*key);
            // A member is never reported as new.
            prop_assert!(exact.insert(*key) || !is_new);
            prop_assert!(exact.iter().all(|key| filter.contains(*key)));
        }
    }

    #[test]
    fn empty_filter_contains_no_key(keys in prop::collection::vec(any::<u64>(), 1..100)) {
        let filter = BloomFilter::new(10);
        prop_assert!(keys.iter().all(|key| !filter.contains(*key)));
    }
}
