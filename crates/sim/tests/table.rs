//! Results of small runs as a golden table: a change of the protocol or of the model shows as a
//! change of text. The digests cover every time and count, on every machine.

use fairway_sim::{Report, Settings, Simulation};
use std::fmt::Write;

const GOLDEN: &str = include_str!("table.txt");

/// Settings that differ between lines; the common ones are below.
const RUNS: &[&str] = &[
    "workload permutation",
    "workload permutation|routing spray",
    "workload permutation|routing adaptive",
    "workload permutation|paths 1",
    "workload permutation|policy cc=dcqcn:line=400Gbps,path=p2c",
    "workload permutation|queue 64K|ecn off",
    "workload permutation|queue 64K|ecn off|overflow trim",
    "workload permutation|oversubscription 2|nodes 32",
    "workload permutation|fail 0-16@5us..40us",
    "workload incast|senders 15",
    "workload incast|senders 15|queue 64K",
    "workload incast|senders 15|queue 64K|overflow trim",
    "workload incast-permutation|pfc 100K:80K|ecn off|paths 1",
    "workload all-to-all",
    "workload ring-allreduce|collectives flows",
    "workload ring-allreduce",
    "workload halving-allreduce|rounds 3|slots 4|slot 4K|loss 0.1%",
    "workload websearch|flows 300|load 40",
    "workload permutation|loss 1%",
    "workload permutation|split 4|pieces 8",
    "workload moe|tokens 32|experts 16:4|bytes 7K|skew 500",
    "workload sweep3d|grid 4x4|latency 140ns|switching cut-through",
    "workload halo3d|grid 4x2x2|protocol rdma|routing spray",
    "workload permutation|topology torus|sizes 4x4|routing dimension",
    "workload permutation|topology hyperx|sizes 4x4|routing valiant",
    "workload permutation|topology dragonfly|dragonfly 4:1:5|routing ugal",
];

fn run(line: &str) -> Report {
    let mut settings = Settings::default();
    // The sizes of a dragonfly determine its number of hosts.
    let nodes = if line.contains("dragonfly") { "" } else { "nodes 16" };
    settings.read(nodes).expect("settings");
    settings.read("paths 16\ncheck on").expect("settings");
    if !["websearch", "sweep3d", "halo3d"].iter().any(|other| line.contains(other)) {
        settings.read("bytes 256K").expect("settings");
    }
    if line.contains("incast-permutation") {
        settings.read("messages 2").expect("settings");
    }
    settings.read(&line.replace('|', "\n")).expect("settings");
    let scenario = settings.build(1).expect("a scenario");
    let report = Simulation::new(scenario, 1).expect("a run").run(u32::MAX, |_| ());
    assert!(report.is_complete(), "{line}");
    report
}

#[test]
fn results_match_the_golden_table() {
    let mut table = String::from(
        "completion_us  p50_us  drops  trims  marks  resent  timeouts  packets  digest            run\n",
    );
    for line in RUNS {
        let report = run(line);
        assert_eq!(report.digest(), run(line).digest(), "the same twice in one process");
        writeln!(
            table,
            "{:>13}  {:>6}  {:>5}  {:>5}  {:>5}  {:>6}  {:>8}  {:>7}  {:016x}  {}",
            report.completion_ps().expect("complete") / 1_000_000,
            report.completion_times().p50 / 1_000_000,
            report.dropped + report.lost_on_links,
            report.trims(),
            report.marks(),
            report.resent,
            report.timeouts,
            report.sent,
            report.digest(),
            line.replace('|', ", "),
        )
        .expect("a string takes it");
    }
    if std::env::var_os("KEEP").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/table.txt");
        std::fs::write(path, &table).expect("written");
    }
    assert!(table == GOLDEN, "if this is meant, run again with KEEP=1 and commit:\n{table}");
}
