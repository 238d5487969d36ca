use super::*;
use fairway_wire::Duration;

fn loss(now_us: u64, lost_bytes: u32, by_timeout: bool) -> LossSample {
    let now = Instant::from_ps(u64::MAX - 50_000_000) + Duration::from_us(now_us);
    let smoothed_rtt = Duration::from_us(100);
    let sent_at = now - smoothed_rtt;
    LossSample { now, lost_bytes, path: 0, smoothed_rtt, by_timeout, sent_at }
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
fn reactions_are_a_window_apart_across_the_wrap_of_time() {
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

#[test]
fn packets_that_were_sent_before_a_reaction_cause_no_other() {
    let mut losses = LossReaction::new(30, 1000);
    assert!(losses.counts(&loss(0, 60, false), 1000));
    losses.forgive();
    let reaction = loss(0, 0, false).now;
    let before = reaction - Duration::from_us(1);
    for at_us in [150, 300, 1000] {
        let old = LossSample { sent_at: before, ..loss(at_us, 60, false) };
        assert!(!losses.counts_if(&old, 1000, true));
    }
    assert!(!losses.is_exceeded(), "their bytes do not count either");
    let at_reaction = |at_us| LossSample { sent_at: reaction, ..loss(at_us, 60, false) };
    assert!(losses.counts(&at_reaction(1001), 1000), "sent at the reaction");
    let timed_out = |at_us| LossSample { by_timeout: true, ..at_reaction(at_us) };
    assert!(!losses.counts(&timed_out(1100), 1000));
    assert!(losses.counts(&timed_out(1101), 1000), "a time-out waits for a round trip only");
}

#[test]
fn reactions_a_round_trip_apart_do_not_depend_on_when_packets_were_sent() {
    let mut losses = LossReaction::new(30, 1000).a_round_trip_apart();
    let old = |at_us| LossSample { sent_at: loss(0, 0, false).now, ..loss(at_us, 60, false) };
    assert!(losses.counts(&old(10), 1000));
    assert!(!losses.counts(&old(109), 1000), "less than a round trip later");
    assert!(losses.counts(&old(110), 1000));
}
