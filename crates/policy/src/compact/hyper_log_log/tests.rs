use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Asserts that `found` is within `permille` of `truth`.
fn assert_near(found: u64, truth: u64, permille: u64) {
    assert!(found.abs_diff(truth) * 1000 <= truth * permille, "{found} for {truth}");
}

#[test]
fn empty_sketch_and_one_element_are_exact() {
    let mut counter = HyperLogLog::new(10);
    assert_eq!((counter.estimate(), counter.state_bytes()), (0, 1024));
    counter.insert(9);
    assert_eq!(counter.estimate(), 1);
    counter.insert(9);
    assert_eq!(counter.estimate(), 1);
    counter.clear();
    assert_eq!(counter.estimate(), 0);
}

#[test]
fn estimate_holds_from_tens_to_millions() {
    for precision in [7, 10, 14, 16] {
        // The limit is four standard errors.
        let permille = 4 * 1040 / (1u64 << precision).isqrt();
        for count in [10, 100, 1_000, 2_600, 10_000, 100_000, 2_000_000] {
            let mut counter = HyperLogLog::new(precision);
            (0..count).for_each(|key| counter.insert(key * 0x1_0001));
            assert_near(counter.estimate(), count, permille.max(20));
        }
    }
}

#[test]
fn no_run_is_too_long() {
    let mut counter = HyperLogLog::new(16);
    counter.registers.fill(40);
    // The estimate is 0.7213 · 2^16 · 2^40.
    assert_near(counter.estimate(), 51_974_000_000_000_000, 1);
    counter.registers.fill(49);
    assert_eq!(counter.estimate(), u64::MAX);
}

proptest! {
    #[test]
    fn estimate_agrees_with_a_set(keys in prop::collection::vec(0u64..5_000, 0..5_000)) {
        let mut counter = HyperLogLog::new(12);
        let exact: BTreeSet<u64> = keys.iter().copied().collect();
        keys.iter().for_each(|key| counter.insert(*key));
        let error = counter.estimate().abs_diff(exact.len() as u64);
        prop_assert!(error * 1000 <= 65 * exact.len() as u64 + 2000, "{error}");
    }

    #[test]
    fn merged_ones_count_both(
        one in prop::collection::vec(any::<u64>(), 0..500),
        other in prop::collection::vec(any::<u64>(), 0..500),
    ) {
        let count = |keys: &mut dyn Iterator<Item = &u64>| {
            let mut counter = HyperLogLog::new(8);
            keys.for_each(|key| counter.insert(*key));
            counter
        };
        let mut merged = count(&mut one.iter());
        merged.merge(&count(&mut other.iter()));
        prop_assert_eq!(merged.registers, count(&mut one.iter().chain(&other)).registers);
    }
}
