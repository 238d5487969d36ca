use super::*;
use crate::dcqcn_rate::ALPHA_ONE;

const MTU: u32 = 1408;
const MBPS: u64 = 1_000_000;
const QUARTER: u64 = ALPHA_ONE / 4;

/// A control with a line rate of 10 Gb/s, α = 1 and g = 1/4.
fn dcqcn() -> Dcqcn {
    let line_bits = 10_000 * MBPS;
    Dcqcn::new(DcqcnParameters { line_bits, gain: 4, ..DcqcnParameters::default() }, MTU)
}

/// The instant `us` after a start from which the clock wraps in 100 us.
fn at_us(us: u64) -> Instant {
    Instant::from_ps(0) - Duration::from_us(100) + Duration::from_us(us)
}

fn ack(now_us: u64, marked_packets: u32) -> AckSample {
    AckSample { now: at_us(now_us), marked_packets, ..AckSample::default() }
}

fn loss(now_us: u64, lost_bytes: u32, by_timeout: bool) -> LossSample {
    let smoothed_rtt = Duration::from_us(100);
    let (now, sent_at) = (at_us(now_us), at_us(now_us) - smoothed_rtt);
    LossSample { now, lost_bytes, path: 0, smoothed_rtt, by_timeout, sent_at }
}

#[test]
fn rate_starts_at_line_rate_with_alpha_one() {
    let dcqcn = dcqcn();
    assert_eq!(dcqcn.pacing_bytes_per_second(), Some(1_250_000_000));
    assert_eq!(dcqcn.rate.alpha, ALPHA_ONE);
    assert_eq!(dcqcn.pacing_burst_bytes(), 62 * 1024);
}

#[test]
fn a_mark_cuts_by_half_of_alpha_at_most_every_50_us() {
    let mut dcqcn = dcqcn();
    dcqcn.on_ack(&ack(0, 3));
    assert_eq!((dcqcn.rate_bits(), dcqcn.target_bits()), (5000 * MBPS, 10_000 * MBPS));
    dcqcn.on_ack(&ack(49, 3));
    assert_eq!(dcqcn.rate_bits(), 5000 * MBPS);
    dcqcn.on_ack(&AckSample { pressure: true, ..ack(50, 0) });
    assert_eq!((dcqcn.rate_bits(), dcqcn.target_bits()), (2500 * MBPS, 5000 * MBPS));
}

#[test]
fn alpha_follows_the_marks_across_the_wrap_of_time() {
    let mut dcqcn = dcqcn();
    dcqcn.on_ack(&ack(0, 1));
    assert_eq!(dcqcn.rate.alpha, ALPHA_ONE);
    dcqcn.on_ack(&ack(54, 0));
    assert_eq!(dcqcn.rate.alpha, ALPHA_ONE);
    dcqcn.on_ack(&ack(55, 0));
    assert_eq!(dcqcn.rate.alpha, 3 * QUARTER);
    dcqcn.on_ack(&ack(110, 0));
    assert_eq!(dcqcn.rate.alpha, 9 * QUARTER / 4, "0.75 × 0.75");
    // α = 0.75 × 0.5625 + 0.25.
    dcqcn.on_ack(&ack(111, 1));
    assert_eq!(dcqcn.rate.alpha, 43 * QUARTER / 16);
}

#[test]
fn rate_grows_by_fast_recovery_then_additive_then_hyper_increase() {
    let mut dcqcn = dcqcn();
    dcqcn.on_ack(&ack(0, 1));
    dcqcn.on_ack(&ack(50, 1));
    assert_eq!((dcqcn.rate_bits(), dcqcn.target_bits()), (2500 * MBPS, 5000 * MBPS));
    // The first four steps are fast recovery.
    for (step, rate) in [(1, 3_750_000_000), (2, 4_375_000_000), (3, 4_687_500_000)] {
        dcqcn.on_ack(&ack(50 + 55 * step, 0));
        assert_eq!((dcqcn.rate_bits(), dcqcn.target_bits()), (rate, 5000 * MBPS));
    }
    dcqcn.on_ack(&ack(50 + 55 * 4, 0));
    assert_eq!(dcqcn.rate_bits(), 4_843_750_000);
    // The fifth step is additive.
    dcqcn.on_ack(&ack(50 + 55 * 5, 0));
    assert_eq!((dcqcn.rate_bits(), dcqcn.target_bits()), (4_941_875_000, 5040 * MBPS));
    dcqcn.on_ack(&ack(50 + 55 * 6, 0));
    assert_eq!(dcqcn.target_bits(), 5080 * MBPS);
    // After five times 10 MB the increase is still additive, since min(6, 5) does not exceed five.
    // The sixth makes it hyper increase.
    for _ in 0..5 {
        dcqcn.on_ack(&AckSample { acked_bytes: 10_000_000, ..ack(381, 0) });
    }
    assert_eq!(dcqcn.target_bits(), 5280 * MBPS);
    dcqcn.on_ack(&AckSample { acked_bytes: 10_000_000, ..ack(381, 0) });
    assert_eq!(dcqcn.target_bits(), 5680 * MBPS);
}

