//! Traces of the control loop, live and simulated.

mod common;

use std::collections::BTreeMap;
use std::path::PathBuf;

use common::{Running, fairway};
use serde_json::Value;

/// A file that is removed when the test ends.
struct Trace(PathBuf);

impl Trace {
    fn named(name: &str) -> Trace {
        Trace(std::env::temp_dir().join(format!("fairway-{}-{name}", std::process::id())))
    }

    fn argument(&self) -> String {
        format!("--trace={}", self.0.display())
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).expect("a trace")
    }

    /// Begin, records, end.
    fn lines(&self) -> Vec<Value> {
        let text = self.text();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let (begin, end) = (&lines[0], &lines[lines.len() - 1]);
        assert_eq!((&begin["event"], &begin["version"]), (&"begin".into(), &1.into()));
        assert_eq!(end["event"], "end");
        assert_eq!(end["records"].as_u64(), Some(lines.len() as u64 - 2));
        lines
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn sum(lines: &[Value], event: &str, field: &str) -> u64 {
    let of_kind = lines.iter().filter(|line| line["event"] == event);
    of_kind.map(|line| line[field].as_u64().expect("a number")).sum()
}

#[test]
fn a_live_trace_agrees_with_what_was_measured() {
    let trace = Trace::named("live.jsonl");
    let argument = trace.argument();
    let arguments = [
        "perf",
        "write",
        "--size=64K",
        "--iters=400",
        "--emulate=loss=1%",
        "--json",
        "--pin=none",
        argument.as_str(),
    ];
    let row: Value = serde_json::from_str(&fairway(&arguments).ok().out).expect("JSON");
    let lines = trace.lines();
    assert_eq!(lines[lines.len() - 1]["dropped"], 0);
    // 400 WRITEs of 8 packets or more, and the messages between the two sides.
    let (packets, bytes) = (sum(&lines, "transmit", "packets"), sum(&lines, "transmit", "bytes"));
    let warmed_up = row["iterations"].as_u64().expect("a number");
    assert!(packets >= 8 * warmed_up && bytes >= 65_536 * warmed_up, "{packets} {bytes}");
    assert!(sum(&lines, "ack", "packets") >= packets, "what was sent was acknowledged");
    let lost = lines.iter().filter(|line| line["event"] == "loss").count();
    assert!(lost > 0, "one percent of {packets} is something");
    for line in &lines[1..lines.len() - 1] {
        assert!(line["t_us"].as_f64() >= Some(0.0) && line["channel"].is_u64(), "{line}");
    }
    let windows = lines.iter().filter(|line| line["event"] == "window");
    assert!(windows.count() > 1, "Swift has decided something");
}

#[test]
fn a_trace_of_flows_has_their_dequeue_rates() {
    let trace = Trace::named("flows.perfetto.json");
    let argument = trace.argument();
    let arguments = [
        "perf",
        "write",
        "--flows=4K,64K",
        "--sched=static",
        "--line=800Mbps",
        "--duration=300ms",
        "--pin=none",
        argument.as_str(),
    ];
    fairway(&arguments).ok();
    let events: Vec<Value> = serde_json::from_str(&trace.text()).expect("an array");
    // By counter: whether its share was ever a half, or a third while messages were exchanged. It
    // is more at times, because a flow that has nothing to send leaves its share to the others.
    let mut shared: BTreeMap<&str, bool> = BTreeMap::new();
    for event in &events {
        assert!(event["ph"].is_string() && event["ts"].is_number(), "{event}");
        assert!(event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
        let name = event["name"].as_str().expect("a name");
        if event["ph"] == "C" && name.starts_with("dequeue rate, flow") {
            let rate = event["args"]["gbps"].as_f64().expect("a rate");
            *shared.entry(name).or_default() |= (0.2..=0.41).contains(&rate);
        }
    }
    let halves = shared.values().filter(|was_half| **was_half).count();
    assert!(halves >= 2, "a half of 0.8 Gb/s: {shared:?}");
}

#[test]
fn a_simulated_trace_is_the_same_on_any_number_of_cores() {
    let of = |cores: &str| {
        let trace = Trace::named(&format!("sim-{cores}.jsonl"));
        let argument = trace.argument();
        let cores = format!("--cores={cores}");
        let arguments =
            ["sim", "incast", "--nodes=16", "--senders=6", "--bytes=200K", &cores, &argument];
        fairway(&arguments).ok();
        (trace.text(), trace.lines())
    };
    let (text, lines) = of("1");
    assert!(text == of("2").0, "two cores write another trace");
    assert_eq!(lines[lines.len() - 1]["dropped"], 0);
    // Six senders of 200 KiB.
    assert!(sum(&lines, "transmit", "bytes") >= 6 * 200 * 1024);
    let nodes: std::collections::BTreeSet<u64> =
        lines.iter().filter_map(|line| line["node"].as_u64()).collect();
    assert!(nodes.len() >= 6, "{nodes:?}");
    let several = ["sim", "incast", "--nodes=16", "--seeds=2", "--trace=never.jsonl"];
    fairway(&several).fails(2, &["--trace", "--seeds"]);
    let other = ["sim", "incast", "--nodes=16", "--stack=roce", "--trace=never.jsonl"];
    fairway(&other).fails(2, &["--trace", "Fairway"]);
}

/// The first line is what a reader has of the run: it named the policies of live processes.
#[test]
fn simulated_trace_names_the_policies_that_ran() {
    for (given, expected) in [(None, "cc=nscc:max="), (Some("--policy=cc=swift"), "cc=swift,")] {
        let base = ["sim", "incast", "--nodes=8", "--senders=2", "--bytes=64K", "--json"];
        let run = |trace: &Trace| {
            let argument = trace.argument();
            let arguments: Vec<&str> = base.into_iter().chain(given).chain([&*argument]).collect();
            let out = fairway(&arguments).ok().out;
            let value: Value = serde_json::from_str(&out).expect("JSON");
            value["configuration"]["policy"].as_str().expect("a policy").to_owned()
        };
        let trace = Trace::named("policies.jsonl");
        let configured = run(&trace);
        let named = trace.lines()[0]["policy"].as_str().expect("a policy").to_owned();
        assert!(named.starts_with(expected) && named.starts_with(&configured), "{named}");
        let trace = Trace::named("policies.perfetto.json");
        run(&trace);
        let events: Vec<Value> = serde_json::from_str(&trace.text()).expect("JSON");
        assert_eq!(events[0]["name"], "trace_config");
        assert_eq!(events[0]["args"]["policy"], named);
    }
}

#[test]
fn trace_that_cannot_be_written_is_an_error() {
    let arguments = ["perf", "write", "--iters=10", "--trace=/no/such/folder/t.jsonl"];
    fairway(&arguments).fails(1, &["/no/such/folder/t.jsonl"]);
}

#[test]
fn trace_without_records_reports_why() {
    let trace = Trace::named("empty.jsonl");
    let argument = trace.argument();
    let mut server = Running::start(&["perf", "--server", "--bind=127.0.0.1:0", &argument]);
    server.address();
    assert_eq!(server.end(), 0);
    server.line("empty.jsonl has no records");
}

#[test]
fn trace_of_a_client_that_a_signal_ends_is_complete() {
    let trace = Trace::named("ended.jsonl");
    let argument = trace.argument();
    let arguments = ["perf", "write", "--size=64K", "--duration=10m", "--pin=none", &argument];
    let mut running = Running::start(&arguments);
    let has_records = || std::fs::metadata(&trace.0).is_ok_and(|file| file.len() > 0);
    while !has_records() {
        assert!(running.child.try_wait().unwrap().is_none(), "it has ended early");
        std::thread::yield_now();
    }
    // The exit status of a program that SIGTERM has ended.
    assert_eq!(running.end(), 128 + 15);
    let lines = trace.lines();
    assert!(sum(&lines, "transmit", "bytes") > 0);
}
