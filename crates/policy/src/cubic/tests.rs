use super::*;

/// With packets of 1000 bytes, C · mss is 400 bytes per second cubed.
const MTU: u32 = 1000;

fn cubic(initial_bytes: u64) -> Cubic {
    let max_bytes = 1 << 30;
    let parameters = CubicParameters {
        initial_bytes,
        max_bytes,
        tolerated_loss_permille: 0,
        ..CubicParameters::default()
    };
    Cubic::new(parameters, MTU)
}

/// A control that tolerates losses while round trips show no queue.
fn tolerant(initial_bytes: u64) -> Cubic {
    let parameters = CubicParameters { initial_bytes, ..CubicParameters::default() };
    Cubic::new(parameters, MTU)
}

/// The instant `ms` after a start from which the clock wraps in 2 s.
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
    let (now, sent_at) = (at_ms(now_ms), at_ms(now_ms) - smoothed_rtt);
    LossSample { now, lost_bytes: MTU, path: 0, smoothed_rtt, by_timeout, sent_at }
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
fn window_starts_with_ten_packets_and_doubles_per_window() {
    let mut cubic = cubic(0);
    assert_eq!(cubic.window_bytes(), 10_000);
    cubic.on_ack(&ack(0, 10_000));
    assert_eq!(cubic.window_bytes(), 20_000);
    cubic.on_ack(&AckSample { window_limited: false, ..ack(1, 9999) });
    assert_eq!(cubic.window_bytes(), 20_000, "less than half of it is in use");
    cubic.on_ack(&AckSample { window_limited: false, ..ack(1, 10_000) });
    assert_eq!(cubic.window_bytes(), 30_000, "half of it is in use");
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
    // The cube has a precision of a thousandth of a second cubed, which is 0.4 bytes.
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
fn window_approaches_the_curve_by_acknowledged_bytes() {
    let mut cubic = cubic(10_000_000);
    cubic.on_loss(&loss(0, false));
    cubic.on_ack(&ack(0, 0));
    // The curve 5.1 s later: 10^7 − 400 × 14.474338³ = 10^7 − 400 × 3032.49 = 8,787,004. Half of a
    // window is acknowledged, so half of the difference is added.
    cubic.on_ack(&ack(5000, 3_500_000));
    let wanted = 7_000_000 + (8_787_004 - 7_000_000) / 2;
    assert!(cubic.window_bytes().abs_diff(wanted) < 20, "{}", cubic.window_bytes());
}

#[test]
fn a_step_is_at_most_half_a_window() {
    let mut cubic = cubic(10_000);
    cubic.on_loss(&loss(0, false));
    cubic.on_ack(&ack(0, 0));
    // 1000 s later, the curve is far above: 7000 bytes acknowledged of 7000 add 3500.
    cubic.on_ack(&ack(1_000_000, 7000));
    assert_eq!(cubic.window_bytes(), 10_500);
}

#[test]
fn small_windows_grow_additively() {
    let mut cubic = cubic(100_000);
    cubic.on_loss(&loss(0, false));
    cubic.on_ack(&ack(0, 0));
    // W_cubic(0) is 70,000, and the window grows by 9/17 × 1000 × 70,000 / 70,000 = 529 more.
    cubic.on_ack(&ack(0, 70_000));
    assert_eq!(cubic.window_bytes(), 70_529);
}

#[test]
fn flow_that_lost_share_remembers_a_lower_maximum() {
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
fn time_outs_in_a_row_that_were_none_are_taken_back_as_one() {
    let mut cubic = cubic(100_000);
    cubic.on_loss(&loss(0, true));
    cubic.on_loss(&loss(100, true));
    assert_eq!(cubic.window_bytes(), 2000);
    cubic.on_spurious(at_ms(200), 1);
    assert_eq!(cubic.window_bytes(), 100_000);
}

/// Measures round trips of 100 ms without a queue, and a delivery rate of 20 MB/s.
fn measured(cubic: &mut Cubic) {
    for step in 0..=20 {
        let rtt = Some(Duration::from_ms(100));
        let sample = AckSample { rtt, window_limited: false, ..ack(step * 10, 200_000) };
        cubic.on_ack(&sample);
    }
}

#[test]
fn losses_without_a_queue_are_tolerated_up_to_a_share() {
    let mut cubic = tolerant(8_000_000);
    measured(&mut cubic);
    let lost = |ms, lost_bytes| LossSample { lost_bytes, ..loss(ms, false) };
    cubic.on_loss(&lost(300, 100_000));
    assert_eq!(cubic.window_bytes(), 8_000_000, "0.1 of at least 6.2 MB");
    cubic.on_loss(&lost(500, 200_000));
    assert_eq!(cubic.window_bytes(), 5_600_000);
    cubic.on_loss(&lost(700, 10_000));
    assert_eq!(cubic.window_bytes(), 5_600_000, "what it has reacted to counts once");
}

#[test]
fn a_loss_with_a_queue_leaves_what_the_path_holds_without() {
    for (rtt_ms, window, left) in [(110, 2_200_000, 2_200_000), (125, 2_500_000, 2_000_000)] {
        let mut cubic = tolerant(window);
        measured(&mut cubic);
        let smoothed_rtt = Duration::from_ms(rtt_ms);
        cubic.on_loss(&LossSample { smoothed_rtt, ..loss(300, false) });
        assert!(cubic.window_bytes().abs_diff(left) <= left / 20, "{}", cubic.window_bytes());
    }
    let mut cubic = tolerant(5_000_000);
    measured(&mut cubic);
    let smoothed_rtt = Duration::from_ms(250);
    cubic.on_loss(&LossSample { smoothed_rtt, ..loss(300, false) });
    assert_eq!(cubic.window_bytes(), 3_500_000, "never less than seven tenths");
}

#[test]
fn window_falls_as_one_of_three_beside_flows_that_do_not_yield() {
    for mut cubic in [tolerant(5_000_000), Cubic::wide(5_000_000, MTU)] {
        measured(&mut cubic);
        let round_trip = Duration::from_ms(200);
        let unused = AckSample { window_limited: false, smoothed_rtt: round_trip, ..ack(0, 0) };
        for (second, window) in [(1, 3_500_000), (2, 2_975_000), (3, 2_677_500)] {
            let (now, bytes_in_flight) = (at_ms(1000 * second), cubic.window_bytes());
            cubic.on_ack(&AckSample { now, bytes_in_flight, ..unused });
            let lost = LossSample { lost_bytes: 300_000, ..loss(1000 * second, false) };
            cubic.on_loss(&LossSample { smoothed_rtt: round_trip, ..lost });
            assert_eq!(cubic.window_bytes(), window);
            // The queue is as long as before.
            let (now, rtt) = (at_ms(1000 * second + 500), Some(round_trip));
            cubic.on_ack(&AckSample { now, rtt, ..unused });
        }
        cubic.on_loss(&LossSample { smoothed_rtt: round_trip, ..loss(4000, true) });
        assert_eq!(cubic.beta_permille(), 700, "a time-out proves nothing about other flows");
    }
}

#[test]
fn a_slow_sender_is_paced_over_its_round_trip_and_a_fast_one_is_not() {
    let mut cubic = tolerant(1_000_000);
    assert_eq!(cubic.pacing_bytes_per_second(), None, "no round trip is known");
    assert_eq!(cubic.chunk_bytes(u64::MAX), 62 * 1024);
    cubic.on_ack(&AckSample { window_limited: false, ..ack(0, 0) });
    assert_eq!(cubic.pacing_bytes_per_second(), Some(20_000_000), "twice, in slow start");
    assert_eq!(cubic.chunk_bytes(u64::MAX), 500, "25 us");
    assert_eq!(cubic.chunk_bytes(100), 100);
    cubic.on_loss(&LossSample { lost_bytes: 1_000_000, ..loss(0, false) });
    assert_eq!(cubic.pacing_bytes_per_second(), Some(8_750_000), "1.25 x 700,000 in 100 ms");
    let near = AckSample { smoothed_rtt: Duration::from_us(100), ..ack(1, 0) };
    cubic.on_ack(&near);
    assert_eq!(cubic.pacing_bytes_per_second(), None);
}

#[test]
fn window_stays_within_its_limits_for_any_samples() {
    let parameters = CubicParameters {
        min_bytes: 0,
        max_bytes: u64::MAX,
        initial_bytes: u64::MAX,
        tolerated_loss_permille: 0,
        jitter: Duration::ZERO,
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

/// A round trip of `us`, of which `hosts_us` is the hosts' part.
fn parted(now_ms: u64, us: u64, hosts_us: u64) -> AckSample {
    AckSample {
        rtt: Some(Duration::from_us(us)),
        smoothed_rtt: Duration::from_us(us),
        endpoint_delay: Some(Duration::from_us(hosts_us)),
        ..ack(now_ms, 0)
    }
}

#[test]
fn hosts_that_keep_packets_are_no_queue() {
    let mut cubic = tolerant(1_000_000);
    cubic.on_ack(&parted(0, 50, 40));
    // A program had no core for five milliseconds.
    cubic.on_ack(&parted(1, 5_050, 5_000));
    cubic.on_loss(&loss(2, false));
    assert_eq!(cubic.window_bytes(), 1_000_000, "the network took 50 us instead of 10");
    cubic.on_ack(&parted(3, 5_050, 4_900));
    cubic.on_loss(&loss(4, false));
    assert_eq!(cubic.window_bytes(), 700_000, "the network took 150 us instead of 10");
}

#[test]
fn without_the_hosts_part_a_long_round_trip_is_a_queue() {
    let mut cubic = tolerant(1_000_000);
    for (now_ms, us) in [(0, 50), (1, 90)] {
        cubic.on_ack(&AckSample { endpoint_delay: None, ..parted(now_ms, us, 0) });
    }
    cubic.on_loss(&loss(2, false));
    assert_eq!(cubic.window_bytes(), 700_000);
}

#[test]
fn a_share_that_is_not_tolerated_counts_without_a_queue() {
    let mut cubic = tolerant(1_000_000);
    cubic.on_ack(&parted(0, 50, 40));
    cubic.on_loss(&LossSample { lost_bytes: 200_000, ..loss(1, false) });
    assert_eq!(cubic.window_bytes(), 700_000);
}

#[test]
fn slow_start_after_an_outage_ends_where_the_first_timeout_has_set_it() {
    let mut cubic = cubic(100_000);
    for timeout in 0..5 {
        cubic.on_loss(&loss(1000 * timeout, true));
        assert_eq!(cubic.window_bytes(), 2_000);
    }
    for acked in [2_000, 4_000, 8_000, 16_000, 32_000] {
        cubic.on_ack(&ack(5_000, acked));
    }
    assert_eq!(cubic.window_bytes(), 64_000);
    // A time-out after that is one of the path as it is now.
    cubic.on_loss(&loss(6_000, true));
    cubic.on_ack(&ack(6_100, 43_000));
    assert_eq!(cubic.window_bytes(), 45_000);
    cubic.on_ack(&ack(6_101, 45_000));
    assert!(cubic.window_bytes() < 47_000, "slow start ends at seven tenths of 64,000");
}
