//! Errors in traces of other tools.

use std::fmt;

use super::RANKS_MAX;
use crate::traffic::error::TraceError;
use crate::traffic::trace::FLOWS_MAX;
use thiserror::Error;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file's name.
    pub file: String,
    /// What is counted: `line`, `byte` or `node`.
    pub unit: &'static str,
    /// The number of the line or node, from 1, or of the byte, from 0.
    pub number: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.file, self.unit, self.number)
    }
}

/// Why a trace of another tool cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// No file was given.
    #[error("no file of a trace was given: fairway sim trace FILE")]
    NoFile,
    /// Several files were given for a format that has one.
    #[error("{given} files: a trace in the format {format} is one file; give the others apart")]
    OneFile {
        /// The format.
        format: &'static str,
        /// Number of files that were given.
        given: usize,
    },
    /// A file was given twice.
    #[error("{file} was given twice: give each file of a trace once")]
    SameFile {
        /// The file's name.
        file: String,
    },
    /// Two files have the number of one rank.
    #[error("{one} and {other} both have rank {number}: give each rank one file")]
    SameNumber {
        /// One file's name.
        one: String,
        /// The other file's name.
        other: String,
        /// The number in both names.
        number: u64,
    },
    /// The file of a rank is missing between two others.
    #[error(
        "no file of rank {missing} between {one} and {other}: the number before the ending is the \
         rank, so give the missing files, or rename these"
    )]
    Gap {
        /// The file before the gap.
        one: String,
        /// The file after the gap.
        other: String,
        /// The first number that is missing.
        missing: u64,
    },
    /// The files of the first ranks are missing.
    #[error(
        "{file} has the lowest rank, {number}, and ranks count from 0 or 1: give the files of the \
         ranks before it, or rename these"
    )]
    FirstFile {
        /// The file with the lowest number.
        file: String,
        /// Its number.
        number: u64,
    },
    /// The file has another encoding than UTF-8, or a mark at its start.
    #[error("{file} {what}: save it as UTF-8 without a byte order mark")]
    Encoding {
        /// The file's name.
        file: String,
        /// What it is.
        what: &'static str,
    },
    /// A trace in Fairway's own format is wrong.
    #[error("{file}: {error}")]
    Fairway {
        /// The file's name.
        file: String,
        /// What is wrong.
        #[source]
        error: TraceError,
    },
    /// Something is wrong at a place of a file.
    #[error("{place}: {wrong}")]
    At {
        /// The place.
        place: Place,
        /// What is wrong there.
        #[source]
        wrong: Box<Wrong>,
    },
    /// The files have no operation.
    #[error("{file}: {remedy}")]
    Nothing {
        /// The first file's name.
        file: String,
        /// What the file needs.
        remedy: &'static str,
    },
    /// The number of ranks is not allowed.
    #[error("{file}: {ranks} ranks, and a trace has 2 to {RANKS_MAX}: {remedy}")]
    Ranks {
        /// The first file's name.
        file: String,
        /// Number of ranks.
        ranks: usize,
        /// What to do.
        remedy: &'static str,
    },
}

