//! The demonstration of `make run`: a file copied by remote WRITE and compared, and a short table.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::programs::{Scratch, Server, catch_signals, check_signals, fairway, json};

const FILE_BYTES: u64 = 256 << 20;
const PIECE_BYTES: usize = 1 << 20;

/// The table's rows: the first column, and the arguments of the measurement.
const ROWS: &[(&str, &[&str])] = &[
    ("WRITE, 64 KiB", &["write", "--size", "64K"]),
    ("READ, 64 KiB", &["read", "--size", "64K"]),
    ("WRITE, 64 B, one at a time", &["write", "--size", "64", "--latency"]),
    ("SEND, 64 B, one at a time", &["send", "--size", "64", "--latency"]),
];

/// Runs the demonstration.
pub fn run() -> io::Result<()> {
    catch_signals();
    let fairway = fairway()?;
    let scratch = Scratch::new("demo")?;
    copy(&fairway, &scratch.0)?;
    // The files are removed before anything is measured.
    drop(scratch);
    println!("\n{:<28} {:>10} {:>34}", "both sides on this machine", "bandwidth", "latency, us");
    println!("{:<28} {:>10} {:>10} {:>11} {:>11}", "", "Gb/s", "typical", "average", "99 %");
    for (name, arguments) in ROWS {
        let mut command = Command::new(&fairway);
        command.arg("perf").args(*arguments).args(["--duration", "1s", "--json"]);
        let row = json(&mut command)?;
        let number = |value: &Value| {
            value.as_f64().map_or_else(String::new, |number| format!("{number:.2}"))
        };
        let bandwidth = if row["latency_us"].is_null() { number(&row["gbps"]) } else { "".into() };
        let [p50, avg, p99] = ["p50", "avg", "p99"].map(|name| number(&row["latency_us"][name]));
        println!("{name:<28} {bandwidth:>10} {p50:>10} {avg:>11} {p99:>11}");
    }
    println!("All of it was compared at its target. More: fairway perf --help, make bench.");
    Ok(())
}

fn copy(fairway: &Path, scratch: &Path) -> io::Result<()> {
    let (source, served) = (scratch.join("source.bin"), scratch.join("served"));
    println!("creating {} MiB of random bytes", FILE_BYTES >> 20);
    let random = File::open("/dev/urandom")?;
    io::copy(&mut random.take(FILE_BYTES), &mut File::create(&source)?)?;
    check_signals()?;
    std::fs::create_dir(&served)?;
    let mut command = Command::new(fairway);
    command.args(["serve", "--keep-free=0", "--bind", "127.0.0.1:0", "--dir"]).arg(&served);
    let server = Server::start(&mut command)?;
    println!("copying it to {} over 16 paths, by remote WRITE", server.address);
    let target = format!("{}/copy.bin", server.address);
    let status =
        Command::new(fairway).args(["copy", "--paths", "16"]).arg(&source).arg(target).status()?;
    check_signals()?;
    if !status.success() {
        return Err(io::Error::other(format!("the copy ended with {status}")));
    }
    compare(&source, &served.join("copy.bin"))?;
    println!("compared once more, byte by byte: identical");
    io::stdout().flush()
}

/// Compares two files without using the tool.
fn compare(source: &Path, copy: &Path) -> io::Result<()> {
    let (mut source, mut copy) = (File::open(source)?, File::open(copy)?);
    let (mut expected, mut found) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    let length = source.metadata()?.len();
    if copy.metadata()?.len() != length {
        return Err(io::Error::other("the copy has another length"));
    }
    let mut left = length;
    while left > 0 {
        let piece = left.min(PIECE_BYTES as u64) as usize;
        source.read_exact(&mut expected[..piece])?;
        copy.read_exact(&mut found[..piece])?;
        if expected[..piece] != found[..piece] {
            return Err(io::Error::other(format!("the copy differs {} bytes from its end", left)));
        }
        left -= piece as u64;
    }
    Ok(())
}
