use super::Spray;
use crate::{ChunkRequest, PathChoice, PathView};
use fairway_wire::Instant;

const REQUEST: ChunkRequest = ChunkRequest { now: Instant::ZERO, bytes: 1, random: 0 };

fn paths(usable: &[bool]) -> alloc::vec::Vec<PathView> {
    usable.iter().map(|&usable| PathView { usable, ..PathView::default() }).collect()
}

#[test]
fn every_usable_path_has_its_turn() {
    let paths = paths(&[true, false, true, true]);
    let mut spray = Spray::new();
    let turns: [usize; 7] = core::array::from_fn(|_| spray.choose(&paths, &REQUEST));
    assert_eq!(turns, [0, 2, 3, 0, 2, 3, 0]);
}

#[test]
fn with_no_usable_path_it_still_answers_within_range() {
    let paths = paths(&[false, false]);
    let mut spray = Spray::new();
    let turns: [usize; 3] = core::array::from_fn(|_| spray.choose(&paths, &REQUEST));
    assert_eq!(turns, [0, 1, 0]);
}

#[test]
fn paths_may_become_fewer() {
    let mut spray = Spray::new();
    for _ in 0..3 {
        spray.choose(&paths(&[true; 4]), &REQUEST);
    }
    assert_eq!(spray.choose(&paths(&[true; 2]), &REQUEST), 1);
}
