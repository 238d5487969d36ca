//! What the transaction layer costs and saves: order, isolation of Jetties, mixed workloads, and
//! mailboxes.
//!
//! Both sides run in this process, a thread each, each thread pinned to a core of its own (but
//! where sides have several engines, with a thread each), over the loopback interface: one clock
//! can time a message from its posting to the moment the target knows of it. Repetitions of all
//! rows of a table take turns; tables give medians with their spread.

use std::io;
use std::time::Duration;

use fairway::Error;
use serde_json::Value;

mod coalescing;
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

/// A benchmark's table, for people and as JSON.
pub struct Section {
    pub name: &'static str,
    pub markdown: String,
    pub json: Value,
}

/// The names of the parts, as the command line has them.
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
    // A part has many rows, and is to be over within a minute.
    let slice = duration / 4;
    match part {
        "order" => ordering::run(repeats, slice),
        "isolation" => isolation::run(repeats, slice),
        "mixed" => mixed::run(repeats, slice),
        "engines" => engines::run(repeats, slice),
        "impaired" => impaired::run(repeats, duration),
        // Slow rates take their time.
        "pacer" => pacer::run(repeats, duration),
        "fidelity" => fidelity::run(repeats, duration),
        "coalescing" => coalescing::run(repeats, slice),
        _ => mailbox::run(repeats, slice),
    }
}

fn failed(error: Error) -> io::Error {
    io::Error::other(error.to_string())
}
