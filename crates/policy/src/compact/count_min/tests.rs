use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[test]
fn a_single_key_is_exact_and_sums_saturate() {
    let mut sketch = CountMin::new(1, 1);
    assert_eq!((sketch.add(5, 7), sketch.add(5, 3), sketch.estimate(5)), (7, 10, 10));
    sketch.halve();
    assert_eq!(sketch.estimate(5), 5);
    assert_eq!(sketch.add(5, u64::MAX), u64::MAX);
    sketch.clear();
    assert_eq!((sketch.estimate(5), sketch.state_bytes()), (0, 8));
}

#[test]
fn few_estimates_are_much_too_high() {
    // e · N / 256 with N = 10,000 · 5 is 531; e^(−4) = 1.8 %.
    let mut sketch = CountMin::new(256, 4);
    for key in 0..10_000u64 {
        sketch.add(key, 1 + key % 9);
    }
    let bad = (0..10_000u64).filter(|key| sketch.estimate(*key) > 1 + key % 9 + 531).count();
    assert!(bad < 180, "{bad}");
    // Flows that send much have clearly larger estimates.
    sketch.add(77, 100_000);
    assert!((100_000..100_600).contains(&sketch.estimate(77)));
}

proptest! {
    #[test]
    fn estimate_is_never_too_low(
        width in 1usize..40,
        depth in 1usize..6,
        adds in prop::collection::vec((0u64..50, 0u64..1_000_000), 0..300),
    ) {
        let mut sketch = CountMin::new(width, depth);
        let mut exact = BTreeMap::new();
        let mut all = 0;
        for (key, amount) in adds {
            *exact.entry(key).or_insert(0) += amount;
            all += amount;
            prop_assert_eq!(sketch.add(key, amount), sketch.estimate(key));
            for (key, sum) in &exact {
                prop_assert!((*sum..=all).contains(&sketch.estimate(*key)));
            }
        }
    }

    #[test]
    fn estimate_of_a_sparse_sketch_is_exact(adds in prop::collection::vec((0u64..8, 0u64..1000), 0..200)) {
        // Eight keys in rows of 4096 counters: in some row, each of these has a counter of its own.
        let mut sketch = CountMin::new(4096, 4);
        let mut exact = BTreeMap::new();
        for (key, amount) in adds {
            *exact.entry(key).or_insert(0) += amount;
            sketch.add(key, amount);
        }
        for (key, sum) in exact {
            prop_assert_eq!(sketch.estimate(key), sum);
        }
    }
}
