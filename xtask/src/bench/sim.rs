//! The network simulator: packet-hops and events per second of CPU time, memory per NIC, growth,
//! two cores; and htsim on the same connection matrix within the same minutes, if it is installed.
//!
//! The workload is a permutation of 1,024 NICs, 2,000,000 bytes each. The results count CPU time of
//! the whole process, including set-up; repetitions alternate.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use fairway_sim::traffic::permutation;
use serde_json::{Value, json};

use super::table::Spread;
use super::transactions::Section;
use crate::programs::{check_signals, ended_cpu_seconds, fairway};

/// Number of NICs, and bytes of each; every network is a fat tree of three tiers.
const GROWTH: &[(u32, u32)] =
    &[(54, 2_000_000), (128, 2_000_000), (1024, 2_000_000), (8192, 250_000)];
const NICS: u32 = 1024;
const BYTES: u32 = 2_000_000;
/// Options of `htsim_eqds` that describe the same network, apart from the connection matrix.
const HTSIM: &[&str] = &[
    "-strat",
    "ecmp_host",
    "-linkspeed",
    "400000",
    "-mtu",
    "4096",
    "-nodes",
    "1024",
    "-tiers",
    "3",
    "-end",
    "2000",
    "-q",
    "100",
    "-cwnd",
    "200",
    "-paths",
    "256",
    "-log",
    "sink",
];

/// A finished run.
struct Run {
    cpu_s: f64,
    wall_s: f64,
    /// JSON that the run printed.
    value: Value,
}

/// Runs all measurements; `htsim` is the path of `htsim_eqds`.
pub fn run(repeats: usize, htsim: Option<&Path>) -> io::Result<Section> {
    let matrix = Matrix::write()?;
    let (mut ours, mut chunks, mut two, mut peer) = (vec![], vec![], vec![], vec![]);
    for _ in 0..repeats {
        ours.push(simulate(&matrix, &[])?);
        chunks.push(simulate(&matrix, &["--chunk=32K"])?);
        two.push(simulate(&matrix, &["--cores=2"])?);
        if let Some(program) = htsim {
            peer.push(run_htsim(program, &matrix.0)?);
        }
    }
    let rows = [("1 core", &ours), ("1 core, chunks of 32 KiB", &chunks), ("2 cores", &two)];
    let mut markdown = format!(
        "### Simulator: permutation of {NICS} NICs, {BYTES} bytes each, median of {repeats} \
         [least, most]\n\n\
         | | CPU s | wall s | M hops/s of CPU | M events/s of CPU | MiB | htsim's CPU time over it |\n\
         |---|---|---|---|---|---|---|\n"
    );
    let mut rows_json = Vec::new();
    let of = |runs: &[Run], figure: &dyn Fn(&Run) -> f64| {
        let samples: Vec<f64> = runs.iter().map(figure).collect();
        Spread::of(&samples).unwrap_or_default()
    };
    let peer_cpu = of(&peer, &|run| run.cpu_s);
    for (name, runs) in rows {
        let cpu = of(runs, &|run| run.cpu_s);
        let wall = of(runs, &|run| run.wall_s);
        let rate = |what: &'static str| of(runs, &|run| number(run, what) / run.cpu_s / 1e6);
        let (hops, events) = (rate("packet_hops"), rate("events"));
        let mib = of(runs, &|run| number(run, "peak_rss_bytes") / (1 << 20) as f64);
        let ratio = if peer.is_empty() { 0.0 } else { peer_cpu.median / cpu.median };
        let beside = if peer.is_empty() { String::new() } else { format!("{ratio:.1}") };
        markdown += &format!(
            "| {name} | {} | {} | {} | {} | {:.0} | {beside} |\n",
            show(&cpu),
            show(&wall),
            show(&hops),
            show(&events),
            mib.median
        );
        rows_json.push(json!({
            "what": name, "cpu_s": cpu.median, "wall_s": wall.median,
            "million_hops_per_cpu_s": hops.median, "million_events_per_cpu_s": events.median,
            "rss_mib": mib.median, "htsim_cpu_ratio": ratio,
        }));
    }
    if !peer.is_empty() {
        let wall = of(&peer, &|run| run.wall_s);
        markdown += &format!("| htsim_eqds | {} | {} | | | | 1 |\n", show(&peer_cpu), show(&wall));
    }
    grow(&mut markdown, &mut rows_json)?;
    Ok(Section { name: "sim", markdown, json: rows_json.into() })
}

