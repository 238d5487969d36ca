use super::*;
use fairway_wire::Duration;

fn scheduler(line_bits: u64) -> (StaticShare, RateRegisters) {
    let parameters = StaticParameters { line_bits, ..StaticParameters::default() };
    (StaticShare::new(parameters, 4), RateRegisters::new(4))
}

fn weight(weight: u16) -> Share {
    Share { weight, ..Share::default() }
}

#[test]
fn the_line_is_divided_by_weight_and_anew_when_flows_come_and_go() {
    let (mut scheduler, rates) = scheduler(8_000_000_000);
    let rate = |flow| rates.get(FlowId(flow));
    scheduler.flow_started(Instant::ZERO, FlowId(0), weight(1), &rates);
    assert_eq!(rate(0), 1_000_000_000);
    scheduler.flow_started(Instant::ZERO, FlowId(2), weight(3), &rates);
    assert_eq!((rate(0), rate(2)), (250_000_000, 750_000_000));
    scheduler.share_changed(Instant::ZERO, FlowId(0), weight(3), &rates);
    assert_eq!((rate(0), rate(2)), (500_000_000, 500_000_000));
    scheduler.flow_ended(Instant::ZERO, FlowId(0), &rates);
    assert_eq!((rate(0), rate(2)), (RateRegisters::UNLIMITED, 1_000_000_000));
    // Flow 1 never started, and flow 9 does not exist.
    assert_eq!((rate(1), rate(9)), (RateRegisters::UNLIMITED, RateRegisters::UNLIMITED));
    assert_eq!(scheduler.event_bytes(), u32::MAX, "events would change nothing");
}

#[test]
fn every_flow_gets_the_least_rate_at_least() {
    let (mut scheduler, rates) = scheduler(8_000_000);
    for flow in 0..4 {
        scheduler.flow_started(
            Instant::ZERO,
            FlowId(flow),
            weight(1 + 96 * (flow % 2) as u16),
            &rates,
        );
    }
    // 8 Mb/s are divided in parts of 1, 97, 1 and 97 of 196, with a minimum of 1 Mb/s.
    assert_eq!([0, 1].map(|flow| rates.get(FlowId(flow))), [125_000, 494_897]);
}

#[test]
fn an_unknown_line_is_not_divided_before_it_is_known() {
    let (mut scheduler, rates) = scheduler(0);
    for flow in 0..2 {
        scheduler.flow_started(Instant::ZERO, FlowId(flow), weight(1), &rates);
        assert_eq!(rates.get(FlowId(flow)), RateRegisters::UNLIMITED);
    }
    assert_eq!(scheduler.event_bytes(), 0);
    for us in 0..=10 {
        let now = Instant::ZERO + Duration::from_us(100 * us);
        let sample =
            TransmitSample { now, bytes: 100_000, events: 1, backlogged: true, paced: false };
        scheduler.on_transmit(FlowId(0), &sample, &rates);
    }
    assert_eq!([0, 1].map(|flow| rates.get(FlowId(flow))), [500_000_000; 2]);
}
