//! `fairway collective`, with all ranks on this machine.

mod common;

use common::{DEADLINE, Running, Scratch, ended_within, fairway, spawn};
use serde_json::Value;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

const OPERATIONS: [&str; 10] = [
    "all-reduce",
    "reduce-scatter",
    "all-gather",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all-to-all",
    "send-recv",
    "barrier",
];

fn rows(arguments: &[&str]) -> Vec<Value> {
    let mut all = vec!["collective"];
    all.extend(arguments);
    all.extend(["--json", "--iters", "2"]);
    let ended = fairway(&all).ok();
    ended.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").to_string()
}

#[test]
fn every_operation_is_measured_and_compared() {
    for operation in OPERATIONS {
        let rows = rows(&[operation, "--ranks", "3", "--sizes", "6K..48K", "--root", "1"]);
        let sizes = if operation == "barrier" { 1 } else { 4 };
        assert_eq!(rows.len(), sizes, "{operation}");
        for row in rows {
            assert_eq!(row["operation"], operation);
            assert_eq!(row["out_of_place"]["wrong"], 0, "{row}");
            assert!(row["out_of_place"]["time_us"].as_f64() > Some(0.0), "{row}");
            assert!(row["in_place"].is_null() || row["in_place"]["wrong"] == 0, "{row}");
        }
    }
}

#[test]
fn types_reductions_and_algorithms_are_chosen() {
    for (element, reduction) in
        [("bf16", "average"), ("f16", "sum"), ("i8", "max"), ("u64", "product"), ("f64", "min")]
    {
        let rows =
            rows(&["all-reduce", "--ranks=2", "--size=64K", "--type", element, "--op", reduction]);
        assert_eq!((&rows[0]["type"], &rows[0]["op"]), (&element.into(), &reduction.into()));
        assert_eq!(rows[0]["in_place"]["wrong"], 0, "{}", rows[0]);
    }
    for algorithm in ["ring", "tree", "halving", "doubling", "direct", "spread", "hierarchical"] {
        let rows = rows(&["all-reduce", "--ranks=4", "--size=300K", "--algo", algorithm]);
        assert_eq!(rows[0]["algorithm"], algorithm);
        assert_eq!(rows[0]["out_of_place"]["wrong"], 0, "{}", rows[0]);
    }
}

#[test]
fn text_has_the_columns_of_nccl_tests() {
    let ended = fairway(&["collective", "broadcast", "--size", "1K", "--iters", "2"]).ok();
    for word in ["size", "count", "redop", "root", "time", "algbw", "busbw", "#wrong"] {
        assert!(ended.out.contains(word), "{}", ended.out);
    }
    let last = ended.out.lines().last().expect("a row");
    let words: Vec<_> = last.split_whitespace().collect();
    assert_eq!(words[..5], ["1024", "256", "f32", "none", "0"], "{last}");
    assert_eq!(words.len(), 14, "{last}");
}

#[test]
fn ranks_are_taken_from_the_environment_of_launchers() {
    let address = free_address();
    let (host, port) = address.rsplit_once(':').expect("an address");
    let rank = |rank: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairway"));
        command.args(["collective", "all-gather", "--size", "1K", "--iters", "2", "--json"]);
        command.envs([("RANK", rank), ("WORLD_SIZE", "2")]);
        command.envs([("MASTER_ADDR", host), ("MASTER_PORT", port)]);
        spawn(command.stdin(Stdio::null()))
    };
    let (mut second, _) = rank("1");
    let (mut first, lines) = rank("0");
    for child in [&mut first, &mut second] {
        assert!(ended_within(child, DEADLINE).expect("it ends").success());
    }
    let row: Value = serde_json::from_str(&lines.recv().expect("a row")).expect("JSON");
    assert_eq!((&row["ranks"], &row["out_of_place"]["wrong"]), (&2.into(), &0.into()));
}

#[test]
fn rank_that_is_killed_is_named_by_the_others() {
    let address = free_address();
    let rank = |rank: &str| {
        let arguments = ["collective", "all-reduce", "--ranks", "3", "--rendezvous", &address];
        let endless = ["--sizes", "1M..2M", "--duration", "600s", "--rank", rank];
        Command::new(env!("CARGO_BIN_EXE_fairway"))
            .args(arguments)
            .args(endless)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts")
    };
    let mut ranks = ["0", "1", "2"].map(rank);
    // The ranks are connected, and exchange data, when they have used some CPU time.
    let used = |id: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        fields.get(11).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0)
    };
    while ranks.iter().any(|rank| used(rank.id()) < 30) {
        for rank in &mut ranks {
            assert!(rank.try_wait().expect("a child").is_none(), "no rank ends by itself");
        }
        std::thread::yield_now();
    }
    ranks[1].kill().expect("it runs");
    for at in [0, 2] {
        let status = ended_within(&mut ranks[at], DEADLINE).expect("it ends");
        let mut text = String::new();
        let mut errors = ranks[at].stderr.take().expect("a pipe");
        std::io::Read::read_to_string(&mut errors, &mut text).expect("text");
        assert_eq!(status.code(), Some(1), "{text}");
        assert!(text.contains("rank 1 is gone"), "rank {at}: {text}");
    }
    let _ = ranks[1].wait();
}

