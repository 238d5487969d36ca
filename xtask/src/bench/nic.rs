//! The NIC model: simulated operations per second of CPU time, by stack and load.

use std::io;
use std::process::Command;

use serde_json::{Value, json};

use super::sim::{show, timed};
use super::table::Spread;
use super::transactions::Section;
use crate::programs::fairway;

/// Name, options, and number of operations of each run; they take some seconds in all.
const ROWS: &[(&str, &str, u32)] = &[
    ("oracle, UB READ of 64 B", "--oracle --stack ub-urma", 200_000),
    ("loads, one at a time", "--stack ub-ldst --verb load", 200_000),
    ("UB READ of 64 B, 32 in flight", "--stack ub-urma --concurrency 32", 100_000),
    ("RoCE READ of 64 B, 32 in flight", "--stack roce-dma --concurrency 32", 100_000),
    (
        "RoCE WRITE, selective repeat, 1 % loss",
        "--stack roce-irn --verb write --concurrency 32 --loss 0.01",
        50_000,
    ),
    ("UB WRITE of 64 KiB, 8 in flight", "--verb write --payload 65536 --concurrency 8", 5_000),
    (
        "eight hosts to one, WRITE of 4 KiB",
        "--workload incast --hosts 9 --verb write --payload 4096 --concurrency 8",
        20_000,
    ),
    ("YCSB-A, caches", "--stack ub-ldst --workload ycsb-a --cache wb --concurrency 16", 200_000),
];

/// Runs all measurements.
pub fn run(repeats: usize) -> io::Result<Section> {
    let mut samples = vec![(Vec::new(), Vec::new()); ROWS.len()];
    for _ in 0..repeats {
        for (row, (_, options, ops)) in samples.iter_mut().zip(ROWS) {
            let mut command = Command::new(fairway()?);
            command.args(["nic", "--json", &format!("--ops={ops}")]);
            command.args(options.split_whitespace());
            let (output, cpu_s, _) = timed(&mut command)?;
            let value: Value = serde_json::from_slice(&output)?;
            let rate = |name: &str| value[name].as_f64().unwrap_or(0.0) / cpu_s / 1e3;
            row.0.push(rate("ops"));
            row.1.push(rate("packets"));
        }
    }
    let mut markdown = format!(
        "### NIC model: what a second of CPU time simulates, median of {repeats} [least, most]\n\n\
         | run | operations, thousands | packets, thousands |\n|---|---|---|\n"
    );
    let mut rows = Vec::new();
    for ((name, options, _), (ops, packets)) in ROWS.iter().zip(&samples) {
        let [ops, packets] = [ops, packets].map(|list| Spread::of(list).unwrap_or_default());
        markdown += &format!("| {name} | {} | {} |\n", show(&ops), show(&packets));
        rows.push(json!({
            "what": name, "options": options, "thousand_ops_per_cpu_s": ops.median,
            "thousand_packets_per_cpu_s": packets.median,
        }));
    }
    Ok(Section { name: "nic", markdown, json: rows.into() })
}
