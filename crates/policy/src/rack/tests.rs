use super::*;

const RTT: Duration = Duration::from_us(16);

fn evidence(overtaken_us: u64, path_distance: u32) -> Evidence {
    let overtaken_by = Duration::from_us(overtaken_us);
    Evidence { overtaken_by, path_distance, smoothed_rtt: RTT, ..Evidence::default() }
}

fn late(us: u64) -> LateArrival {
    let overtaken_by = Duration::from_us(us);
    LateArrival { psn_distance: 5, overtaken_by, smoothed_rtt: RTT, ..LateArrival::default() }
}

/// Lets round trips of a hundred packets pass.
fn pass(detector: &mut Rack, round_trips: core::ops::Range<u64>) {
    for number in round_trips {
        detector.on_ack(Instant::ZERO + RTT.times(number + 1), RTT, 100);
    }
}

#[test]
fn nothing_is_known_at_first_so_a_round_trip_is_allowed() {
    let mut detector = Rack::new();
    pass(&mut detector, 0..1);
    assert_eq!(detector.window(RTT), Duration::from_us(20));
    assert!(!detector.is_lost(&evidence(19, 0)));
    assert!(detector.is_lost(&evidence(20, 0)));
    assert_eq!(detector.overdue_after(RTT), Some(Duration::from_us(36)));
}

#[test]
fn window_falls_to_a_sixteenth_where_nothing_is_late() {
    let mut detector = Rack::new();
    pass(&mut detector, 0..40);
    assert_eq!(detector.window(RTT), Duration::from_us(1));
    assert!(detector.is_lost(&evidence(1, 0)));
}

#[test]
fn window_is_a_quarter_more_than_the_largest_difference_of_late() {
    let mut detector = Rack::new();
    pass(&mut detector, 0..40);
    detector.on_reordering(&late(3));
    detector.on_reordering(&late(8));
    detector.on_reordering(&late(2));
    assert_eq!(detector.window(RTT), Duration::from_us(10));
    assert!(!detector.is_lost(&evidence(9, 0)));
    pass(&mut detector, 40..60);
    assert_eq!(detector.window(RTT), Duration::from_us(1));
}

/// Four packets in each round trip show a difference of 8 us once in eighty packets.
#[test]
fn channels_that_send_little_do_not_forget_between_two_differences() {
    let mut detector = Rack::new();
    pass(&mut detector, 0..40);
    detector.on_reordering(&late(8));
    for number in 40..240 {
        detector.on_ack(Instant::ZERO + RTT.times(number + 1), RTT, 4);
        if number % 20 == 0 {
            detector.on_reordering(&late(8));
        }
        assert!(detector.window(RTT) >= Duration::from_us(10), "round trip {number}");
    }
}

#[test]
fn window_never_exceeds_four_round_trips() {
    let mut detector = Rack::new();
    detector.on_reordering(&late(100_000));
    assert_eq!(detector.window(RTT), RTT.times(4));
    assert!(detector.is_lost(&evidence(64, 0)));
}

#[test]
fn packets_sent_twice_for_nothing_widen_the_window_once_per_round_trip() {
    let mut detector = Rack::new();
    pass(&mut detector, 0..40);
    let spurious = LateArrival { was_declared_lost: true, smoothed_rtt: RTT, ..late(0) };
    detector.on_reordering(&spurious);
    let wider = detector.window(RTT);
    assert_eq!(wider, Duration::from_ns(1250));
    detector.on_reordering(&spurious);
    assert_eq!(detector.window(RTT), wider);
}

#[test]
fn three_later_packets_of_its_own_path_prove_a_loss() {
    let mut detector = Rack::new();
    pass(&mut detector, 0..1);
    assert!(!detector.is_lost(&evidence(1, 2)));
    assert!(detector.is_lost(&evidence(1, 3)));
    detector.on_reordering(&LateArrival { path_distance: 6, ..late(0) });
    assert!(!detector.is_lost(&evidence(1, 6)));
    assert!(detector.is_lost(&evidence(1, 7)));
}

#[test]
fn nothing_is_lost_before_the_first_round_trip_is_known() {
    let mut detector = Rack::new();
    let unknown = Evidence { smoothed_rtt: Duration::ZERO, ..evidence(1000, 0) };
    assert!(!detector.is_lost(&unknown));
}
