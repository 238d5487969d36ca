use super::*;

const LINE: u64 = 10_000_000_000;

fn at(us: u64) -> Instant {
    Instant::from_ps(u64::MAX - 5_000_000) + Duration::from_us(us)
}

#[test]
fn a_flow_that_meets_no_congestion_is_not_paced() {
    let mut flow = DcqcnRate::new(&DcqcnRateParameters::new(LINE));
    for us in 0..1000 {
        assert_eq!(flow.on_sent(at(us * 1000), 4096), Duration::ZERO);
    }
}

#[test]
fn the_first_notification_halves_the_rate() {
    let mut flow = DcqcnRate::new(&DcqcnRateParameters::new(LINE));
    flow.on_notification(at(0));
    assert_eq!(flow.rate(at(0)), LINE / 2);
    // The time of 1250 bytes at 5 Gb/s.
    assert_eq!(flow.on_sent(at(0), 1250), Duration::from_us(2));
}

#[test]
fn without_notifications_it_goes_half_of_the_way_back_at_a_time() {
    let mut flow = DcqcnRate::new(&DcqcnRateParameters::new(LINE));
    flow.on_notification(at(0));
    let rates = [56, 111, 166].map(|us| flow.rate(at(us)) / 1_000_000);
    assert_eq!(rates, [7_500, 8_750, 9_375]);
}

#[test]
fn a_flow_that_is_notified_without_end_slows_to_its_least() {
    let parameters = DcqcnRateParameters::new(LINE);
    let mut flow = DcqcnRate::new(&parameters);
    let mut last = LINE;
    for round in 0..60 {
        flow.on_notification(at(50 * round));
        assert!(flow.rate(at(50 * round)) <= last);
        last = flow.rate(at(50 * round));
    }
    assert_eq!(last, parameters.min_bits);
}

#[test]
fn rare_notifications_cut_less_and_it_always_recovers() {
    let mut flow = DcqcnRate::new(&DcqcnRateParameters::new(LINE));
    let mut cuts = [0; 3];
    for (round, cut) in (0..).zip(&mut cuts) {
        let time = at(round * 20_000);
        flow.on_notification(time);
        *cut = LINE - flow.rate(time);
        assert_eq!(flow.rate(at(round * 20_000 + 19_000)), LINE, "20 ms later");
    }
    assert!(cuts[1] < cuts[0] / 2 && cuts[2] <= cuts[1], "{cuts:?}");
}

#[test]
fn bytes_raise_the_rate_too() {
    let parameters =
        DcqcnRateParameters { timer: Duration::from_secs(1), ..DcqcnRateParameters::new(LINE) };
    let mut flow = DcqcnRate::new(&parameters);
    flow.on_notification(at(0));
    for _ in 0..(10 << 20) / 4096 {
        flow.on_sent(at(1), 4096);
    }
    assert_eq!(flow.rate(at(1)), LINE / 4 * 3);
}
