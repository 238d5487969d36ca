//! Properties of every queueing system and every transport, whatever the constants.

use fairway_nicmodel::{
    CachePolicy, Config, ConfigError, ModelError, Notice, Ordering, Report, Stack, Verb,
    WorkloadKind, run, state,
};

fn config(stack: Stack, verb: Verb) -> Config {
    Config { stack, verb, ops: 2000, ..Config::default() }
}

fn measure(config: &Config) -> Report {
    let report = run(config).unwrap_or_else(|error| panic!("{config:?}: {error}"));
    assert_eq!(report.ops, config.ops, "{:?}", config.stack);
    report
}

const WORK: [(Stack, Verb); 12] = [
    (Stack::UbLdst, Verb::Load),
    (Stack::UbLdst, Verb::Store),
    (Stack::UbUrma, Verb::Read),
    (Stack::UbUrma, Verb::Write),
    (Stack::UbUrma, Verb::Send),
    (Stack::UbUrma, Verb::FetchAdd),
    (Stack::RoceBf, Verb::Read),
    (Stack::RoceBf, Verb::Write),
    (Stack::RoceDma, Verb::Send),
    (Stack::RoceDma, Verb::Read),
    (Stack::RoceDma, Verb::FetchAdd),
    (Stack::RoceIrn, Verb::Write),
];

#[test]
fn concurrency_is_throughput_times_latency() {
    for (stack, verb) in WORK {
        for concurrency in [1, 8, 64] {
            let report = measure(&Config { concurrency, ..config(stack, verb) });
            let rate = report.ops as f64 / report.elapsed_ns;
            let expected = rate * report.mean_ns;
            let off = (report.concurrency - expected).abs() / expected;
            assert!(off < 1e-6, "{stack:?} {verb:?}: {} and {expected}", report.concurrency);
            assert!(report.concurrency <= f64::from(concurrency) + 1e-9);
            assert!(report.concurrency > f64::from(concurrency) * 0.9, "{stack:?} {verb:?}");
        }
    }
}

#[test]
fn concurrency_raises_the_rate_until_a_server_is_busy_all_the_time() {
    for (stack, verb) in WORK {
        let rate = |concurrency| measure(&Config { concurrency, ..config(stack, verb) });
        let (one, four, most) = (rate(1), rate(4), rate(256));
        assert!(four.mops > 2.0 * one.mops, "{stack:?} {verb:?}: {} {}", one.mops, four.mops);
        assert!(most.mops >= four.mops * 0.95, "{stack:?} {verb:?}: {} {}", four.mops, most.mops);
        let busiest = &most.servers[0];
        let window = stack == Stack::UbLdst || matches!(verb, Verb::Read | Verb::FetchAdd);
        // Miss registers, and the READs that a queue pair may have in flight, limit the rate too.
        assert!(
            window || busiest.utilisation > 0.9,
            "{stack:?} {verb:?}: nothing is busy: {:?}",
            &most.servers[..4]
        );
        assert!(busiest.utilisation <= 1.0 + 1e-9, "{busiest:?}");
        // No server handles more jobs than its occupancy permits.
        let bound = busiest.jobs as f64 / most.elapsed_ns * 1000.0 / busiest.utilisation;
        let jobs_per_op = busiest.jobs as f64 / most.ops as f64;
        let rate = most.ops as f64 / most.elapsed_ns * 1000.0;
        assert!(rate <= bound / jobs_per_op * 1.001, "{stack:?} {verb:?}");
    }
}

/// A coherent fabric still returns evicted lines to their home when the last store has ended, and
/// that occupies the home's servers. Both count: the time after the last store, and the work.
#[test]
fn no_server_is_occupied_for_longer_than_the_run() {
    let workload = WorkloadKind::Incast;
    let base = Config { workload, hosts: 17, ops: 200, ..config(Stack::Coherent, Verb::Store) };
    for concurrency in [1, 64] {
        for server in measure(&Config { concurrency, ..base.clone() }).servers {
            assert!(server.utilisation <= 1.0 + 1e-9, "{concurrency}: {server:?}");
        }
    }
}

