use alloc::vec::Vec;

use super::super::FlowId;
use super::RateRegisters;

fn raised(rates: &RateRegisters) -> Vec<u32> {
    core::iter::from_fn(|| rates.pop_raised()).map(|flow| flow.0).collect()
}

#[test]
fn raised_rates_are_announced_once_and_lowered_ones_are_not() {
    // More flows than one word of words has bits for.
    let flows = 2 * 64 * 64 + 3;
    let rates = RateRegisters::new(flows);
    assert!(rates.pop_raised().is_none(), "registers begin without limit");
    let some = [0, 1, 63, 64, 4095, 4096, 4097, flows - 1];
    for flow in some {
        rates.set(FlowId(flow), 1000);
    }
    assert!(!rates.has_raised(), "a limit is lower than none");
    for flow in some {
        rates.set(FlowId(flow), 1001);
        rates.set(FlowId(flow), 1002);
        rates.set(FlowId(flow), 1001);
    }
    rates.set(FlowId(flows), 1);
    let mut found = raised(&rates);
    found.sort_unstable();
    assert_eq!(found, some);
    assert!(raised(&rates).is_empty() && !rates.has_raised());
    rates.set(FlowId(7), RateRegisters::UNLIMITED);
    rates.set(FlowId(64), RateRegisters::UNLIMITED);
    assert_eq!(raised(&rates), [64], "no limit is more than one, but not more than none");
}

/// The last rise of each flow is announced, however the two threads interleave.
#[test]
fn no_rise_is_missed_while_another_thread_raises() {
    const FLOWS: u32 = 200;
    const ROUNDS: u64 = 2000;
    let rates = RateRegisters::new(FLOWS);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                for flow in 0..FLOWS {
                    rates.set(FlowId(flow), 1 + round);
                }
            }
        });
        // Registers begin without limit, so the first round raises nothing.
        let mut last = [0; FLOWS as usize];
        while last.iter().any(|rate| *rate < ROUNDS) {
            if let Some(flow) = rates.pop_raised() {
                last[flow.index()] = rates.get(flow);
            }
        }
    });
    assert!(raised(&rates).is_empty());
}
