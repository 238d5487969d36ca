use super::*;

const MTU: u32 = 1408;
const MBPS: u64 = 1_000_000;

fn timely() -> Timely {
    let initial_bits = 1000 * MBPS;
    Timely::new(TimelyParameters { initial_bits, ..TimelyParameters::default() }, MTU)
}

/// Passes one completion event with a steady round trip of `rtt_us`; returns the rate.
fn event(timely: &mut Timely, rtt_us: u64) -> u64 {
    timely.on_ack(&ack(rtt_us, 64 * 1024));
    timely.rate_bits()
}

fn ack(rtt_us: u64, acked_bytes: u32) -> AckSample {
    let rtt = Duration::from_us(rtt_us);
    AckSample { acked_bytes, rtt: Some(rtt), smoothed_rtt: rtt, ..AckSample::default() }
}

fn loss(now_us: u64, lost_bytes: u32, by_timeout: bool) -> LossSample {
    // The clock wraps 50 us after zero.
    let now = Instant::from_ps(0) - Duration::from_us(50) + Duration::from_us(now_us);
    let smoothed_rtt = Duration::from_us(100);
    let sent_at = now - smoothed_rtt;
    LossSample { now, lost_bytes, path: 0, smoothed_rtt, by_timeout, sent_at }
}

#[test]
fn below_t_low_it_grows_by_delta_whatever_the_gradient() {
    let mut timely = timely();
    assert_eq!(event(&mut timely, 20), 1010 * MBPS);
    assert_eq!(event(&mut timely, 49), 1020 * MBPS);
}

#[test]
fn above_t_high_it_falls_with_the_excess_whatever_the_gradient() {
    let mut timely = timely();
    // 0.8 × (1 − 500/1000) = 0.4; the first event has no gradient.
    assert_eq!(event(&mut timely, 1000), 600 * MBPS);
    // 0.8 × (1 − 500/800) = 0.3, although the round trip became shorter.
    assert_eq!(event(&mut timely, 800), 420 * MBPS);
}

#[test]
fn between_them_the_gradient_steers() {
    let mut timely = timely();
    assert_eq!(event(&mut timely, 100), 1010 * MBPS, "no gradient yet");
    // diff = 0.875 × 8 us = 7 us; 0.8 × 7 / 20 = 0.28.
    assert_eq!(event(&mut timely, 108), 727_200_000);
    // diff = 0.125 × 7 − 0.875 × 8 = −6.125 us.
    assert_eq!(event(&mut timely, 100), 737_200_000);
    assert_eq!(timely.difference_ns, -6125);
}

#[test]
fn a_steep_rise_halves_it_at_most() {
    let mut timely = timely();
    event(&mut timely, 100);
    // 0.8 × 0.875 × 100 / 20 = 3.5.
    assert_eq!(event(&mut timely, 200), 505 * MBPS);
}

#[test]
fn from_the_fifth_calm_event_on_it_hurries() {
    let mut timely = timely();
    let rates: [u64; 6] = core::array::from_fn(|_| event(&mut timely, 100) / MBPS);
    assert_eq!(rates, [1010, 1020, 1030, 1040, 1090, 1140]);
    event(&mut timely, 101);
    let rate = timely.rate_bits();
    assert_eq!(event(&mut timely, 100), rate + 10 * MBPS, "the row was broken");
}

#[test]
fn events_are_segments() {
    let mut timely = timely();
    timely.on_ack(&ack(20, 64 * 1024 - 1));
    assert_eq!(timely.rate_bits(), 1000 * MBPS);
    timely.on_ack(&AckSample { rtt: None, ..ack(20, 1) });
    assert_eq!(timely.rate_bits(), 1000 * MBPS, "without a round trip");
    timely.on_ack(&ack(20, 0));
    assert_eq!(timely.rate_bits(), 1010 * MBPS);
}

#[test]
fn one_late_sample_is_no_queue_but_pressure_is() {
    let mut timely = timely();
    let late = AckSample { rtt: Some(Duration::from_ms(5)), ..ack(40, 65_536) };
    timely.on_ack(&late);
    assert_eq!(timely.rate_bits(), 1010 * MBPS);
    timely.on_ack(&AckSample { pressure: true, ..ack(40, 65_536) });
    // The round trip counts as twice T_high: 0.8 × 0.5.
    assert_eq!(timely.rate_bits(), 606 * MBPS);
}

#[test]
fn losses_that_count_halve_it_once_per_round_trip() {
    let mut timely = timely();
    timely.on_loss(&loss(0, MTU, false));
    assert_eq!(timely.rate_bits(), 1000 * MBPS, "a little of 8 MiB");
    timely.on_loss(&loss(1, MTU, true));
    assert_eq!(timely.rate_bits(), 500 * MBPS);
    timely.on_loss(&loss(100, 1 << 20, false));
    assert_eq!(timely.rate_bits(), 500 * MBPS);
    timely.on_loss(&loss(101, 1 << 20, false));
    assert_eq!(timely.rate_bits(), 250 * MBPS);
    timely.on_spurious(Instant::ZERO, 1);
    assert_eq!(timely.rate_bits(), 500 * MBPS);
}

#[test]
fn pacing_bursts_fit_the_rate() {
    let timely = timely();
    assert_eq!(timely.pacing_bytes_per_second(), Some(125_000_000));
    // The burst is 100 us of the rate.
    assert_eq!(timely.pacing_burst_bytes(), 12_500);
    assert_eq!(timely.window_bytes(), 8 << 20);
}

#[test]
fn window_stays_within_its_limits_for_any_samples() {
    let mut timely = timely();
    for _ in 0..10_000 {
        event(&mut timely, 1);
    }
    assert_eq!(timely.rate_bits(), 100_000 * MBPS);
    for _ in 0..100 {
        event(&mut timely, u64::MAX);
    }
    assert_eq!(timely.rate_bits(), 40 * MBPS);
    let most = u64::MAX;
    let wild = TimelyParameters {
        low: Duration::ZERO,
        high: Duration::MAX,
        min_rtt: Duration::ZERO,
        increase_bits: most,
        alpha_permille: most,
        beta_permille: most,
        segment_bytes: 0,
        min_bits: 0,
        max_bits: most,
        initial_bits: most,
        window_bytes: 0,
        tolerated_loss_permille: most,
    };
    let mut timely = Timely::new(wild, u32::MAX);
    for rtt_us in [0, u64::MAX, 1, u64::MAX, 0, 5] {
        event(&mut timely, rtt_us);
        assert!((8..=most / ONE).contains(&timely.rate_bits()));
    }
}
