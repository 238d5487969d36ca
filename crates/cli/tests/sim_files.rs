//! Files that `fairway sim` reads and writes: none is lost by an error, and each has what was run.

mod common;

use std::os::unix::fs::symlink;

use common::{Running, Scratch, fairway};

/// Options that write a file, each with the file.
fn outputs(file: &str) -> [Vec<String>; 6] {
    let option = |name: &str, value: String| vec![name.to_owned(), value];
    [
        option("--csv", file.to_owned()),
        option("--series", file.to_owned()),
        option("--stream-series", file.to_owned()),
        option("--plot", file.to_owned()),
        option("--trace", file.to_owned()),
        option("--pcap", format!("0-8:{file}")),
    ]
}

fn sim(arguments: &[&str], more: &[String]) -> common::Ended {
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    fairway(&[&["sim"], arguments, &more].concat())
}

#[test]
fn usage_errors_leave_files_as_they_were() {
    let scratch = Scratch::new();
    let kept = scratch.path("keep.svg");
    for wrong in [
        &["permutation", "--topology=fat-tree", "--nodes=3"][..],
        &["incast", "--nodes=8", "--senders=2", "--bytes=4K", "--fail=77-99@1us"],
    ] {
        for option in outputs(&scratch.text("keep.svg")) {
            std::fs::write(&kept, "precious").expect("written");
            sim(wrong, &option).fails(2, &[]);
            assert_eq!(std::fs::read(&kept).expect("it is there"), b"precious", "{option:?}");
            std::fs::remove_file(&kept).expect("it is ours");
            sim(wrong, &option).fails(2, &[]);
            assert!(!kept.exists(), "{option:?} has created a file");
        }
    }
    assert_eq!(std::fs::read_dir(scratch.path("")).expect("a folder").count(), 1, "only `in`");
}

#[test]
fn interrupted_run_leaves_files_as_they_were() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("keep.csv"), "precious").expect("written");
    let csv = scratch.text("keep.csv");
    let mut runs = Running::start(&[
        "sim",
        "incast",
        "--nodes=8",
        "--senders=2",
        "--bytes=4K",
        "--seeds=100000",
        "--csv",
        &csv,
    ]);
    runs.line("seed 1:");
    runs.end();
    assert_eq!(std::fs::read(&csv).expect("it is there"), b"precious");
    assert_eq!(std::fs::read_dir(scratch.path("")).expect("a folder").count(), 2);
}

#[test]
fn lines_of_earlier_runs_are_replaced_also_through_links() {
    let scratch = Scratch::new();
    let (csv, link) = (scratch.path("flows.csv"), scratch.path("link.csv"));
    symlink("flows.csv", &link).expect("a link");
    let run = |senders: &str| {
        let arguments = ["incast", "--nodes=8", "--bytes=4K", senders];
        sim(&arguments, &[String::from("--csv"), scratch.text("link.csv")]).ok();
        std::fs::read_to_string(&csv).expect("a file").lines().count()
    };
    assert_eq!((run("--senders=3"), run("--senders=2")), (4, 3));
    assert!(link.is_symlink());
}

#[test]
fn wrong_combination_of_a_sweep_is_refused_before_the_first_run() {
    let scratch = Scratch::new();
    let plot = scratch.text("sweep.svg");
    let topology = "--topology=fat-tree";
    let sweep = ["permutation", topology, "--bytes=4K", "--jobs=1", "--sweep=nodes=16,54,9"];
    let ended = sim(&sweep, &[String::from("--plot"), plot]).fails(2, &["with nodes 9"]);
    assert_eq!(ended.out, "", "nothing has run");
    assert!(!scratch.path("sweep.svg").exists());
}

#[test]
fn files_that_are_read_are_not_overwritten() {
    let scratch = Scratch::new();
    let write = |name: &str, text: &str| {
        std::fs::write(scratch.path(name), text).expect("written");
        scratch.text(name)
    };
    let scenario = write("a.scn", "workload incast\nnodes 8\nsenders 2\nbytes 4K\n");
    let flows = "Nodes 8\nConnections 1\n0->1 id 1 start 0 size 1000\n";
    let matrix = write("a.cm", flows);
    let sizes = write("a.sizes", "1000 40\n5000 100\n");
    let trace = write("a.trace", "ranks 2\n");
    let goal = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/traces/ring.goal");
    std::fs::copy(goal, &trace).expect("a copy");
    let module =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/policies/c/aimd.wasm").to_owned();
    let copy = scratch.text("aimd.wasm");
    std::fs::copy(module, &copy).expect("a copy");
    let policy = format!("--policy=cc={copy}:ai=2");
    let (flag, distribution) = (format!("--matrix={matrix}"), format!("--distribution={sizes}"));
    for (arguments, input, name) in [
        (&[scenario.as_str()][..], &scenario, "SCENARIO"),
        (&["matrix", &flag], &matrix, "--matrix"),
        (&["sizes", "--nodes=16", &distribution], &sizes, "--distribution"),
        (&["trace", &trace], &trace, "FILE"),
        (&["incast", "--nodes=8", &policy], &copy, "a policy"),
    ] {
        let before = std::fs::read(input).expect("it is there");
        let option = [String::from("--csv"), input.clone()];
        sim(arguments, &option).fails(2, &["--csv", input, name, "a file of its own"]);
        assert_eq!(std::fs::read(input).expect("it is there"), before, "{name}");
    }
}

