//! NCCL's result codes, and failures with a text.

use fairway::{Error, OperationError, SystemError};

/// The values of `ncclResult_t` that this library returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Status {
    /// The operating system refused a request.
    System = 2,
    /// A bug of this library.
    Internal = 3,
    /// An argument has an illegal value.
    Argument = 4,
    /// The calls do not fit together.
    Usage = 5,
    /// The peer, or the network to it, failed.
    Remote = 6,
}

/// `ncclSuccess`.
pub(crate) const SUCCESS: i32 = 0;

/// A call that failed: its result and a text for NCCL's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) text: String,
}

/// Result type of the functions behind the C calls.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(status: Status, text: impl Into<String>) -> Failure {
        Failure { status, text: text.into() }
    }

    pub(crate) fn argument(text: impl Into<String>) -> Failure {
        Failure::new(Status::Argument, text)
    }

    pub(crate) fn remote(text: impl Into<String>) -> Failure {
        Failure::new(Status::Remote, text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let status = match &error {
            Error::Io { .. } => Status::System,
            Error::PeerGone { .. }
            | Error::ShutDown
            | Error::Failed { .. }
            | Error::NoListener { .. }
            | Error::Unanswered { .. }
            | Error::NoSharedMemory { .. }
            | Error::Refused { .. }
            | Error::Timeout { .. } => Status::Remote,
            Error::Parameter { .. } | Error::OutOfBounds { .. } | Error::TooLong { .. } => {
                Status::Argument
            }
            _ => Status::Internal,
        };
        Failure::new(status, error.to_string())
    }
}

impl From<SystemError> for Failure {
    fn from(error: SystemError) -> Failure {
        Failure::new(Status::System, error.to_string())
    }
}

impl From<OperationError> for Failure {
    fn from(error: OperationError) -> Failure {
        Failure::remote(error.to_string())
    }
}

/// True if an operation could not be posted because too many are in flight, so that a later
/// attempt may succeed.
pub(crate) fn is_full(error: &Error) -> bool {
    matches!(error, Error::QueueFull | Error::TooManyOperations | Error::TooManyReceives)
}
