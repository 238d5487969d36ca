use super::*;
use fairway_wire::{Cci, Duration};

const MTU: u32 = 1000;

fn caqm() -> Caqm {
    Caqm::new(CaqmParameters::default(), MTU)
}

fn ack(acked_packets: u32, marked_packets: u32) -> AckSample {
    let acked_bytes = acked_packets * MTU;
    AckSample {
        acked_bytes,
        acked_packets,
        marked_packets,
        window_limited: true,
        ..AckSample::default()
    }
}

fn loss(now_us: u64, lost_bytes: u32, by_timeout: bool) -> LossSample {
    // The clock wraps 50 us after zero.
    let now = Instant::from_ps(0) - Duration::from_us(50) + Duration::from_us(now_us);
    let smoothed_rtt = Duration::from_us(100);
    let sent_at = now - smoothed_rtt;
    LossSample { now, lost_bytes, path: 0, smoothed_rtt, by_timeout, sent_at }
}

#[test]
fn without_marks_it_grows_by_four_packets_per_packet() {
    let mut caqm = caqm();
    assert_eq!(caqm.window_bytes(), 32_000);
    caqm.on_ack(&ack(3, 0));
    assert_eq!(caqm.window_bytes(), 44_000);
    caqm.on_ack(&AckSample { window_limited: false, ..ack(3, 0) });
    assert_eq!(caqm.window_bytes(), 44_000);
}

#[test]
fn window_falls_with_the_share_of_marks_among_the_last_32() {
    let mut caqm = caqm();
    // r = 1/32: 32,000 × 0.1 / 32 = 100.
    caqm.on_ack(&ack(1, 1));
    assert_eq!(caqm.window_bytes(), 35_900);
    // r = 2/32, then, for two packets, 3/32 twice, because the mark comes first.
    caqm.on_ack(&ack(1, 1));
    assert_eq!(caqm.window_bytes(), 35_900 - 224 + 4000);
    caqm.on_ack(&ack(2, 1));
    // 39,676 − 371 + 4000 = 43,305; 43,305 − 405 + 4000 = 46,900.
    assert_eq!(caqm.window_bytes(), 46_900);
    // An unused window only falls: 46,900 × 0.1 × 3/32 = 439, less than the growth of 4000.
    caqm.on_ack(&AckSample { window_limited: false, ..ack(1, 0) });
    assert_eq!(caqm.window_bytes(), 46_900);
}

#[test]
fn marks_are_forgotten_after_32_packets() {
    let mut caqm = caqm();
    caqm.on_ack(&ack(1, 1));
    caqm.on_ack(&ack(31, 0));
    assert_eq!(caqm.history, 1 << 31);
    let before = caqm.window_bytes();
    caqm.on_ack(&ack(1, 0));
    assert_eq!(caqm.window_bytes(), before + 4000);
}

#[test]
fn all_marked_it_settles_at_forty_packets() {
    for packets in [1, 10_000] {
        let mut caqm = caqm();
        caqm.on_ack(&ack(packets, 0));
        for _ in 0..500 {
            caqm.on_ack(&ack(1, 1));
        }
        // A window that falls from above settles a little lower, because decreases are rounded
        // down.
        assert!(caqm.window_bytes().abs_diff(40_000) < 10, "{}", caqm.window_bytes());
        caqm.on_ack(&AckSample { pressure: true, ..ack(32, 0) });
        assert!(caqm.window_bytes().abs_diff(40_000) < 10, "pressure marks all");
    }
}

#[test]
fn losses_that_count_halve_it_and_reordering_takes_that_back() {
    let mut caqm = caqm();
    caqm.on_loss(&loss(0, 900, false));
    assert_eq!(caqm.window_bytes(), 32_000, "2.7 %");
    caqm.on_loss(&loss(1, 900, false));
    assert_eq!(caqm.window_bytes(), 16_000, "5.3 %");
    caqm.on_loss(&loss(100, 900, true));
    assert_eq!(caqm.window_bytes(), 16_000, "once per round trip, across the wrap of time");
    caqm.on_spurious(Instant::ZERO, 1);
    assert_eq!(caqm.window_bytes(), 32_000);
    caqm.on_loss(&loss(101, 900, true));
    assert_eq!(caqm.window_bytes(), 16_000);
    caqm.on_ack(&ack(1, 1));
    caqm.on_spurious(Instant::ZERO, 1);
    assert!(caqm.window_bytes() < 20_000, "marks confirmed it");
}

#[test]
fn window_stays_within_its_limits_for_any_samples() {
    let most = u64::MAX;
    let wild = CaqmParameters {
        beta_permille: most,
        increase_packets: most,
        fast_permille: most,
        initial_bytes: most,
        min_bytes: 0,
        max_bytes: most,
        tolerated_loss_permille: most,
    };
    for mtu in [0, u32::MAX] {
        let mut caqm = Caqm::new(wild, mtu);
        for step in 0..100 {
            let acked_bytes = u32::MAX;
            caqm.on_ack(&AckSample { acked_bytes, ..ack(0, step % 2 * u32::MAX) });
            caqm.on_loss(&loss(u64::from(step) * 1000, u32::MAX, true));
            let least = 2 * u64::from(mtu.max(1));
            assert!((least..=CaqmParameters::LARGEST_BYTES).contains(&caqm.window_bytes()));
        }
    }
}