#[test]
fn steps_that_were_missed_are_caught_up_with() {
    let [mut one, mut other] = [dcqcn(), dcqcn()];
    one.on_ack(&ack(0, 1));
    other.on_ack(&ack(0, 1));
    for step in 1..=20 {
        one.on_ack(&ack(50 * step, 0));
    }
    other.on_ack(&ack(1000, 0));
    assert_eq!((one.rate_bits(), one.rate.alpha), (other.rate_bits(), other.rate.alpha));
    assert_eq!(one.rate.timer_steps, 18);
    other.on_ack(&ack(5_000_000, 0));
    assert_eq!((other.rate_bits(), other.rate.timer_steps), (10_000 * MBPS, 18 + 4096));
}

#[test]
fn a_notification_starts_recovery_again() {
    let mut dcqcn = dcqcn();
    dcqcn.on_ack(&ack(0, 1));
    dcqcn.on_ack(&AckSample { acked_bytes: 19_000_000, ..ack(400, 1) });
    assert_eq!(
        (dcqcn.rate.timer_steps, dcqcn.rate.byte_steps, dcqcn.rate.counted_bytes),
        (0, 0, 0)
    );
    let target = dcqcn.target_bits();
    dcqcn.on_ack(&ack(454, 0));
    assert_eq!(dcqcn.rate.timer_steps, 0, "the timer was set back, too");
    dcqcn.on_ack(&ack(455, 0));
    assert_eq!((dcqcn.rate.timer_steps, dcqcn.target_bits()), (1, target));
}

#[test]
fn losses_that_count_are_notifications() {
    let mut dcqcn = dcqcn();
    dcqcn.on_loss(&loss(0, MTU, false));
    assert_eq!(dcqcn.rate_bits(), 10_000 * MBPS, "a little of 8 MiB");
    dcqcn.on_loss(&loss(1, MTU, true));
    assert_eq!(dcqcn.rate_bits(), 5000 * MBPS);
    dcqcn.on_loss(&loss(50, 1 << 20, false));
    assert_eq!(dcqcn.rate_bits(), 5000 * MBPS, "within a round trip");
}

#[test]
fn window_stays_within_its_limits_for_any_samples() {
    let mut dcqcn = dcqcn();
    for step in 0..1000 {
        dcqcn.on_ack(&ack(50 * step, 1));
    }
    assert_eq!(dcqcn.rate_bits(), 40 * MBPS);
    let most = u64::MAX;
    let wild = DcqcnParameters {
        line_bits: most,
        min_bits: 0,
        increase_bits: most,
        hyper_bits: most,
        gain: 0,
        timer: Duration::ZERO,
        counter_bytes: 0,
        spacing: Duration::ZERO,
        window_bytes: 0,
        tolerated_loss_permille: 0,
    };
    let mut dcqcn = Dcqcn::new(wild, u32::MAX);
    for step in 0..500u64 {
        let now = Instant::from_ps(step << 60);
        dcqcn.on_ack(&AckSample { now, acked_bytes: u32::MAX, ..ack(0, (step % 3) as u32) });
        dcqcn.on_loss(&LossSample { now, ..loss(0, u32::MAX, step % 5 == 0) });
        assert!((8..=DcqcnParameters::HIGHEST_BITS).contains(&dcqcn.rate_bits()));
    }
}
