//! Traces of other tools, read as they are: logs of NCCL, schedules in GOAL, and execution traces
//! of Chakra.
//!
//! Logs of NCCL and Chakra's traces become a [`Trace`] of operations. A GOAL schedule has messages
//! and computing of its own, and becomes flows that wait for each other.

mod chakra;
mod error;
mod goal;
mod graph;
mod nccl;
mod protobuf;
#[cfg(test)]
mod tests;

pub use error::{ImportError, Place, Wrong};

use super::error::TraceError;
use super::{Flow, Span, Trace};

/// Largest number of ranks: that of hosts.
const RANKS_MAX: u32 = super::trace::RANKS_MAX;

/// A file of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Its name, for errors; Chakra's files have the number of their rank in it.
    pub name: &'a str,
    /// Its contents.
    pub bytes: &'a [u8],
}

/// The form of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Fairway's own: see [`super::parse_trace`].
    Fairway,
    /// The log of NCCL, or RCCL: `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL`.
    Nccl,
    /// A schedule in GOAL's text form, as LogGOPSim and ATLAHS read it.
    Goal,
    /// An execution trace of Chakra: protobuf or JSON, a file for each rank.
    Chakra,
}

impl Format {
    /// All formats, with the names that options have for them.
    pub const NAMES: [(&'static str, Format); 4] = [
        ("fairway", Format::Fairway),
        ("nccl", Format::Nccl),
        ("goal", Format::Goal),
        ("chakra", Format::Chakra),
    ];

    /// Returns the format that a file's contents have. Whatever is of no other format is taken for
    /// [`Format::Fairway`], whose parser names the first wrong line.
    pub fn of(bytes: &[u8]) -> Format {
        let Ok(text) = std::str::from_utf8(bytes) else {
            // Only protobuf has bytes that are no text; a log may have some, between its lines.
            let text = String::from_utf8_lossy(bytes);
            return if text.contains(nccl::MARK) { Format::Nccl } else { Format::Chakra };
        };
        let start = text.trim_start();
        // Nodes, or a list of them.
        let list = start.strip_prefix('[').map(str::trim_start);
        let is_json = start.starts_with('{') || list.is_some_and(|list| list.starts_with('{'));
        if text.contains(nccl::MARK) {
            Format::Nccl
        } else if is_json || protobuf::is_likely(bytes) {
            Format::Chakra
        } else if goal::is_likely(text) {
            Format::Goal
        } else {
            Format::Fairway
        }
    }
}

/// Messages and computing of ranks that wait for each other, as flows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Number of ranks; a rank is the host of the same number.
    pub ranks: u32,
    /// The flows and steps.
    pub flows: Vec<Flow>,
    /// Which of them belong to each rank.
    pub spans: Vec<Span>,
}

/// What a trace describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Traced {
    /// Operations, whose messages the simulator chooses.
    Operations(Trace),
    /// Messages.
    Schedule(Schedule),
}

impl Traced {
    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        match self {
            Traced::Operations(trace) => trace.ranks,
            Traced::Schedule(schedule) => schedule.ranks,
        }
    }

    /// Returns the flows, in messages of at most `slot_bytes` for operations, and which of them
    /// each operation, or each rank of a schedule, has.
    ///
    /// # Errors
    /// If operations need more than four million flows or waits.
    pub fn flows(&self, slot_bytes: Option<u32>) -> Result<(Vec<Flow>, Vec<Span>), TraceError> {
        match self {
            Traced::Operations(trace) => trace.flows(slot_bytes),
            Traced::Schedule(schedule) => Ok((schedule.flows.clone(), schedule.spans.clone())),
        }
    }
}

/// Reads a trace from one or more files, in the format that the first of them has or in `format`.
///
/// # Errors
/// Names the file, the line and what to do about it.
pub fn read_trace(inputs: &[Input<'_>], format: Option<Format>) -> Result<Traced, ImportError> {
    let Some(first) = inputs.first() else { return Err(ImportError::NoFile) };
    let mut names = std::collections::BTreeSet::new();
    for Input { name, bytes } in inputs {
        if !names.insert(name) {
            return Err(ImportError::SameFile { file: (*name).to_owned() });
        }
        if let Some(what) = other_encoding(bytes) {
            return Err(ImportError::Encoding { file: (*name).to_owned(), what });
        }
    }
    match format.unwrap_or(Format::of(first.bytes)) {
        Format::Nccl => nccl::read(inputs).map(Traced::Operations),
        Format::Chakra => chakra::read(inputs).map(Traced::Operations),
        Format::Goal => only(inputs, "goal").and_then(goal::read).map(Traced::Schedule),
        Format::Fairway => {
            let only = only(inputs, "fairway")?;
            let text = String::from_utf8_lossy(only.bytes);
            let trace = super::parse_trace(&text);
            let file = only.name.to_owned();
            let trace = trace.map_err(|error| ImportError::Fairway { file, error })?;
            Ok(Traced::Operations(trace))
        }
    }
}

/// What a file is that is text, but not UTF-8 alone. Metadata of Chakra, which may begin with the
/// bytes of a mark, does not have a zero after them as the text of traces does in UTF-16.
fn other_encoding(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xFF, 0xFE, _, 0, ..] | [0xFE, 0xFF, 0, ..] => Some("is text in UTF-16"),
        [0xEF, 0xBB, 0xBF, ..] => Some("begins with a byte order mark"),
        _ => None,
    }
}

/// The only input of a format that has one file.
fn only<'a, 'b>(
    inputs: &'b [Input<'a>],
    format: &'static str,
) -> Result<&'b Input<'a>, ImportError> {
    match inputs {
        [only] => Ok(only),
        _ => Err(ImportError::OneFile { format, given: inputs.len() }),
    }
}
