use super::*;
use fairway_wire::Duration;

const MBPS: u64 = 1_000_000;

/// A control with 1 Gb/s that adds 10 Mb/s per round trip of 100 us.
fn control() -> Backpressure {
    let parameters = BackpressureParameters {
        line_bits: 1000 * MBPS,
        increase_bits: 10 * MBPS,
        ..BackpressureParameters::default()
    };
    Backpressure::new(parameters, 1408)
}

fn ack(us: u64, pressure: bool) -> AckSample {
    AckSample {
        now: Instant::ZERO + Duration::from_us(us),
        acked_bytes: 1408,
        smoothed_rtt: Duration::from_us(100),
        pressure,
        ..AckSample::default()
    }
}

fn loss(us: u64, by_timeout: bool) -> LossSample {
    let now = Instant::ZERO + Duration::from_us(us);
    let smoothed_rtt = Duration::from_us(100);
    let sent_at = now - smoothed_rtt;
    LossSample { now, lost_bytes: 1408, path: 0, smoothed_rtt, by_timeout, sent_at }
}

#[test]
fn pressure_halves_it_once_per_round_trip_and_then_it_grows() {
    let mut control = control();
    assert_eq!(control.pacing_bytes_per_second(), Some(125_000_000));
    control.on_ack(&ack(0, true));
    assert_eq!(control.rate_bits, 500 * MBPS);
    control.on_ack(&ack(99, true));
    assert_eq!(control.rate_bits, 500 * MBPS);
    control.on_ack(&ack(100, true));
    assert_eq!(control.rate_bits, 250 * MBPS);
    for us in (110..=500).step_by(10) {
        control.on_ack(&ack(us, false));
    }
    assert_eq!(control.rate_bits, 290 * MBPS);
}

#[test]
fn window_stays_between_its_limits() {
    let mut control = control();
    for round in 0..20 {
        control.on_ack(&ack(100 * round, true));
    }
    assert_eq!(control.rate_bits, 40 * MBPS);
    for round in 20..200 {
        control.on_ack(&ack(100 * round, false));
    }
    assert_eq!(control.rate_bits, 1000 * MBPS);
}

#[test]
fn a_timeout_is_a_complaint_and_reordering_none() {
    let mut control = control();
    control.on_loss(&loss(0, false));
    assert_eq!(control.rate_bits, 1000 * MBPS, "a little loss is a bad link");
    control.on_loss(&loss(10, true));
    assert_eq!(control.rate_bits, 500 * MBPS);
    control.on_spurious(Instant::ZERO, 1);
    assert_eq!(control.rate_bits, 1000 * MBPS);
    control.on_spurious(Instant::ZERO, 1);
    control.on_ack(&ack(200, true));
    control.on_spurious(Instant::ZERO, 1);
    assert_eq!(control.rate_bits, 500 * MBPS, "the requested reduction stays");
}

#[test]
fn senders_to_one_receiver_become_equal() {
    // The receiver signals pressure above 1 Gb/s. One flow starts at a tenth of the other.
    let mut all = [control(), control()];
    all[0].rate_bits = 100 * MBPS;
    for round in 1..2000 {
        let sum: u64 = all.iter().map(|control| control.rate_bits).sum();
        for control in &mut all {
            control.on_ack(&ack(100 * round, sum > 1000 * MBPS));
        }
    }
    let rates = all.map(|control| control.rate_bits);
    assert!(rates[0].abs_diff(rates[1]) <= 5 * MBPS, "{rates:?}");
    assert!(rates.iter().sum::<u64>() >= 490 * MBPS, "{rates:?}");
}
