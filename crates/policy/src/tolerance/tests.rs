use super::*;

const RTT: Duration = Duration::from_us(100);
const YOUNG: Duration = Duration::from_us(50);

fn aged(age: Duration) -> Evidence {
    Evidence { age, smoothed_rtt: RTT, ..Evidence::default() }
}

#[test]
fn tolerance_starts_at_three() {
    let mut tolerance = Tolerance::new();
    assert!(!tolerance.is_exceeded(0, &aged(YOUNG)));
    assert!(!tolerance.is_exceeded(2, &aged(YOUNG)));
    assert!(tolerance.is_exceeded(3, &aged(YOUNG)));
}

#[test]
fn tolerance_grows_up_to_a_limit() {
    let mut tolerance = Tolerance::new();
    tolerance.learn(64, true);
    assert!(!tolerance.is_exceeded(64, &aged(YOUNG)));
    assert!(tolerance.is_exceeded(65, &aged(YOUNG)));
    tolerance.learn(10, false);
    assert_eq!(tolerance.packets(), 65, "less reordering teaches nothing");
    tolerance.learn(u32::MAX, true);
    assert_eq!(tolerance.packets(), TOLERANCE_MAX);
}

#[test]
fn tolerance_falls_by_a_quarter_every_32_losses() {
    let mut tolerance = Tolerance::new();
    tolerance.learn(102, true);
    let mut seen = [0; 4];
    for value in &mut seen {
        for _ in 0..32 {
            assert!(tolerance.is_exceeded(200, &aged(YOUNG)));
        }
        *value = tolerance.packets();
    }
    // The part above the minimum, 100, 75, 56 and 42, loses 25, 19, 14 and 11, rounded up.
    assert_eq!(seen, [78, 59, 45, 34]);
    for _ in 0..32 * 40 {
        assert!(tolerance.is_exceeded(200, &aged(YOUNG)));
    }
    assert_eq!(tolerance.packets(), TOLERANCE_MIN);
}

#[test]
fn a_surprise_starts_the_count_again() {
    let mut tolerance = Tolerance::new();
    tolerance.learn(99, true);
    for _ in 0..31 {
        assert!(tolerance.is_exceeded(200, &aged(YOUNG)));
    }
    tolerance.learn(1, false);
    for _ in 0..31 {
        assert!(tolerance.is_exceeded(200, &aged(YOUNG)));
    }
    assert_eq!(tolerance.packets(), 100);
}

#[test]
fn overdue_packet_is_lost_whatever_the_tolerance() {
    let mut tolerance = Tolerance::new();
    tolerance.learn(500, true);
    let two = RTT.times(2);
    assert!(!tolerance.is_exceeded(1, &aged(two.saturating_sub(Duration::from_ps(1)))));
    assert!(tolerance.is_exceeded(1, &aged(two)));
    assert!(!tolerance.is_exceeded(0, &aged(two)), "nothing passed it");
    assert!(
        !tolerance.is_exceeded(1, &Evidence { age: two, ..Evidence::default() }),
        "nothing measured yet"
    );
}

#[test]
fn age_limit_grows_when_it_was_wrong() {
    let mut tolerance = Tolerance::new();
    tolerance.learn(1, true);
    assert!(!tolerance.is_exceeded(1, &aged(RTT.times(2))));
    assert!(tolerance.is_exceeded(1, &aged(RTT.times(3))));
    for _ in 0..100 {
        tolerance.learn(1, true);
    }
    assert!(!tolerance.is_exceeded(1, &aged(RTT.times(63))));
    assert!(tolerance.is_exceeded(1, &aged(RTT.times(64))));
}

#[test]
fn packet_long_overtaken_by_other_paths_is_lost() {
    let mut tolerance = Tolerance::new();
    let by = |us| Evidence { overtaken_by: Duration::from_us(us), ..aged(YOUNG) };
    assert!(!tolerance.is_exceeded(0, &by(199)));
    assert!(tolerance.is_exceeded(0, &by(200)));
    tolerance.learn(0, true);
    assert!(!tolerance.is_exceeded(0, &by(200)), "the age limit has grown");
    assert!(tolerance.is_exceeded(0, &by(300)));
}
