//! Several hosts and their switch, losses by role, shared doorbells, and traversals of structures.

use fairway_nicmodel::{
    CachePolicy, Config, ConfigError, Lossy, ModelError, Report, Stack, Verb, WorkloadKind, run,
};

fn measure(config: &Config) -> Report {
    run(config).unwrap_or_else(|error| panic!("{config:?}: {error}"))
}

const NOTHING: Lossy = Lossy { requests: false, responses: false, acknowledgements: false };

#[test]
fn only_packets_of_the_lossy_roles_are_lost() {
    for stack in [Stack::UbUrma, Stack::RoceDma, Stack::RoceIrn] {
        let base = Config { stack, loss: 0.05, concurrency: 4, ops: 800, ..Config::default() };
        let of = |verb, lossy| measure(&Config { verb, lossy, ..base.clone() });
        let requests = of(Verb::Write, Lossy { requests: true, ..NOTHING });
        assert!(requests.lost > 0 && requests.counted.resent > 0, "{stack:?}");
        // A WRITE has no response, and losses of its acknowledgements are configured separately.
        let responses = of(Verb::Write, Lossy { responses: true, ..NOTHING });
        assert_eq!(responses.lost, 0, "{stack:?}");
        let acks = of(Verb::Write, Lossy { acknowledgements: true, ..NOTHING });
        assert!(acks.lost > 0, "{stack:?}");
        let answers = of(Verb::Read, Lossy { responses: true, ..NOTHING });
        assert!(answers.lost > 0, "{stack:?}");
        for report in [&requests, &acks, &answers] {
            assert_eq!((report.ops, report.compared), (800, 800 * 64), "{stack:?}");
        }
    }
}

fn incast(stack: Stack, policy: &str) -> Config {
    let mut config = Config {
        stack,
        verb: Verb::Write,
        workload: WorkloadKind::Incast,
        hosts: 9,
        payload: 16_384,
        concurrency: 8,
        ops: 2000,
        policy: policy.into(),
        ..Config::default()
    };
    // The link is slower than the NICs, so that it is the bottleneck.
    config.constants.link_gbps = 40.0;
    config
}

#[test]
fn packets_that_arrive_together_wait_at_the_switch() {
    for stack in [Stack::UbUrma, Stack::RoceDma] {
        let mut config = incast(stack, "cc=fixed:16M");
        config.constants.port_kbytes = 1e6;
        config.constants.rto_us = 10_000.0;
        let report = measure(&config);
        assert_eq!((report.dropped, report.compared), (0, report.bytes), "{stack:?}");
        assert!(report.marked > 0, "{stack:?}");
        let port = report.servers.iter().find(|server| server.name == "host 1: switch port");
        let port = port.expect("all packets go through it");
        assert!(port.utilisation > 0.9 && port.waited_ns > 1000.0, "{stack:?}: {port:?}");
        // Eight hosts share one link.
        let gbps = report.bytes as f64 * 8.0 / report.elapsed_ns;
        assert!((30.0..40.0).contains(&gbps), "{stack:?}: {gbps} Gb/s");
    }
}

#[test]
fn a_full_port_drops_and_the_engines_recover() {
    for stack in [Stack::UbUrma, Stack::RoceDma, Stack::RoceIrn] {
        let mut config = incast(stack, "cc=fixed:16M");
        config.constants.port_kbytes = 200.0;
        let report = measure(&config);
        assert!(report.dropped > 0, "{stack:?}");
        assert_eq!((report.ops, report.compared), (2000, report.bytes), "{stack:?}");
    }
}

/// Marked senders slow down, so that fewer packets are dropped: both stacks use DCQCN.
#[test]
fn marks_are_heeded() {
    for stack in [Stack::UbUrma, Stack::RoceDma] {
        let dropped = |policy| {
            let mut config = incast(stack, policy);
            (config.concurrency, config.ops) = (4, 8000);
            measure(&config).dropped
        };
        let [blind, heeding] = ["cc=fixed:16M", "cc=dcqcn"].map(dropped);
        println!("{stack:?}: {blind} {heeding}");
        assert!(heeding < blind, "{stack:?}: {heeding} and {blind}");
    }
}

/// RoCE has no other congestion control. It took each of these for a window without an end.
#[test]
fn policies_that_a_stack_lacks_are_refused() {
    let refused = |stack, policy: &str| run(&incast(stack, policy)).err();
    for stack in [Stack::RoceBf, Stack::RoceDma, Stack::RoceIrn] {
        for policy in
            ["cc=swift", "cc=cubic", "cc=dcqcn:line=10Gbps", "cc=dcqcn,path=spray", "loss=sack"]
        {
            let error = ModelError::Config(ConfigError::RocePolicy(policy.into()));
            assert_eq!(refused(stack, policy), Some(error), "{stack:?}");
        }
    }
    let paging = Config { hosts: 2, verb: Verb::Load, ..incast(Stack::Fastswap, "cc=swift") };
    let error = ConfigError::RocePolicy("cc=swift".into());
    assert_eq!(run(&paging).err(), Some(ModelError::Config(error)));
    let coherent =
        Config { stack: Stack::Coherent, policy: "cc=dcqcn".into(), ..Config::default() };
    let error = ConfigError::CoherentPolicy("cc=dcqcn".into());
    assert_eq!(coherent.check(), Err(error));
}

