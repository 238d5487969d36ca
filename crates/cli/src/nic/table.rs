//! Results of `fairway nic` as text.

use fairway_nicmodel::{Config, Report};
use std::fmt::Write;

/// The figures of a run.
pub(super) fn summary(config: &Config, report: &Report) -> String {
    let mut text = String::new();
    let kind = if config.oracle { ", oracle" } else { "" };
    let _ = writeln!(
        text,
        "{} {} {} B, link {} ns, {} in flight{kind}",
        config.stack.name(),
        config.verb.name(),
        config.payload,
        config.link_ns,
        config.concurrency
    );
    let _ = writeln!(text, "  latency    {:>12.1} ns on average", report.mean_ns);
    if report.is_deterministic {
        let _ = writeln!(text, "             every operation took the same: there is no tail");
    } else {
        let _ = writeln!(
            text,
            "             {:>12.1} p50  {:.1} p99  {:.1} p99.9  {:.1} longest",
            report.p50_ns, report.p99_ns, report.p999_ns, report.max_ns
        );
    }
    let gbps = report.bytes as f64 * 8.0 / report.elapsed_ns.max(1e-3);
    let _ = writeln!(text, "  rate       {:>12.4} Mops   {gbps:.2} Gb/s", report.mops);
    let _ = writeln!(text, "  in flight  {:>12.2} on average", report.concurrency);
    if let Some(server) = report.servers.first() {
        let share = server.utilisation * 100.0;
        let _ = writeln!(text, "  busiest    {:>12.1} % {}", share, server.name);
    }
    let counted = report.counted;
    let _ = writeln!(
        text,
        "  packets    {:>12} sent, {} lost, {} sent again, {} time-outs, {} held back for order",
        report.packets, report.lost, counted.resent, counted.timeouts, counted.gated
    );
    if config.hosts > 2 {
        let _ =
            writeln!(text, "  switch     {:>12} dropped, {} marked", report.dropped, report.marked);
    }
    if config.batch > 1 {
        let each = report.ops as f64 / report.doorbells.max(1) as f64;
        let _ = writeln!(text, "  doorbells  {:>12} ({each:.1} operations each)", report.doorbells);
    }
    let [hits, misses] = report.context;
    let _ = writeln!(text, "  contexts   {hits:>12} found, {misses} fetched");
    let _ = writeln!(text, "  compared   {:>12} bytes of {}", report.compared, report.bytes);
    for (name, value) in &report.figures {
        let _ = writeln!(text, "  {name:<22} {value:.2}");
    }
    text
}

/// The round trip, phase by phase, and the load of the servers.
pub(super) fn explain(config: &Config, report: &Report) -> String {
    let mut text = summary(config, report);
    let _ =
        writeln!(text, "\n  {:<28} {:>12} {:>12}", "phase, per operation", "latency", "waiting");
    let ops = report.ops.max(1) as f64;
    let (mut latency, mut waiting) = (0.0, 0.0);
    for (phase, sum) in &report.phases {
        let [took, waited] = [sum.latency_ps, sum.waiting_ps].map(|ps| ps as f64 / 1000.0 / ops);
        latency += took;
        waiting += waited;
        if sum.latency_ps + sum.waiting_ps > 0 {
            let _ = writeln!(text, "  {:<28} {took:>12.2} {waited:>12.2}", phase.name());
        }
    }
    let _ = writeln!(text, "  {:<28} {latency:>12.2} {waiting:>12.2}", "sum");
    let rest = report.mean_ns - latency - waiting;
    if rest.abs() > 0.005 {
        let why = if rest < 0.0 { "packets that travel at once" } else { "waiting in the engine" };
        let _ = writeln!(text, "  {why:<28} {rest:>12.2}");
    }
    let _ = writeln!(text, "  {:<28} {:>12.2}\n", "measured", report.mean_ns);
    let _ = writeln!(text, "  {:<28} {:>12} {:>12}", "server", "busy", "waiting");
    for server in report.servers.iter().take(10) {
        let busy = server.utilisation * 100.0;
        let _ = writeln!(text, "  {:<28} {busy:>10.1} % {:>12.2}", server.name, server.waited_ns);
    }
    text
}
