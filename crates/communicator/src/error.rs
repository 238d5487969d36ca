//! Why a call of a group failed.

use fairway_collectives::CallError;
use std::fmt;
use std::time::Duration;

/// Why a group is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A rank's process has ended, or can't be reached.
    Died {
        /// The rank.
        rank: u32,
        /// How this rank found out.
        how: String,
    },
    /// Two ranks called different operations.
    Mismatch {
        /// A rank and its call.
        one: (u32, String),
        /// The other rank and its call.
        other: (u32, String),
    },
    /// A call did not end in time.
    TimedOut {
        /// The call.
        call: String,
        /// How long this rank waited.
        waited: Duration,
        /// The ranks for which it waits, to receive from them or to send to them, and what they do.
        awaited: Vec<(u32, String)>,
    },
    /// Another rank has given up the group.
    Aborted {
        /// The rank.
        rank: u32,
        /// Why.
        why: String,
    },
    /// A rank sent something that no rank sends.
    Invalid {
        /// The rank.
        rank: u32,
    },
}

impl Failure {
    /// The rank to blame.
    pub fn rank(&self) -> Option<u32> {
        match self {
            Failure::Died { rank, .. }
            | Failure::Aborted { rank, .. }
            | Failure::Invalid { rank } => Some(*rank),
            Failure::Mismatch { other, .. } => Some(other.0),
            Failure::TimedOut { awaited, .. } => awaited.first().map(|awaited| awaited.0),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Died { rank, how } => write!(f, "rank {rank} is gone: {how}"),
            Failure::Mismatch { one, other } => write!(
                f,
                "ranks disagree: rank {} called {}, but rank {} called {}; \
                 all ranks must call the same operations in the same order",
                one.0, one.1, other.0, other.1
            ),
            Failure::TimedOut { call, waited, awaited } => {
                write!(f, "{call} did not end within {waited:?}")?;
                for (at, (rank, state)) in awaited.iter().enumerate() {
                    let before = if at == 0 { ": it waits for" } else { "," };
                    write!(f, "{before} rank {rank} ({state})")?;
                }
                Ok(())
            }
            Failure::Aborted { rank, why } => write!(f, "rank {rank} has given up: {why}"),
            Failure::Invalid { rank } => write!(
                f,
                "rank {rank} sent a message that is not part of any operation: \
                 check that all ranks run the same version with the same options"
            ),
        }
    }
}

/// The reason why a call failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The group is over; every further call fails in the same way.
    Failed(Failure),
    /// No rank can execute the call.
    Call(CallError),
    /// A buffer has another length than the call states.
    Length {
        /// The buffer: `input` or `output`.
        buffer: &'static str,
        /// Its length in bytes.
        bytes: u64,
        /// The length that the call states.
        needed: u64,
    },
    /// The ranks cannot divide a buffer into equal parts.
    Parts {
        /// Number of elements of the buffer.
        elements: u64,
        /// Number of ranks.
        ranks: u32,
    },
    /// The chosen algorithm can't execute the call, or an option is out of its range.
    Option(String),
    /// The ranks did not find each other.
    Rendezvous(String),
    /// The NIC failed.
    Nic(fairway::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Failed(failure) => failure.fmt(f),
            Error::Call(error) => error.fmt(f),
            Error::Length { buffer, bytes, needed } => write!(
                f,
                "the {buffer} has {bytes} bytes, but the operation needs {needed}: \
                 pass a buffer of that length"
            ),
            Error::Parts { elements, ranks } => write!(
                f,
                "{elements} elements cannot be divided into equal parts for {ranks} ranks: \
                 pass a multiple of {ranks}"
            ),
            Error::Option(text) | Error::Rendezvous(text) => f.write_str(text),
            Error::Nic(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Nic(error) => Some(error),
            Error::Call(error) => Some(error),
            _ => None,
        }
    }
}

impl From<fairway::Error> for Error {
    fn from(error: fairway::Error) -> Error {
        Error::Nic(error)
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Error {
        Error::Call(error)
    }
}
