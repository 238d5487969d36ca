//! Help, usage errors, completions and `fairway info`.

mod common;

use common::fairway;
use serde_json::Value;

#[test]
fn every_command_has_help_with_an_example() {
    let top = fairway(&["--help"]).ok().out;
    assert!(top.contains("Examples:") && top.contains("Exit status"), "{top}");
    let commands = [
        "perf",
        "serve",
        "copy",
        "info",
        "doctor",
        "emulate",
        "sim",
        "top",
        "run",
        "devices",
        "completions",
    ];
    for command in commands {
        assert!(top.contains(command));
        for flag in ["-h", "--help"] {
            let help = fairway(&[command, flag]).ok().out;
            let example = format!("  fairway {command} ");
            assert!(help.contains("Example") && help.contains(&example), "{command}: {help}");
        }
    }
    let help = fairway(&["perf", "--help"]).ok().out;
    for words in ["What is verified, and when", "--order ROT --tag SO", "atomic-fadd --fence"] {
        assert!(help.contains(words), "{help}");
    }
}

/// Wrong arguments, and words that the error must contain.
const WRONG_USAGE: &[(&[&str], &[&str])] = &[
    (&["perf"], &["<OPERATION>"]),
    (&["perf", "fetch"], &["fetch", "write-imm"]),
    (&["perf", "write", "--size", "64Q"], &["64Q", "64K"]),
    (&["perf", "write", "--size", "0"], &["0 bytes", "choose"]),
    (&["perf", "write", "--size", "2G"], &["2147483648 bytes", "1G"]),
    (&["perf", "write", "--sizes", "8..2"], &["8..2", "2..8M"]),
    (&["perf", "write", "--duration", "5"], &["'5'", "5s"]),
    (&["perf", "write", "--iters", "0"], &["0"]),
    (&["perf", "write", "--paths", "257"], &["257", "1..=256"]),
    (&["perf", "write", "--policy", "bogus"], &["bogus", "swift"]),
    (&["perf", "write", "--policy", "cc=./a.bin"], &["./a.bin", "slash", ".wasm"]),
    (&["perf", "write", "--policy", "cc=dcqcn:g=0"], &["g=0", "line="]),
    (&["perf", "write", "--emulate", "loss=2"], &["'2'", "1%"]),
    (&["perf", "write", "--pin", "x"], &["'x'", "none"]),
    (&["perf", "write", "--pin", "999"], &["999", "choose from"]),
    (&["perf", "write", "--prometheus", "here"], &["'here'", "9400"]),
    (&["top", "--interval", "1"], &["'1'", "200ms"]),
    (&["top", "--interval", "9ms"], &["'9ms'", "10ms or more"]),
    (&["top", "--interval", "0s"], &["'0s'", "10ms or more"]),
    (&["perf", "write", "--cc", "fixed", "--policy", "cc=swift"], &["--cc fixed", "cc=swift"]),
    (&["perf", "write", "--loss-detector", "rack", "--policy", "loss=sack"], &["kind loss"]),
    (&["perf", "write", "--emulate", "loss=1%,loss=2%"], &["'loss=2%'", "once"]),
    (&["perf", "write", "--buffer", "1"], &["--buffer 1", "8388608 bytes", "leave --buffer out"]),
    (&["perf", "write", "--latency", "--buffer", "8"], &["--buffer 8", "uses 8 of them"]),
    (&["perf", "write", "--ping-pong", "--latency"], &["--ping-pong", "send"]),
    (&["perf", "--server", "write"], &["--server", "OPERATION"]),
    (
        &["perf", "--server", "--connect", "x"],
        &["--server", "--connect", "fairway perf [OPTIONS] <OP"],
    ),
    (&["perf", "--server", "--size", "64K"], &["--size 64K", "--server", "--connect"]),
    (&["perf", "--server", "--json"], &["--json has no effect with --server"]),
    (&["perf", "write", "--connect-timeout", "9s"], &["--connect-timeout 9s", "--connect"]),
    (&["perf", "write", "--latency", "--depth", "8"], &["--depth 8", "--latency"]),
    (&["perf", "write", "--size", "-5"], &["--size cannot be '-5'", "no negative"]),
    (&["perf", "write", "--duration", "-1s"], &["--duration cannot be '-1s'"]),
    (&["sim", "--nodes", "-4"], &["--nodes cannot be '-4'"]),
    (&["perf", "write", "--emulate", "1:loss=5%;99:loss=1%"], &["path 99", "0 to 15"]),
    (&["serve", "--dir", ".", "--peer-dead", "0s"], &["0s", "100ms"]),
    (&["info", "--hosts", "5"], &["--hosts 5", "--state"]),
    (&["perf", "atomic-cas", "--size", "16"], &["16 bytes", "atomic-cas", "4 or 8"]),
    (&["perf", "load", "--size", "65"], &["65 bytes", "load", "1 to 64"]),
    (&["perf", "write", "--order", "ROX"], &["ROX", "ROT"]),
    (&["perf", "write", "--tag", "XO"], &["XO", "SO"]),
    (&["perf", "read", "--order", "uno"], &["--order UNO", "read", "choose"]),
    (&["perf", "put", "--order", "UNO"], &["--order UNO", "put", "choose"]),
    (&["perf", "atomic-fadd", "--order", "UNO"], &["--order UNO", "atomic-fadd", "choose"]),
    (&["perf", "write", "--order", "UNO", "--tag", "so"], &["--tag SO", "leave out"]),
    (&["perf", "write", "--order", "UNO", "--fence"], &["--fence", "leave out"]),
    (&["perf", "load", "--order", "rol"], &["--order ROL", "load", "measure read"]),
    (&["perf", "store", "--tag", "ro", "--fence"], &["--tag RO --fence", "store", "leave"]),
    (&["perf", "send", "--latency", "--ping-pong", "--order", "UNO"], &["UNO", "--ping-pong"]),
    (&["perf", "write", "--order", "UNO", "--size", "64K"], &["65536 bytes", "packet"]),
    (&["perf", "write", "--latency", "--iters", "9000000"], &["9000000", "--duration"]),
    (&["perf", "write", "--connect", "127.0.0.1:x"], &["127.0.0.1:x", "HOST:PORT"]),
    (&["perf", "write", "--connect", "::1:14800"], &["'::1:14800'", "brackets", "[::1]:4820"]),
    (&["sim", "--nodes", "1"], &["--nodes", "'1'", "hosts"]),
    (
        &["sim", "permutation", "--topology", "fat-tree", "--nodes", "1001"],
        &["1001", "1008", "leaf-spine"],
    ),
    (&["sim", "nowhere.scenario"], &["nowhere.scenario", "permutation"]),
    (&["sim", "incast", "--nodes", "16", "--senders", "16"], &["16 senders"]),
    (&["serve"], &["--dir"]),
    (&["run"], &["<PROGRAM>"]),
    (&["run", "--paths", "4", "--", "true"], &["--paths", "--provider fairway"]),
    (&["run", "--provider", "fairway", "--dcqcn", "true"], &["--dcqcn", "--provider roce"]),
    // The name of the option in earlier versions.
    (&["run", "--carrier", "fairway", "--dcqcn", "true"], &["--dcqcn", "--provider roce"]),
    (&["run", "--device", "a,,b", "true"], &["a,,b", "^docker"]),
    (&["devices", "--device", "="], &["^docker"]),
    (&["serve", "--dir", ".", "--bind", "here"], &["here", "0.0.0.0"]),
    (&["copy", "x"], &["HOST[:PORT]/NAME"]),
    (&["emulate", "--listen", "127.0.0.2", "--to", "127.0.0.1"], &["no port"]),
    (&["emulate", "--listen", "127.0.0.2:1-2", "--to", "127.0.0.1:5"], &["2 ports", "1"]),
    (&["emulate", "--listen", "::1", "--to", "127.0.0.1:5"], &["families"]),
    (&["info", "--state", "--hosts", "0"], &["0"]),
    (&["completions", "csh"], &["csh", "bash"]),
    (&["launch"], &["launch"]),
];

