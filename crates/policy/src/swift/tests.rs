use super::*;

const KIB: u64 = 1024;
const MTU: u32 = 1408;

fn swift(initial_bytes: u64) -> Swift {
    Swift::new(SwiftParameters { initial_bytes, ..SwiftParameters::default() }, MTU)
}

fn at_us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

/// An acknowledgement of `acked_bytes` at `now_us`, after a steady round trip of `rtt_us`.
fn ack(now_us: u64, rtt_us: u64, acked_bytes: u32) -> AckSample {
    let rtt = Duration::from_us(rtt_us);
    AckSample {
        now: at_us(now_us),
        acked_bytes,
        rtt: Some(rtt),
        smoothed_rtt: rtt,
        window_limited: true,
        ..AckSample::default()
    }
}

fn loss(now_us: u64, lost_bytes: u32, by_timeout: bool) -> LossSample {
    let smoothed_rtt = Duration::from_us(100);
    let (now, sent_at) = (at_us(now_us), at_us(now_us) - smoothed_rtt);
    LossSample { now, lost_bytes, path: 0, smoothed_rtt, by_timeout, sent_at }
}

#[test]
fn window_grows_by_ai_per_window_acknowledged() {
    let mut swift = swift(512 * KIB);
    // 32 KiB × 64 KiB / 512 KiB = 4 KiB.
    swift.on_ack(&ack(1, 100, 64 * 1024));
    assert_eq!(swift.window_bytes(), 516 * KIB);
}

#[test]
fn window_keeps_fractions_of_a_byte() {
    let mut swift = swift(512 * KIB);
    // 32 KiB × 1400 / 512 KiB = 87.5.
    swift.on_ack(&ack(1, 100, 1400));
    assert_eq!(swift.window_bytes(), 524_288 + 87);
    // (32 KiB × 1400 + 0.5 × 524,288) / 524,375 = 87.99: the half byte is kept, but the sum is not
    // yet 88.
    swift.on_ack(&ack(2, 100, 1400));
    assert_eq!(swift.window_bytes(), 524_375 + 87);
    // (32 KiB × 1400 + 46,137,344 − 87 × 524,375) / 524,462 = 88.46.
    swift.on_ack(&ack(3, 100, 1400));
    assert_eq!(swift.window_bytes(), 524_462 + 88);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut swift = swift(512 * KIB);
    swift.on_ack(&AckSample { window_limited: false, ..ack(1, 100, 64 * 1024) });
    assert_eq!(swift.window_bytes(), 512 * KIB);
}

#[test]
fn window_stays_between_its_limits() {
    let mut swift = swift(512 * KIB);
    for now in 0..100_000 {
        swift.on_ack(&ack(now, 100, 64 * 1024));
    }
    assert_eq!(swift.window_bytes(), 8192 * KIB);
    for round in 0..100 {
        swift.on_ack(&ack(1_000_000 + 5000 * round, 5000, 1408));
    }
    assert_eq!(swift.window_bytes(), 64 * KIB);
}

#[test]
fn window_falls_in_proportion_to_the_excess_once_per_round_trip() {
    let mut swift = swift(2048 * KIB);
    // Above 1 MiB the target is 300 us: 0.8 × (600 − 300) / 600 = 0.4.
    swift.on_ack(&ack(1000, 600, 1408));
    assert_eq!(swift.window_bytes(), 1_258_291);
    swift.on_ack(&ack(1599, 600, 1408));
    assert_eq!(swift.window_bytes(), 1_258_291);
    swift.on_ack(&ack(1600, 600, 1408));
    assert_eq!(swift.window_bytes(), 754_974);
}

#[test]
fn window_never_falls_by_more_than_half() {
    let mut swift = swift(2048 * KIB);
    // 0.8 × (3000 − 300) / 3000 = 0.72.
    swift.on_ack(&ack(1000, 3000, 1408));
    assert_eq!(swift.window_bytes(), 1024 * KIB);
}

#[test]
fn small_windows_have_a_higher_target() {
    let target = |window| swift(window).target().as_us();
    assert_eq!(target(64 * KIB), 450);
    // (1/√256K − 1/√1M) / (1/√64K − 1/√1M) = 1/3 of 150 us.
    assert_eq!(target(256 * KIB), 350);
    assert_eq!(target(1024 * KIB), 300);
    assert_eq!(target(8192 * KIB), 300);
}

#[test]
fn one_late_sample_is_no_queue() {
    let mut swift = swift(512 * KIB);
    let late = AckSample { rtt: Some(Duration::from_ms(5)), ..ack(1, 100, 0) };
    swift.on_ack(&late);
    assert_eq!(swift.window_bytes(), 512 * KIB);
}

#[test]
fn a_suffering_receiver_is_a_delay_of_twice_the_target() {
    let mut swift = swift(2048 * KIB);
    // 0.8 × (600 − 300) / 600 = 0.4, although the delay itself is below the target.
    swift.on_ack(&AckSample { pressure: true, ..ack(1000, 100, 1408) });
    assert_eq!(swift.window_bytes(), 1_258_291);
}

