//! `fairway perf`, with both sides on this machine.

mod common;

use common::{Running, fairway};
use serde_json::Value;

const FIELDS: &[&str] = &[
    "op",
    "size",
    "iterations",
    "seconds",
    "gbps",
    "mops",
    "paths",
    "port_pairs",
    "packets_sent",
    "packets_resent",
    "packets_duplicate",
    "acks_sent",
    "verified",
    "order",
    "tag",
    "fence",
    "lost",
    "gated",
    "gates_passed",
];

/// All operations, each with sizes that it supports.
const OPERATIONS: &[(&str, &[u64])] = &[
    ("write", &[2, 64, 20_000]),
    ("write-imm", &[2, 64, 20_000]),
    ("read", &[2, 64, 20_000]),
    ("send", &[2, 64, 20_000]),
    ("put", &[2, 64, 20_000]),
    ("atomic-cas", &[4, 8]),
    ("atomic-fadd", &[4, 8]),
    ("load", &[1, 8, 64]),
    ("store", &[1, 8, 64]),
];

fn rows(arguments: &[&str]) -> Vec<Value> {
    let mut all = vec!["perf"];
    all.extend(arguments);
    all.extend(["--json", "--pin", "none"]);
    let ended = fairway(&all).ok();
    ended.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn check(row: &Value, op: &str, size: u64, iterations: u64) {
    for field in FIELDS {
        assert!(!row[field].is_null(), "no {field} in {row}");
    }
    assert_eq!((row["op"].as_str(), row["size"].as_u64()), (Some(op), Some(size)), "{row}");
    assert_eq!(row["iterations"].as_u64(), Some(iterations), "{row}");
    assert!(row["gbps"].as_f64() > Some(0.0) && row["mops"].as_f64() > Some(0.0), "{row}");
    assert!(row["packets_sent"].as_u64() >= Some(iterations * size.div_ceil(32_768)), "{row}");
    // Every slot is compared at least once.
    assert!(row["verified"].as_u64() >= Some(size), "{row}");
}

/// Contexts run at the same time, and their results are added up.
#[test]
fn several_contexts_are_measured_together() {
    let all = rows(&["write", "--contexts", "3", "--sizes", "64..128", "--iters", "200"]);
    assert_eq!(all.len(), 2);
    for (row, size) in all.iter().zip([64, 128]) {
        check(row, "write", size, 600);
        assert_eq!(row["contexts"], 3, "{row}");
        assert!(row["verified"].as_u64() >= Some(3 * size), "{row}");
    }
    // The first port of a server's second context is in use, so the first one does not serve alone.
    let used = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = used.local_addr().expect("an address").port() - 16;
    let own = format!("127.0.0.1:{port}");
    let server = ["perf", "--server", "--contexts", "2", "--bind", &own];
    let _ = fairway(&server).fails(1, &["127.0.0.1"]);
}

#[test]
fn every_operation_is_measured_and_verified() {
    for (op, sizes) in OPERATIONS {
        for &size in *sizes {
            let text = size.to_string();
            let rows = rows(&[op, "--size", &text, "--iters", "300", "--depth", "16"]);
            assert_eq!(rows.len(), 1);
            check(&rows[0], op, size, 300);
            assert!(rows[0]["latency_us"].is_null());
            // Operations that request no order pass no gate.
            assert_eq!((&rows[0]["gated"], &rows[0]["gates_passed"]), (&0.into(), &0.into()));
        }
    }
}

#[test]
fn both_sides_use_the_address_family_of_bind() {
    let rows = rows(&["write", "--bind", "[::1]", "--size", "64", "--iters", "100"]);
    check(&rows[0], "write", 64, 100);
}

#[test]
fn latency_is_measured() {
    let runs: &[&[&str]] = &[
        &["write"],
        &["write-imm"],
        &["read"],
        &["send"],
        &["send", "--ping-pong"],
        &["put"],
        &["put", "--ping-pong"],
        &["load"],
        &["store"],
        &["atomic-cas", "--size", "8"],
        &["atomic-fadd", "--size", "8"],
        &["write", "--tag", "so", "--order", "rot"],
        &["put", "--ping-pong", "--order", "ROI", "--tag", "SO"],
        &["write", "--order", "UNO"],
    ];
    for arguments in runs {
        let mut all = arguments.to_vec();
        all.extend(["--latency", "--iters", "100"]);
        let rows = rows(&all);
        let size = if arguments[0].starts_with("atomic") { 8 } else { 64 };
        check(&rows[0], arguments[0], size, 100);
        let times = &rows[0]["latency_us"];
        let time = |name: &str| times[name].as_f64().expect("a time");
        assert!(time("min") > 0.0 && time("min") <= time("p50"), "{times}");
        assert!(time("p50") <= time("p99") && time("p99") <= time("p999"), "{times}");
        assert!(time("p999") <= time("max") && time("avg") <= time("max"), "{times}");
    }
}

#[test]
fn a_range_of_sizes_has_a_row_each() {
    let rows = rows(&["write", "--sizes", "16K..64K", "--iters", "20", "--paths", "3"]);
    let sizes: Vec<_> = rows.iter().map(|row| row["size"].as_u64()).collect();
    assert_eq!(sizes, [Some(16_384), Some(32_768), Some(65_536)]);
    assert!(rows.iter().all(|row| row["paths"] == 3));
}

#[test]
fn a_damaged_byte_is_found() {
    for (op, sizes) in OPERATIONS {
        for size in sizes.iter().filter(|size| **size >= 4).map(u64::to_string) {
            let ended = fairway(&[
                "perf",
                op,
                "--size",
                &size,
                "--iters",
                "200",
                "--depth",
                "8",
                "--pin",
                "none",
                "--corrupt-for-test",
            ]);
            ended.fails(1, &["verification failed", op, "slot 0", "should be"]);
        }
    }
}

#[test]
fn bad_paths_do_not_hurt_the_data() {
    let spec = "loss=1%,dup=1%,reorder=16";
    let rows = rows(&["write", "--size", "256K", "--iters", "100", "--emulate", spec]);
    check(&rows[0], "write", 262_144, 100);
    assert!(rows[0]["packets_resent"].as_u64() > Some(0), "{}", rows[0]);
}

#[test]
fn order_is_kept_by_initiator_target_and_transport() {
    for order in ["ROI", "ROT", "ROL"] {
        for (op, tag) in [("write", "SO"), ("send", "RO"), ("put", "SO"), ("atomic-cas", "SO")] {
            let size = if op == "atomic-cas" { "8" } else { "64" };
            let bad = "loss=1%,dup=1%,reorder=16";
            let arguments = ["--size", size, "--iters", "300", "--depth", "16", "--emulate", bad];
            let order_options = ["--order", order, "--tag", tag, "--fence"];
            let row = &rows(&[&[op], &arguments[..], &order_options[..]].concat())[0];
            check(row, op, size.parse().expect("a number"), 300);
            assert_eq!((&row["order"], &row["tag"]), (&order.into(), &tag.into()));
            assert_eq!(row["fence"], true);
            let gates = row["gated"].as_u64().max(row["gates_passed"].as_u64());
            assert!(gates > Some(0) || tag == "RO", "{row}");
        }
    }
}

#[test]
fn lost_unreliable_packets_are_reported() {
    for op in ["write", "write-imm", "send"] {
        let bad = ["--emulate", "loss=20%,reorder=16", "--paths", "4"];
        let arguments = ["--iters", "1000", "--order", "uno", "--depth", "16"];
        let row = &rows(&[&[op], &arguments[..], &bad[..]].concat())[0];
        let (lost, arrived) = (row["lost"].as_u64(), row["iterations"].as_u64());
        assert_eq!(lost.zip(arrived).map(|(lost, arrived)| lost + arrived), Some(1000), "{row}");
        assert!(lost > Some(50) && arrived > Some(0), "{row}");
        assert_eq!((&row["order"], &row["size"]), (&"UNO".into(), &64.into()));
    }
}

#[test]
fn without_verification_nothing_is_compared() {
    let rows = rows(&["send", "--iters", "50", "--no-verify"]);
    assert_eq!(rows[0]["verified"], 0);
}

#[test]
fn server_serves_clients_in_turn_and_ends_at_a_signal() {
    let mut server = Running::start(&["perf", "--server", "--bind", "127.0.0.1:0"]);
    let address = server.address();
    for op in ["write", "read"] {
        let ended =
            fairway(&["perf", op, "--connect", &address, "--iters", "50", "--size", "64"]).ok();
        assert!(ended.out.contains("#bytes"), "{}", ended.out);
    }
    assert_eq!(server.end(), 0);
}

#[test]
fn missing_server_is_reported_with_the_remedy() {
    // A port that was free a moment ago.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address").to_string();
    let ended = fairway(&["perf", "write", "--connect", &address]);
    ended.fails(1, &["no answer", "check the address", &address[address.len() - 5..]]);
}

#[test]
fn flows_are_measured_with_a_scheduler_on_a_thread_of_its_own() {
    for operation in ["write", "read"] {
        let rows = rows(&[
            operation,
            "--flows=4K,64K*2",
            "--sched=drr",
            "--control-threads=2",
            "--line=10Gbps",
            "--duration=1s",
        ]);
        let row = &rows[0];
        let flows = row["flows"].as_array().expect("a list");
        let sizes: Vec<u64> = flows.iter().filter_map(|flow| flow["size"].as_u64()).collect();
        assert_eq!(sizes, [4096, 65_536, 65_536], "{row}");
        assert!(flows.iter().all(|flow| flow["gbps"].as_f64() > Some(0.0)), "{row}");
        assert!(row["verified"].as_u64() > Some(0), "{row}");
        assert!(row["policy"].as_str().is_some_and(|text| text.contains("sched=drr")), "{row}");
    }
}

#[test]
fn paths_that_share_their_ports_are_reported() {
    let run = |paths: &str, sockets: &str| {
        let sizes = ["perf", "write", "--size=4K", "--iters=20", "--paths", paths];
        fairway(&[&sizes[..], &["--sockets", sockets]].concat()).ok().err
    };
    let warned = run("17", "4");
    let words = ["17 paths", "16 pairs of UDP ports (4 sockets here, 4 at", "need 5 sockets"];
    for words in words.into_iter().chain(["at most 16 --paths"]) {
        assert!(warned.contains(words), "{warned}");
    }
    assert_eq!(run("16", "4"), "");
}

#[test]
fn each_path_has_a_pair_of_ports_without_further_options() {
    for (paths, pairs) in [("1", 1), ("16", 16), ("64", 64), ("256", 256)] {
        let run = ["perf", "write", "--size=4K", "--iters=20", "--json", "--paths", paths];
        let done = fairway(&run).ok();
        assert_eq!(done.err, "");
        let row: Value = serde_json::from_str(&done.out).expect("a row");
        assert_eq!(row["port_pairs"].as_u64(), Some(pairs), "{row}");
    }
}

/// A process that may open few files has fewer sockets, reports that, and works.
#[test]
fn paths_without_descriptors_are_reported() {
    let script = "ulimit -n 40; exec \"$0\" perf write --size=4K --iters=20 --json --paths=256";
    let output = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_fairway")])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    for words in ["256 paths need 16 UDP sockets", "40 file descriptors", "ulimit -n"] {
        assert!(text.contains(words), "no '{words}' in: {text}");
    }
    let row: Value = serde_json::from_slice(&output.stdout).expect("a row");
    let pairs = row["port_pairs"].as_u64().unwrap();
    assert!((16..256).contains(&pairs), "{row}");
}

