use super::{FlowGate, Gate, Schedule};
use fairway_policy::{FlowId, PolicySpec, Share};
use fairway_wire::{Duration, Instant};

const FLOWS: [FlowId; 2] = [FlowId(0), FlowId(1)];
const PACKET: u32 = 1000;

/// The schedule of two flows with these weights, whose scheduler has run.
fn scheduled(policy: &str, weights: [u16; 2]) -> (Schedule, [FlowGate; 2]) {
    let mut schedule = Schedule::new(2);
    let policy: PolicySpec = policy.parse().unwrap();
    let mut processor = schedule.set_scheduler(Some(policy.build_scheduler(2))).unwrap();
    for (flow, weight) in FLOWS.into_iter().zip(weights) {
        schedule.begin(flow, Share { weight, ..Share::default() });
    }
    processor.run(Instant::ZERO, 100);
    (schedule, [FlowGate::new(Instant::ZERO); 2])
}

#[test]
fn gates_without_a_scheduler_are_always_open() {
    let mut schedule = Schedule::new(2);
    let mut gate = FlowGate::new(Instant::ZERO);
    for _ in 0..1000 {
        assert_eq!(schedule.check(&mut gate, FLOWS[0], Instant::ZERO), Gate::Open);
        schedule.charge(&mut gate, FLOWS[0], Instant::ZERO, u32::MAX);
    }
}

#[test]
fn a_turn_is_the_flows_quantum_and_debts_are_paid_in_the_next() {
    let (mut schedule, mut gates) = scheduled("sched=drr:quantum=1500", [1, 3]);
    let mut turns = [0; 2];
    for _ in 0..300 {
        for (n, flow) in FLOWS.into_iter().enumerate() {
            while schedule.check(&mut gates[n], flow, Instant::ZERO) == Gate::Open {
                schedule.charge(&mut gates[n], flow, Instant::ZERO, PACKET);
                turns[n] += PACKET;
            }
            assert_eq!(schedule.check(&mut gates[n], flow, Instant::ZERO), Gate::Spent);
            schedule.refill(&mut gates[n], flow);
        }
    }
    assert_eq!(turns, [300 * 1500, 900 * 1500]);
}

#[test]
fn a_flow_keeps_its_dequeue_rate() {
    let (mut schedule, mut gates) = scheduled("sched=static:line=80Mbps", [1, 1]);
    // Half of 10 MB/s.
    let (mut now, mut sent) = (Instant::ZERO, 0);
    while now.is_before(Instant::ZERO + Duration::from_ms(1000)) {
        match schedule.check(&mut gates[0], FLOWS[0], now) {
            Gate::Open => {
                schedule.charge(&mut gates[0], FLOWS[0], now, PACKET);
                sent += PACKET;
            }
            Gate::Paced(at) => now = at,
            Gate::Spent => unreachable!("there are no quanta"),
        }
    }
    assert!((4_990_000..5_010_000).contains(&sent), "{sent}");
}
