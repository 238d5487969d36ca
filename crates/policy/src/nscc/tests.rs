use super::*;

const PACKET: u32 = 4096;
/// One and a half bandwidth-delay products of 150 kB, so that `a` is one.
const MOST: u64 = 225_000;

fn control(initial_bytes: u64) -> Nscc {
    let parameters = NsccParameters {
        base: Duration::from_us(12),
        target: Duration::from_us(12),
        max_bytes: MOST,
        initial_bytes,
        ..NsccParameters::default()
    };
    Nscc::new(parameters, PACKET)
}

fn at(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

/// The acknowledgement of a packet at `us`, whose round trip has `delay_us` of queueing.
fn ack(us: u64, delay_us: u64, marked_packets: u32) -> AckSample {
    let rtt = Duration::from_us(12 + delay_us);
    AckSample {
        now: at(us),
        acked_bytes: PACKET,
        acked_packets: 1,
        marked_packets,
        rtt: Some(rtt),
        smoothed_rtt: rtt,
        window_limited: true,
        ..AckSample::default()
    }
}

fn loss(us: u64, packets: u32, by_timeout: bool) -> LossSample {
    let lost_bytes = packets * PACKET;
    LossSample { now: at(us), lost_bytes, by_timeout, ..LossSample::default() }
}

/// The growth of a window of 100,000 bytes by a window of acknowledgements within one round trip.
fn growth(delay_us: u64) -> u64 {
    let mut control = control(100_000);
    // The first sample begins the round trip, whose additional increase is not what is measured.
    control.on_ack(&ack(0, delay_us, 1));
    let before = control.window_bytes();
    for _ in 0..100_000 / PACKET {
        control.on_ack(&ack(1, delay_us, 0));
    }
    control.window_bytes() - before
}

#[test]
fn window_grows_with_the_distance_to_the_target_and_fairly_above_it() {
    // 4 packets a window at no delay, of which a quarter is left at 9 of 12 us; 5 packets above
    // the target if nothing is marked.
    let near = |bytes: u64, packets: u64| {
        let wanted = packets * u64::from(PACKET) / 4;
        assert!(bytes.abs_diff(wanted) < wanted / 5, "{bytes} for {wanted}");
    };
    near(growth(9), 4);
    near(growth(6), 8);
    near(growth(12), 20);
    near(growth(40), 20);
}

#[test]
fn window_that_finds_no_queue_grows_fast() {
    let mut control = control(40_000);
    for us in 0..40 {
        control.on_ack(&ack(us, 0, 0));
    }
    // After a window of ten packets, a quarter of each acknowledged packet.
    let grown = control.window_bytes() - 40_000;
    assert!(grown > 28 * 1024, "{grown}");
    for us in 40..2000 {
        control.on_ack(&ack(us, 0, 0));
    }
    assert_eq!(control.window_bytes(), MOST);
}

#[test]
fn marks_reduce_the_window_only_if_the_mean_delay_exceeds_the_target() {
    let mut control = control(100_000);
    control.on_ack(&ack(0, 20, 1));
    let first = control.window_bytes();
    control.on_ack(&ack(1, 20, 1));
    assert_eq!(control.window_bytes(), first, "the mean is still low");
    for us in 2..2000 {
        control.on_ack(&ack(us, 24, 1));
    }
    assert!(control.mean > Duration::from_us(20), "{:?}", control.mean);
    let before = control.window_bytes();
    for us in 2000..2012 {
        control.on_ack(&ack(us, 24, 1));
    }
    let after = control.window_bytes();
    // At most one decrease in a round trip of 12 us, by at most a half.
    assert!(after <= before && after >= before / 2, "{before} {after}");
    assert!(after < first);
}

#[test]
fn mean_ignores_long_delays_without_marks() {
    let mut control = control(100_000);
    for us in 0..3000 {
        control.on_ack(&ack(us, 100, 0));
    }
    // A quarter of the base round trip is assumed instead.
    assert!(control.mean <= Duration::from_us(3), "{:?}", control.mean);
}

#[test]
fn losses_take_their_bytes_and_come_back_if_they_were_none() {
    let mut control = control(200_000);
    control.on_loss(&loss(1, 10, false));
    assert_eq!(control.window_bytes(), 200_000 - 10 * u64::from(PACKET));
    control.on_spurious(at(2), 3);
    assert_eq!(control.window_bytes(), 200_000 - 7 * u64::from(PACKET));
    control.on_spurious(at(2), 100);
    assert_eq!(control.window_bytes(), 200_000);
    control.on_spurious(at(3), 100);
    assert_eq!(control.window_bytes(), 200_000);
}

#[test]
fn window_comes_back_after_late_packets_that_carry_marks() {
    let mut control = control(200_000);
    control.on_loss(&loss(1, 10, false));
    for _ in 0..10 {
        // Each of them arrives late, out of a long queue, and so with a mark.
        control.on_ack(&AckSample { window_limited: false, ..ack(2, 20, 1) });
    }
    let reduced = control.window_bytes();
    assert_eq!(reduced, 200_000 - 10 * u64::from(PACKET));
    control.on_spurious(at(3), 10);
    assert_eq!(control.window_bytes(), 200_000);
}

#[test]
fn window_taken_by_marks_does_not_come_back_with_that_taken_by_losses() {
    let mut control = control(200_000);
    control.mean = Duration::from_us(24);
    control.on_loss(&loss(1, 10, false));
    let before = control.window_bytes();
    control.on_ack(&AckSample { window_limited: false, ..ack(2, 24, 1) });
    let after = control.window_bytes();
    assert!(after < before * 3 / 4, "{before} {after}");
    control.on_spurious(at(3), 10);
    // 200,000 bytes, less the share that the mark took.
    let wanted = 200_000 * after / before;
    assert!(control.window_bytes().abs_diff(wanted) < 300, "{} {wanted}", control.window_bytes());
}

#[test]
fn a_few_losses_without_a_queue_do_not_count() {
    let mut control = control(200_000);
    for us in 0..200 {
        control.on_ack(&AckSample { window_limited: false, ..ack(us, 0, 0) });
    }
    let before = control.window_bytes();
    control.on_loss(&loss(200, 1, false));
    assert_eq!(control.window_bytes(), before);
    control.on_loss(&loss(200, 1, true));
    assert!(control.window_bytes() < before, "a time-out counts");
}

#[test]
fn quick_adapt_sets_the_window_to_what_arrived() {
    let mut control = control(200_000);
    control.on_ack(&ack(0, 0, 0));
    for us in [1, 2, 3] {
        control.on_ack(&ack(us, 30, 1));
    }
    // The period of 24 us is over: three packets have arrived in it.
    control.on_loss(&loss(25, 20, false));
    assert_eq!(control.window_bytes(), 3 * u64::from(PACKET));
    control.on_loss(&loss(26, 1, false));
    assert_eq!(control.window_bytes(), 2 * u64::from(PACKET));
}

#[test]
fn quick_adapt_spares_a_sender_that_had_little_to_send() {
    let mut control = control(200_000);
    control.on_ack(&AckSample { window_limited: false, ..ack(0, 0, 0) });
    control.on_ack(&AckSample { window_limited: false, ..ack(3, 0, 0) });
    control.on_loss(&loss(25, 1, false));
    assert!(control.window_bytes() >= 200_000 - u64::from(PACKET));
}

#[test]
fn windows_stay_within_their_limits() {
    let mut control = control(200_000);
    for us in 0..1000 {
        control.on_loss(&loss(us, 40, us % 3 == 0));
        control.on_ack(&ack(us, us % 90, (us % 2) as u32));
        let window = control.window_bytes();
        assert!((u64::from(PACKET)..=MOST).contains(&window), "{window}");
    }
}

#[test]
fn base_round_trip_is_measured_if_it_is_not_given() {
    let parameters = NsccParameters { max_bytes: MOST, ..NsccParameters::default() };
    let mut control = Nscc::new(parameters, PACKET);
    control.on_ack(&ack(0, 8, 0));
    control.on_ack(&ack(1, 0, 0));
    assert_eq!(control.base(), Duration::from_us(12));
    assert_eq!(control.target(), Duration::from_us(9));
}
