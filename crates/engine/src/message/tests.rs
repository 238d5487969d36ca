use super::*;
use crate::random::Random;
use alloc::collections::{BTreeMap, BTreeSet};

/// Whatever came, in whatever order and however the message was cut into runs: an open packet has
/// not come; and without more runs than are kept, every packet that has not come is open.
#[test]
fn an_open_packet_has_not_come() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut psn = Psn::new(Psn::SPACE - 20);
        let cut = [5, 20, 1000][(seed % 3) as usize];
        let numbers: BTreeMap<u32, Psn> = (0..100)
            .map(|index| {
                psn = psn.plus(if random.next().is_multiple_of(cut) { 7 } else { 1 });
                (index, psn)
            })
            .collect();
        let mut come = BTreeSet::new();
        let mut arrived = BTreeSet::new();
        let mut progress = Progress::default();
        for _ in 0..60 {
            let index = (random.next() % 100) as u32;
            if come.insert(index) {
                arrived.insert(numbers[&index].value());
                progress.note(numbers[&index], index);
            }
            let open = |index| progress.is_open(index, |psn| arrived.contains(&psn.value()));
            for index in 0..100 {
                assert!(!(come.contains(&index) && open(index)), "seed {seed}, index {index}");
                assert!(cut < 1000 || come.contains(&index) || open(index));
            }
        }
    }
}