#[test]
fn wrong_usage_names_the_mistake_and_the_remedy() {
    for (arguments, words) in WRONG_USAGE {
        fairway(arguments).fails(2, words);
    }
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = fairway(&["completions", shell]).ok().out;
        assert!(script.contains("ping-pong") && script.contains("emulate"), "{shell}");
    }
}

#[test]
fn info_reports_this_machine() {
    let ended = fairway(&["info"]).ok();
    assert!(ended.out.contains(env!("CARGO_PKG_VERSION")) && ended.out.contains("udp"));
    let value: Value = serde_json::from_str(&fairway(&["info", "--json"]).ok().out).expect("JSON");
    assert_eq!(value["limits"]["paths"], 256);
    assert_eq!(value["datapaths"][0]["name"], "udp");
}

#[test]
fn state_is_counted_from_the_live_types() {
    let state = |jetties: &str, hosts: &str| -> Value {
        let arguments = ["info", "--state", "--jetties", jetties, "--hosts", hosts, "--json"];
        serde_json::from_str(&fairway(&arguments).ok().out).expect("JSON")
    };
    let (small, large) = (state("1", "1"), state("1024", "1024"));
    let record = |value: &Value, name: &str| -> (u64, u64) {
        let records = value["records"].as_array().expect("records");
        let record = records.iter().find(|record| record["name"] == name);
        let record = record.unwrap_or_else(|| panic!("no {name}"));
        (record["bytes"].as_u64().expect("bytes"), record["count"].as_u64().expect("count"))
    };
    // The sizes given in the design.
    assert_eq!(record(&large, "Jetty"), (20, 1024));
    assert_eq!(record(&large, "TP channel, hot"), (56, 1024));
    assert_eq!(record(&large, "segment").0, 32);
    assert_eq!(record(&large, "path").1, 1024 * 16);
    let sum = |value: &Value| -> u64 {
        let records = value["records"].as_array().expect("records");
        records.iter().map(|record| record["total"].as_u64().expect("a total")).sum()
    };
    for value in [&small, &large] {
        assert_eq!(value["total_bytes"].as_u64(), Some(sum(value)));
    }
    // The size grows as the sum of Jetties and hosts, not as their product.
    let owned = |value: &Value| value["owned_bytes"].as_u64().expect("bytes");
    assert_eq!(owned(&large), 1024 * owned(&small));
    assert_eq!(large["model_queue_pairs_total"].as_u64(), Some(512 * 1024 * 1024));
    let each = |name: &str| large["each"][name].as_u64().unwrap_or_else(|| panic!("no {name}"));
    assert_eq!((each("jetty_bytes"), each("segment_bytes")), (20, 32));
    assert_eq!(1024 * (each("jetty_bytes") + each("tp_channel_bytes")), owned(&large));
    for (field, name) in [
        ("mailbox_bytes", "mailbox"),
        ("buffer_bytes", "buffer of a mailbox"),
        ("stream_bytes", "puts of a remote Jetty to a mailbox"),
        ("sender_stream_bytes", "puts of a Jetty to a remote mailbox"),
        ("gap_bytes", "gap in them"),
        ("jetty_order_bytes", "order record of a Jetty"),
        ("jetty_order_per_node_bytes", "order record of a Jetty and node"),
    ] {
        assert!(each(field) > 0);
        assert_eq!(each(field), record(&large, name).0, "{field}");
    }
    assert!(each("mailbox_share_bytes") > each("mailbox_bytes") + each("buffer_bytes"));
    // Every buffer is counted, and the total is still less than contexts alone would be.
    assert_eq!(record(&large, "staging memory of a deferred packet"), (4096, 256));
    assert_eq!(record(&large, "socket buffer, requested"), (4 << 20, 8));
    assert!(large["model_queue_pairs_ratio"].as_f64() > Some(1.0));
    assert_eq!(
        large["channel_per_pair_total"].as_u64(),
        Some(each("tp_channel_bytes") * 1024 * 1024)
    );
    let text = fairway(&["info", "--state"]).ok().out;
    assert!(text.contains("a model and no measurement") && text.contains("TP channel"), "{text}");
}

