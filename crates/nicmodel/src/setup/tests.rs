use crate::{Config, Report, Stack, WorkloadKind, run};

fn setup(stack: Stack, n: u32, m: u32, oracle: bool) -> Report {
    let workload = WorkloadKind::Setup;
    let config =
        Config { stack, workload, jetties: n, connections: m, oracle, ..Config::default() };
    run(&config).unwrap_or_else(|error| panic!("{stack:?} {n} {m}: {error}"))
}

fn figure(report: &Report, name: &str) -> f64 {
    report.figures.iter().find(|(other, _)| *other == name).expect("a figure").1
}

/// Fig. 18 of the OpenURMA paper (§7.5), from its artifact, in microseconds.
#[test]
fn the_artifacts_figures() {
    let figures = [
        (1, 520.1, 505.1),
        (16, 4160.1, 505.1),
        (64, 66_560.1, 1020.1),
        (256, 1_064_960.1, 4080.1),
        (1024, 17_039_360.1, 16_320.1),
    ];
    for (n, roce, ub) in figures {
        for (stack, expected) in [(Stack::RoceDma, roce), (Stack::UbUrma, ub)] {
            assert_eq!(figure(&setup(stack, n, n, true), "setup_us"), expected, "{stack:?} {n}");
        }
    }
}

#[test]
fn every_pair_is_usable_in_the_end() {
    for (n, m) in [(1, 1), (3, 5), (16, 16)] {
        let [ub, roce] = [Stack::UbUrma, Stack::RoceDma].map(|stack| setup(stack, n, m, false));
        let pairs = u64::from(n * m);
        assert_eq!((ub.ops, roce.ops), (pairs, pairs));
        let pairs = pairs as f64;
        let (n, m) = (f64::from(n), f64::from(m));
        // Two calls per application, three per channel, two per pair; and a message each way.
        assert_eq!(figure(&ub, "kernel_calls"), 2.0 * n + 3.0 * m + 2.0 * pairs);
        assert_eq!(figure(&ub, "control_messages"), 4.0 * m + 2.0 * pairs);
        // One call per application, and four per queue pair at either end; REQ, REP, RTU.
        assert_eq!(figure(&roce, "kernel_calls"), n + 8.0 * pairs);
        assert_eq!(figure(&roce, "control_messages"), 3.0 * pairs);
    }
}

#[test]
fn handles_may_be_requested_together() {
    let mut config = Config { workload: WorkloadKind::Setup, ..Config::default() };
    (config.jetties, config.connections) = (16, 16);
    let one = run(&config).expect("it is set up");
    config.constants.handles_per_message = 16.0;
    let all = run(&config).expect("it is set up");
    assert_eq!(figure(&all, "control_messages"), 4.0 * 16.0 + 2.0 * 16.0);
    assert!(figure(&all, "setup_us") < figure(&one, "setup_us"));
}
