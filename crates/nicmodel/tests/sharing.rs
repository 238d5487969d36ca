//! Lines that several hosts share: the cost of coherence on stacks that have it, and the cost of
//! its absence on those that do not.

mod common;

use common::{figure, measure};
use fairway_nicmodel::{CachePolicy, Config, Stack, Verb, WorkloadKind};

fn share(stack: Stack, hosts: u32, reads: u32) -> Config {
    let workload = WorkloadKind::Share { reads, fenced: true };
    let verb = Verb::Load;
    Config { stack, verb, workload, hosts, keys: 2, ops: 4000, ..Config::default() }
}

#[test]
fn every_reader_gets_the_newest_value_on_each_stack() {
    let stacks = [Stack::Coherent, Stack::UbLdst, Stack::UbUrma, Stack::RoceDma];
    for stack in stacks {
        for hosts in [3, 9] {
            let report = measure(&share(stack, hosts, 3));
            assert_eq!(figure(&report, "stale_reads"), 0.0, "{stack:?}");
        }
    }
    let cached = Config { cache: CachePolicy::WriteThrough, ..share(Stack::UbLdst, 5, 3) };
    assert_eq!(figure(&measure(&cached), "stale_reads"), 0.0);
}

#[test]
fn without_fences_caches_of_load_and_store_go_stale() {
    let workload = WorkloadKind::Share { reads: 3, fenced: false };
    let cache = CachePolicy::WriteThrough;
    let report = measure(&Config { workload, cache, ..share(Stack::UbLdst, 5, 3) });
    // Every line is read once; from then on each reader's cache holds its first version.
    let reads = figure(&report, "rounds") * 3.0 * 3.0;
    assert!(figure(&report, "stale_reads") > 0.9 * reads, "{:?}", report.figures);
    assert!(figure(&report, "read_again_mean_ns") < 2.0);
    let coherent = measure(&Config { workload, ..share(Stack::Coherent, 5, 3) });
    assert_eq!(figure(&coherent, "stale_reads"), 0.0, "a coherent fabric needs no fence");
    assert!(figure(&coherent, "read_again_mean_ns") < 2.0);
}

#[test]
fn change_waits_for_all_sharers_of_the_line() {
    let write = |stack, hosts| figure(&measure(&share(stack, hosts, 1)), "write_mean_ns");
    let [few, many] = [3, 65].map(|hosts| write(Stack::Coherent, hosts));
    assert!(many > few + 400.0, "{few} and {many}");
    let [few, many] = [3, 65].map(|hosts| write(Stack::UbLdst, hosts));
    assert!(many < few + 50.0, "a store to the target is one: {few} and {many}");
}

#[test]
fn a_directory_that_is_too_small_calls_lines_back() {
    let run = |entries| {
        let workload = WorkloadKind::Scan { dirty: false };
        let (hosts, keys, ops) = (3, 2048, 20_000);
        let base = share(Stack::Coherent, hosts, 1);
        let mut config = Config { workload, keys, ops, ..base };
        config.constants.directory_entries = entries;
        let report = measure(&config);
        (figure(&report, "back_invalidations"), report.mean_ns)
    };
    let (none, fits) = run(4096.0);
    let (some, spills) = run(512.0);
    assert_eq!(none, 0.0);
    assert!(some > 10_000.0 && spills > 10.0 * fits, "{some} {spills} {fits}");
}

#[test]
fn locks_and_barriers_hold_on_coherent_lines() {
    for workload in [WorkloadKind::CasLock, WorkloadKind::Barrier, WorkloadKind::Ycsb('A')] {
        let base = share(Stack::Coherent, 6, 1);
        // Few lines in small caches: lines are returned all the time, and snooped meanwhile.
        let mut config = Config { workload, keys: 256, ops: 3000, concurrency: 3, ..base };
        (config.constants.l1_lines, config.constants.l2_lines) = (8.0, 16.0);
        config.constants.directory_entries = 48.0;
        let report = measure(&config);
        assert!(figure(&report, "single_writer_checks") > 100.0, "{:?}", report.figures);
    }
}

#[test]
fn a_lossless_link_stands_still_for_what_is_lost() {
    let mean = |loss, share_of_retraining| {
        let workload = WorkloadKind::PointerChase;
        let base = share(Stack::Coherent, 2, 1);
        let mut config = Config { workload, loss, keys: 64, ops: 2000, ..base };
        config.constants.retrain_share = share_of_retraining;
        measure(&config).mean_ns
    };
    let clean = mean(0.0, 1.0);
    let (trained, repeated) = (mean(0.01, 1.0), mean(0.01, 0.0));
    assert!(trained > 10.0 * clean && repeated < 1.1 * clean, "{clean} {trained} {repeated}");
}

/// An arriving line or page must not overwrite what was stored to it meanwhile.
#[test]
fn store_to_a_line_in_transit_is_not_lost() {
    for (stack, cache) in [
        (Stack::UbLdst, CachePolicy::WriteBack),
        (Stack::UbLdst, CachePolicy::WriteThrough),
        (Stack::Infiniswap, CachePolicy::Uncached),
        (Stack::Fastswap, CachePolicy::Uncached),
    ] {
        for prefetch_lines in [0.0, 4.0] {
            let workload = WorkloadKind::Ycsb('A');
            let (keys, concurrency, jetties) = (4096, 64, 16);
            let base =
                Config { stack, cache, workload, keys, verb: Verb::Load, ..Config::default() };
            let mut config = Config { concurrency, jetties, ops: 8000, ..base };
            config.constants.prefetch_lines = prefetch_lines;
            config.constants.l2_lines = 256.0;
            config.constants.resident_pages = 16.0;
            measure(&config);
        }
    }
}