/// Measures the same workload on growing numbers of NICs.
fn grow(markdown: &mut String, rows: &mut Vec<Value>) -> io::Result<()> {
    *markdown += "\n| NICs | bytes each | CPU s | M hops/s of CPU | KiB of memory for a NIC |\n\
                  |---|---|---|---|---|\n";
    for &(nics, bytes) in GROWTH {
        let run = simulate_with(&[format!("--nodes={nics}"), format!("--bytes={bytes}")])?;
        let hops = number(&run, "packet_hops") / run.cpu_s / 1e6;
        let kib = number(&run, "peak_rss_bytes") / 1024.0 / f64::from(nics);
        let cpu = run.cpu_s;
        *markdown += &format!("| {nics} | {bytes} | {cpu:.2} | {hops:.2} | {kib:.0} |\n");
        rows.push(json!({
            "what": "growth", "nics": nics, "bytes": bytes, "cpu_s": cpu,
            "million_hops_per_cpu_s": hops, "rss_kib_per_nic": kib,
        }));
    }
    Ok(())
}

pub(super) fn show(spread: &Spread) -> String {
    format!("{:.2} [{:.2}, {:.2}]", spread.median, spread.min, spread.max)
}

fn number(run: &Run, name: &str) -> f64 {
    run.value[name].as_f64().unwrap_or(0.0)
}

/// The permutation as a file that both simulators read; removed on drop.
struct Matrix(PathBuf);

impl Matrix {
    fn write() -> io::Result<Matrix> {
        let mut text = format!("Nodes {NICS}\nConnections {NICS}\n");
        for (at, flow) in permutation(NICS, BYTES, 1).iter().enumerate() {
            let (from, to, id) = (flow.source, flow.destination, at + 1);
            text += &format!("{from}->{to} id {id} start 0 size {BYTES}\n");
        }
        let name = format!("fairway-bench-{}.cm", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text)?;
        Ok(Matrix(path))
    }
}

impl Drop for Matrix {
    fn drop(&mut self) {
        // If the file can't be removed, it does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn simulate(matrix: &Matrix, options: &[&str]) -> io::Result<Run> {
    let matrix = format!("--matrix={}", matrix.0.display());
    let options = options.iter().map(|option| String::from(*option));
    simulate_with(&[matrix].into_iter().chain(options).collect::<Vec<_>>())
}

fn simulate_with(options: &[String]) -> io::Result<Run> {
    let mut command = Command::new(fairway()?);
    command.args(["sim", "permutation", "--json"]).args(options);
    let (output, cpu_s, wall_s) = timed(&mut command)?;
    let value = serde_json::from_slice(&output)?;
    Ok(Run { cpu_s, wall_s, value })
}

fn run_htsim(program: &Path, matrix: &Path) -> io::Result<Run> {
    let log = matrix.with_extension("log");
    // htsim writes files into its working directory.
    let directory = matrix.with_extension("htsim");
    std::fs::create_dir_all(&directory)?;
    let mut command = Command::new(program.canonicalize()?);
    command.current_dir(&directory);
    command.arg("-tm").arg(matrix).args(HTSIM).arg("-o").arg(&log);
    let outcome = timed(&mut command);
    let _ = std::fs::remove_file(&log);
    let _ = std::fs::remove_dir_all(&directory);
    let (output, cpu_s, wall_s) = outcome?;
    let finished = String::from_utf8_lossy(&output).matches("finished at").count();
    if finished != NICS as usize {
        let wrong = format!("{}: {finished} of {NICS} flows finished", program.display());
        return Err(io::Error::other(wrong));
    }
    Ok(Run { cpu_s, wall_s, value: Value::Null })
}

/// Runs a program; returns its output, its CPU time and its duration, both in seconds.
pub(super) fn timed(command: &mut Command) -> io::Result<(Vec<u8>, f64, f64)> {
    check_signals()?;
    let (begun, before) = (Instant::now(), ended_cpu_seconds());
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{command:?} failed: {}", output.status)));
    }
    Ok((output.stdout, ended_cpu_seconds() - before, begun.elapsed().as_secs_f64()))
}