#[test]
fn a_little_loss_is_tolerated_and_much_is_not() {
    let mut swift = swift(512 * KIB);
    // A constant loss of 1 %.
    for now in 0..10_000 {
        swift.on_ack(&AckSample { window_limited: false, ..ack(now, 100, 99 * 1408) });
        swift.on_loss(&loss(now, 1408, false));
    }
    assert_eq!(swift.window_bytes(), 512 * KIB);
    // A loss of 62 KiB at once, of at most two windows, is 6 %.
    swift.on_loss(&loss(20_000, 62 * 1024, false));
    assert_eq!(swift.window_bytes(), 256 * KIB);
    swift.on_loss(&loss(20_099, 62 * 1024, false));
    assert_eq!(swift.window_bytes(), 256 * KIB, "once per round trip");
    swift.on_loss(&loss(20_100, 62 * 1024, false));
    assert_eq!(swift.window_bytes(), 128 * KIB);
}

#[test]
fn a_fall_for_what_was_reordering_is_taken_back() {
    let mut swift = swift(512 * KIB);
    swift.on_loss(&loss(1, 62 * 1024, false));
    assert_eq!(swift.window_bytes(), 256 * KIB);
    swift.on_spurious(at_us(2), 44);
    assert_eq!(swift.window_bytes(), 512 * KIB);
    swift.on_spurious(at_us(3), 44);
    assert_eq!(swift.window_bytes(), 512 * KIB, "once");
}

#[test]
fn five_timeouts_in_a_row_start_again_from_the_least() {
    let mut swift = swift(8192 * KIB);
    for round in 0..4 {
        swift.on_loss(&loss(1000 * (round + 1), 1408, true));
    }
    assert_eq!(swift.window_bytes(), 512 * KIB, "halved four times");
    swift.on_loss(&loss(5000, 1408, true));
    assert_eq!(swift.window_bytes(), 64 * KIB);
}

#[test]
fn paths_that_fall_silent_together_are_one_timeout() {
    let mut swift = swift(8192 * KIB);
    for _path in 0..16 {
        swift.on_loss(&loss(1000, 1408, true));
    }
    assert_eq!(swift.window_bytes(), 4096 * KIB);
}

#[test]
fn an_acknowledgement_breaks_the_row_of_timeouts() {
    let mut swift = swift(8192 * KIB);
    for round in 0..4 {
        swift.on_loss(&loss(1000 * (round + 1), 1408, true));
    }
    swift.on_ack(&AckSample { window_limited: false, ..ack(4500, 100, 1408) });
    swift.on_loss(&loss(5000, 1408, true));
    assert_eq!(swift.window_bytes(), 256 * KIB);
}

#[test]
fn two_packets_always_fit() {
    let parameters = SwiftParameters { min_bytes: 1, initial_bytes: 1, ..Default::default() };
    assert_eq!(Swift::new(parameters, 9000).window_bytes(), 18_000);
}

#[test]
fn extreme_samples_do_not_overflow() {
    let parameters = SwiftParameters {
        target: Duration::MAX,
        range: Duration::MAX,
        hop: Duration::MAX,
        endpoint: Duration::ZERO,
        scaling_min_bytes: u64::MAX,
        scaling_max_bytes: 0,
        increase_bytes: u64::MAX,
        min_bytes: 0,
        max_bytes: u64::MAX,
        initial_bytes: u64::MAX,
        tolerated_loss_permille: u64::MAX,
    };
    let mut swift = Swift::new(parameters, u32::MAX);
    let mut sample = ack(1, u64::MAX, u32::MAX);
    for now in 0..10 {
        sample.now = Instant::from_ps(now << 60);
        swift.on_ack(&sample);
        swift.on_loss(&LossSample { now: sample.now, lost_bytes: u32::MAX, ..loss(0, 0, false) });
    }
    assert!(swift.window_bytes() <= SwiftParameters::LARGEST_BYTES);
}

/// Windows after `rounds` of flows that share a link of 10 Gb/s with a round trip of 50 us and are
/// each acknowledged once per round trip.
fn share<const N: usize>(mut flows: [Swift; N], rounds: u64) -> [u64; N] {
    const BYTES_PER_US: u64 = 1250;
    const BASE_US: u64 = 50;
    let mut now = 0;
    for _ in 0..rounds {
        let in_flight: u64 = flows.iter().map(Swift::window_bytes).sum();
        let rtt_us = BASE_US.max(in_flight / BYTES_PER_US);
        now += rtt_us;
        for flow in &mut flows {
            flow.on_ack(&ack(now, rtt_us, flow.window_bytes() as u32));
        }
    }
    flows.map(|flow| flow.window_bytes())
}

