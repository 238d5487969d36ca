//! Completions: how operations and receives end.

use std::fmt;

use fairway_ub::wire::JettyId;
use fairway_ub::{ChannelId, CompletionKind, Status};

use crate::error::Error;

/// A number that the caller gives to an operation or a receive, and that its completion contains.
///
/// Fairway does not interpret it. Methods take `impl Into<WrId>`, so a plain number is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WrId(u64);

impl WrId {
    /// Returns the identifier with this number.
    pub const fn new(value: u64) -> WrId {
        WrId(value)
    }

    /// Returns the number that the caller gave.
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl From<u64> for WrId {
    fn from(value: u64) -> WrId {
        WrId(value)
    }
}

impl From<WrId> for u64 {
    fn from(id: WrId) -> u64 {
        id.0
    }
}

impl PartialEq<u64> for WrId {
    fn eq(&self, value: &u64) -> bool {
        self.0 == *value
    }
}

impl fmt::Display for WrId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The end of an operation or of a receive, in success or failure: [`Completion::result`]
/// distinguishes the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "the operation may have failed: look at `result()`"]
pub struct Completion {
    /// The number that the caller gave with the request.
    pub id: WrId,
    /// The local Jetty.
    pub jetty: JettyId,
    /// How the operation ended; see [`Completion::result`].
    pub status: Status,
    /// The kind of operation that completed.
    pub kind: CompletionKind,
    /// Number of bytes transferred.
    pub bytes: u32,
    /// Immediate data, if the operation carried any (receives only).
    pub immediate: Option<u64>,
    /// The word's previous value (atomics only).
    pub value: u64,
    /// The channel that carried the operation; [`Jetty::peer_of`](crate::Jetty::peer_of) returns
    /// its peer.
    pub channel: ChannelId,
    /// The remote Jetty: the sender's in a receive, otherwise the target's.
    pub remote_jetty: JettyId,
}

impl Completion {
    /// The completion itself if the operation succeeded.
    ///
    /// ```no_run
    /// # use fairway::{Error, Jetty};
    /// # fn example(jetty: &Jetty) -> Result<(), Error> {
    /// let done = jetty.wait(std::time::Duration::from_secs(5))?.result()?;
    /// println!("operation {} moved {} bytes", done.id, done.bytes);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`OperationError`]: the operation failed.
    pub fn result(self) -> Result<Completion, OperationError> {
        match self.status {
            Status::Success => Ok(self),
            status => Err(OperationError { id: self.id, operation: self.kind, status }),
        }
    }

    /// Whether the operation succeeded.
    pub fn is_success(&self) -> bool {
        self.status == Status::Success
    }
}

impl From<fairway_ub::Completion> for Completion {
    fn from(done: fairway_ub::Completion) -> Completion {
        Completion {
            id: WrId(done.id),
            jetty: done.jetty,
            status: done.status,
            kind: done.kind,
            bytes: done.bytes,
            immediate: done.immediate,
            value: done.value,
            channel: done.channel,
            remote_jetty: done.remote_jetty,
        }
    }
}

/// Error of an operation that was posted and failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationError {
    /// The number that the caller gave with the request.
    pub id: WrId,
    /// The kind of operation that failed.
    pub operation: CompletionKind,
    /// Why it failed; never [`Status::Success`].
    pub status: Status,
}

impl OperationError {
    /// The operation's name, such as `WRITE`.
    pub fn operation_name(&self) -> &'static str {
        match self.operation {
            CompletionKind::Write => "WRITE",
            CompletionKind::Read => "READ",
            CompletionKind::Send => "SEND",
            CompletionKind::Receive => "receive",
            CompletionKind::ReceiveWrite => "receive of immediate data",
            CompletionKind::Atomic => "atomic",
            CompletionKind::Put => "PUT",
            CompletionKind::Get => "GET",
            CompletionKind::Load => "LOAD",
            CompletionKind::Store => "STORE",
        }
    }
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cause, remedy) = explanation(self.status);
        write!(f, "{} {} failed because {cause}: {remedy}", self.operation_name(), self.id)
    }
}

impl std::error::Error for OperationError {}

impl From<OperationError> for Error {
    fn from(error: OperationError) -> Error {
        Error::Failed { operation: error.operation_name(), status: error.status }
    }
}

/// Returns the meaning of a status, and what the user can do about it.
pub(crate) fn explanation(status: Status) -> (&'static str, &'static str) {
    match status {
        Status::Success => ("it succeeded", "there is nothing to do"),
        Status::RemoteAccess => (
            "the peer has no such segment, the key is wrong, or the range leaves the segment",
            "get the key from the peer again, and keep within SegmentKey::length",
        ),
        Status::RemoteRights => (
            "the peer's segment does not grant it",
            "register the segment there with the rights that it takes",
        ),
        Status::RemoteNoJetty => (
            "the peer has no such Jetty or group, or its token is another",
            "ask the peer for the number and the token",
        ),
        Status::RemoteLength => (
            "the message is longer than the receive that the peer posted",
            "post longer receives there, or send less",
        ),
        Status::RemoteOperation => (
            "the peer does not offer the operation",
            "run matching releases on both sides, or use another operation",
        ),
        Status::RemoteMisaligned => (
            "the address of the word is no multiple of its length",
            "use an offset that is a multiple of 4 or 8",
        ),
        Status::RemoteResources => (
            "the peer has no record left to keep the order, or its mailbox has no buffer",
            "post buffers there, or raise the peer's Limits",
        ),
        Status::RemoteNoMailbox => (
            "the peer has no such mailbox, the key is wrong, or the mailbox is closed",
            "ask the peer for the address and the key",
        ),
        Status::RemoteEpoch => {
            ("the epoch that was named is over", "name the mailbox's current epoch, or none")
        }
        Status::TimedOut => {
            ("the peer did not answer in spite of all retries", "check the network to the peer")
        }
        Status::ReceiverNotReady => (
            "the peer posted no receive in spite of all retries",
            "have the peer post receives before it is sent to",
        ),
        Status::PeerDead => {
            ("the peer has been silent for too long", "check the peer, and connect again")
        }
        Status::PeerClosed => ("the peer closed the connection", "connect again"),
        Status::Flushed => (
            "this side closed the connection, or failed or dropped the Jetty, first",
            "wait for completions before closing",
        ),
        Status::LocalMemory => (
            "memory of this side was unmapped, truncated, or cannot be written",
            "keep registered memory as it is until its operations have completed",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_operation_cause_and_remedy() {
        let status = Status::RemoteAccess;
        let error = OperationError { id: WrId::new(7), operation: CompletionKind::Write, status };
        let text = error.to_string();
        for words in ["WRITE 7 failed", "the key is wrong", "get the key from the peer again"] {
            assert!(text.contains(words), "no '{words}' in: {text}");
        }
        let error = Error::from(error);
        assert!(error.to_string().contains("the key is wrong"), "{error}");
        assert!(matches!(
            error,
            Error::Failed { operation: "WRITE", status: Status::RemoteAccess }
        ));
    }

    #[test]
    fn request_numbers_compare_and_print_as_numbers() {
        let id = WrId::from(12);
        assert_eq!(id, 12);
        assert_eq!((id.value(), u64::from(id), id.to_string()), (12, 12, "12".into()));
    }
}
