//! Settings of `fairway sim`: which combinations it refuses, and the rates that it reports.

mod common;

use common::fairway;
use serde_json::Value;

/// Eight hosts on two leaves.
const EIGHT: [&str; 4] = ["--topology=leaf-spine", "--hosts-per-leaf=4", "--nodes=8", "--json"];

/// The results of a run that succeeds.
fn run(arguments: &[&str]) -> Value {
    let json = fairway(&[&["sim"], arguments, &EIGHT].concat()).ok().out;
    serde_json::from_str(&json).expect("an object")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

#[test]
fn rates_of_slow_streams_follow_from_their_bytes() {
    let streams = [
        "--stream=0-4 size=4K depth=1",
        "--stream=1-5 size=64 depth=1",
        "--stream=2-6 size=1K depth=1",
    ];
    let value = run(&[&["streams", "--link=10M", "--end=1s"], &streams[..]].concat());
    let streams = &value["streams"];
    let rates: Vec<f64> = (0..3).map(|at| number(&streams["each"][at]["gbps"])).collect();
    assert!(rates.iter().all(|rate| *rate > 0.0001 && *rate < 0.01), "{rates:?}");
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|rate| rate * rate));
    let jain = sum * sum / (3.0 * squares.sum::<f64>());
    assert!((number(&streams["jain"]) - jain).abs() < 0.01, "{value}");
    let most = rates.iter().fold(0.0, |most: f64, rate| most.max(*rate));
    assert!((number(&streams["utilisation"]) - most / 0.01).abs() < 0.01, "{value}");
}

#[test]
fn what_is_unknown_is_null_and_not_zero() {
    let ranks = run(&["sweep3d"]);
    assert!(ranks["goodput_gbps"].is_null(), "{ranks}");
    let idle = run(&["streams", "--stream=0-4 size=64K", "--end=1ns"]);
    assert!(idle["streams"]["jain"].is_null(), "{idle}");
    let text = fairway(&["sim", "incast", "--nodes=2", "--bytes=4K", "--link=1M"]).ok().out;
    assert!(text.contains("0.000") && !text.contains(" 0.000 Gb/s"), "{text}");
}

#[test]
fn a_file_of_a_trace_is_given_once() {
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/traces/nccl.log");
    let other = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/./traces/nccl.log");
    fairway(&["sim", "trace", log, "--topology=leaf-spine", "--hosts-per-leaf=2"]).ok();
    fairway(&["sim", "trace", log, other]).fails(2, &["nccl.log was given twice"]);
}

#[test]
fn seeds_beyond_the_largest_number_are_refused() {
    let last = "--seed=18446744073709551615";
    fairway(&["sim", "incast", "--nodes=2", "--bytes=1", last, "--seeds=2"])
        .fails(2, &["--seeds 2", "give a smaller --seed"]);
    fairway(&["sim", "incast", "--nodes=2", "--bytes=1", last]).ok();
}

/// Regression test: a trace of 4 ranks, as in the examples, needed a topology to be named, because
/// no fat tree has 4 hosts.
#[test]
fn topology_fits_the_number_of_hosts_unless_one_is_named() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/traces");
    let topology = |arguments: &[&str]| {
        let out = fairway(&[&["sim", "--json"], arguments].concat()).ok().out;
        let value: serde_json::Value = serde_json::from_str(&out).expect("an object");
        value["configuration"]["topology"].as_str().expect("a name").to_owned()
    };
    for (trace, expected) in [
        ("nccl.log", "leaf-spine"),
        ("ring.goal", "leaf-spine"),
        ("training-step.trace", "fat-tree"),
    ] {
        assert_eq!(topology(&["trace", &format!("{folder}/{trace}")]), expected, "{trace}");
    }
    let permutation = ["permutation", "--bytes", "4K", "--nodes"];
    for (nodes, expected) in [("3", "leaf-spine"), ("8", "fat-tree"), ("1001", "leaf-spine")] {
        assert_eq!(topology(&[&permutation[..], &[nodes]].concat()), expected, "{nodes}");
    }
    let named = ["3", "--topology", "fat-tree"];
    let arguments = [&["sim"], &permutation[..], &named].concat();
    fairway(&arguments).fails(2, &["has 3 hosts", "topology leaf-spine"]);
}
