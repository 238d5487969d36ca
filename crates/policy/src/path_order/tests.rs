use super::PathOrder;
use crate::{Evidence, LateArrival, LossDetector};

fn passed_by(path_distance: u32, psn_distance: u32) -> Evidence {
    Evidence { path_distance, psn_distance, ..Evidence::default() }
}

#[test]
fn only_its_own_path_counts() {
    let mut detector = PathOrder::new();
    assert!(!detector.is_lost(&passed_by(0, 10_000)));
    assert!(!detector.is_lost(&passed_by(2, 10_000)));
    assert!(detector.is_lost(&passed_by(3, 3)));
}

#[test]
fn threshold_learns_from_its_own_path() {
    let mut detector = PathOrder::new();
    detector.on_reordering(&LateArrival {
        path_distance: 20,
        psn_distance: 9_000,
        was_declared_lost: true,
        ..LateArrival::default()
    });
    assert!(!detector.is_lost(&passed_by(20, 20)));
    assert!(detector.is_lost(&passed_by(21, 21)));
}