/// The window of `cc=fixed` limits RoCE, too, and a scheduler alone leaves the usual window.
#[test]
fn fixed_windows_limit_roce() {
    let measured = |policy: &str| {
        let mut config = incast(Stack::RoceDma, policy);
        config.ops = 400;
        measure(&config)
    };
    let usual = measured("cc=fixed:16M");
    assert_eq!(usual, measured("sched=greedy"));
    assert_eq!(usual, measured("cc=fixed:16M,sched=greedy"));
    let short = measured("cc=fixed:32K");
    assert!(usual.dropped > 0, "{usual:?}");
    assert_eq!((short.ops, short.dropped), (400, 0), "8 hosts, 32 KiB each, fit into a port");
}

#[test]
fn doorbells_are_shared_by_what_a_core_posts_at_once() {
    for stack in [Stack::UbUrma, Stack::RoceBf, Stack::RoceDma] {
        let base = Config { stack, verb: Verb::Write, ops: 4000, ..Config::default() };
        let alone = |batch| measure(&Config { batch, ..base.clone() });
        // No work request waits for others that never come.
        assert_eq!(alone(16).mean_ns, alone(1).mean_ns, "{stack:?}");
        assert_eq!(alone(16).doorbells, 4000, "{stack:?}");
        let many = |batch| measure(&Config { batch, concurrency: 128, ..base.clone() });
        let (one, sixteen) = (many(1), many(16));
        println!("{stack:?}: {} {} {}", one.mops, sixteen.mops, sixteen.doorbells);
        assert!(sixteen.doorbells >= 4000 / 16, "{stack:?}");
        assert!(sixteen.doorbells < 1500, "{stack:?}: {}", sixteen.doorbells);
        assert!(sixteen.mops > 1.2 * one.mops, "{stack:?}: {} {}", sixteen.mops, one.mops);
        assert_eq!(sixteen.compared, sixteen.bytes, "{stack:?}");
    }
}

#[test]
fn structures_are_walked_and_what_is_found_is_right() {
    let stacks = [Stack::UbLdst, Stack::UbUrma, Stack::RoceDma];
    for stack in stacks {
        for concurrency in [1, 16] {
            let base = Config { stack, concurrency, keys: 2000, ..Config::default() };
            let search = Config { workload: WorkloadKind::Search, ops: 100_000, ..base.clone() };
            let report = measure(&search);
            let figure = |name| report.figures.iter().find(|(other, _)| *other == name).unwrap().1;
            // With seven edges from each vertex, nearly all vertices are found.
            assert!(figure("vertices_visited") > 1900.0, "{stack:?}");
            assert!((4.0..12.0).contains(&figure("levels")), "{stack:?}");
            let probe = Config { workload: WorkloadKind::Probe, ops: 3000, ..base };
            let report = measure(&probe);
            let figure = |name| report.figures.iter().find(|(other, _)| *other == name).unwrap().1;
            let share = figure("found") / figure("lookups");
            assert!((0.85..0.95).contains(&share), "{stack:?}: {share}");
            assert!((1.0..3.0).contains(&figure("probes_per_lookup")), "{stack:?}");
        }
    }
    let short = Config { workload: WorkloadKind::Search, ops: 50, ..Config::default() };
    assert!(measure(&short).ops >= 50, "the result is reported after the last read");
    let cached = Config {
        stack: Stack::UbLdst,
        cache: CachePolicy::WriteBack,
        workload: WorkloadKind::Search,
        keys: 500,
        ops: 10_000,
        ..Config::default()
    };
    assert!(measure(&cached).ops > 900);
}

/// All hosts follow chains in the memory of host 1, so every host needs the same chains.
#[test]
fn chains_of_several_hosts_lead_on() {
    for (stack, hosts) in [(Stack::UbUrma, 3), (Stack::RoceIrn, 9), (Stack::UbLdst, 4)] {
        for locality in [0, 50] {
            let workload = WorkloadKind::PointerChase;
            let base = Config { stack, workload, hosts, locality, ..Config::default() };
            let report = measure(&Config { concurrency: 4, ops: 480, ..base });
            assert_eq!((report.ops, report.compared), (480, report.bytes), "{stack:?} {hosts}");
        }
    }
}