#[test]
fn devices_are_listed() {
    let text = fairway(&["devices"]).ok().out;
    assert!(text.contains("fairway0") && text.contains("GID 0  "), "{text}");
    let json: Value =
        serde_json::from_str(&fairway(&["devices", "--json"]).ok().out).expect("JSON");
    let last = json.as_array().and_then(|list| list.last()).expect("a device");
    assert_eq!(last["active_mtu"], 4096);
    assert_eq!(last["gids"][0], "127.0.0.1");
}

/// Regression test: the error had the folder's name twice.
#[test]
fn folder_that_is_checked_as_a_policy_is_named_once() {
    let folder = env!("CARGO_MANIFEST_DIR");
    let ended = fairway(&["policy", "check", folder]).fails(1, &["this is no file"]);
    assert_eq!(ended.err.matches(folder).count(), 1, "{}", ended.err);
}

#[test]
fn a_policy_that_cannot_take_its_place_leaves_nothing_behind() {
    let folder = std::env::temp_dir().join(format!("fairway-put-{}", std::process::id()));
    let taken = folder.join("taken.wasm");
    // No file can be created in the place of a folder.
    std::fs::create_dir_all(taken.join("full")).expect("a folder");
    let new = format!("{}/../../examples/policies/c/aimd.wasm", env!("CARGO_MANIFEST_DIR"));
    fairway(&["policy", "put", &new, &taken.display().to_string()]).fails(1, &["taken.wasm"]);
    let left: Vec<_> = std::fs::read_dir(&folder).expect("it is there").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    std::fs::remove_dir_all(&folder).expect("it is ours");
}
