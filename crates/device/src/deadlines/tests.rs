use super::*;
use crate::random::Random;
use alloc::collections::BTreeMap;

#[test]
fn pops_in_order_and_keeps_the_earlier_of_two() {
    let (seeds, steps) = if cfg!(miri) { (1, 200) } else { (20, 2_000) };
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let mut heap = Deadlines::new(32);
        let mut model: BTreeMap<u32, u64> = BTreeMap::new();
        // The times are close to the wrap of the clock.
        let origin = u64::MAX - 500;
        let mut clock = 0;
        for _ in 0..steps {
            let channel = (random.number() % 32) as u32;
            match random.number() % 4 {
                0 | 1 => {
                    let at = clock + random.number() % 100;
                    heap.wake_by(channel, Instant::from_ps(origin.wrapping_add(at)));
                    let entry = model.entry(channel).or_insert(at);
                    *entry = at.min(*entry);
                }
                2 => {
                    heap.remove(channel);
                    model.remove(&channel);
                }
                _ => {
                    clock += random.number() % 60;
                    let now = Instant::from_ps(origin.wrapping_add(clock));
                    let mut popped = Vec::new();
                    while let Some(channel) = heap.pop_due(now) {
                        popped.push(model.remove(&channel).unwrap());
                    }
                    assert!(popped.is_sorted());
                    assert!(model.values().all(|&at| at > clock));
                }
            }
            let earliest =
                model.values().min().map(|&at| Instant::from_ps(origin.wrapping_add(at)));
            assert_eq!(heap.earliest(), earliest);
        }
    }
}
