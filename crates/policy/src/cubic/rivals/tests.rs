use super::*;
use alloc::vec::Vec;

/// Base round trip in milliseconds: a queue of a quarter of what the path holds makes it 125.
const EMPTY_MS: u64 = 100;

fn at_ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_ms(ms)
}

/// Measures `times` round trips of `round_trip_ms` from `from_ms` on.
fn measure(rivals: &mut Rivals, from_ms: u64, round_trip_ms: u64, times: u64) {
    let round_trip = Duration::from_ms(round_trip_ms);
    for number in 0..times {
        rivals.measured(at_ms(from_ms + number), round_trip, round_trip_ms > 114);
    }
}

/// Returns the number of flows that the sender counts as after each of `falls` decreases at the
/// round trips `at` in turn. After each, the round trip is `left_ms` for half of the time until the
/// next one.
fn flows_after(rivals: &mut Rivals, falls: u64, at: &[u64], left_ms: u64) -> Vec<u64> {
    let mut flows = Vec::new();
    for (number, at) in (0..falls).zip(at.iter().cycle()) {
        let now_ms = 1000 * number;
        rivals.ended(90_000, 10_000);
        rivals.falls(at_ms(now_ms), Duration::from_ms(*at), Duration::from_ms(EMPTY_MS));
        flows.push(rivals.flows());
        // These round trips are of packets that were sent before the decrease.
        measure(rivals, now_ms + 60, EMPTY_MS, 20);
        measure(rivals, now_ms + 600, left_ms, 10);
        // The queue has filled again.
        measure(rivals, now_ms + 900, *at, 10);
    }
    flows
}

/// A sender that has lost a tenth of the bytes it sent.
fn lossy() -> Rivals {
    let mut rivals = Rivals::default();
    for _ in 0..20 {
        rivals.ended(90_000, 10_000);
    }
    rivals
}

#[test]
fn falls_that_shorten_round_trips_leave_one_flow() {
    for left_ms in [EMPTY_MS, 112] {
        assert_eq!(flows_after(&mut lossy(), 5, &[125], left_ms), [1; 5], "{left_ms}");
    }
}

#[test]
fn falls_that_shorten_no_round_trip_make_three_flows_and_later_one_again() {
    let flows = flows_after(&mut lossy(), 20, &[125], 120);
    assert_eq!(flows[..4], [1, 2, 3, 3]);
    assert_eq!(flows.iter().filter(|flows| **flows == 1).count(), 2, "{flows:?}");
    assert_eq!(flows[17..], [1, 2, 3]);
}

/// The moment is as long as the time for which BBR drains the queue after it has probed for more.
#[test]
fn round_trips_that_are_shorter_for_a_moment_only_are_not_felt() {
    for (moment, flows) in [(10, 2), (11, 1)] {
        let mut rivals = lossy();
        for number in 0..2 {
            let now_ms = 1000 * number;
            rivals.falls(at_ms(now_ms), Duration::from_ms(125), Duration::from_ms(EMPTY_MS));
            measure(&mut rivals, now_ms + 300, EMPTY_MS, moment);
            measure(&mut rivals, now_ms + 600, 125, 40 - moment);
        }
        assert_eq!(rivals.flows(), flows, "{moment} of 40 are shorter");
    }
}

#[test]
fn falls_in_a_long_queue_leave_one_flow() {
    assert_eq!(flows_after(&mut lossy(), 5, &[410], 400), [1; 5]);
}

/// The queue is long, although it is short at some of the losses.
#[test]
fn falls_in_the_middle_of_a_long_queue_leave_one_flow() {
    assert_eq!(flows_after(&mut lossy(), 20, &[270, 220, 220], 215), [1; 20]);
}

/// A bad link loses packets at any length of the queue.
#[test]
fn falls_before_the_end_of_the_queue_leave_one_flow() {
    let flows = flows_after(&mut lossy(), 20, &[200, 125, 150, 130], 120);
    assert_eq!(flows, [1; 20]);
}

#[test]
fn few_losses_leave_one_flow() {
    let mut rivals = Rivals::default();
    for number in 0..20 {
        rivals.ended(980_000, 20_000);
        rivals.falls(at_ms(1000 * number), Duration::from_ms(125), Duration::from_ms(EMPTY_MS));
        measure(&mut rivals, 1000 * number + 500, 125, 1);
        assert_eq!(rivals.flows(), 1);
    }
}

#[test]
fn three_flows_become_one_when_falls_shorten_round_trips_again() {
    let mut rivals = lossy();
    flows_after(&mut rivals, 4, &[125], 120);
    assert_eq!(flows_after(&mut rivals, 4, &[125], EMPTY_MS), [3, 2, 1, 1]);
}

#[test]
fn falls_before_anything_was_measured_prove_nothing() {
    let mut rivals = lossy();
    for number in 0..5 {
        let now_ms = 125 * number;
        rivals.falls(at_ms(now_ms), Duration::from_ms(125), Duration::from_ms(EMPTY_MS));
        measure(&mut rivals, now_ms + 100, 125, 1);
        assert_eq!(rivals.flows(), 1);
    }
}
