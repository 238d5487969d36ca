use super::*;

/// A packet of 1000 bytes makes C · mss 400 bytes per second cubed.
const MTU: u32 = 1000;

fn cubic(initial_bytes: u64) -> Cubic {
    let max_bytes = 1 << 30;
    let parameters = CubicParameters { initial_bytes, max_bytes, ..CubicParameters::default() };
    Cubic::new(parameters, MTU)
}

/// `ms` after a start from which the clock wraps in 2 s.
fn at_ms(ms: u64) -> Instant {
    Instant::from_ps(0) - Duration::from_secs(2) + Duration::from_ms(ms)
}

fn ack(now_ms: u64, acked_bytes: u32) -> AckSample {
    AckSample {
        now: at_ms(now_ms),
        acked_bytes,
        smoothed_rtt: Duration::from_ms(100),
        window_limited: true,
        ..AckSample::default()
    }
}

fn loss(now_ms: u64, by_timeout: bool) -> LossSample {
    let smoothed_rtt = Duration::from_ms(100);
    LossSample { now: at_ms(now_ms), lost_bytes: MTU, path: 0, smoothed_rtt, by_timeout }
}

#[test]
fn cube_roots_are_exact() {
    for (value, root) in
        [(0, 0), (1, 1), (7, 1), (8, 2), (26, 2), (27, 3), (u128::MAX, 6_981_463_658_331)]
    {
        assert_eq!(cube_root(value), root, "{value}");
    }
    for root in [10u128, 999, 1 << 21, 123_456_789] {
        assert_eq!(u128::from(cube_root(root.pow(3))), root);
        assert_eq!(u128::from(cube_root(root.pow(3) - 1)), root - 1);
    }
}

#[test]
fn it_starts_with_ten_packets_and_doubles_per_window() {
    let mut cubic = cubic(0);
    assert_eq!(cubic.window_bytes(), 10_000);
    cubic.on_ack(&ack(0, 10_000));
    assert_eq!(cubic.window_bytes(), 20_000);
    cubic.on_ack(&AckSample { window_limited: false, ..ack(1, 10_000) });
    assert_eq!(cubic.window_bytes(), 20_000, "not what held the sender back");
}

#[test]
fn congestion_leaves_seven_tenths_once_per_round_trip() {
    let mut cubic = cubic(100_000);
    cubic.on_loss(&loss(0, false));
    assert_eq!(cubic.window_bytes(), 70_000);
    cubic.on_loss(&loss(99, false));
    assert_eq!(cubic.window_bytes(), 70_000);
    cubic.on_ack(&AckSample { marked_packets: 1, ..ack(100, 1000) });
    assert_eq!(cubic.window_bytes(), 49_000);
    cubic.on_ack(&AckSample { pressure: true, ..ack(199, 0) });
    assert_eq!(cubic.window_bytes(), 49_000);
    cubic.on_ack(&AckSample { pressure: true, ..ack(200, 0) });
    assert_eq!(cubic.window_bytes(), 34_300);
}

#[test]
fn the_curve_is_the_cube_of_the_time_from_the_plateau() {
    let mut cubic = cubic(10_000_000);
    cubic.on_loss(&loss(0, false));
    // K = ∛(3,000,000 / 400) = ∛7500 = 19.574338 s.
    cubic.on_ack(&ack(0, 0));
    let epoch = cubic.epoch.expect("congestion avoidance");
    assert_eq!(epoch.plateau_at_us, 19_574_338);
    // The cube is taken to a thousandth of a second cubed, which is 0.4 bytes.
    let near = |at_us, bytes: u64| {
        let curve = cubic.curve(&epoch, at_us);
        assert!(curve.abs_diff(bytes) <= 1, "{at_us}: {curve} for {bytes}");
    };
    near(0, 7_000_000);
    // 10^7 − 400 × 9.574338³ = 10^7 − 400 × 877.6604.
    near(10_000_000, 9_648_936);
    near(19_574_338, 10_000_000);
    // 10^7 + 400 × 10³.
    near(29_574_338, 10_400_000);
}

#[test]
fn it_approaches_the_curve_by_what_is_acknowledged() {
    let mut cubic = cubic(10_000_000);
    cubic.on_loss(&loss(0, false));
    cubic.on_ack(&ack(0, 0));
    // The curve 5.1 s on: 10^7 − 400 × 14.474338³ = 10^7 − 400 × 3032.49 = 8,787,004; half of a
    // window is acknowledged, so half of what is missing is added.
    cubic.on_ack(&ack(5000, 3_500_000));
    let wanted = 7_000_000 + (8_787_004 - 7_000_000) / 2;
    assert!(cubic.window_bytes().abs_diff(wanted) < 20, "{}", cubic.window_bytes());
}

