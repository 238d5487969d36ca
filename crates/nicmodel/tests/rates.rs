//! Laws that bind rates and times of every run, whatever its length: a rate counts the whole time
//! of the run, so it cannot exceed what the resources permit.

mod common;

use common::{figure, measure};
use fairway_nicmodel::{CachePolicy, Config, Dispatching, Report, Stack, Verb, WorkloadKind};

/// In a closed loop.
const STACKS: [(Stack, Verb); 11] = [
    (Stack::UbLdst, Verb::Load),
    (Stack::UbLdst, Verb::Store),
    (Stack::UbUrma, Verb::Read),
    (Stack::UbUrma, Verb::Write),
    (Stack::UbUrma, Verb::Send),
    (Stack::UbUrma, Verb::CompareSwap),
    (Stack::RoceBf, Verb::Write),
    (Stack::RoceDma, Verb::Read),
    (Stack::RoceIrn, Verb::Write),
    (Stack::Infiniswap, Verb::Load),
    (Stack::Coherent, Verb::Load),
];

/// Numbers of operations, and of those in flight: also fewer operations than may be in flight.
const SHAPES: [(u64, u32); 7] =
    [(1, 1), (2, 2), (3, 64), (64, 64), (100, 7), (400, 16), (400, 256)];

/// Asserts that the rate times the mean latency is the number of operations in flight, and that
/// there are not more than there may be.
fn assert_in_flight(config: &Config, most: u32) -> Report {
    let report = measure(config);
    let in_flight = report.mops * report.mean_ns / 1000.0;
    let off = (in_flight - report.concurrency).abs() / report.concurrency;
    assert!(off < 1e-9, "{in_flight} and {} in flight: {config:?}", report.concurrency);
    assert!(in_flight <= f64::from(most) * (1.0 + 1e-9), "{in_flight} of {most}: {config:?}");
    report
}

#[test]
fn operations_in_flight_are_rate_times_latency() {
    for (stack, verb) in STACKS {
        for (ops, concurrency) in SHAPES {
            for oracle in [false, true] {
                if oracle && stack == Stack::Coherent {
                    continue;
                }
                let config = Config { stack, verb, ops, concurrency, oracle, ..Config::default() };
                assert_in_flight(&config, concurrency);
            }
        }
    }
}

#[test]
fn operations_of_every_workload_in_flight_are_rate_times_latency() {
    use WorkloadKind::{Barrier, CasLock, Incast, PointerChase, Probe, Scan, Search, Ycsb, Zipf};
    let workloads = [Barrier, CasLock, PointerChase, Probe, Scan { dirty: true }, Search, Zipf];
    for workload in workloads.into_iter().chain("ABCDEF".chars().map(Ycsb)) {
        for (stack, oracle) in [(Stack::UbUrma, false), (Stack::RoceDma, true)] {
            for (ops, concurrency) in [(2, 2), (50, 8)] {
                let base = Config { stack, workload, ops, concurrency, ..Config::default() };
                assert_in_flight(&Config { oracle, keys: 200, ..base }, concurrency);
            }
        }
    }
    for workload in [Incast, WorkloadKind::Bulk] {
        let (hosts, concurrency, verb) = (5, 4, Verb::Write);
        let initiators = if workload == Incast { hosts - 1 } else { hosts };
        let base = Config { workload, hosts, concurrency, verb, ..Config::default() };
        assert_in_flight(&Config { ops: 100, ..base }, concurrency * initiators);
    }
    let (jetties, connections, concurrency) = (4, 8, 3);
    let workload = WorkloadKind::Setup;
    let setup = Config { workload, jetties, connections, concurrency, ..Config::default() };
    assert_in_flight(&setup, concurrency * jetties);
}

#[test]
fn rate_times_payload_is_within_the_rate_of_the_link() {
    let stacks = STACKS.into_iter().filter(|(stack, _)| !stack.swaps());
    for (stack, verb) in stacks {
        let long = !stack.has_instructions() && !verb.is_atomic();
        for payload in [8, 64, 4096, 65_536] {
            if payload > 64 && !long {
                continue;
            }
            for link_gbps in [40.0, 400.0] {
                // Long operations are few, so that the test stays short.
                let shapes = SHAPES.into_iter().filter(|(ops, _)| payload < 65_536 || *ops < 400);
                for (ops, concurrency) in shapes {
                    let base = Config { stack, verb, payload, ops, ..Config::default() };
                    let mut config = Config { concurrency, ..base };
                    config.constants.link_gbps = link_gbps;
                    let report = measure(&config);
                    let bytes = report.bytes as f64 / report.ops as f64;
                    let gbps = report.mops * bytes * 8.0 / 1000.0;
                    assert!(gbps <= link_gbps, "{gbps} Gb/s: {config:?}");
                }
            }
        }
    }
}

#[test]
fn core_that_posts_limits_the_rate_from_the_first_operation_on() {
    // The verb library, the work request and polling: 50 + 30 + 30 + 5 ns.
    for ops in [8, 64, 256, 2000] {
        let report = measure(&Config { ops, concurrency: 256, ..Config::default() });
        assert!(report.mops <= 1000.0 / 115.0, "{} Mops with {ops} operations", report.mops);
    }
}

#[test]
fn handled_messages_count_from_the_first_request() {
    let fanout = |stack, ops, remote_jetties| {
        let workload = WorkloadKind::Fanout { dispatch: Dispatching::Direct, shared: false };
        let base = Config { stack, workload, ops, remote_jetties, ..Config::default() };
        measure(&Config { verb: Verb::Send, jetties: 4, concurrency: 64, ..base })
    };
    for stack in [Stack::UbUrma, Stack::RoceDma] {
        let one = fanout(stack, 1, 1);
        let (rate, mean) = (figure(&one, "handled_mops"), figure(&one, "handled_mean_ns"));
        assert!((rate * mean / 1000.0 - 1.0).abs() < 1e-9, "{stack:?}: {rate} and {mean}");
        for (ops, members) in [(8, 1), (64, 2), (300, 4)] {
            let rate = figure(&fanout(stack, ops, members), "handled_mops");
            // A member serves a message for 100 ns.
            assert!(rate <= 10.0 * f64::from(members), "{stack:?} {ops}: {rate} Mops");
        }
    }
}

/// Loads from a cache need no link, so only the operations in flight limit them.
#[test]
fn cached_loads_obey_the_same_law() {
    for cache in [CachePolicy::WriteBack, CachePolicy::WriteThrough] {
        let (stack, workload, concurrency) = (Stack::UbLdst, WorkloadKind::Zipf, 8);
        let base = Config { stack, workload, cache, concurrency, ..Config::default() };
        assert_in_flight(&Config { keys: 100, ops: 2000, ..base }, concurrency);
    }
}