/// What is wrong at a place of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Wrong {
    /// A line of a log lacks a field.
    #[error(
        "no valid '{0}' in this line of NCCL's: it may be cut off, or mixed with that of another \
         process, which NCCL_DEBUG_FILE=nccl.%h.%p.log prevents; repair or remove the line"
    )]
    Field(&'static str),
    /// The process of a line is unknown.
    #[error(
        "the line does not begin with host:pid:tid [device], so its rank is unknown: give the log \
         as NCCL wrote it"
    )]
    Process,
    /// The operation is unknown.
    #[error("{name} is no known operation: they are {known}; remove the line to leave it out")]
    Operation {
        /// The operation's name.
        name: String,
        /// The names of known operations.
        known: &'static str,
    },
    /// The data type is unknown.
    #[error("datatype {0}: those of NCCL are 0 to 11; correct the line")]
    DataType(u64),
    /// An operation is empty or too long.
    #[error("{bytes} bytes: an operation has 1 to 4294967295; cut it into several")]
    Bytes {
        /// Its bytes.
        bytes: u128,
    },
    /// The members of a communicator are unknown.
    #[error(
        "communicator {comm} has {nranks} ranks, and the log does not say which of its {known} \
         processes they are: give the logs of all ranks, with NCCL_DEBUG_SUBSYS=INIT,COLL"
    )]
    Members {
        /// The communicator's address.
        comm: String,
        /// Number of its ranks.
        nranks: u32,
        /// Number of processes in the log.
        known: usize,
    },
    /// The peer of a send is unknown.
    #[error(
        "the peer of this message is rank {peer} of {ranks}, and the log does not say which \
         process that is: log with NCCL_DEBUG_SUBSYS=INIT,COLL"
    )]
    Peer {
        /// The peer's rank.
        peer: u64,
        /// Number of ranks of the communicator.
        ranks: usize,
    },
    /// Ranks of a communicator call different operations.
    #[error("rank {rank} calls {what} here, where {other} calls {expected}: {REPAIR}")]
    Differs {
        /// The rank.
        rank: usize,
        /// Its operation.
        what: String,
        /// Place of the other rank's call.
        other: Box<Place>,
        /// The other's operation.
        expected: String,
    },
    /// A message has no counterpart.
    #[error("no {missing} matches this {what} between ranks {from} and {to}: {REPAIR}")]
    Unmatched {
        /// `send` or `recv`.
        what: &'static str,
        /// The other of the two.
        missing: &'static str,
        /// The sending rank.
        from: String,
        /// The receiving rank.
        to: u32,
    },
    /// Not all ranks of a communicator call an operation.
    #[error("rank {rank} never calls the {what} that is called here: {REPAIR}")]
    Absent {
        /// The rank.
        rank: usize,
        /// The operation.
        what: String,
    },
    /// Operations wait for each other in a circle.
    #[error(
        "'{0}' waits for itself, by way of others: the order of operations differs between ranks; \
         correct the dependencies"
    )]
    Circle(String),
    /// Something else is expected.
    #[error("'{found}' where {expected} is expected: correct the file")]
    Expected {
        /// The text that was found.
        found: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// A label or node is defined twice.
    #[error("'{0}' is defined twice: give the second another name")]
    Twice(String),
    /// A label or node is not defined.
    #[error("'{0}' is defined nowhere in this rank: correct the dependency")]
    Undefined(String),
    /// A rank does not exist.
    #[error("rank {rank}: ranks are 0 to {last}; correct the number")]
    Rank {
        /// The number.
        rank: u64,
        /// The last rank.
        last: u32,
    },
    /// A trace has too many operations or dependencies.
    #[error("more than {FLOWS_MAX} messages, steps and dependencies: cut the trace into parts")]
    TooLong,
    /// Bytes that are no message of protobuf.
    #[error("no protobuf message of Chakra's here, or a part of one: copy the file again, whole")]
    Protobuf,
    /// Text that is no JSON.
    #[error("no JSON: {error}; copy the file again, whole")]
    Json {
        /// What the parser says.
        error: String,
    },
    /// A node lacks something.
    #[error("node {node} ({name}) has no valid {what}: correct it, or remove the node")]
    Node {
        /// The node's identifier.
        node: u64,
        /// The node's name.
        name: String,
        /// What it lacks.
        what: &'static str,
    },
}

/// Remedy for logs that do not fit together.
const REPAIR: &str = "give complete files of all ranks, of the same run";

impl Place {
    pub(super) fn line(file: &str, number: usize) -> Place {
        Place { file: file.to_owned(), unit: "line", number }
    }

    pub(super) fn is(self, wrong: Wrong) -> ImportError {
        ImportError::At { place: self, wrong: Box::new(wrong) }
    }
}
