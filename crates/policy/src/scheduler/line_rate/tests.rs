use alloc::vec::Vec;

use super::*;

const KIB: u64 = 1024;

fn event(us: u64, kib: u64, backlogged: bool) -> TransmitSample {
    let now = Instant::ZERO + Duration::from_us(us);
    TransmitSample { now, bytes: kib * KIB, events: 1, backlogged, paced: false }
}

/// Sends events of flow 0 every 100 us from `from` until `to`, `kib` each; returns the reactions.
fn steady(line: &mut LineRate, from: u64, to: u64, kib: u64) -> Vec<(u64, News)> {
    let times = (from..to).step_by(100);
    let news = times.map(|us| (us, line.observe(FlowId(0), &event(us, kib, true))));
    news.filter(|(_, news)| *news != News::None).collect()
}

#[test]
fn a_rate_that_is_given_is_not_looked_for() {
    let mut line = LineRate::new(10_000_000_000, 1);
    assert_eq!(line.bytes_per_second(), 1_250_000_000);
    assert!(steady(&mut line, 0, 200_000, 1000).is_empty());
    assert!(!line.is_lifted());
}

#[test]
fn the_first_measurement_starts_with_the_first_backlog_and_lasts_a_millisecond() {
    let mut line = LineRate::new(0, 1);
    assert!(line.is_lifted());
    // The rate is 100 KiB every 100 us; the bytes of the first event were sent before.
    let news = steady(&mut line, 0, 5_000, 100);
    assert_eq!(news, [(1000, News::Set)]);
    assert_eq!(line.bytes_per_second(), 10 * 100 * KIB * 1000);
    assert!(!line.is_lifted());
}

#[test]
fn measurement_also_lasts_until_enough_was_sent() {
    let mut line = LineRate::new(0, 1);
    // With 4 KiB every 100 us, 256 KiB take 6.4 ms.
    assert_eq!(steady(&mut line, 0, 10_000, 4), [(6400, News::Set)]);
    assert_eq!(line.bytes_per_second(), 40 * KIB * 1000);
}

#[test]
fn idle_time_does_not_count() {
    let mut line = LineRate::new(0, 2);
    line.observe(FlowId(0), &event(0, 300, true));
    line.observe(FlowId(0), &event(500, 300, false));
    // No flow has more to send until 9 ms, so the measurement starts over.
    assert_eq!(line.observe(FlowId(0), &event(9_000, 300, true)), News::None);
    assert_eq!(line.observe(FlowId(1), &event(9_500, 300, false)), News::None);
    assert_eq!(line.observe(FlowId(0), &event(10_000, 300, true)), News::Set);
    assert_eq!(line.bytes_per_second(), 600 * KIB * 1000);
    // A flow that has ended has nothing more to send.
    line.ended(FlowId(0));
    assert_eq!(line.backlogs, 0);
}

#[test]
fn estimate_falls_slowly_and_rises_at_once_after_a_pause() {
    let mut line = LineRate::new(0, 1);
    steady(&mut line, 0, 1_100, 160);
    let first = line.bytes_per_second();
    assert_eq!(first, 1600 * KIB * 1000);
    // The line is half as fast from now on: 64 ms after 1 ms the rates are lifted, for a
    // millisecond.
    let news = steady(&mut line, 1_100, 66_100, 80);
    assert_eq!(news, [(65_000, News::Lift), (66_000, News::Set)]);
    assert_eq!(line.bytes_per_second(), first - first / 16);
    // The line is faster than the rates that hold: the measured rate applies at once.
    assert_eq!(steady(&mut line, 66_100, 67_100, 200), [(67_000, News::Set)]);
    assert_eq!(line.bytes_per_second(), 2000 * KIB * 1000);
}

#[test]
fn rates_of_flows_that_do_not_wait_stay() {
    let mut line = LineRate::new(0, 1);
    steady(&mut line, 0, 1_100, 100);
    assert_eq!(line.observe(FlowId(0), &event(90_000, 100, false)), News::None);
    assert!(!line.is_lifted());
    assert_eq!(line.observe(FlowId(0), &event(91_000, 100, true)), News::Lift);
}
