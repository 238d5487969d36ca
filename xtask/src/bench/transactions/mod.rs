//! Costs and benefits of the transaction layer: order, isolation of Jetties, mixed workloads, and
//! mailboxes.
//!
//! Both sides run in this process, over the loopback interface, with one pinned thread each (except
//! where sides have several engines, with a thread each): so one clock can time a message from its
//! posting to its detection at the target. Repetitions of all rows of a table alternate; tables
//! give medians with their spread.

use std::io;
use std::time::Duration;

use fairway::Error;
use serde_json::Value;

mod coalescing;
mod control_pool;
mod engines;
mod fidelity;
mod impaired;
mod isolation;
mod mailbox;
mod mesh;
mod mixed;
mod ordering;
mod pacer;
mod pair;

/// A benchmark's table, as text and as JSON.
pub struct Section {
    pub name: &'static str,
    pub markdown: String,
    pub json: Value,
}

/// The names of the parts on the command line.
pub const PARTS: &[&str] = &[
    "order",
    "isolation",
    "mixed",
    "mailbox",
    "impaired",
    "engines",
    "pacer",
    "fidelity",
    "coalescing",
];

/// Runs one part.
pub fn run(part: &str, repeats: usize, duration: Duration) -> io::Result<Section> {
    // A part has many rows, and should finish within a minute.
    let slice = duration / 4;
    match part {
        "order" => ordering::run(repeats, slice),
        "isolation" => isolation::run(repeats, slice),
        "mixed" => mixed::run(repeats, slice),
        "engines" => engines::run(repeats, slice),
        "impaired" => impaired::run(repeats, duration),
        // Slow rates need longer measurements.
        "pacer" => pacer::run(repeats, duration),
        "fidelity" => fidelity::run(repeats, duration),
        "coalescing" => coalescing::run(repeats, slice),
        _ => mailbox::run(repeats, slice),
    }
}

fn failed(error: Error) -> io::Error {
    io::Error::other(error.to_string())
}
