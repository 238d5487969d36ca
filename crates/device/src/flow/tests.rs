use super::{FlowGate, Gate, Schedule};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use fairway_policy::{FlowId, PolicySpec, RateRegisters, Scheduler, Share, TransmitSample};
use fairway_wire::{Duration, Instant};

const FLOWS: [FlowId; 2] = [FlowId(0), FlowId(1)];
const PACKET: u32 = 1000;
const BURST: Duration = Duration::from_us(20);

/// The schedule of two flows with these weights, whose scheduler has run.
fn scheduled(policy: &str, weights: [u16; 2]) -> (Schedule, [FlowGate; 2]) {
    let mut schedule = Schedule::new(2, BURST);
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
    let mut schedule = Schedule::new(2, BURST);
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

/// Gives every flow the rate in `rate`, and counts in `states` what transmit events report: flows
/// that have drained, that have more to send, and that wait for their rate.
struct Given {
    rate: Arc<AtomicU64>,
    states: Arc<[AtomicU64; 3]>,
}

impl Scheduler for Given {
    fn name(&self) -> &'static str {
        "given"
    }
    fn flow_started(&mut self, _: Instant, flow: FlowId, _: Share, rates: &RateRegisters) {
        rates.set(flow, self.rate.load(Ordering::Relaxed));
    }
    fn flow_ended(&mut self, _: Instant, _: FlowId, _: &RateRegisters) {}
    fn share_changed(&mut self, now: Instant, flow: FlowId, share: Share, rates: &RateRegisters) {
        self.flow_started(now, flow, share, rates);
    }
    fn on_transmit(&mut self, flow: FlowId, sample: &TransmitSample, rates: &RateRegisters) {
        let state = usize::from(sample.backlogged) + usize::from(sample.paced);
        self.states[state].fetch_add(1, Ordering::Relaxed);
        rates.set(flow, self.rate.load(Ordering::Relaxed));
    }
}

/// One flow with a rate that the test sets, in bytes per second.
struct Paced {
    schedule: Schedule,
    gate: FlowGate,
    processor: crate::control::Processor,
    rate: Arc<AtomicU64>,
    states: Arc<[AtomicU64; 3]>,
}

impl Paced {
    fn new(rate: u64, burst: Duration) -> Paced {
        let rate = Arc::new(AtomicU64::new(rate));
        let states = Arc::new([0; 3].map(AtomicU64::new));
        let scheduler = Given { rate: rate.clone(), states: states.clone() };
        let mut schedule = Schedule::new(1, burst);
        let mut processor = schedule.set_scheduler(Some(Box::new(scheduler))).unwrap();
        schedule.begin(FLOWS[0], Share::default());
        processor.run(Instant::ZERO, 100);
        Paced { schedule, gate: FlowGate::new(Instant::ZERO), processor, rate, states }
    }

    fn check(&mut self, now: Instant) -> Gate {
        self.schedule.check(&mut self.gate, FLOWS[0], now)
    }

    /// Sends all that the gate lets pass. Returns the number of packets.
    fn send(&mut self, now: Instant) -> u32 {
        let mut sent = 0;
        while self.check(now) == Gate::Open {
            self.schedule.charge(&mut self.gate, FLOWS[0], now, PACKET);
            self.processor.run(now, 100);
            sent += 1;
        }
        sent
    }

    /// Events of flows that have drained, that had more to send, and that waited for their rate,
    /// since the last call.
    fn states(&self) -> Vec<u64> {
        self.states.iter().map(|count| count.swap(0, Ordering::Relaxed)).collect()
    }
}

fn us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

#[test]
fn a_burst_takes_its_time_at_the_rate_and_at_most_32_kib() {
    let burst = |rate, burst| Paced::new(rate, Duration::from_us(burst)).send(Instant::ZERO);
    // A packet takes 1 us at 1 GB/s.
    assert_eq!(burst(1_000_000_000, 20), 20);
    assert_eq!(burst(1_000_000_000, 4), 4);
    assert_eq!(burst(1_000_000_000, 0), 1, "at least a packet");
    assert_eq!(burst(10_000_000, 20), 1, "at least a packet");
    assert_eq!(burst(10_000_000_000, 20), 33, "at most 32 KiB");
    assert_eq!(burst(1_000_000_000, 1_000_000), 33, "at most 32 KiB");
}

