use super::SackThreshold;
use crate::{Evidence, LossDetector};

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
    detector.on_reordering(1, 40, false);
    assert!(!detector.is_lost(&passed_by(40)));
    assert!(detector.is_lost(&passed_by(41)));
}
