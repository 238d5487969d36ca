//! `fairway sim`, as a user runs it.

mod common;

use common::{Scratch, fairway};
use serde_json::Value;

#[test]
fn run_reports_its_results() {
    let arguments = ["sim", "permutation", "--nodes", "16", "--bytes", "100K", "--check", "on"];
    let text = fairway(&arguments).ok().out;
    assert!(text.contains("16 of 16 flows") && text.contains("packet-hops"), "{text}");
    let json = fairway(&[&arguments[..], &["--json"]].concat()).ok().out;
    let value: Value = serde_json::from_str(&json).expect("an object");
    for name in [
        "completion_us",
        "goodput_gbps",
        "drops",
        "trims",
        "ecn_marks",
        "resent",
        "packet_hops",
        "events",
        "wall_s",
        "peak_rss_bytes",
        "seed",
    ] {
        assert!(value[name].is_number(), "{name}: {json}");
    }
    assert_eq!(value["flows"], 16);
    assert!(value["fct_us"]["p50"].as_f64() <= value["fct_us"]["max"].as_f64());
}

#[test]
fn seeds_run_together_and_come_in_order() {
    let directory = std::env::temp_dir().join(format!("fairway-sim-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let scenario = directory.join("small.scenario");
    let csv = directory.join("flows.csv");
    let text = "workload incast-permutation # both\nnodes 16\nsenders 8\nbytes 50K\nmessages 2\n";
    std::fs::write(&scenario, text).expect("written");
    let (scenario, file) = (scenario.to_string_lossy(), csv.to_string_lossy());
    let run = |jobs: &str| {
        let arguments =
            ["sim", &scenario, "--seeds", "4", "--jobs", jobs, "--json", "--csv", &file];
        let out = fairway(&arguments).ok().out;
        let values = out.lines().map(|line| serde_json::from_str(line).expect("an object"));
        values
            .map(|value: Value| (value["seed"].clone(), value["digest"].clone()))
            .collect::<Vec<_>>()
    };
    let together = run("3");
    assert_eq!(together, run("1"));
    let seeds: Vec<_> = together.iter().filter_map(|(seed, _)| seed.as_u64()).collect();
    assert_eq!(seeds, [1, 2, 3, 4]);
    let lines = std::fs::read_to_string(&csv).expect("a file").lines().count();
    assert_eq!(lines, 1 + 4 * (8 + 16) * 2);
    std::fs::remove_dir_all(&directory).expect("removed");
}

/// Both wrote to the file from its beginning, over each other.
#[test]
fn outputs_to_the_same_file_are_refused() {
    let scratch = Scratch::new();
    let (one, two) = (scratch.text("one.svg"), scratch.text("two.csv"));
    let around = scratch.text("in/../one.svg");
    let base = ["sim", "incast", "--nodes=8", "--senders=2", "--bytes=16K"];
    let with = |options: &[&str]| fairway(&[&base[..], options].concat());
    let tap = format!("0-8:{one}");
    let all = [
        ["--csv", one.as_str()],
        ["--series", &one],
        ["--stream-series", &one],
        ["--pcap", &tap],
        ["--trace", &one],
        ["--plot", &one],
    ];
    for (at, first) in all.iter().enumerate() {
        for second in &all[at + 1..] {
            with(&[first, second].map(|option| &option[..]).concat())
                .fails(2, &[first[0], second[0], "one.svg", "a file of its own"]);
        }
    }
    assert!(!scratch.path("one.svg").exists(), "nothing was written");
    with(&["--csv", &one, "--series", &around]).fails(2, &["--csv and --series"]);
    with(&["--csv", &one, "--series", &two]).ok();
    std::os::unix::fs::symlink(&two, scratch.path("link.csv")).expect("a link");
    with(&["--csv", &two, "--series", &scratch.text("link.csv")]).fails(2, &["--csv and --series"]);
    with(&["--csv", "/dev/null", "--series", "/dev/null"]).ok();
}

#[test]
fn medians_of_seeds_are_by_the_nearest_rank() {
    let arguments = ["sim", "permutation", "--nodes=16", "--bytes=100K", "--seeds=2"];
    let text = fairway(&arguments).ok().out;
    let json = fairway(&[&arguments[..], &["--json"]].concat()).ok().out;
    let times = json.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let times: Vec<f64> = times.filter_map(|value| value["completion_us"].as_f64()).collect();
    let (least, most) = (times[0].min(times[1]), times[0].max(times[1]));
    assert!(least < most, "{times:?}");
    let spread = format!("2 seeds: completion {least} us median, {least} to {most}");
    assert!(text.contains(&spread), "{text}");
}

#[test]
fn traces_of_other_tools_run_as_they_are() {
    let example =
        |name: &str| format!("{}/../../examples/traces/{name}", env!("CARGO_MANIFEST_DIR"));
    let run = |arguments: &[&str]| {
        let leaves = ["--topology", "leaf-spine", "--hosts-per-leaf", "2", "--json"];
        let out = fairway(&[&["sim", "trace"], arguments, &leaves].concat()).ok().out;
        serde_json::from_str::<Value>(&out).expect("an object")
    };
    let names = |value: &Value| {
        let operations = value["operations"].as_array().expect("operations").iter();
        operations.map(|one| one["name"].as_str().unwrap_or("").to_owned()).collect::<Vec<_>>()
    };
    let log = run(&[&example("nccl.log"), "--format", "nccl"]);
    let calls = names(&log);
    let count = |name: &str| calls.iter().filter(|call| call.starts_with(name)).count();
    assert_eq!((count("AllGather"), count("AllReduce"), count("send")), (2, 1, 12), "{calls:?}");
    // Two pairs with 2 messages, a ring of 4 with 24, and each of 4 to each other.
    assert_eq!(log["flows_completed"], 2 * 2 + 24 + 12);

    let goal = run(&[&example("ring.goal")]);
    assert_eq!(names(&goal), ["rank 0", "rank 1", "rank 2", "rank 3"]);
    assert_eq!(goal["flows_completed"], 4);
    // Four times 5 us of computing and 1.3 us for 64 KiB, and latencies.
    let time = goal["completion_us"].as_f64().expect("a time");
    assert!(time > 4.0 * 6.3 && time < 80.0, "{time}");

    let chakra = run(&[&example("step.1.json"), &example("step.0.json")]);
    let sorted = ["activations", "backward", "backward", "forward", "forward", "gradients"];
    let mut found = names(&chakra);
    found.sort();
    assert_eq!(found, sorted);
    assert_eq!(chakra["flows_completed"], 1 + 4);
    assert!(chakra["completion_us"].as_f64() > Some(130.0), "{chakra}");

    let (goal, json) = (example("ring.goal"), example("step.0.json"));
    fairway(&["sim", "trace", &json]).fails(2, &["step.0.json", "a file for each rank"]);
    fairway(&["sim", "trace", &goal, &json]).fails(2, &["2 files", "goal", "one file"]);
    fairway(&["sim", "trace", &goal, "--format", "nccl"]).fails(2, &["ring.goal", "NCCL_DEBUG"]);
    fairway(&["sim", "trace", &goal, "--format", "gaol"]).fails(2, &["gaol", "chakra"]);
    fairway(&["sim", "incast", "--format", "goal"]).fails(2, &["--format goal", "incast"]);
    fairway(&["sim", "trace", "none.goal"]).fails(2, &["none.goal", "cannot be read"]);
}

#[test]
fn trace_contains_its_operations() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/traces/training-step.trace");
    let run = |more: &[&str]| fairway(&[&["sim", "trace", example], more].concat());
    let leaves = ["--topology", "leaf-spine", "--hosts-per-leaf", "8"];
    let text = run(&leaves).ok().out;
    assert!(text.contains("weights0a") && text.contains("broadcast"), "{text}");
    let json = run(&["--json", "--cores", "2"]).ok().out;
    let value: Value = serde_json::from_str(&json).expect("an object");
    let operations = value["operations"].as_array().expect("operations");
    assert_eq!((operations.len(), &operations[0]["name"]), (17, &Value::from("weights0a")));
    let last = operations.iter().filter_map(|operation| operation["completed_us"].as_f64());
    assert_eq!(last.fold(0.0, f64::max), value["completion_us"].as_f64().expect("a time"));
    fairway(&["sim", "incast", example]).fails(2, &["only trace takes a file"]);
    fairway(&["sim", "trace"]).fails(2, &["fairway sim trace FILE"]);
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    fairway(&["sim", "trace", manifest]).fails(2, &["Cargo.toml: line 1", "ranks"]);
}

#[test]
fn a_run_that_is_cut_short_fails() {
    let arguments = ["sim", "--nodes", "16", "--bytes", "10M", "--end", "20us"];
    let cut = fairway(&arguments).fails(1, &["more --end"]);
    assert!(cut.out.contains("0 of 16 flows in - us"), "{}", cut.out);
    assert!(cut.out.contains("flow completion, us: - median"), "{}", cut.out);
}

/// No time of a run that did not finish is a figure of its policy.
#[test]
fn a_run_that_did_not_finish_has_no_completion_times() {
    let arguments = ["sim", "--json", "--nodes=4", "--topology=leaf-spine", "--bytes=1M"];
    let out = fairway(&[&arguments[..], &["--sweep=end=10us,20us,1ms"]].concat());
    let out = out.fails(1, &["--end"]).out;
    let runs: Vec<Value> =
        out.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    for (run, is_complete) in runs.iter().zip([false, false, true]) {
        for path in ["/completion_us", "/fct_us/p50", "/fct_us/max"] {
            let value = run.pointer(path).expect("a value");
            assert_eq!((value.is_number(), value.is_null()), (is_complete, !is_complete), "{path}");
        }
    }
    let seeds = fairway(&["sim", "--nodes=16", "--bytes=1M", "--end=10us", "--seeds=2"]);
    assert!(!seeds.fails(1, &["--end"]).out.contains("seeds: completion"));
}

#[test]
fn a_round_trip_beyond_the_patience_of_nics_is_named_as_the_cause() {
    let run = fairway(&["sim", "--nodes=16", "--bytes=64K", "--latency=1s", "--end=60s"]);
    let run = run.fails(1, &["a round trip takes 12.", "a NIC waits 3 s", "shorter --latency"]);
    assert!(!run.err.contains("--queue"), "{}", run.err);
}

/// Rank 0 computes for longer than a run lasts.
#[test]
fn a_trace_that_computes_beyond_the_end_reports_when_it_continues() {
    let scratch = Scratch::new();
    let file = scratch.text("long.trace");
    std::fs::write(&file, "ranks 4\ncompute 0 2s\nall-reduce all 1M\n").expect("written");
    let arguments = ["sim", "trace", &file, "--topology=leaf-spine", "--hosts-per-leaf=4"];
    let words = ["incomplete at 1000000 us", "computation ends, at 2000000 us", "more --end"];
    fairway(&arguments).fails(1, &words);
    fairway(&[&arguments[..], &["--end=3s"]].concat()).ok();
}

#[test]
fn failed_operations_are_blamed_on_links_only_if_links_fail() {
    let incast = ["sim", "incast", "--nodes=8", "--stack=roce", "--bytes=64K", "--timeout-min=5us"];
    let run = |more: &[&str]| fairway(&[&incast, more].concat());
    let lossy = run(&["--loss=45%", "--seed=2"]);
    let words = ["failed: RoCE received nothing in eight time-outs", "--timeout-min"];
    let lossy = lossy.fails(1, &words);
    assert!(!lossy.err.contains("links were gone") && !lossy.err.contains("--fail"));
    let cut = run(&["--fail=host-0@1us"]);
    cut.fails(1, &["failed: their links were gone", "let them come back sooner"]);
}

#[test]
fn events_of_a_run_are_written_to_files() {
    let directory = std::env::temp_dir().join(format!("fairway-sim-files-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
    let (series, capture, sizes) = (path("series.csv"), path("0.pcap"), path("sizes"));
    std::fs::write(&sizes, "1000 40\n5000 100\n").expect("written");
    let run = |cores: &str| {
        let tap = format!("0-16:{capture}");
        let arguments = [
            "sim",
            "sizes",
            "--nodes",
            "16",
            "--topology",
            "leaf-spine",
            "--hosts-per-leaf",
            "4",
            "--distribution",
            &sizes,
            "--flows",
            "500",
            "--load",
            "60",
            "--cores",
            cores,
            "--series",
            &series,
            "--series-every",
            "1us",
            "--pcap",
            &tap,
            "--json",
        ];
        let out = fairway(&arguments).ok().out;
        let value: Value = serde_json::from_str(&out).expect("an object");
        (value["digest"].clone(), std::fs::read(&capture).expect("a capture"))
    };
    let alone = run("1");
    assert!(alone.1.len() > 1000);
    assert_eq!(run("3"), alone, "the same on three cores");
    let lines = std::fs::read_to_string(&series).expect("a series");
    assert!(lines.starts_with("seed,now_us,") && lines.lines().count() > 5, "{lines}");
    let wrong = format!("0-1:{capture}");
    fairway(&["sim", "--nodes", "16", "--pcap", &wrong])
        .fails(2, &["0-1", "switch of host 0 is 16"]);
    std::fs::remove_dir_all(&directory).expect("removed");
}

/// The configuration that a run prints is a scenario file that reproduces the run.
#[test]
fn a_run_prints_settings_that_repeat_it() {
    let scratch = Scratch::new();
    let file = scratch.text("again.scenario");
    let run = |arguments: &[&str]| -> Value {
        let json = fairway(&[&["sim"], arguments, &["--json", "--seed=3"]].concat()).ok().out;
        serde_json::from_str(&json).expect("an object")
    };
    for arguments in [
        &["permutation", "--nodes=8", "--bytes=64K"][..],
        &["incast", "--nodes=16", "--stack=roce", "--pfc=100K:80K", "--bytes=64K"],
        &["permutation", "--topology=torus", "--sizes=3x3", "--bytes=64K", "--path=p2c"],
        &[
            "incast",
            "--nodes=16",
            "--bytes=64K",
            "--chunk=policy",
            "--degrade=0-16@1us:100G",
            "--degrade=1-16@1us:100G",
        ],
        &["halo3d", "--nodes=27", "--link=100G", "--latency=500ns"],
    ] {
        let first = run(arguments);
        let mut text = String::new();
        for (name, value) in first["configuration"].as_object().expect("settings") {
            let each = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
            for value in each {
                text += &format!("{name} {}\n", value.as_str().expect("text"));
            }
        }
        std::fs::write(&file, &text).expect("a file of ours");
        let again = run(&[&file]);
        assert_eq!(first["digest"], again["digest"], "{arguments:?}: {text}");
        assert_eq!(first["configuration"], again["configuration"], "{arguments:?}");
    }
    let text = fairway(&["sim", "incast", "--nodes=8", "--bytes=4K", "--seeds=2"]).ok().out;
    assert!(text.starts_with("incast, topology fat-tree, nodes 8, link 400G, "), "{text}");
    assert_eq!(text.matches("incast, ").count(), 1, "once for all seeds: {text}");
}

#[test]
fn workloads_are_listed_and_those_with_heavy_defaults_end() {
    let help = fairway(&["sim", "--help"]).ok().out;
    for (name, meaning) in fairway_sim::WORKLOADS {
        assert!(help.contains(&format!("  {name} ")) && help.contains(meaning), "{name}: {help}");
    }
    let json = fairway(&["sim", "moe", "--json"]).ok().out;
    let value: Value = serde_json::from_str(&json).expect("an object");
    assert_eq!(value["flows"], value["flows_completed"], "{json}");
    assert_eq!(value["configuration"]["nodes"], "64");
}

#[test]
fn programs_of_ranks_are_summed_up_by_their_messages() {
    for (name, ranks) in [("sweep3d", 16), ("halo3d", 27)] {
        let nodes = ranks.to_string();
        let text = fairway(&["sim", name, "--nodes", &nodes]).ok().out;
        let sent = format!("seed 1: {ranks} ranks sent ");
        assert!(text.contains(&sent) && !text.contains("flows"), "{text}");
    }
}

#[test]
fn a_capture_without_packets_is_reported() {
    let scratch = Scratch::new();
    let run = |link: &str| {
        let tap = format!("--pcap={link}:{}", scratch.text("out.pcap"));
        fairway(&["sim", "incast", "--nodes=8", "--senders=1", "--bytes=4K", &tap])
    };
    // Host 0 acknowledges. Of the others only one sends, which the seed determines.
    assert!(!run("0-8").ok().err.contains("no packet"));
    let silent = ["6-11", "7-11"].map(|link| run(link).ok().err);
    assert!(silent.iter().any(|text| text.contains("no packet went from node")), "{silent:?}");
    let missing = run("7-8");
    missing.fails(2, &["7-8", "0 to 7", "host 0 is 8"]);
}

/// Streams that post only in a part of the run are rated over the time in which their bytes are
/// placed, and sums over the time of all streams.
#[test]
fn rates_of_streams_do_not_exceed_the_link() {
    let run = |arguments: &[&str]| -> Value {
        let usual = ["sim", "streams", "--nodes=2", "--end=1ms", "--json"];
        let json = fairway(&[&usual, arguments].concat()).ok().out;
        serde_json::from_str(&json).expect("an object")
    };
    let short = run(&["--stream=0-1 size=1M depth=64 end=2us"]);
    let rate = short["streams"]["each"][0]["gbps"].as_f64().expect("a rate");
    assert!((300.0..400.0).contains(&rate), "{short}");
    let late = "--stream=0-1 size=1M depth=8 start=900us";
    let two = run(&["--link=25G", late, "--stream=0-1 size=1M depth=8"]);
    let utilisation = two["streams"]["utilisation"].as_f64().expect("a share");
    assert!((0.8..=1.0).contains(&utilisation), "{two}");
    let sum = two["streams"]["gbps"].as_f64().expect("a rate");
    assert!((20.0..=25.0).contains(&sum), "{two}");
}

/// A packet of 32 KiB takes 262 us at 1 Gb/s, so that the last one before the end arrives long
/// before it.
#[test]
fn a_run_of_streams_lasts_until_its_end() {
    let arguments = ["sim", "streams", "--nodes=2", "--link=1G", "--mtu=32K", "--end=1ms"];
    let stream = ["--measure=100us", "--stream=0-1 size=1M depth=4", "--json"];
    let json = fairway(&[&arguments[..], &stream].concat()).ok().out;
    let value: Value = serde_json::from_str(&json).expect("an object");
    assert_eq!(value["simulated_us"], 1000.0, "{json}");
    let bits = value["streams"]["each"][0]["bytes"].as_f64().expect("bytes") * 8.0;
    let rate = value["streams"]["each"][0]["gbps"].as_f64().expect("a rate");
    assert!((rate - bits / 900_000.0).abs() < 0.002, "{json}");
}

#[test]
fn errors_in_files_are_printed_without_control_characters() {
    let scratch = Scratch::new();
    let write = |name: &str, text: &str| {
        std::fs::write(scratch.path(name), text).expect("written");
        scratch.text(name)
    };
    let evil = "\u{1b}[2J\u{202e}evil\r";
    let matrix = write("matrix", &format!("Nodes 4\n{evil}\n"));
    let sizes = write("sizes", &format!("1000 {evil}x\n"));
    let scenario = write("scenario", &format!("{evil}x 5\n"));
    let goal = write("goal", &format!("num_ranks 2\nrank 0 {{\n{evil}x: calc 1\n"));
    for arguments in [
        &["sim", "--matrix", &matrix][..],
        &["sim", "sizes", "--distribution", &sizes],
        &["sim", &scenario],
        &["sim", "trace", &goal, "--format", "goal"],
    ] {
        let ended = fairway(arguments).fails(2, &["\\u{1b}"]);
        let hidden = |c: char| c == '\u{202e}' || (c.is_control() && c != '\n');
        assert!(!ended.err.contains(hidden), "{arguments:?}: {:?}", ended.err);
    }
}

#[test]
fn files_without_an_end_are_refused_with_the_limit() {
    for arguments in [
        &["sim", "--matrix", "/dev/zero"][..],
        &["sim", "sizes", "--distribution", "/dev/zero"],
        &["sim", "/dev/zero"],
    ] {
        fairway(arguments).fails(2, &["/dev/zero", "more than 256M bytes"]);
    }
}
