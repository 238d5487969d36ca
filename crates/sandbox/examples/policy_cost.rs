//! Measures the cost of the example policies and of the built-in ones, and of starting them: the
//! tables in `docs/policies.md`.
//!
//! `cargo run --release -p fairway-sandbox --example policy_cost`, with `--features compiled` also
//! for the compiling engine.

use std::time::Instant;

use fairway_policy::PolicySet;
use fairway_sandbox::probe::costs;
use fairway_sandbox::{Engine, Module, Policies};

/// Kind and file of each example, and the built-in policy that it is compared with.
const CASES: [(&str, &str, &str); 6] = [
    ("cc", "rust/swift.wasm", "cc=swift"),
    ("cc", "rust/aimd.wasm", "cc=swift"),
    ("cc", "c/aimd.wasm", "cc=swift"),
    ("path", "c/p2c.wasm", "path=p2c"),
    ("loss", "rust/rack.wasm", "loss=rack"),
    ("sched", "rust/filling.wasm:line=10Gbps", "sched=water-filling:line=10Gbps"),
];
/// Instances that are made to measure their time and memory.
const INSTANCES: usize = 500;

fn read(text: &str) -> Policies {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn path_of(file: &str) -> String {
    format!("{}/../../examples/policies/{file}", env!("CARGO_MANIFEST_DIR"))
}

fn main() {
    let engines = [Engine::Interpreted, Engine::Compiled].map(|e| e.is_built_in().then_some(e));
    println!(
        "| engine | module | event | ns | built in | ns | ratio | fuel |\n\
         |---|---|---|---|---|---|---|---|"
    );
    for engine in engines.into_iter().flatten() {
        for (label, file, built_in) in CASES {
            events(engine, label, file, built_in);
        }
    }
    println!("\n| engine | module | load, us | instance, us | KiB each |\n|---|---|---|---|---|");
    for engine in engines.into_iter().flatten() {
        for (label, file, _) in &CASES[..5] {
            start(engine, label, file);
        }
    }
}

/// Prints what the events of a module cost.
fn events(engine: Engine, label: &str, file: &str, built_in: &str) {
    let policies = read(&format!("{label}={engine}:{}", path_of(file)));
    for cost in costs(&policies, &read(built_in), 20_000) {
        let (module, own, fuel) = (cost.module_ns, cost.built_in_ns, cost.fuel_mean);
        let (what, ratio) = (&cost.what, module / own);
        println!(
            "| {engine} | {file} | {what} | {module:.0} | {built_in} | {own:.0} | {ratio:.1} | \
             {fuel:.0} |"
        );
    }
}

/// Prints the time to load a module, the time to make an instance, and the memory of one.
fn start(engine: Engine, label: &str, file: &str) {
    let bytes = std::fs::read(path_of(file)).expect("an example");
    let mut loads: Vec<f64> = (0..15)
        .map(|_| {
            let begin = Instant::now();
            let module = Module::load_for(&bytes, engine).expect("an example");
            assert_eq!(module.engine(), engine, "{file}");
            begin.elapsed().as_nanos() as f64 / 1000.0
        })
        .collect();
    loads.sort_by(f64::total_cmp);
    let policies = read(&format!("{label}={engine}:{}", path_of(file)));
    // The built-in policies of a channel are made as well, and are subtracted.
    let (own_us, own_kib) = instances(&Policies::default());
    let (us, kib) = instances(&policies);
    let (load, us, kib) = (loads[loads.len() / 2], us - own_us, kib - own_kib);
    println!("| {engine} | {file} | {load:.0} | {us:.1} | {kib:.0} |");
}

/// Returns microseconds and KiB for each of many instances.
fn instances(policies: &Policies) -> (f64, f64) {
    let before = resident_kib();
    let begin = Instant::now();
    let made: Vec<PolicySet> = (0..INSTANCES).map(|_| policies.build(4096)).collect();
    let us = begin.elapsed().as_nanos() as f64 / 1000.0;
    let kib = resident_kib() - before;
    // Kept, so that the next ones cannot use the same memory.
    std::mem::forget(made);
    (us / INSTANCES as f64, kib / INSTANCES as f64)
}

/// Memory of this process that is in RAM; not a number where the system does not report it.
fn resident_kib() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()));
    pages.map_or(f64::NAN, |pages| pages * 4.0)
}