#[test]
fn paths_over_blocked_ports_are_named_on_both_sides() {
    let server = Running::start(&["perf", "--server", "--bind", "127.0.0.1:0"]);
    let address = server.address();
    let (_, number) = address.rsplit_once(':').expect("a port");
    // A relay that forwards the first of the server's four ports, and no other.
    let relay = Running::start(&["emulate", "--listen", "127.0.0.4", "--to", &address]);
    let target = format!("127.0.0.4:{number}");
    assert_eq!(relay.address(), target);
    let mut connect = vec!["perf", "write", "--connect", &target, "--bind", "127.0.0.1", "--json"];
    // A path counts as dead after its third time-out: on a busy machine two seconds are too few.
    connect.push("--duration=5s");
    let ended = fairway(&connect).ok();
    let row: Value = serde_json::from_str(&ended.out).expect("JSON");
    let dead = &row["paths_dead"];
    assert_eq!(dead["count"], 12, "{row}");
    assert_eq!(dead["remote_ports"].as_array().map(Vec::len), Some(3), "{row}");
    for words in ["12 of 16 paths", "do not work: UDP ports", "of 127.0.0.4", "firewalls"] {
        assert!(ended.err.contains(words), "no '{words}' in: {}", ended.err);
    }
}

/// Regression test: a row of zeros was reported, as a success.
#[test]
fn duration_in_which_nothing_completes_is_a_failure() {
    let ended = fairway(&["perf", "write", "--duration", "1ns"]);
    let ended = ended.fails(1, &["within --duration 1ns", "--iters"]);
    assert_eq!(ended.out, "");
}

/// Regression test: the remedy was to start the server that was running.
#[test]
fn server_with_fewer_contexts_than_its_client_is_explained() {
    // Other tests bind other addresses, so the port of the second context is free.
    let server = Running::start(&["perf", "--server", "--bind", "127.0.5.7:0"]);
    let address = server.address();
    fairway(&["perf", "write", "--contexts", "2", "--connect", &address])
        .fails(1, &["`fairway perf --server --contexts 2`", "fewer contexts"]);
}
