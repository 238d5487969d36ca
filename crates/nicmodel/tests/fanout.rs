//! SENDs to a service with many members, and prefetching.

mod common;

use common::{figure, measure};
use fairway_nicmodel::{CachePolicy, Config, Dispatching, Stack, Verb, WorkloadKind, state};

fn fanout(stack: Stack, dispatch: Dispatching, shared: bool) -> Config {
    let workload = WorkloadKind::Fanout { dispatch, shared };
    let (remote_jetties, jetties, concurrency) = (8, 4, 32);
    let verb = Verb::Send;
    let ops = 3000;
    let base = Config { stack, verb, workload, ops, ..Config::default() };
    Config { remote_jetties, jetties, concurrency, ..base }
}

use Dispatching::{Cpu, Depth, Direct, Hint, Turn};

#[test]
fn every_message_is_handled_once_and_whole() {
    let ub = [Direct, Cpu, Hint, Turn, Depth].map(|way| (Stack::UbUrma, way));
    let roce = [Direct, Cpu].map(|way| (Stack::RoceDma, way));
    for (stack, dispatch) in ub.into_iter().chain(roce) {
        for shared in [false, true] {
            for loss in [0.0, 0.01] {
                let base = fanout(stack, dispatch, shared);
                let report = measure(&Config { loss, payload: 100, ops: 600, ..base });
                assert_eq!(figure(&report, "handled"), 600.0, "{stack:?} {dispatch:?} {shared}");
            }
        }
    }
}

#[test]
fn a_dispatcher_in_software_is_a_bottleneck_and_a_group_is_none() {
    let rate = |stack, dispatch| figure(&measure(&fanout(stack, dispatch, false)), "handled_mops");
    let (group, software) = (rate(Stack::UbUrma, Turn), rate(Stack::UbUrma, Cpu));
    assert!(group > 1.5 * software, "{group} and {software}");
    let (direct, software) = (rate(Stack::RoceDma, Direct), rate(Stack::RoceDma, Cpu));
    assert!(direct > 1.3 * software, "{direct} and {software}");
    // 70 ns to poll, 30 ns in the library, 200 ns for the handover.
    assert!(software < 1000.0 / 300.0 + 0.1, "{software}");
}

#[test]
fn the_least_loaded_member_shortens_the_tail() {
    let tail = |dispatch| {
        let mut config = fanout(Stack::UbUrma, dispatch, false);
        (config.constants.serve_ns, config.constants.serve_spread) = (3000.0, 1.0);
        config.rate_mops = Some(1.8);
        figure(&measure(&config), "handled_p99_ns")
    };
    let (turn, depth) = (tail(Turn), tail(Depth));
    assert!(depth < 0.9 * turn, "{depth} and {turn}");
}

#[test]
fn shared_receives_are_few() {
    let config = Config { jetties: 64, connections: 64, ..Config::default() };
    let sizes = state::state(&config).expect("sizes");
    let bytes = |name| sizes.iter().find(|size| size.name == name).expect("a size").bytes;
    assert_eq!(bytes("ub_paper_padded"), 6912);
    assert_eq!(bytes("roce_paper_padded"), 2_099_200);
    assert_eq!(bytes("ub_contexts"), 64 * (20 + 56 + 32));
    assert!(bytes("roce_shared_receives") < bytes("roce_every_buffer"));
    assert!(bytes("ub_every_buffer") < bytes("roce_shared_receives"));
}

#[test]
fn a_prefetcher_speeds_up_what_is_regular() {
    let mean = |workload, lines, cache| {
        let (verb, keys) = (Verb::Load, 4096);
        let base =
            Config { stack: Stack::UbLdst, workload, verb, cache, keys, ..Config::default() };
        // Several laps, so that stored lines are read again.
        let mut config = Config { ops: 14_000, ..base };
        config.constants.prefetch_lines = lines;
        // The cache holds less than a lap.
        config.constants.l2_lines = 1024.0;
        measure(&config).mean_ns
    };
    let back = CachePolicy::WriteBack;
    let scan = WorkloadKind::Scan { dirty: false };
    let (without, with) = (mean(scan, 0.0, back), mean(scan, 8.0, back));
    assert!(with < without / 4.0, "{with} and {without}");
    let dirty = WorkloadKind::Scan { dirty: true };
    for cache in [back, CachePolicy::WriteThrough] {
        assert!(mean(dirty, 8.0, cache) < mean(dirty, 0.0, cache));
    }
    let zipf = [0.0, 8.0].map(|lines| mean(WorkloadKind::Zipf, lines, back));
    assert!((zipf[1] / zipf[0] - 1.0).abs() < 0.1, "{zipf:?}");
}
