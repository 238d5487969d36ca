//! `fairway top`, and metrics, of a running program.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{DEADLINE, Running, fairway};
use serde_json::Value;

/// A port that is very probably free.
fn port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its number").port()
}

fn perf(more: &[&str]) -> Running {
    let mut arguments = vec!["perf", "write", "--flows=4K,64K", "--sched=water-filling"];
    arguments.extend(["--tenants=1,2", "--line=2Gbps", "--duration=10m", "--pin=none"]);
    arguments.extend(more);
    Running::start(&arguments)
}

/// The output of `top --json` about a process, once it sends on two flows.
fn watched(pid: u32) -> Value {
    let (pid, begun) = (pid.to_string(), Instant::now());
    loop {
        assert!(begun.elapsed() < DEADLINE, "it never shows two flows that send");
        let ended = fairway(&["top", "--json", "--count=1", "--interval=200ms", &pid]);
        let value: Option<Value> =
            ended.out.lines().next().and_then(|l| serde_json::from_str(l).ok());
        let process = value.map(|value| value["processes"][0].clone()).unwrap_or_default();
        let flows = process["flows"].as_array().cloned().unwrap_or_default();
        // Its scheduler runs for every 64 KiB, so there are events in each interval.
        let sends = |flow: &&Value| {
            flow["gbps"].as_f64() > Some(0.01) && flow["events_per_s"].as_f64() > Some(0.0)
        };
        if flows.iter().filter(sends).count() >= 2 {
            return process;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn program_with_statistics_is_shown_with_its_flows() {
    let running = perf(&["--stats"]);
    let pid = running.child.id();
    let process = watched(pid);
    assert_eq!(process["pid"].as_u64(), Some(u64::from(pid)), "{process}");
    assert_eq!(process["program"], "fairway");
    assert!(process["policy"].as_str().is_some_and(|text| text.contains("sched=water-filling")));
    let flows = process["flows"].as_array().expect("a list");
    let sending: Vec<&Value> =
        flows.iter().filter(|flow| flow["gbps"].as_f64() > Some(0.01)).collect();
    for flow in &sending {
        let rate = flow["dequeue_gbps"].as_f64().expect("a rate");
        assert!(rate > 0.0 && rate <= 2.05, "{flow}");
        assert!(flow["gbps"].as_f64() < Some(2.5), "{flow}");
        assert!(flow["rtt_us"].as_f64() > Some(0.0) && flow["lost_per_s"].is_number(), "{flow}");
        assert!(flow["paths_used"].as_u64() >= Some(1) && flow["paths"] == 16, "{flow}");
        let events = flow["events_per_s"].as_f64().expect("a number");
        assert!(events == 0.0 || flow["bytes_per_event"].as_f64() > Some(0.0), "{flow}");
    }
    let tenants: BTreeSet<u64> = process["tenants"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|tenant| tenant["tenant"].as_u64())
        .collect();
    assert!(process["handled_per_s"].as_f64() > Some(0.0), "{process}");
    assert!(tenants.contains(&1) && tenants.contains(&2), "{process}");
    // Text output without a terminal.
    let pid = pid.to_string();
    // On a busy machine the program may send nothing for a while.
    let begun = Instant::now();
    loop {
        let table = fairway(&["top", "--count=2", "--interval=300ms", &pid]).ok().out;
        let tables = table.lines().filter(|line| line.contains("flow tenant weight")).count();
        assert!(tables <= 2, "{table}");
        if tables > 0 {
            break;
        }
        assert!(begun.elapsed() < DEADLINE, "{table}");
    }
    let table = fairway(&["top", "--count=1", "--interval=300ms", "--tenants", &pid]).ok().out;
    assert!(table.contains("tenant   flows"), "{table}");
}

#[test]
fn host_pressure_is_shown_by_both_sides() {
    let (mine, port) = ("--host-pressure=receive-queue=40,transmit-queue,every=10ms", port());
    let running = perf(&["--stats", mine, &format!("--prometheus={port}")]);
    let pid = running.child.id();
    let begun = Instant::now();
    let host = loop {
        let host = watched(pid)["host"].clone();
        if host.is_object() {
            break host;
        }
        assert!(begun.elapsed() < DEADLINE, "no period ends");
    };
    assert_eq!(host["receive_queue"]["threshold"], 40, "{host}");
    assert_eq!(host["transmit_queue"]["threshold"], 75, "{host}");
    let is_share = |name: &str| host[name]["percent"].as_u64().is_some_and(|share| share <= 100);
    assert!(is_share("receive_queue") && is_share("transmit_queue"), "{host}");
    assert!(host["peers_slowed"].is_boolean() && host.get("cpu").is_none(), "{host}");
    // The option was passed to the target's process, too.
    let all = fairway(&["top", "--json", "--count=1", "--interval=100ms"]).ok().out;
    let value: Value = serde_json::from_str(all.lines().next().expect("a line")).expect("JSON");
    let watching = |process: &&Value| process["host"]["receive_queue"]["threshold"] == 40;
    let processes = value["processes"].as_array().expect("a list");
    assert!(processes.iter().filter(watching).count() >= 2, "{value}");
    let table = fairway(&["top", "--count=1", "--interval=100ms", &pid.to_string()]).ok().out;
    assert!(table.to_lowercase().contains("host: receive-queue "), "{table}");
    let (values, _) = metrics(body(&http(port, "GET /metrics HTTP/1.0\r\n\r\n")));
    for name in ["fairway_host_use_percent", "fairway_host_short"] {
        assert!(
            values.contains_key(&format!("{name}{{resource=\"transmit-queue\"}}")),
            "{values:?}"
        );
    }
}

#[test]
fn a_host_pressure_that_makes_no_sense_is_refused() {
    for (text, words) in [
        ("io", ["io", "receive-queue"]),
        ("cpu=0", ["cpu=0", "1 to 100"]),
        ("cpu,every=1us", ["every=1us", "1ms to 60s"]),
    ] {
        fairway(&["perf", "--server", &format!("--host-pressure={text}")]).fails(2, &words);
    }
}

#[test]
fn program_without_statistics_is_reported_with_the_remedy() {
    let running = perf(&[]);
    let pid = running.child.id().to_string();
    fairway(&["top", "--count=1", &pid]).fails(1, &[&pid, "--stats", "FAIRWAY_STATS=1"]);
}

/// The whole response to a request.
fn http(port: u16, request: &str) -> String {
    let begun = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(error) => {
                assert!(begun.elapsed() < DEADLINE, "the server does not answer: {error}")
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

/// The body of the response.
fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").expect("a head and a body").1
}

/// The metrics by name and labels, after a check of the format; and the types by name.
fn metrics(text: &str) -> (BTreeMap<String, f64>, BTreeMap<String, String>) {
    let (mut values, mut types) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert!(["counter", "gauge"].contains(&kind), "{line}");
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "twice: {name}");
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let name = series.split('{').next().expect("a name");
            let fits = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(name.chars().all(fits) && types.contains_key(name), "{line}");
            assert_eq!(series.contains('{'), series.ends_with('}'), "{line}");
            let value = value.parse().expect("a number");
            assert!(values.insert(series.to_owned(), value).is_none(), "twice: {series}");
        }
    }
    for (name, kind) in &types {
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
    }
    (values, types)
}

#[test]
fn metrics_are_served_and_counters_grow() {
    let port = port();
    let _running = perf(&[&format!("--prometheus={port}")]);
    let scrape = || {
        let answer = http(port, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(
            head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("version=0.0.4"),
            "{head}"
        );
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        metrics(body)
    };
    let (first, types) = scrape();
    assert!(types.contains_key("fairway_flow_bytes_total"), "{types:?}");
    let name = "fairway_data_packets_total";
    let begun = Instant::now();
    loop {
        let (now, _) = scrape();
        assert!(now[name] >= first[name], "a counter never shrinks");
        let flows = now.keys().filter(|name| name.starts_with("fairway_flow_bytes_total{"));
        let peers = now.keys().filter(|name| name.starts_with("fairway_peer_rtt_seconds{"));
        if now[name] > first[name] && flows.count() >= 2 && peers.count() == 1 {
            break;
        }
        assert!(begun.elapsed() < DEADLINE, "{now:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(http(port, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(http(port, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(http(port, "hello\r\n\r\n").starts_with("HTTP/1.1 400 "));
}

#[test]
fn port_that_the_system_chose_for_metrics_is_printed() {
    let running = perf(&["--prometheus=0"]);
    let line = running.line("metrics are served");
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    assert!(!address.ends_with(":0"), "{line}");
    TcpStream::connect(address).expect("the exporter listens there");
}
