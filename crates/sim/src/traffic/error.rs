//! Errors in matrices, traces, distributions and mixtures of experts.

use super::moe::HOSTS_MAX;
use super::trace::{FLOWS_MAX, MEMBERS_MAX, RANKS_MAX};
use crate::quantity::SPAN_MAX;
use thiserror::Error;

/// Why a connection matrix is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// A line is invalid.
    #[error("line {line}: {error}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        #[source]
        error: MatrixLineError,
    },
    /// No line has the number of nodes.
    #[error("the matrix does not say how many nodes there are: add a line as Nodes 16")]
    NoNodes,
    /// A connection names a node that does not exist, or joins a node to itself.
    #[error("{from}->{to} does not join two of {nodes} nodes: nodes count from 0")]
    Ends {
        /// Source of the connection.
        from: u32,
        /// Destination of the connection.
        to: u32,
        /// Nodes of the matrix.
        nodes: u32,
    },
    /// The matrix has another number of connections than it states, as if it were cut short.
    #[error("Connections {stated}, but there are {found}: correct the number, or add the others")]
    Connections {
        /// Number after `Connections`.
        stated: u64,
        /// Connections of the matrix.
        found: u64,
    },
    /// A connection waits for a trigger that no connection fires.
    #[error("nothing fires trigger {0}: give a connection send_done_trigger {0}")]
    Trigger(u64),
}

/// Why a line of a connection matrix is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MatrixLineError {
    /// The first word is unknown.
    #[error(
        "'{0}' begins nothing that a connection matrix has: Nodes, Connections, Triggers, Failures, \
         trigger, or a connection as 0->1"
    )]
    Line(String),
    /// A number is expected.
    #[error("'{0}' is no number")]
    Number(String),
    /// An attribute's name ends the line, without its value.
    #[error("'{0}' has no value")]
    NoValue(String),
    /// The attribute is unknown.
    #[error(
        "'{0}' is nothing that a connection has: id, prio, start, size, trigger, send_done_trigger \
         and recv_done_trigger"
    )]
    Attribute(String),
    /// The flow would begin after the latest end of a run.
    #[error(
        "start {0} is in picoseconds, and a run ends after {SPAN_MAX} (1000 s) at the latest: give \
         an earlier start"
    )]
    Start(u64),
    /// The size is 0 or too large.
    #[error("a flow has 1 to 4294967295 bytes, not {0}")]
    Bytes(u64),
    /// The size is missing.
    #[error("a flow without a size would never end: add size BYTES")]
    NoSize,
}

/// Why a trace is invalid, or cannot be converted to flows.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line is invalid.
    #[error("line {line}: {error}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        #[source]
        error: TraceLineError,
    },
    /// The number of ranks is missing.
    #[error("a trace says first how many ranks there are: ranks 8")]
    NoRanks,
    /// The trace has no operation.
    #[error("a trace without an operation: all-reduce all 64M")]
    NoOperation,
    /// The operations make too many flows or waits.
    #[error(
        "a trace of more than {FLOWS_MAX} flows, or waits, at '{operation}': cut it into parts"
    )]
    TooLong {
        /// The operation that exceeds the limit.
        operation: String,
    },
}

/// Why a line of a trace is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TraceLineError {
    /// The number of ranks is out of range.
    #[error("'{0}': ranks are 2 to {RANKS_MAX}")]
    RankCount(String),
    /// The number of ranks is given twice.
    #[error("the number of ranks was given before: leave the second one out")]
    RanksTwice,
    /// Another line precedes the number of ranks.
    #[error("ranks come first: ranks 8")]
    RanksFirst,
    /// The name of a group is in use or invalid.
    #[error("'{0}': a group needs a name of its own, with a letter")]
    GroupName(String),
    /// The name of an operation is in use or invalid.
    #[error("'{0}:': an operation needs a name of its own")]
    OperationName(String),
    /// An operation has too few words.
    #[error("'{0}' is no operation: it takes what, who and how much, as all-reduce 0-7 64M")]
    Words(String),
    /// The operation is unknown.
    #[error(
        "'{0}' is no operation: they are compute, all-reduce, reduce-scatter, all-gather, \
         broadcast, reduce, all-to-all and send"
    )]
    Operation(String),
    /// The operation does not accept this word.
    #[error("'{word}' is nothing that {operation} takes")]
    Option {
        /// The word.
        word: String,
        /// The operation.
        operation: String,
    },
    /// A size is expected.
    #[error("'{0}' is no size: as 64K, 64M, or less than 4G")]
    Size(String),
    /// A time is expected.
    #[error("'{0}' is no time: as 250us, with ps, ns, us, ms or s")]
    Time(String),
    /// Two different ranks are expected.
    #[error("'{0}': a send goes from one rank to another, as 0->4")]
    Ends(String),
    /// All operations together have too many ranks.
    #[error("more than {MEMBERS_MAX} ranks of operations: cut the trace up")]
    TooManyMembers,
    /// The group does not exist.
    #[error("there is no group '{0}' above: group {0} 0-7")]
    Group(String),
    /// A rank occurs twice in a list.
    #[error("rank {rank} is twice in '{list}'")]
    Twice {
        /// The rank.
        rank: u32,
        /// The list.
        list: String,
    },
    /// A range is empty.
    #[error("'{0}' has no rank: write the lower one first")]
    Empty(String),
    /// The rank does not exist.
    #[error("'{rank}' is no rank: they are 0 to {last}")]
    Rank {
        /// The rank that was given.
        rank: String,
        /// The last rank.
        last: u32,
    },
    /// An operation waits for one that does not precede it.
    #[error("after={0}: no operation above has this name")]
    After(String),
}

/// Why a distribution of sizes is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SizesError {
    /// A line is not a point of a distribution, or is below the point before it.
    #[error("line {line}: bytes and a percentage, both ascending, not '{text}'")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// The last point is not at 100 percent.
    #[error("the last percentage is not 100: add the size that no flow exceeds")]
    NotAll,
}

/// Why a mixture of experts exceeds the limits.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MoeError {
    /// There are more hosts than allowed.
    #[error("moe has at most {HOSTS_MAX} hosts, not {0}")]
    Hosts(u32),
    /// A host would send more bytes than allowed.
    #[error("{tokens} tokens of {bytes} bytes are too many: a host has less than 1 GiB of them")]
    Tokens {
        /// Tokens per host.
        tokens: u32,
        /// Bytes per token.
        bytes: u32,
    },
}
