//! Measures the cost of the example policies and of the built-in ones: the table in
//! `docs/policies.md`.
//!
//! `cargo run --release -p fairway-sandbox --example policy_cost`

use fairway_sandbox::Policies;
use fairway_sandbox::probe::costs;

/// Kind and file of each example, and the built-in policy that it is compared with.
const CASES: [(&str, &str, &str); 6] = [
    ("cc", "rust/swift.wasm", "cc=swift"),
    ("cc", "rust/aimd.wasm", "cc=swift"),
    ("cc", "c/aimd.wasm", "cc=swift"),
    ("path", "c/p2c.wasm", "path=p2c"),
    ("loss", "rust/rack.wasm", "loss=rack"),
    ("sched", "rust/filling.wasm:line=10Gbps", "sched=water-filling:line=10Gbps"),
];

fn main() {
    println!(
        "| module | event | ns | built in | ns | ratio | fuel |\n|---|---|---|---|---|---|---|"
    );
    for (label, file, built_in) in CASES {
        let path = format!("{}/../../examples/policies/{file}", env!("CARGO_MANIFEST_DIR"));
        let read = |text: &str| text.parse::<Policies>().unwrap_or_else(|error| panic!("{error}"));
        for cost in costs(&read(&format!("{label}=wasm:{path}")), &read(built_in), 20_000) {
            let (module, own, fuel) = (cost.module_ns, cost.built_in_ns, cost.fuel_mean);
            let what = &cost.what;
            let ratio = module / own;
            println!(
                "| {file} | {what} | {module:.0} | {built_in} | {own:.0} | {ratio:.1} | {fuel:.0} |"
            );
        }
    }
}