#[test]
fn a_raised_rate_rearms_the_departure_for_what_is_left() {
    // A packet takes 100 us.
    let mut flow = Paced::new(10_000_000, Duration::ZERO);
    assert_eq!(flow.send(us(0)), 1);
    assert_eq!(flow.check(us(20)), Gate::Paced(us(100)));
    assert_eq!(flow.schedule.pop_raised(), None);
    // Another flow's event, or the application, makes the scheduler raise the rate.
    flow.rate.store(40_000_000, Ordering::Relaxed);
    flow.schedule.set_share(FLOWS[0], Share::default());
    flow.processor.run(us(20), 100);
    assert_eq!(flow.schedule.pop_raised(), Some(FLOWS[0]));
    assert_eq!(flow.schedule.pop_raised(), None);
    assert_eq!(flow.check(us(20)), Gate::Paced(us(40)), "a quarter of the 80 us that were left");
    assert_eq!(flow.send(us(40)), 1);
    // A lower rate is not announced: the flow is woken at the old time, and waits on.
    flow.rate.store(20_000_000, Ordering::Relaxed);
    flow.schedule.set_share(FLOWS[0], Share::default());
    flow.processor.run(us(40), 100);
    assert!(!flow.schedule.has_raised());
    // Without a limit the gate opens.
    flow.rate.store(RateRegisters::UNLIMITED, Ordering::Relaxed);
    flow.schedule.set_share(FLOWS[0], Share::default());
    flow.processor.run(us(41), 100);
    assert_eq!(flow.schedule.pop_raised(), Some(FLOWS[0]));
    assert_eq!(flow.check(us(41)), Gate::Open);
}

#[test]
fn a_backlogged_flow_is_reported_as_paced_with_the_packet_that_shuts_its_gate() {
    // Four packets of 1 us each are a burst.
    let mut flow = Paced::new(1_000_000_000, Duration::from_us(4));
    assert_eq!(flow.send(us(0)), 4);
    assert_eq!(flow.states(), [0, 3, 1]);
    // It keeps up with its rate, so that all that it sends from now on is paced.
    for round in 1..10 {
        assert_eq!(flow.send(us(4 * round)), 4);
        assert_eq!(flow.states(), [0, 0, 4]);
    }
    // A flow that had nothing to send has to reach its rate anew.
    flow.schedule.drained(FLOWS[0]);
    flow.processor.run(us(50), 100);
    flow.gate.begin(us(100));
    assert_eq!(flow.states(), [1, 0, 0]);
    assert_eq!(flow.send(us(100)), 4);
    assert_eq!(flow.states(), [0, 3, 1]);
    // A flow that sends more slowly than it may does not wait for its rate, whatever is queued.
    for round in 0..10 {
        let now = us(200 + 10 * round);
        assert_eq!(flow.check(now), Gate::Open);
        flow.schedule.charge(&mut flow.gate, FLOWS[0], now, PACKET);
        flow.processor.run(now, 100);
    }
    assert_eq!(flow.states(), [0, 10, 0]);
}

/// The flow sends less than its dequeue rate allows, without a pause.
#[test]
fn flow_that_never_reaches_its_rate_is_never_held_back() {
    let (mut schedule, mut gates) = scheduled("sched=static:line=80Mbps", [1, 1]);
    let mut now = Instant::ZERO;
    for hours in 0..(24 * 440) {
        now = now + Duration::from_secs(3600);
        assert_eq!(schedule.check(&mut gates[0], FLOWS[0], now), Gate::Open, "{hours} hours");
        schedule.charge(&mut gates[0], FLOWS[0], now, PACKET);
    }
}

#[test]
fn flow_that_rests_for_months_may_send_when_it_begins_again() {
    for days in (1..210).step_by(7) {
        let (mut schedule, mut gates) = scheduled("sched=static:line=80Mbps", [1, 1]);
        schedule.charge(&mut gates[0], FLOWS[0], Instant::ZERO, PACKET);
        let now = Instant::ZERO + Duration::from_secs(days * 86_400);
        gates[0].begin(now);
        assert_eq!(schedule.check(&mut gates[0], FLOWS[0], now), Gate::Open, "{days} days");
    }
}