#[test]
fn two_names_of_a_file_that_is_not_there_yet_are_refused() {
    let scratch = Scratch::new();
    symlink("new.csv", scratch.path("link.csv")).expect("a link");
    symlink("link.csv", scratch.path("far.csv")).expect("a link");
    for name in ["link.csv", "far.csv"] {
        let (link, new) = (scratch.text(name), scratch.text("new.csv"));
        let options = ["--csv", &link, "--series", &new].map(str::to_owned);
        sim(&["incast", "--nodes=8"], &options).fails(2, &["--csv and --series"]);
    }
    assert!(scratch.path("link.csv").is_symlink() && !scratch.path("new.csv").exists());
}

/// Several seeds wrote their captures to the same file, and one was left.
#[test]
fn capture_of_several_seeds_is_refused() {
    let scratch = Scratch::new();
    let tap = format!("--pcap=0-8:{}", scratch.text("0.pcap"));
    sim(&["incast", "--nodes=8", "--seeds=2", &tap], &[]).fails(2, &["--pcap", "--seeds"]);
}

/// Times in microseconds and placed bytes of the lines of a series.
fn times_and_bytes(series: &str) -> Vec<(f64, u64)> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split(',').collect();
        (words[1].parse().expect("a time"), words[2].parse().expect("bytes"))
    };
    series.lines().skip(1).map(row).collect()
}

#[test]
fn series_has_a_line_for_every_interval_and_for_the_end() {
    let scratch = Scratch::new();
    let matrix = "Nodes 8\nConnections 2\n0->1 id 1 start 0 size 1000000\n\
                  2->3 id 2 start 900000000 size 1000000\n";
    std::fs::write(scratch.path("gap.cm"), matrix).expect("written");
    let flag = format!("--matrix={}", scratch.text("gap.cm"));
    let series = scratch.text("s.csv");
    let base = ["matrix", &flag, "--topology=leaf-spine", "--hosts-per-leaf=4", "--series"];
    let run = |every: &str| {
        let out = sim(&base, &[series.clone(), every.to_owned(), String::from("--json")]).ok().out;
        let value: serde_json::Value = serde_json::from_str(&out).expect("an object");
        let lines = std::fs::read_to_string(&series).expect("a series");
        (times_and_bytes(&lines), value["simulated_us"].as_f64().expect("a time"))
    };
    let (lines, end) = run("--series-every=10us");
    assert_eq!(lines.last(), Some(&(end, 2_000_000)), "the end");
    for (number, (time, _)) in lines[..lines.len() - 1].iter().enumerate() {
        // A line has the time at which the window of one link's latency ended.
        let due = 10.0 * (number as f64 + 1.0);
        assert!((due..due + 1.0).contains(time), "line {number} is of {time} us");
    }
    assert!(lines.len() as f64 >= end / 10.0);
    assert_eq!(lines[49], (500.0, 1_000_000), "between the flows");
    let (lines, end) = run("--series-every=5ms");
    assert_eq!(lines, [(end, 2_000_000)], "a run that is shorter than an interval");
}

#[test]
fn series_of_streams_has_a_line_for_the_end() {
    let scratch = Scratch::new();
    let series = scratch.text("s.csv");
    let run =
        ["streams", "--nodes=8", "--stream=0-1 size=64K", "--end=105us", "--series-every=50us"];
    sim(&run, &[String::from("--stream-series"), series.clone()]).ok();
    let lines = std::fs::read_to_string(&series).expect("a series");
    let times = lines.lines().skip(1).map(|line| line.split(',').nth(1).expect("a time"));
    let times: Vec<f64> = times.map(|time| time.parse().expect("a time")).collect();
    assert!(times.len() == 3 && times[0] < 51.0 && times[1] < 101.0, "{times:?}");
    assert!(times[2] >= 104.0, "{times:?}");
}

#[test]
fn intervals_without_length_or_series_are_refused() {
    let scratch = Scratch::new();
    let run = |options: &[&str]| fairway(&[&["sim", "incast", "--nodes=8"], options].concat());
    let series = format!("--series={}", scratch.text("s.csv"));
    run(&[&series, "--series-every=0us"]).fails(2, &["'0us'", "more than 0"]);
    run(&["--series-every=5us"]).fails(2, &["--series-every", "--stream-series"]);
    let cut = ["--bytes=100M", "--end=5ms", &series, "--series-every=1ns"];
    let many = run(&[&cut[..], &["--fail=host-0@1us"]].concat());
    many.fails(2, &["--series-every 0.001us", "1000000", "--end"]);
}

#[test]
fn setting_that_a_scenario_gives_twice_is_refused() {
    let scratch = Scratch::new();
    let file = scratch.text("a.scn");
    std::fs::write(&file, "workload incast\nnodes 8\nbytes 4K\nnodes=16\n").expect("written");
    let words = ["a.scn: line 4: nodes", "line 2"];
    sim(&[&file], &[]).fails(2, &words);
    fairway(&["emulate", "--topology", &file]).fails(2, &words);
    let twice = "workload incast\nnodes 8\nbytes 4K\nfail 0-8@1us..2us\nfail 1-8@1us..2us\n";
    std::fs::write(&file, twice).expect("written");
    sim(&[&file], &[]).ok();
}
