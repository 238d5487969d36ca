use super::*;
use alloc::vec::Vec;

/// A queue of a quarter of what the path holds.
const SHORT_QUEUE: u64 = 800;
/// Three times what the path holds.
const LONG_QUEUE: u64 = 250;

fn at_ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_ms(ms)
}

/// Flows that the sender counts as after each of so many falls at 125 ms, of which each leaves so
/// long a round trip.
fn flows_after(rivals: &mut Rivals, falls: u64, left_ms: u64, empty_permille: u64) -> Vec<u64> {
    let mut flows = Vec::new();
    for number in 0..falls {
        let now = at_ms(1000 * number);
        rivals.ended(90_000, 10_000);
        rivals.falls(now, Duration::from_ms(125), empty_permille);
        flows.push(rivals.flows());
        // Of a packet that was sent before the fall.
        rivals.measured(now + Duration::from_ms(60), Duration::from_ms(100), false);
        let left = Duration::from_ms(left_ms);
        rivals.measured(now + Duration::from_ms(300), left, left_ms > 110);
        // The queue has filled again.
        rivals.measured(now + Duration::from_ms(900), Duration::from_ms(125), true);
    }
    flows
}

/// One that has lost a tenth of what it sent.
fn lossy() -> Rivals {
    let mut rivals = Rivals::default();
    for _ in 0..20 {
        rivals.ended(90_000, 10_000);
    }
    rivals
}

#[test]
fn falls_that_shorten_round_trips_leave_one_flow() {
    for left_ms in [100, 112] {
        assert_eq!(flows_after(&mut lossy(), 5, left_ms, SHORT_QUEUE), [1; 5], "{left_ms}");
    }
}

#[test]
fn falls_that_shorten_no_round_trip_make_three_flows_and_later_one_again() {
    let flows = flows_after(&mut lossy(), 20, 120, SHORT_QUEUE);
    assert_eq!(flows[..4], [1, 2, 3, 3]);
    assert_eq!(flows.iter().filter(|flows| **flows == 1).count(), 2, "{flows:?}");
    assert_eq!(flows[17..], [1, 2, 3]);
}

#[test]
fn falls_in_a_long_queue_leave_one_flow() {
    assert_eq!(flows_after(&mut lossy(), 5, 120, LONG_QUEUE), [1; 5]);
}

#[test]
fn few_losses_leave_one_flow() {
    let mut rivals = Rivals::default();
    for number in 0..20 {
        rivals.ended(980_000, 20_000);
        rivals.falls(at_ms(1000 * number), Duration::from_ms(125), SHORT_QUEUE);
        rivals.measured(at_ms(1000 * number + 500), Duration::from_ms(125), true);
        assert_eq!(rivals.flows(), 1);
    }
}

#[test]
fn three_flows_become_one_when_falls_shorten_round_trips_again() {
    let mut rivals = lossy();
    flows_after(&mut rivals, 4, 120, SHORT_QUEUE);
    assert_eq!(flows_after(&mut rivals, 4, 100, SHORT_QUEUE), [3, 2, 1, 1]);
}

#[test]
fn falls_before_anything_was_measured_prove_nothing() {
    let mut rivals = lossy();
    for number in 0..5 {
        let now = at_ms(125 * number);
        rivals.falls(now, Duration::from_ms(125), SHORT_QUEUE);
        rivals.measured(now + Duration::from_ms(100), Duration::from_ms(125), true);
        assert_eq!(rivals.flows(), 1);
    }
}