#[test]
fn a_step_is_at_most_half_a_window() {
    let mut cubic = cubic(10_000);
    cubic.on_loss(&loss(0, false));
    cubic.on_ack(&ack(0, 0));
    // 1000 s on, the curve is out of sight: 7000 bytes acknowledged of 7000 add 3500.
    cubic.on_ack(&ack(1_000_000, 7000));
    assert_eq!(cubic.window_bytes(), 10_500);
}

#[test]
fn small_windows_grow_additively() {
    let mut cubic = cubic(100_000);
    cubic.on_loss(&loss(0, false));
    cubic.on_ack(&ack(0, 0));
    // W_cubic(0) is 70,000: 9/17 × 1000 × 70,000 / 70,000 = 529 more is above it.
    cubic.on_ack(&ack(0, 70_000));
    assert_eq!(cubic.window_bytes(), 70_529);
}

#[test]
fn who_lost_ground_leaves_room() {
    let mut cubic = cubic(100_000);
    cubic.on_loss(&loss(0, false));
    assert_eq!(cubic.state.plateau_bytes, 100_000);
    cubic.on_loss(&loss(100, false));
    // 70,000 × 1.7 / 2.
    assert_eq!(cubic.state.plateau_bytes, 59_500);
}

#[test]
fn a_time_out_starts_slowly_again() {
    let mut cubic = cubic(100_000);
    cubic.on_loss(&loss(0, true));
    assert_eq!(cubic.window_bytes(), 2000);
    for _ in 0..7 {
        cubic.on_ack(&ack(1, 9714));
    }
    assert_eq!(cubic.window_bytes(), 69_998);
    cubic.on_ack(&ack(1, 2));
    cubic.on_ack(&ack(1, 0));
    assert_eq!(cubic.window_bytes(), 70_000);
    assert_eq!(cubic.epoch.map(|epoch| epoch.plateau_at_us), Some(0));
}

#[test]
fn idle_time_does_not_count() {
    let mut cubic = cubic(10_000_000);
    cubic.on_loss(&loss(0, false));
    cubic.on_ack(&ack(0, 0));
    cubic.on_ack(&AckSample { window_limited: false, ..ack(5000, 1) });
    let began = cubic.epoch.map(|epoch| epoch.began);
    assert_eq!(began, Some(at_ms(5000)));
}

#[test]
fn a_fall_for_what_was_reordering_is_taken_back_once() {
    let mut cubic = cubic(100_000);
    cubic.on_loss(&loss(0, false));
    cubic.on_spurious(at_ms(1), 1);
    assert_eq!(cubic.window_bytes(), 100_000);
    cubic.on_ack(&AckSample { marked_packets: 1, ..ack(500, 1000) });
    cubic.on_spurious(at_ms(501), 1);
    assert!(cubic.window_bytes() < 71_000);
}

#[test]
fn a_tolerated_share_of_loss_does_nothing() {
    let parameters = CubicParameters {
        tolerated_loss_permille: 30,
        initial_bytes: 100_000,
        ..CubicParameters::default()
    };
    let mut cubic = Cubic::new(parameters, MTU);
    for ms in [0, 200, 400] {
        cubic.on_loss(&loss(ms, false));
    }
    assert_eq!(cubic.window_bytes(), 100_000, "3000 of 103,000");
    cubic.on_loss(&loss(600, false));
    assert_eq!(cubic.window_bytes(), 70_000, "4000 of 104,000");
}

#[test]
fn it_stays_between_its_limits_whatever_it_is_told() {
    let parameters = CubicParameters {
        min_bytes: 0,
        max_bytes: u64::MAX,
        initial_bytes: u64::MAX,
        tolerated_loss_permille: 0,
    };
    for mtu in [0, 1, u32::MAX] {
        let mut cubic = Cubic::new(parameters, mtu);
        for step in 0..2000u64 {
            let mut sample = ack(0, u32::MAX);
            sample.now = Instant::from_ps(step << 60);
            sample.smoothed_rtt = Duration::from_ps(step << 50);
            cubic.on_ack(&sample);
            if step % 7 == 0 {
                cubic.on_loss(&LossSample { now: sample.now, ..loss(0, step % 21 == 0) });
            }
            let least = 2 * u64::from(mtu.max(1));
            assert!((least..=CubicParameters::LARGEST_BYTES).contains(&cubic.window_bytes()));
        }
    }
}
