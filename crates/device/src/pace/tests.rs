use super::Pace;
use fairway_wire::{Duration, Instant};

const START: Instant = Instant::from_ps(1_000_000);

#[test]
fn a_rate_is_kept_packet_by_packet() {
    // 1 Mb/s, 1,000 bytes: 8 ms each.
    let mut pace = Pace::new(START);
    let mut now = START;
    for _ in 0..100 {
        assert!(pace.is_open(now));
        pace.charge(now, 1000, 125_000, 0, Duration::ZERO);
        assert!(!pace.is_open(now));
        assert_eq!(pace.until.since(now), Duration::from_ms(8));
        now = pace.until;
    }
}

#[test]
fn a_burst_leaves_at_once_and_is_paid_for() {
    let mut pace = Pace::new(START);
    let mut sent = 0;
    while pace.is_open(START) {
        pace.charge(START, 1000, 1_000_000_000, 5000, Duration::ZERO);
        sent += 1000;
    }
    assert_eq!(sent, 5000);
    assert_eq!(pace.until.since(START), Duration::from_us(5));
}

#[test]
fn late_wake_up_is_made_up_for() {
    let mut pace = Pace::new(START);
    let grace = Duration::from_ms(2);
    let rate = 1_000_000_000;
    // The sender is woken 30 us late each time, and sends all that is due.
    let (mut now, mut sent) = (START, 0_u64);
    for _ in 0..1000 {
        while pace.is_open(now) {
            pace.charge(now, 1000, rate, 0, grace);
            sent += 1000;
        }
        now = pace.until + Duration::from_us(30);
    }
    // A byte takes a nanosecond.
    let due = sent;
    let took = pace.until.since(START).as_ns();
    assert!(took.abs_diff(due) <= 1000, "{took} {due}");
    // Time further back than the grace is lost.
    now = now + Duration::from_secs(1);
    let mut late = 0;
    while pace.is_open(now) {
        pace.charge(now, 1000, rate, 0, grace);
        late += 1000;
    }
    assert_eq!(late, 2_000_000 + 1000);
}

#[test]
fn a_new_rate_holds_for_what_is_waited_for() {
    let mut pace = Pace::new(START);
    pace.charge(START, 1000, 125_000, 0, Duration::ZERO);
    let now = START + Duration::from_ms(4);
    pace.rescale(now, 125_000, 1_250_000);
    assert_eq!(pace.until.since(now), Duration::from_us(400));
    pace.rescale(now, 1_250_000, 125_000);
    assert_eq!(pace.until.since(now), Duration::from_ms(4));
}

#[test]
fn extremes_do_not_overflow() {
    let mut pace = Pace::new(START);
    pace.charge(START, u32::MAX, u64::MAX, u64::MAX, Duration::ZERO);
    pace.charge(START, u32::MAX, 1, u64::MAX, Duration::ZERO);
    pace.rescale(START, u64::MAX, 1);
    pace.rescale(START, 1, u64::MAX);
}

#[test]
fn pace_is_open_however_long_nothing_was_charged() {
    let day = Duration::from_secs(86_400);
    for days in 1..600 {
        let mut pace = Pace::new(START);
        pace.charge(START, 1000, 125_000, 0, Duration::ZERO);
        // Refreshed every day or, for up to 212 days, never.
        let now = START + day.times(days);
        assert!(days > 212 || (pace.is_open(now) && !pace.is_ahead(now)), "{days} days");
        (1..=days).for_each(|days| pace.refresh(START + day.times(days)));
        assert!(pace.is_open(now) && !pace.is_ahead(now), "{days} days");
        pace.charge(now, 1000, 125_000, 0, Duration::ZERO);
        assert_eq!(pace.until.since(now), Duration::from_ms(8));
    }
}

#[test]
fn refresh_leaves_a_wait_alone() {
    let mut pace = Pace::new(START);
    pace.charge(START, 1000, 125_000, 0, Duration::ZERO);
    pace.refresh(START + Duration::from_ms(3));
    assert_eq!(pace.until.since(START), Duration::from_ms(8));
}