#[test]
fn rank_that_fails_at_the_start_ends_all_at_once() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("it is bound").port();
    drop(taken);
    let started = std::time::Instant::now();
    // Two ranks of one host cannot have the same port.
    let bind = format!("127.0.0.1:{port}");
    let ended = fairway(&["collective", "all-reduce", "--bind", &bind, "--size", "8"]);
    ended.fails(1, &["already in use"]);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[test]
fn ranks_that_do_not_come_are_named_after_the_time_limit() {
    let started = std::time::Instant::now();
    let arguments = ["collective", "barrier", "--rank=0", "--ranks=2", "--timeout=1s"];
    let mut all = arguments.to_vec();
    let address = free_address();
    all.extend(["--rendezvous", &address]);
    fairway(&all).fails(1, &["ranks 1 of 2"]);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[test]
fn ranks_with_different_algorithms_are_told_so() {
    let address = free_address();
    let rank = |rank: &str, algorithm: &str| {
        Command::new(env!("CARGO_BIN_EXE_fairway"))
            .args(["collective", "all-reduce", "--ranks=2", "--rendezvous", &address])
            .args(["--rank", rank, "--algo", algorithm])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts")
    };
    for rank in [rank("0", "ring"), rank("1", "tree")] {
        let output = rank.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        for word in ["ranks disagree", "ring", "tree"] {
            assert!(text.contains(word), "{text}");
        }
    }
}

#[test]
fn arguments_pass_the_shell_of_another_host_unchanged() {
    let scratch = Scratch::new();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_fairway"));
    let folder = program.parent().expect("a folder").display();
    // As ssh does: the arguments after the host are joined, and a shell parses them.
    let script = format!("shift\nPATH='{folder}':$PATH exec sh -c \"$*\"\n");
    std::fs::write(scratch.path("launch"), script).expect("written");
    std::fs::write(scratch.path("hosts"), "host1\nme@host2\n").expect("written");
    let (hosts, launch) = (scratch.text("hosts"), format!("sh {}", scratch.text("launch")));
    let more = ["--hostfile", &hosts, "--launch", &launch, "--rendezvous", &free_address()];
    let rows = rows(&[&["all-reduce", "--emulate", "delay=5us;1:delay=9us"], &more[..]].concat());
    assert_eq!(rows[0]["out_of_place"]["wrong"], 0, "{}", rows[0]);
}

#[test]
fn host_that_is_an_option_starts_nothing() {
    let scratch = Scratch::new();
    let evil = format!("-oProxyCommand=touch${{IFS}}{}", scratch.text("started"));
    std::fs::write(scratch.path("hosts"), format!("host1\n{evil}\n")).expect("written");
    let hosts = scratch.text("hosts");
    let arguments = ["collective", "barrier", "--hostfile", &hosts, "--launch", "echo"];
    fairway(&arguments).fails(2, &["line 2", "-oProxyCommand", "is no host", "user@host"]);
}

#[test]
fn empty_buffers_have_no_bytes_in_any_row() {
    for operation in ["gather", "scatter", "all-gather"] {
        let rows = rows(&[operation, "--ranks", "3", "--size", "0"]);
        assert_eq!(rows[0]["bytes"], 0, "{operation}: {}", rows[0]);
    }
}

#[test]
fn impossible_requests_are_refused_with_a_remedy() {
    let wrong = |arguments: &[&str], words: &[&str]| {
        let mut all = vec!["collective"];
        all.extend(arguments);
        fairway(&all).fails(2, words);
    };
    wrong(&["gossip"], &["all-reduce", "gossip"]);
    wrong(&["barrier", "--algo", "ring"], &["--algo ring", "dissemination"]);
    wrong(&["broadcast", "--root", "2"], &["--root 2", "0 to 1"]);
    wrong(&["barrier", "--rank", "0", "--ranks", "2"], &["--rendezvous"]);
    let beyond = ["barrier", "--rank", "2", "--ranks", "2", "--rendezvous", "127.0.0.1:9"];
    wrong(&beyond, &["--rank 2", "ranks count from 0"]);
    wrong(&["all-reduce", "--type", "f8"], &["bf16", "f8"]);
    wrong(&["all-reduce", "--size", "9000G"], &["--size", "9000G", "memory"]);
    wrong(&["all-reduce", "--sizes", "8..8192G"], &["--sizes", "memory"]);
    let alone = Running::start(&["collective", "barrier", "--ranks", "1"]);
    alone.line("barrier");
}

/// Regression test: 4 bytes were measured in place of 3, and nothing told it.
#[test]
fn sizes_that_are_no_whole_elements_are_rounded_with_a_note() {
    let measured = |size: &str, operation: &str| {
        let ended = fairway(&["collective", operation, "--ranks=2", "--size", size, "--iters=2"]);
        ended.ok().err
    };
    let note = measured("3", "all-reduce");
    assert!(note.contains("f32 has 4 bytes") && note.contains("measured are 4 bytes"), "{note}");
    let note = measured("20", "all-gather");
    assert!(note.contains("8 bytes in all") && note.contains("measured are 16 bytes"), "{note}");
    assert_eq!(measured("16", "all-gather"), "");
}
