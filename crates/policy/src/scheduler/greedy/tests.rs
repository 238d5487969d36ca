use super::*;

#[test]
fn greedy_lifts_earlier_limits_once() {
    let rates = RateRegisters::new(2);
    rates.set(FlowId(1), 5);
    let mut greedy = Greedy;
    greedy.flow_started(Instant::ZERO, FlowId(1), Share::default(), &rates);
    let sample = TransmitSample { bytes: 1 << 20, backlogged: true, ..TransmitSample::default() };
    greedy.on_transmit(FlowId(1), &sample, &rates);
    greedy.flow_ended(Instant::ZERO, FlowId(1), &rates);
    assert_eq!(rates.get(FlowId(1)), RateRegisters::UNLIMITED);
    assert_eq!(greedy.quantum_bytes(FlowId(1)), None);
}
