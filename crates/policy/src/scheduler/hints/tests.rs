use super::super::model::{HUNGRY, Model};
use super::*;
use crate::PolicySpec;
use alloc::vec::Vec;

const FLOWS: u32 = 8;
/// The line rate: 100 Gb/s, in bytes per second.
const LINE: u64 = 12_500_000_000;

fn scheduler(name: &str) -> Box<dyn Scheduler> {
    let spec: PolicySpec = name.parse().expect("a specification");
    spec.build_scheduler(FLOWS)
}

fn started(name: &str, weights: &[u16]) -> (Box<dyn Scheduler>, RateRegisters) {
    let (mut scheduler, rates) = (scheduler(name), RateRegisters::new(FLOWS));
    for (flow, weight) in (0..).map(FlowId).zip(weights) {
        let share = Share { weight: *weight, ..Share::default() };
        scheduler.flow_started(Instant::ZERO, flow, share, &rates);
    }
    (scheduler, rates)
}

fn quanta(scheduler: &dyn Scheduler, flows: u32) -> Vec<u32> {
    let of = |flow| scheduler.quantum_bytes(FlowId(flow)).expect("a quantum");
    (0..flows).map(of).collect()
}

#[test]
fn a_hint_is_the_weight_until_it_is_zero() {
    let (mut drr, rates) = started("sched=drr:quantum=1K:hints=weight", &[1, 2]);
    let mut hint = |flow, hint| {
        drr.on_hint(Instant::ZERO, FlowId(flow), hint, &rates);
        quanta(&*drr, 2)
    };
    assert_eq!(hint(0, 0), [1024, 2048]);
    assert_eq!(hint(0, 6), [3072, 1024]);
    assert_eq!(hint(1, 3), [2048, 1024]);
    assert_eq!(hint(0, 0), [1024, 3072]);
    assert_eq!(hint(1, 0), [1024, 2048]);
}

#[test]
fn a_share_that_changes_meanwhile_holds_when_the_hint_is_gone() {
    let (mut drr, rates) = started("sched=drr:quantum=1K:hints=weight", &[1, 1]);
    drr.on_hint(Instant::ZERO, FlowId(0), 4, &rates);
    let share = Share { weight: 8, ..Share::default() };
    drr.share_changed(Instant::ZERO, FlowId(0), share, &rates);
    assert_eq!(quanta(&*drr, 2), [4096, 1024]);
    drr.on_hint(Instant::ZERO, FlowId(0), 0, &rates);
    assert_eq!(quanta(&*drr, 2), [8192, 1024]);
}

#[test]
fn a_flow_that_has_the_number_of_another_begins_without_its_hint() {
    let (mut drr, rates) = started("sched=drr:quantum=1K:hints=weight", &[1, 1]);
    drr.on_hint(Instant::ZERO, FlowId(0), 4, &rates);
    drr.flow_ended(Instant::ZERO, FlowId(0), &rates);
    drr.flow_started(Instant::ZERO, FlowId(0), Share::default(), &rates);
    assert_eq!(quanta(&*drr, 2), [1024, 1024]);
    // A change of the share does not bring the hint back either.
    let share = Share { weight: 2, ..Share::default() };
    drr.share_changed(Instant::ZERO, FlowId(0), share, &rates);
    assert_eq!(quanta(&*drr, 2), [2048, 1024]);
}

#[test]
fn hints_are_ignored_unless_enabled() {
    for name in ["drr", "water-filling:line=100Gbps", "static:line=100Gbps"] {
        let (mut scheduler, rates) = started(name, &[1, 1]);
        let before = [0, 1].map(|flow| rates.get(FlowId(flow)));
        scheduler.on_hint(Instant::ZERO, FlowId(0), 50, &rates);
        assert_eq!([0, 1].map(|flow| rates.get(FlowId(flow))), before, "{name}");
    }
    let (mut drr, rates) = started("drr", &[1, 1]);
    drr.on_hint(Instant::ZERO, FlowId(0), 50, &rates);
    assert_eq!(quanta(&*drr, 2), [32 * 1024; 2]);
}

#[test]
fn hostile_hints_leave_everyone_something() {
    // Even with the largest quantum, the flow with the smallest fair share has the default one.
    let (mut drr, rates) = started("sched=drr:hints=weight", &[1, 1, 1]);
    for hint in [u64::MAX, 1 << 16, 1 << 63, 65_535] {
        drr.on_hint(Instant::ZERO, FlowId(0), hint, &rates);
        assert_eq!(quanta(&*drr, 3), [16 << 20, 32 * 1024, 32 * 1024], "{hint}");
    }
    drr.on_hint(Instant::ZERO, FlowId(FLOWS), u64::MAX, &rates);
    drr.on_hint(Instant::ZERO, FlowId(u32::MAX), 7, &rates);
    // Every hint is possible, for every flow, at any rate of change.
    for name in ["drr", "water-filling:line=100Gbps", "static:line=100Gbps"] {
        let name = alloc::format!("sched={name}:hints=weight");
        let (mut scheduler, rates) = started(&name, &[1; FLOWS as usize]);
        let mut state = 1_u64;
        for round in 0..10_000_u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let hint = match state >> 62 {
                0 => 0,
                1 => u64::MAX,
                2 => state,
                _ => state >> 50,
            };
            let flow = FlowId(round % (FLOWS + 1));
            scheduler.on_hint(Instant::ZERO, flow, hint, &rates);
            if round % 97 == 0 {
                scheduler.flow_ended(Instant::ZERO, flow, &rates);
            } else if round % 89 == 0 {
                scheduler.flow_started(Instant::ZERO, flow, Share::default(), &rates);
            }
        }
        for flow in 0..FLOWS {
            assert!(rates.get(FlowId(flow)) > 0, "{name}");
            assert!(scheduler.quantum_bytes(FlowId(flow)).is_none_or(|bytes| bytes > 0), "{name}");
        }
    }
}

#[test]
fn a_hint_takes_from_flows_of_its_own_tenant_only() {
    let (mut drr, rates) = (scheduler("drr:quantum=1K:hints=weight"), RateRegisters::new(FLOWS));
    for (flow, tenant) in [(0, 1), (1, 1), (2, 2)] {
        let share = Share { tenant, weight: 1, tenant_weight: 1 };
        drr.flow_started(Instant::ZERO, FlowId(flow), share, &rates);
    }
    drr.on_hint(Instant::ZERO, FlowId(0), 3, &rates);
    // 3/4 and 1/4 of a half, against the other half.
    assert_eq!(quanta(&*drr, 3), [3072, 1024, 4096]);
}

#[test]
fn rates_follow_hints_while_flows_run() {
    for (name, hints) in [("water-filling", [0, 3]), ("static", [4, 12])] {
        let name = alloc::format!("sched={name}:line=100Gbps:hints=weight");
        let mut model = Model::new(scheduler(&name), LINE, 2);
        (0..2).for_each(|flow| model.start(flow, HUNGRY, Share::default()));
        model.run(2500);
        let even = model.measure(2500);
        assert!(even.iter().all(|rate| rate.abs_diff(LINE / 2) < LINE / 50), "{name}: {even:?}");
        for (flow, hint) in (0..).map(FlowId).zip(hints) {
            model.scheduler.on_hint(model.now, flow, hint, &model.rates);
        }
        model.run(2500);
        let rates = model.measure(2500);
        let close = |rate: u64, part: u64| rate.abs_diff(LINE * part / 4) < LINE / 25;
        assert!(close(rates[0], 1) && close(rates[1], 3), "{name}: {rates:?}");
    }
}