/// Acknowledgements of eight packets each, with a hint of which only the first finds that the
/// window held data back.
fn hinted(cci: Cci, window_limited: bool) -> AckSample {
    AckSample { cci, window_limited, smoothed_rtt: Duration::from_us(10), ..ack(8, 0) }
}

#[test]
fn a_granted_increase_adds_four_packets_in_a_window() {
    let mut caqm = caqm();
    // A quarter of the window of 32,000 bytes, of 4,000 bytes per window. Marks do not count.
    let granted = Cci::increase(Cci::AT_THRESHOLD);
    caqm.on_ack(&AckSample { marked_packets: 8, ..hinted(granted, true) });
    assert_eq!(caqm.window_bytes(), 33_000);
    // 4,000 x 8,000/33,000 = 969, though the wire was the limit in between.
    caqm.on_ack(&hinted(Cci::increase(200), false));
    assert_eq!(caqm.window_bytes(), 33_969);
    // A round trip later the window was not the limit any more.
    let now = Instant::ZERO + Duration::from_us(11);
    caqm.on_ack(&AckSample { now, ..hinted(granted, false) });
    // Neither C nor I: the window stays.
    caqm.on_ack(&hinted(Cci::from_bits(9), true));
    assert_eq!(caqm.window_bytes(), 33_969);
}

#[test]
fn without_queues_the_window_doubles_with_each_window_of_acknowledged_bytes() {
    let mut caqm = caqm();
    let free = hinted(Cci::increase(255), true);
    // The first 32,000 bytes show that no queue is long.
    (0..4).for_each(|_| caqm.on_ack(&free));
    let before = caqm.window_bytes();
    assert!((35_000..36_000).contains(&before), "{before}");
    (0..6).for_each(|_| caqm.on_ack(&free));
    // All 48,000 bytes since then, and about 800 for each 8,000 of them.
    let after = caqm.window_bytes();
    assert!((before + 48_000..before + 53_000).contains(&after), "{before} {after}");
    // One queue that is longer ends that, until another window has shown none.
    caqm.on_ack(&hinted(Cci::increase(254), true));
    let slow = caqm.window_bytes();
    caqm.on_ack(&free);
    assert!(caqm.window_bytes() - slow <= 400, "{slow} {}", caqm.window_bytes());
}

#[test]
fn the_initial_window_is_a_parameter() {
    let parameters = CaqmParameters { initial_bytes: 100_000, ..Default::default() };
    assert_eq!(Caqm::new(parameters, MTU).window_bytes(), 100_000);
}

#[test]
fn congestion_lowers_the_window_by_at_most_half_of_the_acknowledged_bytes() {
    let mut caqm = caqm();
    let congested = |hint| AckSample { cci: Cci::congested(hint), ..ack(8, 0) };
    // A queue that has been longer, and is short again.
    caqm.on_ack(&congested(255));
    caqm.on_ack(&congested(Cci::AT_THRESHOLD));
    assert_eq!(caqm.window_bytes(), 32_000);
    caqm.on_ack(&congested(0));
    assert_eq!(caqm.window_bytes(), 28_000);
    // 8,000 x 96/256 = 3,000.
    caqm.on_ack(&congested(32));
    assert_eq!(caqm.window_bytes(), 25_000);
    for _ in 0..100 {
        caqm.on_ack(&congested(0));
    }
    assert_eq!(caqm.window_bytes(), 2000);
}

#[test]
fn marks_count_again_after_32_packets_without_hints() {
    let mut caqm = caqm();
    caqm.on_ack(&AckSample { cci: Cci::congested(255), ..ack(8, 0) });
    caqm.on_ack(&ack(31, 0));
    assert_eq!(caqm.window_bytes(), 32_000);
    caqm.on_ack(&ack(1, 0));
    assert_eq!(caqm.window_bytes(), 36_000);
}

#[test]
fn hostile_hints_keep_the_window_within_its_bounds() {
    let max_bytes = CaqmParameters::LARGEST_BYTES;
    let parameters = CaqmParameters { max_bytes, increase_packets: u64::MAX, ..Default::default() };
    let mut caqm = Caqm::new(parameters, MTU);
    for bits in 0..=u16::MAX {
        let acked_bytes = if bits % 3 == 0 { u32::MAX } else { u32::from(bits) };
        caqm.on_ack(&AckSample { acked_bytes, cci: Cci::from_bits(bits), ..ack(1, 0) });
        assert!((2000..=max_bytes).contains(&caqm.window_bytes()), "{bits:#x}");
    }
}
