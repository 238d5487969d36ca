use super::*;
use fairway_wire::Duration;

fn loss(now_us: u64, lost_bytes: u32, by_timeout: bool) -> LossSample {
    LossSample {
        now: Instant::from_ps(u64::MAX - 50_000_000) + Duration::from_us(now_us),
        lost_bytes,
        path: 0,
        smoothed_rtt: Duration::from_us(100),
        by_timeout,
    }
}

#[test]
fn a_share_is_of_what_was_sent_lately() {
    let mut share = LossShare::new(970);
    share.remember(0, 30, 1000);
    assert!(!share.exceeds(30), "30 of 1000");
    share.remember(0, 1, 1000);
    assert!(share.exceeds(30), "31 of 1001");
    // 970 + 2000 acknowledged and 31 lost exceed two windows; halved, 1485 and 15 are 10 in a
    // thousand.
    share.remember(2000, 0, 1000);
    assert!(share.exceeds(9) && !share.exceeds(10));
}

#[test]
fn reactions_are_a_round_trip_apart_across_the_wrap_of_time() {
    let mut losses = LossReaction::new(30, 1000);
    assert!(!losses.counts(&loss(0, 30, false), 1000), "2.9 %");
    assert!(losses.counts(&loss(1, 30, false), 1000), "5.7 %");
    // The clock wraps 50 us after the first.
    assert!(!losses.counts(&loss(100, 30, false), 1000));
    assert!(losses.counts(&loss(101, 30, false), 1000));
    losses.forgive();
    assert!(!losses.counts(&loss(300, 1, false), 1000));
    assert!(losses.counts(&loss(301, 1, true), 1000), "a time-out always counts");
}
