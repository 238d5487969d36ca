use super::ReceiverDistance;
use crate::{Evidence, LateArrival, LossDetector};

#[test]
fn the_receiver_decides() {
    let mut detector = ReceiverDistance;
    let far = Evidence { path_distance: 900, psn_distance: 900, ..Evidence::default() };
    assert!(!detector.is_lost(&far));
    assert!(detector.is_lost(&Evidence { beyond_tolerance: true, ..Evidence::default() }));
    detector.on_reordering(&LateArrival {
        path_distance: 900,
        psn_distance: 900,
        was_declared_lost: true,
        ..LateArrival::default()
    });
    assert!(detector.is_lost(&Evidence { beyond_tolerance: true, ..far }));
}