#[test]
fn alone_on_a_link_it_settles_at_the_target_delay() {
    for initial_bytes in [64 * KIB, 512 * KIB, 8192 * KIB] {
        // 10 Gb/s for the target of a window this size, 326 us, is 407 KB; ai adds 32 KiB.
        let [window] = share([swift(initial_bytes)], 500);
        assert!((360_000..460_000).contains(&window), "{initial_bytes}: {window}");
    }
}

#[test]
fn flows_that_start_unequal_become_equal() {
    let [one, other] = share([swift(8192 * KIB), swift(64 * KIB)], 500);
    assert!(one.max(other) < 2 * one.min(other), "{one} {other}");
}

/// A control as on SCR's testbed, with the windows of 32 and 96 Gb/s over 10 us.
fn scr() -> Swift {
    let parameters = SwiftParameters {
        target: Duration::from_us(1),
        hop: Duration::from_us(2),
        range: Duration::from_us(2),
        scaling_min_bytes: 40_000,
        scaling_max_bytes: 120_000,
        min_bytes: 4_000,
        initial_bytes: 40_000,
        ..SwiftParameters::default()
    };
    Swift::new(parameters, MTU)
}

#[test]
fn hops_and_the_range_of_windows_make_the_target() {
    let mut swift = scr();
    let mut target_ns = |window: u64, hops: u8| {
        swift.window.bytes = window;
        swift.hops = hops;
        swift.target().as_ns()
    };
    // At fs_min the whole range is added, at fs_max nothing, and the same beyond both.
    assert_eq!([target_ns(40_000, 1), target_ns(4_000, 1)], [5_000; 2]);
    assert_eq!([target_ns(120_000, 1), target_ns(500_000, 1)], [3_000; 2]);
    // 64 Gb/s: (1/√80 − 1/√120) / (1/√40 − 1/√120) = 0.3070 of 2 us.
    assert_eq!(target_ns(80_000, 1), 3_614);
    assert_eq!([target_ns(120_000, 0), target_ns(120_000, 4)], [1_000, 9_000]);
}

#[test]
fn the_target_counts_the_hops_of_the_sample() {
    let mut swift = scr();
    swift.window.bytes = 120_000;
    // A delay of 8 us is too long for one hop and short for four.
    swift.on_ack(&AckSample { hops: 4, ..ack(100, 8, 1408) });
    assert!(swift.window_bytes() > 120_000);
    swift.on_ack(&AckSample { hops: 1, ..ack(200, 8, 1408) });
    assert!(swift.window_bytes() < 120_000);
}

#[test]
fn the_endpoints_part_of_the_delay_has_a_window_of_its_own() {
    let mut swift = swift(2048 * KIB);
    let part = |us| Some(Duration::from_us(us));
    // The hosts cause 400 of the 600 us: the fabric is below its target of 300 us, and the hosts
    // are above theirs of 100. 0.8 × 300 / 400 is more than a half, so the window is halved.
    swift.on_ack(&AckSample { endpoint_delay: part(400), ..ack(1000, 600, 64 * 1024) });
    assert_eq!(swift.window.bytes, 2049 * KIB);
    assert_eq!(swift.window_bytes(), 1024 * KIB);
    // Smoothed delay: 400 − 350 / 8 = 356.25 us; a round trip later the window is halved again.
    swift.on_ack(&AckSample { endpoint_delay: part(50), ..ack(1600, 600, 64 * 1024) });
    assert_eq!(swift.endpoint_delay, Duration::from_ns(356_250));
    assert_eq!(swift.window_bytes(), 512 * KIB);
    // The window grows when the hosts have recovered.
    for step in 0..100 {
        let sample = ack(2200 + step, 200, 64 * 1024);
        swift.on_ack(&AckSample { endpoint_delay: part(20), ..sample });
    }
    assert!(swift.window_bytes() > 512 * KIB);
}

#[test]
fn delay_within_hosts_does_not_count_as_fabric_delay() {
    let mut swift = swift(2048 * KIB);
    let endpoint_delay = Some(Duration::from_us(90));
    swift.on_ack(&AckSample { endpoint_delay, ..ack(1000, 380, 64 * 1024) });
    assert_eq!(swift.window_bytes(), 2049 * KIB, "both are below their targets");
    swift.on_ack(&AckSample { endpoint_delay: None, ..ack(2000, 380, 64 * 1024) });
    assert!(swift.window_bytes() < 2049 * KIB);
}

/// A decrease of 107 days ago once seemed to be in the future, so that the window did not fall for
/// another 106 days, whatever was lost.
#[test]
fn window_falls_however_long_it_did_not() {
    const DAY_US: u64 = 86_400_000_000;
    for days in [1, 107, 200] {
        let mut swift = swift(2048 * KIB);
        swift.on_ack(&ack(1000, 600, 1408));
        let before = swift.window_bytes();
        assert!(before < 2048 * KIB);
        swift.on_ack(&ack(1000 + days * DAY_US, 600, 1408));
        assert!(swift.window_bytes() < before, "after {days} days");
    }
}
