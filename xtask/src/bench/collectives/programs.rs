//! The measured programs: `fairway collective`, and `torch.distributed` with a backend.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::places::Place;
use crate::bench::networks::Running;
use crate::programs::{Scratch, command, fairway};

/// TCP port at which the ranks meet.
const PORT: u16 = 29_517;
/// Time limit for a row.
const LIMIT: Duration = Duration::from_secs(600);

/// What is measured: operations of so many ranks, by buffers of so many bytes.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    pub operations: &'a [&'static str],
    pub ranks: u32,
    pub sizes: &'a [u64],
    pub iterations: u32,
}

/// Operation, size, and time of a call in microseconds.
pub type Times = Vec<(&'static str, u64, f64)>;

/// Measures with `fairway collective`, whose time is the mean of calls one after the other, in
/// place where the operation can be.
pub fn native(place: &Place, work: Work<'_>, arguments: &[&str]) -> io::Result<Times> {
    let mut times = Times::new();
    let each = |operation| work.sizes.iter().map(move |size| (operation, size));
    for (operation, size) in work.operations.iter().copied().flat_map(each) {
        let meeting = format!("{}:{PORT}", place.address(0));
        let text = run_ranks(place, work, |rank| {
            let mut command = command(&fairway()?, place.namespace(rank).as_deref());
            command.args(["collective", operation, "--json", "--rendezvous", &meeting]);
            command.args(["--ranks", &work.ranks.to_string(), "--rank", &rank.to_string()]);
            command.args(["--bind", &place.address(rank).to_string()]);
            command.args(["--size", &size.to_string()]);
            command.args(["--iters", &work.iterations.to_string()]).args(arguments);
            Ok(command)
        })?;
        let row: Value = serde_json::from_str(&text)?;
        let column = ["in_place", "out_of_place"].map(|name| row[name]["time_us"].as_f64());
        let time = column[0].or(column[1]);
        let time = time.ok_or_else(|| io::Error::other(format!("a row has no time: {text}")))?;
        times.push((operation, *size, time));
    }
    Ok(times)
}

/// Measures with `torch.distributed`, whose time is the median of calls that each follow a barrier.
pub fn torch(place: &Place, work: Work<'_>, python: &Path, backend: &str) -> io::Result<Times> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let script = root.join("front/python/tools/gloo_bench.py");
    let scratch = Scratch::new("collectives")?;
    let meeting = scratch.0.join("meeting");
    let sizes: Vec<String> = work.sizes.iter().map(u64::to_string).collect();
    let interface = if place.kind.is_network() { "fairway0" } else { "lo" };
    let text = run_ranks(place, work, |rank| {
        let mut command = command(python, place.namespace(rank).as_deref());
        command.arg(&script).args([
            "--backend",
            backend,
            "--operation",
            &work.operations.join(","),
        ]);
        command.args(["--ranks", &work.ranks.to_string(), "--rank", &rank.to_string()]);
        command.arg("--meeting").arg(&meeting).args(["--interfaces", interface]);
        command.args(["--bytes", &sizes.join(","), "--warmup", "1"]);
        command.args(["--iters", &work.iterations.to_string()]);
        Ok(command)
    })?;
    let mut times = Times::new();
    for line in text.lines() {
        let row: Value = serde_json::from_str(line)?;
        let operation = work.operations.iter().find(|name| row["operation"] == **name);
        let (bytes, us) = (row["bytes"].as_u64(), row["median_us"].as_f64());
        if let (Some(operation), Some(bytes), Some(us)) = (operation, bytes, us) {
            times.push((operation, bytes, us));
        }
    }
    Ok(times)
}

/// Runs all ranks, and returns the lines of rank 0 that are JSON objects.
fn run_ranks(
    place: &Place,
    work: Work<'_>,
    command_of: impl Fn(u32) -> io::Result<Command>,
) -> io::Result<String> {
    let operations = work.operations.join(", ");
    let name = format!("{operations} of {} ranks ({})", work.ranks, place.kind.name());
    let start = |rank| Running::start(&mut command_of(rank)?, &format!("{name}, rank {rank}"));
    let running: Vec<Running> = (0..work.ranks).map(start).collect::<io::Result<_>>()?;
    let mut rows = String::new();
    for (rank, mut one) in running.into_iter().enumerate() {
        while let Some(line) = one.line(LIMIT)? {
            if rank == 0 && line.starts_with('{') {
                rows += &line;
                rows.push('\n');
            }
        }
        let status = one.wait()?;
        if !status.success() {
            return Err(io::Error::other(format!("{name}, rank {rank}: {status}")));
        }
    }
    Ok(rows)
}

/// True if this Python's torch has Fairway as a backend.
pub fn has_fairway(python: &Path) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", "import fairway.torch"]).stderr(std::process::Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
