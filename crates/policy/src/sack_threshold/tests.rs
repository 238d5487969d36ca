use super::SackThreshold;
use crate::{Evidence, LateArrival, LossDetector};

fn passed_by(psn_distance: u32) -> Evidence {
    Evidence { psn_distance, ..Evidence::default() }
}

#[test]
fn three_ahead_is_lost() {
    let mut detector = SackThreshold::new();
    assert!(!detector.is_lost(&passed_by(2)));
    assert!(detector.is_lost(&passed_by(3)));
}

#[test]
fn threshold_learns_from_the_channel() {
    let mut detector = SackThreshold::new();
    detector.on_reordering(&LateArrival {
        path_distance: 1,
        psn_distance: 40,
        was_declared_lost: false,
        ..LateArrival::default()
    });
    assert!(!detector.is_lost(&passed_by(40)));
    assert!(detector.is_lost(&passed_by(41)));
}
