//! Puts, loads and stores under loss and reordering, compared with WRITEs and READs of the same
//! size on the same paths.

use std::io;
use std::time::Duration;

use serde_json::json;

use super::Section;
use crate::bench::table::Spread;
use crate::programs::{check_signals, command, fairway, json as run_json};

const SIZE: &str = "8";
const CONDITIONS: [&str; 4] = ["", "loss=1%", "reorder=32", "reorder=64"];
const OPERATIONS: [&str; 5] = ["write", "read", "put", "load", "store"];
/// For each of `OPERATIONS`, the index of the operation with which it is compared.
const AGAINST: [usize; 5] = [0, 1, 0, 1, 1];

/// Measures all rows in alternation, each in new processes.
pub(super) fn run(repeats: usize, slice: Duration) -> io::Result<Section> {
    let mut rates: [[Vec<f64>; OPERATIONS.len()]; CONDITIONS.len()] = Default::default();
    for _ in 0..repeats {
        for (condition, rates) in CONDITIONS.iter().zip(&mut rates) {
            for (operation, rates) in OPERATIONS.iter().zip(rates) {
                check_signals()?;
                rates.push(measure(operation, condition, slice)?);
            }
        }
    }
    let mut text = String::from(
        "| paths | operation | million/s | against | ratio |\n|---|---|---|---|---|\n",
    );
    let mut list = Vec::new();
    for (condition, rates) in CONDITIONS.iter().zip(&rates) {
        let spreads = rates.each_ref().map(|rates| Spread::of(rates).unwrap_or_default());
        for (at, operation) in OPERATIONS.iter().enumerate() {
            let name = if condition.is_empty() { "clean" } else { *condition };
            let (against, ratio) =
                (OPERATIONS[AGAINST[at]], spreads[at].median / spreads[AGAINST[at]].median);
            let shown = spreads[at].show();
            text += &format!("| {name} | {operation} | {shown} | {against} | {ratio:.2} |\n");
            list.push(json!({
                "paths": name, "operation": operation, "mops": rates[at], "against": against,
                "ratio": ratio,
            }));
        }
    }
    Ok(Section { name: "impaired", markdown: text, json: list.into() })
}

/// Millions of operations per second.
fn measure(operation: &str, condition: &str, slice: Duration) -> io::Result<f64> {
    let mut perf = command(&fairway()?, None);
    let time = format!("{}ms", slice.as_millis().max(100));
    perf.args(["perf", operation, "--size", SIZE, "--duration", &time, "--json"]);
    if !condition.is_empty() {
        perf.args(["--emulate", condition]);
    }
    let row = run_json(&mut perf)?;
    row["mops"].as_f64().ok_or_else(|| io::Error::other(format!("no rate: {row}")))
}
