//! `fairway nic`, run as a program.

use std::process::Command;

fn nic(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_fairway"))
        .arg("nic")
        .args(arguments)
        .output()
        .expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn one_json_object_per_run() {
    let arguments = ["--oracle", "--stack", "roce-dma", "--json", "--ops", "10"];
    let (status, out, _) = nic(&arguments);
    assert_eq!(status, Some(0));
    let object: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(object["mean_ns"], 2236.0);
    assert_eq!(object["deterministic"], true);
    for name in ["p50_ns", "p99_ns", "p999_ns", "max_ns", "mops", "ops", "bytes"] {
        assert!(object[name].is_number(), "{name}");
    }
    let (_, first, _) = nic(&["--oracle", "--stack", "roce-dma", "--set", "roce_psn_ns=0"]);
    assert!(first.contains("2186.0 ns") && first.contains("no tail"), "{first}");
}

#[test]
fn every_stack_runs_with_its_defaults() {
    for stack in [
        "ub-ldst",
        "ub-urma",
        "roce-bf",
        "roce-dma",
        "roce-irn",
        "infiniswap",
        "fastswap",
        "coherent",
    ] {
        for workload in ["bulk", "ptr-chase"] {
            let arguments = ["--stack", stack, "--workload", workload, "--ops", "200", "--json"];
            let (status, out, error) = nic(&arguments);
            assert_eq!(status, Some(0), "{stack} {workload}: {error}");
            let object: serde_json::Value = serde_json::from_str(&out).expect("JSON");
            assert_eq!(object["ops"], 200, "{stack} {workload}");
        }
    }
}

#[test]
fn options_that_a_stack_does_not_have_are_refused() {
    for (arguments, words) in [
        (["--stack", "roce-dma", "--verb", "load"], "no instructions"),
        (["--stack", "infiniswap", "--verb", "read"], "--verb load"),
        (["--stack", "ub-urma", "--srq", "--json"], "--workload fanout"),
    ] {
        let (status, _, error) = nic(&arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {error}");
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
    let (status, out, _) = nic(&["--stack", "ub-urma", "--payload", "4K", "--ops", "9", "--json"]);
    assert_eq!(status, Some(0));
    let object: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(object["payload"], 4096);
}

/// The engine would refuse each of these, in its own words and in the middle of the run.
#[test]
fn operations_that_the_engine_refuses_are_wrong_usage() {
    let not_ordered = "loads and stores of ub-ldst are not ordered";
    for (line, words) in [
        ("--stack ub-ldst --verb load --without unordered", not_ordered),
        ("--stack ub-ldst --workload hash-probe --without unordered", not_ordered),
        ("--stack ub-ldst --verb load --order fence", "--order fence"),
        ("--stack ub-ldst --verb load --order roi --oracle", not_ordered),
        ("--stack ub-urma --verb read --order uno", "WRITEs and SENDs"),
        ("--stack ub-urma --workload scan --order uno", "WRITEs and SENDs"),
        ("--stack ub-urma --verb write --order uno --payload 8K", "at most 4096 bytes"),
        ("--stack roce-bf --mtu 64", "256, 512, 1024, 2048 and 4096"),
        ("--stack roce-bf --mtu 64 --workload setup", "256, 512, 1024, 2048 and 4096"),
        ("--stack ub-urma --mtu 0", "1 to 32768"),
        ("--stack infiniswap --verb read --oracle", "--verb load"),
        ("--stack fastswap --workload barrier", "need atomics"),
        ("--stack ub-urma --policy cc=nonsense", "nonsense"),
        ("--stack roce-dma --policy cc=swift", "NICs of RoCE have cc=dcqcn"),
        ("--stack roce-dma --policy cc=dcqcn:line=10Gbps", "without parameters"),
        ("--stack roce-irn --policy cc=dcqcn,path=spray", "path=spray"),
        ("--stack coherent --verb load --policy cc=swift", "has no policies"),
        ("--stack roce-irn --set irn_window=3", "power of two"),
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let (status, _, error) = nic(&arguments);
        assert_eq!(status, Some(2), "{line}: {error}");
        assert!(error.contains(words), "{line}: {error}");
    }
    for line in [
        "--stack ub-ldst --verb load --order fence --order-percent 0",
        "--stack ub-ldst --workload cas-lock --order fence",
        "--stack ub-urma --verb write --order uno --payload 4K",
    ] {
        let arguments: Vec<&str> = line.split(' ').chain(["--ops", "20"]).collect();
        let (status, _, error) = nic(&arguments);
        assert_eq!(status, Some(0), "{line}: {error}");
    }
}

#[test]
fn a_round_trip_is_explained() {
    let (status, out, _) = nic(&["--stack", "ub-ldst", "--verb", "load", "--explain"]);
    assert_eq!(status, Some(0));
    for phrase in ["CPU cache lookup", "target DRAM", "waiting", "measured"] {
        assert!(out.contains(phrase), "{phrase}: {out}");
    }
}

#[test]
fn a_sweep_gives_its_runs_in_order() {
    let path = std::env::temp_dir().join(format!("fairway-nic-{}.sweep", std::process::id()));
    std::fs::write(&path, "stack=ub-urma,roce-bf payload=64,256 ops=20\n").expect("a file");
    let (status, out, _) = nic(&["--json", "--sweep", &path.to_string_lossy()]);
    let _ = std::fs::remove_file(&path);
    assert_eq!(status, Some(0));
    let seen: Vec<(String, u64)> = out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .map(|run| (run["stack"].to_string(), run["payload"].as_u64().expect("a number")))
        .collect();
    let run = |stack: &str, payload| (format!("\"{stack}\""), payload);
    let all = [("ub-urma", 64), ("ub-urma", 256), ("roce-bf", 64), ("roce-bf", 256)];
    assert_eq!(seen, all.map(|(stack, payload)| run(stack, payload)));
}

/// A run that failed took the results of all others away.
#[test]
fn runs_of_a_sweep_that_fail_are_named_and_the_others_are_printed() {
    let path = std::env::temp_dir().join(format!("fairway-nic-fails-{}", std::process::id()));
    let text = "payload=8\nstack=roce-bf verb=write loss=0.9\npayload=64,4096\n";
    std::fs::write(&path, text).expect("a file");
    let file = path.to_string_lossy();
    let (status, out, error) = nic(&["--json", "--sweep", &file, "--ops", "50"]);
    let (_, rows, _) = nic(&["--sweep", &file, "--ops", "50"]);
    let explained = nic(&["--explain", "--sweep", &file]).0;
    let _ = std::fs::remove_file(&path);
    assert_eq!(status, Some(1), "{error}");
    for words in ["run 2 of the sweep: ", "RetryExceeded", "1 of 4 runs of the sweep failed"] {
        assert!(error.contains(words), "{error}");
    }
    let runs = out.lines().map(serde_json::from_str::<serde_json::Value>);
    let seen: Vec<_> = runs
        .map(|run| run.expect("JSON"))
        .map(|run| (run["payload"].as_u64(), run["requested_ops"].as_u64()))
        .collect();
    assert_eq!(seen, [8, 64, 4096].map(|payload| (Some(payload), Some(50))));
    assert_eq!(rows.lines().count(), 3, "{rows}");
    assert_eq!(explained, Some(2), "a sweep explains no run");
}

#[test]
fn impossible_options_are_refused_with_the_reason() {
    for (arguments, word) in [
        (&["--stack", "roce-dma", "--order", "roi"][..], "order"),
        (&["--set", "nothing=1"], "nothing"),
        (&["--stack", "ub-ldst", "--verb", "load", "--payload", "65"], "64 bytes"),
    ] {
        let (status, _, error) = nic(arguments);
        assert_eq!(status, Some(2), "{arguments:?}");
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn options_without_effect_are_refused_with_what_they_are_for() {
    for (line, words) in [
        ("--order-percent 50", "--order-percent 50 has no effect in this run"),
        ("--loss-of acks", "it is for --loss"),
        ("--reads 4", "--workload share"),
        ("--unfenced", "--workload share"),
        ("--dispatch cpu", "--workload fanout"),
        ("--skew 0.5", "ycsb-a to ycsb-f and zipf"),
        ("--batch 100", "--concurrency 100 or more (it is 1)"),
        ("--json --constants", "cannot be used with"),
        ("--set retrain_share=2", "retrain_share=2: at most 1 share"),
        ("--set port_kbytes=0 --hosts 3", "port_kbytes=0: 0.064 to"),
        ("--sweep /nowhere/a.sweep", "/nowhere/a.sweep cannot be read"),
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let (status, _, error) = nic(&arguments);
        assert_eq!(status, Some(2), "{line}: {error}");
        assert!(error.contains(words), "{line}: {error}");
    }
    for line in [
        "--order roi --order-percent 50",
        "--loss 0.01 --loss-of acks",
        "--stack ub-ldst --verb load --workload share --hosts 3 --reads 4 --unfenced",
        "--workload zipf --skew 0.5",
        "--batch 8 --concurrency 8",
        "--set port_kbytes=0",
    ] {
        let arguments: Vec<&str> = line.split(' ').chain(["--ops", "20"]).collect();
        let (status, _, error) = nic(&arguments);
        assert_eq!(status, Some(0), "{line}: {error}");
    }
}

#[test]
fn operation_without_an_answer_fails_with_a_remedy() {
    let run = ["--stack", "roce-bf", "--verb", "write", "--loss", "0.9", "--ops", "50"];
    let (status, _, error) = nic(&run);
    assert_eq!(status, Some(1), "{error}");
    assert!(error.contains("RetryExceeded: no answer came"), "{error}");
    assert!(error.contains("lower --loss") && error.contains("--constants"), "{error}");
}

#[test]
fn a_read_of_the_stack_with_instructions_is_said_to_go_through_queues() {
    let (status, _, error) = nic(&["--stack", "ub-ldst", "--verb", "read", "--ops", "10"]);
    assert!(status == Some(0) && error.contains("as on ub-urma: --verb load"), "{error}");
    let (status, _, error) = nic(&["--stack", "ub-ldst", "--verb", "load", "--ops", "10"]);
    assert_eq!((status, error.as_str()), (Some(0), ""));
}

#[test]
fn sweep_file_without_an_end_is_refused_with_the_limit() {
    let (status, _, error) = nic(&["--sweep", "/dev/zero"]);
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("/dev/zero") && error.contains("more than 256M bytes"), "{error}");
}

#[test]
fn errors_in_a_sweep_are_printed_without_control_characters() {
    let path = std::env::temp_dir().join(format!("fairway-nic-sweep-{}", std::process::id()));
    let shown = path.to_string_lossy().into_owned();
    for text in ["stack=\u{1b}[2Jevil", "\u{1b}[2Jevil=1", "set=\u{1b}[2Jevil=1"] {
        std::fs::write(&path, text).expect("written");
        let (status, _, error) = nic(&["--sweep", &shown]);
        assert_eq!(status, Some(2), "{text:?}: {error}");
        assert!(error.contains("\\u{1b}[2Jevil"), "{text:?}: {error}");
        assert!(!error.contains(|c: char| c.is_control() && c != '\n'), "{error:?}");
    }
    std::fs::remove_file(&path).expect("it is ours");
}