#[test]
fn bandwidth_is_that_of_the_slowest_link() {
    for stack in [Stack::UbUrma, Stack::RoceDma] {
        let verb = Verb::Write;
        let mut config =
            Config { payload: 65_536, concurrency: 32, ops: 300, ..config(stack, verb) };
        // The NIC's data path: 32 bytes a cycle are 82.4 Gb/s, less than the wire's 400.
        let gbps = |report: &Report| report.bytes as f64 * 8.0 / report.elapsed_ns;
        let nic = gbps(&measure(&config));
        assert!((70.0..82.5).contains(&nic), "{stack:?}: {nic} Gb/s");
        config.constants.link_gbps = 40.0;
        let wire = gbps(&measure(&config));
        assert!((34.0..40.0).contains(&wire), "{stack:?}: {wire} Gb/s");
    }
}

#[test]
fn every_operation_completes_once() {
    for (stack, verb) in WORK {
        for (jetties, concurrency) in [(1, 16), (16, 512)] {
            let report = measure(&Config { jetties, concurrency, ..config(stack, verb) });
            // The NIC retries loads and stores when later ones were answered, until it has learned
            // by how far responses overtake each other here.
            let learning = if stack == Stack::UbLdst { report.ops / 50 } else { 0 };
            let resent = report.counted.resent;
            assert!(resent <= learning, "{stack:?} {verb:?}: {resent} sent again for nothing");
        }
        let report = measure(&Config { concurrency: 16, ..config(stack, verb) });
        assert_eq!(report.lost, 0);
        assert_eq!(report.counted.resent, 0, "{stack:?} {verb:?}");
        assert_eq!(report.counted.duplicates, 0, "{stack:?} {verb:?}");
        let payload = if verb.is_atomic() { 8 } else { 64 };
        assert_eq!(report.bytes, report.ops * payload);
        if verb.is_atomic() {
            continue;
        }
        assert_eq!(report.placed, report.bytes, "{stack:?} {verb:?}");
        if verb != Verb::Send {
            assert_eq!(report.compared, report.bytes, "{stack:?} {verb:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_report() {
    for stack in [Stack::UbLdst, Stack::UbUrma, Stack::RoceBf, Stack::RoceIrn, Stack::Fastswap] {
        let verb = if stack == Stack::UbUrma { Verb::Write } else { Verb::Read };
        let config = Config {
            concurrency: 7,
            loss: if stack.swaps() { 0.0 } else { 0.01 },
            jitter: 0.1,
            ops: 500,
            ..config(stack, verb)
        };
        let config = match stack.swaps() {
            true => Config { workload: WorkloadKind::Zipf, keys: 1 << 16, ..config },
            false => config,
        };
        let (one, two) = (measure(&config), measure(&config));
        assert_eq!(one, two);
        let other = measure(&Config { seed: 2, ..config });
        assert_ne!(one, other);
    }
}

#[test]
fn lost_packets_are_recovered_by_the_engines() {
    for (stack, verb) in WORK {
        for payload in [64, 30_000] {
            if payload > 64 && (stack == Stack::UbLdst || verb.is_atomic()) {
                continue;
            }
            let base = config(stack, verb);
            let config = Config { payload, loss: 0.02, concurrency: 4, ops: 400, ..base };
            let report = measure(&config);
            assert!(report.lost > 0, "{stack:?} {verb:?}");
            assert!(report.counted.resent > 0, "{stack:?} {verb:?}: {:?}", report.counted);
        }
    }
}

/// Selective repeat retransmits less than go-back-N if many packets are in flight. (On the paper's
/// wire of 100 ns there are hardly any: about five packets.)
#[test]
fn selective_repeat_resends_less() {
    let resent = |stack| {
        let base = config(stack, Verb::Write);
        let (payload, link_ns, loss) = (1 << 19, 5000.0, 0.002);
        let mut big = Config { payload, link_ns, loss, concurrency: 2, ops: 60, ..base };
        // Long enough that no time-out is spurious.
        big.constants.rto_us = 2000.0;
        let report = measure(&big);
        println!("{stack:?} {} lost {:?} mops {}", report.lost, report.counted, report.mops);
        report.counted.resent as f64 / report.lost as f64
    };
    let [go_back, irn, ub] = [Stack::RoceDma, Stack::RoceIrn, Stack::UbUrma].map(resent);
    assert!(irn < go_back / 2.0, "{irn} and {go_back}");
    assert!(ub < go_back / 2.0, "{ub} and {go_back}");
}

/// Early packets that have no place yet wait in the NIC, so SENDs are repaired one by one, too, as
/// far as there is room.
#[test]
fn early_sends_wait_in_the_nic() {
    let resent = |kept| {
        let base = config(Stack::RoceIrn, Verb::Send);
        let mut many = Config { loss: 0.02, concurrency: 32, ops: 4000, ..base };
        many.constants.irn_kept = kept;
        let report = measure(&many);
        report.counted.resent as f64 / report.lost as f64
    };
    let [none, few, many] = [0.0, 4.0, 256.0].map(resent);
    println!("sent again for each lost packet: {none}, {few}, {many}");
    assert!(many < none / 2.0 && many < few, "{none}, {few} and {many}");
}

#[test]
fn an_open_loop_has_a_knee() {
    let base = config(Stack::RoceBf, Verb::Write);
    let closed = measure(&Config { concurrency: 256, ..base.clone() });
    let at = |share: f64| {
        let rate_mops = Some(closed.mops * share);
        measure(&Config { rate_mops, ops: 5000, ..base.clone() })
    };
    let (low, high, over) = (at(0.3), at(0.9), at(1.5));
    assert!(low.mean_ns < high.mean_ns && high.mean_ns < over.mean_ns / 3.0);
    assert!((low.mops / (closed.mops * 0.3) - 1.0).abs() < 0.1, "what is offered is carried");
    assert!(over.mops < closed.mops * 1.1, "and no more than is possible");
    assert!(!low.is_deterministic && low.p99_ns > low.p50_ns);
}

/// An arrival cannot wait for the result of an operation that no arrival has caused.
#[test]
fn workloads_that_wait_for_results_have_no_open_loop() {
    use WorkloadKind::{
        Barrier, Bulk, CasLock, PointerChase, Probe, Scan, Search, Share, Ycsb, Zipf,
    };
    let base = |stack, workload| Config {
        workload,
        rate_mops: Some(1.0),
        ops: 200,
        hosts: 3,
        ..config(stack, Verb::Read)
    };
    for stack in [Stack::UbUrma, Stack::RoceIrn] {
        let share = Share { reads: 1, fenced: true };
        for workload in [Barrier, CasLock, PointerChase, Probe, Search, share] {
            let refused = run(&base(stack, workload)).map(|report| report.ops);
            let expected = Err(ModelError::Config(ConfigError::OpenLoop(1.0)));
            assert_eq!(refused, expected, "{stack:?} {workload:?}");
        }
        let mut open = vec![Bulk, Zipf, Scan { dirty: false }, Scan { dirty: true }];
        open.extend("ABCDEF".chars().map(Ycsb));
        for workload in open {
            measure(&base(stack, workload));
        }
        let never = Config { rate_mops: Some(0.0), ..base(stack, Bulk) };
        assert_eq!(run(&never).err(), Some(ModelError::Config(ConfigError::Rate(0.0))));
    }
}

#[test]
fn context_cache_evicts_the_least_recently_used() {
    let misses = |stack, n, popularity| {
        let (jetties, connections) = (n, n);
        let base = config(stack, Verb::Read);
        let report = measure(&Config { jetties, connections, popularity, ops: 6000, ..base });
        let [hits, misses] = report.context;
        misses as f64 / (hits + misses) as f64
    };
    // 16² queue pairs of 512 bytes fit into 256 KB; 32² do not, and used in turn none is ever
    // found.
    assert!(misses(Stack::RoceDma, 16, None) < 0.06);
    assert!(misses(Stack::RoceDma, 32, None) > 0.45, "of context and segment the context");
    let popular = misses(Stack::RoceDma, 32, Some(0.99));
    assert!((0.02..0.35).contains(&popular), "a curve, not a step: {popular}");
    assert!(misses(Stack::UbUrma, 32, None) < 0.02, "32 Jetties and 32 channels fit easily");
}

/// Fetching contexts uses the same DMA tags as other DMA reads.
#[test]
fn contexts_are_fetched_with_the_tags_that_there_are() {
    let rate = |pcie_tags, n| {
        let base = config(Stack::RoceBf, Verb::Write);
        let shape = Config { jetties: n, connections: n, concurrency: 256, ops: 6000, ..base };
        let mut config = shape;
        config.constants.pcie_tags = pcie_tags;
        measure(&config).mops
    };
    let (few, many) = (rate(2.0, 48), rate(64.0, 48));
    // At both ends a queue pair is fetched for each operation: 500 ns, two at once.
    assert!(few < 4.1, "{few}");
    assert!(many > 2.0 * few, "{many} and {few}");
    let (few, many) = (rate(2.0, 4), rate(64.0, 4));
    assert!(few > 0.95 * many, "what is there is not fetched: {few} and {many}");
}

#[test]
fn order_costs_what_the_engine_makes_wait() {
    let mops = |order| {
        let base = config(Stack::UbUrma, Verb::Write);
        let report = measure(&Config { order, concurrency: 32, ..base });
        (report.mops, report.counted.gated)
    };
    let (free, none) = mops(Ordering::None);
    assert_eq!(none, 0, "an operation without order meets no gate");
    let (strict, gated) = mops(Ordering::Roi);
    assert!(gated > 0 && strict < free / 4.0, "{strict} of {free}");
    // With ordering at the target, requests are in flight concurrently, and only executed in order.
    let (target, _) = mops(Ordering::Rot);
    assert!(target > strict * 1.5, "{target} and {strict}");
}

#[test]
fn polling_notices_earlier_than_an_interrupt() {
    for stack in [Stack::UbUrma, Stack::RoceBf] {
        let poll = measure(&config(stack, Verb::Read));
        let interrupt = measure(&Config { notice: Notice::Interrupt, ..config(stack, Verb::Read) });
        assert!((interrupt.mean_ns - poll.mean_ns - 1098.0).abs() < 1.0);
    }
}

#[test]
fn caches_take_what_is_near() {
    let mean = |cache| {
        let base = config(Stack::UbLdst, Verb::Load);
        let workload = WorkloadKind::PointerChase;
        measure(&Config { workload, cache, locality: 80, ..base }).mean_ns
    };
    assert!(mean(CachePolicy::WriteBack) < mean(CachePolicy::Uncached) / 3.0);
}

#[test]
fn workloads_check_their_own_meaning() {
    use WorkloadKind::{Barrier, CasLock, PointerChase, Scan, Ycsb, Zipf};
    for stack in [Stack::UbLdst, Stack::UbUrma, Stack::RoceDma] {
        let mut kinds = vec![PointerChase, CasLock, Barrier, Zipf, Scan { dirty: true }];
        kinds.extend("ABCDEF".chars().map(Ycsb));
        for workload in kinds {
            for loss in [0.0, 0.01] {
                let keys = 2000;
                let base = config(stack, Verb::Read);
                let config = Config { workload, concurrency: 8, ops: 400, keys, loss, ..base };
                let report = run(&config).unwrap_or_else(|error| panic!("{config:?}: {error}"));
                assert!(report.ops >= 390, "{workload:?} {report:?}");
            }
        }
    }
}

#[test]
fn a_lock_gets_slower_with_contenders_and_stays_a_lock() {
    let tries = |concurrency| {
        let base = config(Stack::UbUrma, Verb::CompareSwap);
        let config = Config { workload: WorkloadKind::CasLock, concurrency, ops: 200, ..base };
        let report = run(&config).expect("mutual exclusion holds");
        let figure = |name| report.figures.iter().find(|(n, _)| *n == name).expect("a figure").1;
        assert_eq!(figure("acquisitions"), 200.0);
        (figure("tries_per_acquisition"), figure("acquire_mean_ns"))
    };
    let (alone, many) = (tries(1), tries(16));
    assert_eq!(alone.0, 1.0);
    assert!(many.0 > 2.0 && many.1 > 5.0 * alone.1, "{many:?}");
}

#[test]
fn pages_and_lines_are_written_back() {
    for (stack, cache) in [
        (Stack::Infiniswap, CachePolicy::Uncached),
        (Stack::Fastswap, CachePolicy::Uncached),
        (Stack::UbLdst, CachePolicy::WriteBack),
        (Stack::UbLdst, CachePolicy::WriteThrough),
    ] {
        let workload = WorkloadKind::Scan { dirty: true };
        let keys = 64 * 256;
        let base = config(stack, Verb::Load);
        let mut config = Config { workload, cache, keys, ops: 40_000, ..base };
        config.constants.resident_pages = 64.0;
        let report = measure(&config);
        let figure = |name| report.figures.iter().find(|(n, _)| *n == name).map_or(0.0, |f| f.1);
        let back = figure("pages_written_back") + figure("write_backs");
        let through = cache == CachePolicy::WriteThrough;
        assert_eq!(back > 100.0, !through, "{stack:?} {cache:?}: {:?}", report.figures);
    }
}

/// An access may be longer than a page, or cross a border of pages. Its pages are served one after
/// the other, so it ends even if they are never resident together.
#[test]
fn accesses_may_cross_pages() {
    for (stack, oracle) in [(Stack::Infiniswap, false), (Stack::Fastswap, true)] {
        for (verb, payload) in [(Verb::Load, 63), (Verb::Load, 8192), (Verb::Store, 65_536)] {
            for (resident, page_bytes) in [(4096.0, 4096.0), (1.0, 4096.0), (4.0, 1000.0)] {
                let base = config(stack, verb);
                let mut config = Config { payload, oracle, concurrency: 3, ops: 700, ..base };
                config.constants.resident_pages = resident;
                config.constants.page_bytes = page_bytes;
                measure(&config);
            }
        }
        let scan = Config { workload: WorkloadKind::Ycsb('E'), ..config(stack, Verb::Load) };
        measure(&scan);
    }
    let faults = |payload| {
        let report = measure(&Config { payload, ops: 10, ..config(Stack::Infiniswap, Verb::Load) });
        let found = report.figures.iter().find(|(name, _)| *name == "page_faults");
        (found.expect("it pages").1, report.mean_ns)
    };
    let ((one, page), (two, pages)) = (faults(4096), faults(8192));
    assert_eq!((one, two), (10.0, 20.0), "each page is fetched once");
    assert!((1.9..2.1).contains(&(pages / page)), "{page} and {pages}");
}

#[test]
fn paging_stacks_only_load_and_store() {
    use WorkloadKind::{Barrier, Bulk, CasLock, PointerChase};
    for stack in [Stack::Infiniswap, Stack::Fastswap] {
        for (workload, verb, expected) in [
            (Barrier, Verb::Load, ConfigError::PagingAtomics),
            (CasLock, Verb::Load, ConfigError::PagingAtomics),
            (Bulk, Verb::Read, ConfigError::PagingVerb),
            (PointerChase, Verb::Store, ConfigError::PagingVerb),
        ] {
            let refused = run(&Config { workload, ..config(stack, verb) });
            assert_eq!(refused.err(), Some(ModelError::Config(expected)), "{stack:?} {workload:?}");
        }
    }
}

#[test]
fn many_hosts_move_everything() {
    for stack in [Stack::UbUrma, Stack::RoceDma] {
        let base = config(stack, Verb::Write);
        let report = measure(&Config { hosts: 8, concurrency: 8, ..base });
        assert_eq!(report.compared, report.bytes);
    }
}

/// If packets overtake each other, everything arrives at its place. A stack with direct placement
/// loses little time, and one with go-back-N loses much.
#[test]
fn reordering_costs_go_back_n_only() {
    let rate = |stack, reorder| {
        let base = config(stack, Verb::Write);
        let config = Config { payload: 1 << 20, concurrency: 4, ops: 40, reorder, ..base };
        let report = measure(&config);
        assert_eq!(report.compared, report.bytes, "{stack:?} {reorder}");
        report.mops
    };
    let kept = |stack| rate(stack, 64) / rate(stack, 0);
    assert!(kept(Stack::UbUrma) > 0.8, "{}", kept(Stack::UbUrma));
    assert!(kept(Stack::RoceDma) < 0.2, "{}", kept(Stack::RoceDma));
    let refused = Config { reorder: 1, ..config(Stack::Coherent, Verb::Load) };
    assert!(run(&refused).expect_err("no such thing").to_string().contains("reorder"));
}

/// SCR Figure 14: the dequeue rate decides what the NIC fetches from the host's memory.
#[test]
fn dequeue_rate_limits_what_crosses_the_host_bus() {
    for stack in [Stack::RoceDma, Stack::UbUrma] {
        let measured = |policy: &str| {
            let config = Config {
                concurrency: 16,
                payload: 65_536,
                ops: 200,
                policy: policy.into(),
                ..config(stack, Verb::Write)
            };
            let report = run(&config).unwrap_or_else(|error| panic!("{policy}: {error}"));
            let bus = report.servers.iter().find(|server| {
                server.name == "host 0: pcie to nic" || server.name == "host 0: bus"
            });
            let bus = bus.unwrap_or_else(|| panic!("{:?}", report.servers)).utilisation;
            (report.bytes as f64 * 8.0 / report.elapsed_ns, bus)
        };
        let (free, free_bus) = measured("cc=fixed:16M");
        let (slow, slow_bus) = measured("cc=fixed:16M,sched=static:line=10Gbps");
        let (half, half_bus) = measured("cc=fixed:16M,sched=static:line=20Gbps");
        assert!(free > 40.0, "{stack:?}: {free} Gb/s");
        assert!((8.0..10.1).contains(&slow), "{stack:?}: {slow} Gb/s");
        assert!((1.8..2.1).contains(&(half / slow)), "{stack:?}: {slow} and {half} Gb/s");
        assert!((1.8..2.1).contains(&(half_bus / slow_bus)), "{stack:?}: {slow_bus} {half_bus}");
        assert!(free_bus > 2.0 * half_bus, "{stack:?}: {half_bus} {free_bus}");
    }
}

/// Each of these was replaced by another value, or ran without end.
#[test]
fn absurd_numbers_are_refused_by_name_and_limit() {
    let refused = |change: fn(&mut Config), words: [&str; 2]| {
        let mut config = config(Stack::UbUrma, Verb::Read);
        change(&mut config);
        let error = run(&config).expect_err("an absurd number").to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    refused(|config| config.link_ns = 1e17, ["link ns is", "0 to 1000000000 "]);
    refused(|config| config.link_ns = 1e300, ["link ns is", "1000000000 "]);
    refused(|config| config.link_ns = f64::NAN, ["link ns is NaN", "1000000000 "]);
    refused(|config| config.link_ns = -1.0, ["link ns is -1", "0 to"]);
    refused(|config| config.jitter = f64::INFINITY, ["jitter is inf", "0 to 1000 "]);
    refused(|config| config.popularity = Some(f64::NAN), ["popularity is NaN", "0 to 16 "]);
    refused(|config| config.skew = 1e300, ["skew is", "0 to 16 "]);
    refused(|config| config.rate_mops = Some(1e300), ["--rate", "0.0001 to 1000000 "]);
    refused(|config| config.rate_mops = Some(f64::NAN), ["--rate NaN", "0.0001 to 1000000 "]);
    refused(|config| config.order_percent = 101, ["order percent is 101", "0 to 100 "]);
    let none = |config: &mut Config| {
        config.workload = WorkloadKind::Share { reads: 0, fenced: true };
        config.hosts = 3;
    };
    refused(none, ["reads is 0", "1 to 1048576 "]);
    for link_ns in [0.0, 1e9] {
        let report = measure(&Config { link_ns, jitter: 0.0, ops: 3, ..Config::default() });
        assert!(report.mean_ns >= 2.0 * link_ns, "{} ns", report.mean_ns);
    }
}

#[test]
fn state_of_absurdly_many_connections_is_refused() {
    let sizes =
        |jetties, connections| state::state(&Config { jetties, connections, ..Config::default() });
    for (jetties, connections) in [(u32::MAX, u32::MAX), (0, 1), (1, 1 << 17), (1 << 14, 1 << 14)] {
        let error = sizes(jetties, connections).expect_err("too many, or none").to_string();
        assert!(error.contains("is possible"), "{error}");
    }
    let sizes = sizes(1 << 11, 1 << 16).expect("the most");
    let bytes = |name| sizes.iter().find(|size| size.name == name).expect("a size").bytes;
    assert_eq!(bytes("roce_paper_padded"), 512 * (1 << 27) + 32 * (1 << 11));
    assert!(bytes("roce_every_buffer") > bytes("roce_shared_receives"));
}
