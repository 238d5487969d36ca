use super::*;

fn scheduler(quantum_bytes: u64) -> (RoundRobin, RateRegisters) {
    let parameters = RoundRobinParameters { quantum_bytes, ..RoundRobinParameters::default() };
    (RoundRobin::new(parameters, 8), RateRegisters::new(8))
}

fn quanta<const N: usize>(scheduler: &RoundRobin, flows: [u32; N]) -> [u32; N] {
    flows.map(|flow| scheduler.quantum_bytes(FlowId(flow)).expect("a quantum"))
}

#[test]
fn the_smallest_quantum_is_the_one_set() {
    let (mut scheduler, rates) = scheduler(1000);
    for (flow, weight) in [(0, 2), (1, 4), (5, 7)] {
        let share = Share { weight, ..Share::default() };
        scheduler.flow_started(Instant::ZERO, FlowId(flow), share, &rates);
        assert_eq!(rates.get(FlowId(flow)), RateRegisters::UNLIMITED);
    }
    assert_eq!(quanta(&scheduler, [0, 1, 5]), [1000, 2000, 3500]);
    scheduler.flow_ended(Instant::ZERO, FlowId(0), &rates);
    assert_eq!(quanta(&scheduler, [1, 5]), [1000, 1750]);
    let share = Share { weight: 1, ..Share::default() };
    scheduler.share_changed(Instant::ZERO, FlowId(5), share, &rates);
    assert_eq!(quanta(&scheduler, [1, 5]), [4000, 1000]);
}

#[test]
fn tenants_have_turns_by_their_weight_however_many_flows_they_have() {
    let (mut scheduler, rates) = scheduler(1000);
    for flow in 0..4 {
        let share = Share { tenant: 1, weight: 1, tenant_weight: 1 };
        scheduler.flow_started(Instant::ZERO, FlowId(flow), share, &rates);
    }
    let share = Share { tenant: 2, weight: 1, tenant_weight: 2 };
    scheduler.flow_started(Instant::ZERO, FlowId(4), share, &rates);
    // A weight of 1/4 for each of four flows against 2 is one to eight.
    assert_eq!(quanta(&scheduler, [0, 3, 4]), [1000, 1000, 8000]);
}

#[test]
fn no_turn_is_endless() {
    let (mut scheduler, rates) = scheduler(1 << 20);
    for (flow, weight) in [(0, 1), (1, 65_535)] {
        let share = Share { weight, ..Share::default() };
        scheduler.flow_started(Instant::ZERO, FlowId(flow), share, &rates);
    }
    assert_eq!(quanta(&scheduler, [0, 1]), [1 << 20, 16 << 20]);
}
