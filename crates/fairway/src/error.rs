//! Errors that calls return, with advice on what to do about them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use fairway_runtime::SystemError;
use fairway_ub::{JettyState, PostError, SetupError, Status};

use crate::datapath::DatapathKind;

/// The reason why a call failed. The call had no effect unless the variant says otherwise.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a request.
    Io {
        /// The action that failed.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// A parameter has a value outside its range.
    Parameter {
        /// The parameter's name.
        name: &'static str,
        /// The value.
        value: String,
        /// Advice on which value to use instead.
        remedy: &'static str,
    },
    /// A capacity of [`crate::Limits`] is exhausted.
    Limit {
        /// The limit's name.
        name: &'static str,
    },
    /// The number is in use, or too large.
    Number {
        /// The kind of object that the number names.
        name: &'static str,
        /// The number.
        value: u32,
    },
    /// A range leaves its local segment.
    OutOfBounds {
        /// First byte, from the start of the segment.
        offset: u64,
        /// Length in bytes.
        length: u64,
        /// Length of the segment in bytes.
        segment: u64,
    },
    /// The operation is longer than one operation may be.
    TooLong {
        /// Length in bytes.
        length: u64,
    },
    /// The memory can't be written.
    ReadOnly,
    /// The memory is not there any more: its owner has unmapped it, or its file was truncated.
    MemoryGone,
    /// The completion queue has no capacity for this operation's completion.
    QueueFull,
    /// The number of operations in flight has reached the limit of [`crate::Limits`].
    TooManyOperations,
    /// The number of posted receives has reached the limit of [`crate::Limits`].
    TooManyReceives,
    /// The number of pairs of a Jetty and a mailbox with puts has reached the limit of
    /// [`crate::Limits`]; or 4 GiB are under way from one Jetty to one mailbox.
    TooManyPuts,
    /// The number of buffers posted to mailboxes has reached the limit of [`crate::Limits`].
    TooManyBuffers,
    /// The mailbox is closed.
    MailboxClosed,
    /// No buffer is posted to the mailbox.
    NoBuffer,
    /// The mailbox has not retained the epoch.
    EpochNotKept,
    /// The Jetty is suspended or in the error state.
    JettyNotReady,
    /// Unreliable messages, or loads and stores, were not agreed on when the connection was made.
    NotAgreed,
    /// The Jetty is not in a state from which the requested change is possible.
    JettyState {
        /// The current state.
        from: JettyState,
        /// The requested state.
        to: JettyState,
    },
    /// Operations of the Jetty are under way.
    JettyBusy {
        /// Number of operations under way.
        outstanding: u32,
    },
    /// A blocking operation was executed and failed.
    Failed {
        /// The operation's name.
        operation: &'static str,
        /// The status of its completion.
        status: Status,
    },
    /// The number of Jetties, and pairs of a Jetty and a peer, that use order has reached the limit
    /// of [`crate::Limits`].
    TooManyOrders,
    /// Mode UNO carries only WRITE and SEND, of one packet.
    Unreliable {
        /// The operation's name.
        operation: &'static str,
        /// The operation's length in bytes.
        length: u64,
        /// Payload bytes per packet to this peer.
        packet: u32,
    },
    /// The length of a load or store is not between 1 and 64 bytes.
    Width {
        /// The operation's name: a load or a store.
        operation: &'static str,
        /// The operation's length in bytes.
        length: u64,
    },
    /// The channel to the peer has been closed.
    PeerGone {
        /// The peer.
        peer: SocketAddr,
    },
    /// The object belongs to another context.
    Foreign {
        /// The kind of object.
        what: &'static str,
    },
    /// Other handles to the segment still exist.
    Shared,
    /// Memory of the segment is posted, and peers may write to it.
    Posted {
        /// The object to which it is posted, or one of them.
        to: PostedTo,
    },
    /// The context has been shut down.
    ShutDown,
    /// The context was built by the process that this one was forked from.
    Forked,
    /// The wait ended without a result. The operations that were started continue.
    Timeout {
        /// The event that the call waited for.
        awaited: &'static str,
        /// How long the caller waited.
        waited: Duration,
    },
    /// No answer to a connection request arrived in time.
    Unanswered {
        /// The address to which the request was sent.
        peer: SocketAddr,
        /// How long the caller waited.
        waited: Duration,
        /// The network's report about packets to that address, if there was one.
        report: Option<String>,
    },
    /// No answer to a connection request arrived in time through shared memory, which is the only
    /// datapath of this context ([`DatapathKind::Shm`](crate::DatapathKind::Shm)).
    NoSharedMemory {
        /// The address to which the request was sent.
        peer: SocketAddr,
        /// How long the caller waited.
        waited: Duration,
    },
    /// The name of a host has no address.
    UnknownHost {
        /// The name.
        name: String,
        /// The error of the system's resolver.
        source: io::Error,
    },
    /// The network reports that no program listens at the address (ICMP: port unreachable).
    NoListener {
        /// The address to which the request was sent.
        peer: SocketAddr,
    },
    /// The peer refused the connection.
    Refused {
        /// The peer.
        peer: SocketAddr,
        /// The peer's reason.
        reason: Refusal,
    },
}

/// An object to which memory is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PostedTo {
    /// A Jetty, as the buffer of a receive.
    Jetty {
        /// The Jetty's number.
        number: u32,
    },
    /// A mailbox, as the buffer of an epoch.
    Mailbox {
        /// The mailbox's address; `None` for the catch-all.
        address: Option<u64>,
    },
}

impl fmt::Display for PostedTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PostedTo::Jetty { number } => write!(f, "Jetty {number}"),
            PostedTo::Mailbox { address: Some(address) } => write!(f, "mailbox {address:#x}"),
            PostedTo::Mailbox { address: None } => f.write_str("the mailbox without an address"),
        }
    }
}

/// The reason why a peer refused a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The peer supports only other protocol versions.
    Version {
        /// The oldest version that the peer supports.
        min: u8,
        /// The newest version that the peer supports.
        max: u8,
    },
    /// The peer has no channel, or no memory, left.
    NoResources,
    /// The peer repeatedly did not recognise its own cookie.
    StaleCookie,
    /// The peer cannot meet the parameters.
    Parameters,
    /// The peer does not accept this client.
    Unwanted,
}

impl From<fairway_runtime::Gone> for Error {
    fn from(_: fairway_runtime::Gone) -> Error {
        Error::MemoryGone
    }
}

impl From<SystemError> for Error {
    fn from(error: SystemError) -> Error {
        Error::Io { doing: error.doing, source: error.source }
    }
}

impl Error {
    /// Returns the error for a connection request that was not answered in time.
    pub(crate) fn unanswered(
        datapath: DatapathKind,
        peer: SocketAddr,
        waited: Duration,
        report: Option<String>,
    ) -> Error {
        match datapath {
            DatapathKind::Shm => Error::NoSharedMemory { peer, waited },
            DatapathKind::Auto
            | DatapathKind::Udp
            | DatapathKind::Xdp
            | DatapathKind::Rdma(_)
            | DatapathKind::RdmaOrUdp(_)
            | DatapathKind::RdmaUc(_) => Error::Unanswered { peer, waited, report },
        }
    }

    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> Self {
        Error::Io { doing: doing.into(), source }
    }

    pub(crate) fn setup(error: SetupError, name: &'static str, number: Option<u32>) -> Self {
        match error {
            SetupError::Limit(name) => Error::Limit { name },
            SetupError::Number => Error::Number { name, value: number.unwrap_or_default() },
            SetupError::Parameter(name) => Error::Parameter {
                name,
                value: "the one given".into(),
                remedy: "choose one within the limits",
            },
            SetupError::Missing => Error::ShutDown,
            SetupError::Busy => Error::Shared,
        }
    }

    /// Converts the error of a call that concerns a mailbox.
    pub(crate) fn mailbox(error: SetupError, address: Option<u64>) -> Self {
        match error {
            SetupError::Number => Error::Parameter {
                name: "mailbox address",
                value: address.map_or("that of a second catch-all".into(), |at| format!("{at:#x}")),
                remedy: "another mailbox has it: close that first, or choose another address",
            },
            SetupError::Parameter("threshold") => Error::Parameter {
                name: "threshold",
                value: "0".into(),
                remedy: "an epoch takes at least one byte or one put",
            },
            SetupError::Parameter("back") => Error::EpochNotKept,
            SetupError::Parameter(_) => Error::NoBuffer,
            SetupError::Missing => Error::MailboxClosed,
            other => Error::setup(other, "mailbox", None),
        }
    }

    /// Converts the error of a post that the protocol refused. `NoSegment` cannot happen, because a
    /// handle keeps its segment registered.
    pub(crate) fn post(error: PostError, peer: Option<SocketAddr>) -> Self {
        match (error, peer) {
            (PostError::NoChannel, Some(peer)) => Error::PeerGone { peer },
            (PostError::NoChannel | PostError::NoJetty | PostError::NoSegment, _) => {
                Error::ShutDown
            }
            (PostError::OutOfBounds, _) => Error::OutOfBounds { offset: 0, length: 0, segment: 0 },
            (PostError::CompletionQueueFull, _) => Error::QueueFull,
            (PostError::TooManyMessages, _) => Error::TooManyOperations,
            (PostError::TooManyReceives, _) => Error::TooManyReceives,
            (PostError::NotReady, _) => Error::JettyNotReady,
            (PostError::NotAgreed, _) => Error::NotAgreed,
            (PostError::TooManyOrders, _) => Error::TooManyOrders,
            (PostError::TooManyPuts, _) => Error::TooManyPuts,
            (PostError::NoMailbox, _) => Error::MailboxClosed,
            (PostError::TooManyBuffers, _) => Error::TooManyBuffers,
            // Both conditions were checked before.
            (PostError::MemoryOrder, _) => Error::Parameter {
                name: "order",
                value: "memory order on a Jetty that also has relaxed or strict operations".into(),
                remedy: "use one Jetty for memory order, and another for the other orders",
            },
            (PostError::Unreliable | PostError::Width, _) => Error::Parameter {
                name: "operation",
                value: "one that the engine refuses".into(),
                remedy: "report it",
            },
        }
    }
}

impl Error {
    /// Returns the text of an error that contains no values.
    fn text(&self) -> Option<&'static str> {
        Some(match self {
            Error::MemoryGone => {
                "the memory is not there any more, because it was unmapped or its file was \
                 truncated: keep registered memory as it is, or deregister it first"
            }
            Error::ReadOnly => {
                "the memory is mapped read-only: map it writable to let it be written"
            }
            Error::QueueFull => {
                "the completion queue is full: poll it, or create the Jetty with more depth"
            }
            Error::TooManyOperations => {
                "too many operations in flight: poll for completions, or raise Limits::messages"
            }
            Error::TooManyPuts => {
                "puts to too many mailboxes, or of 4 GiB to one, are in flight: poll for completions, \
                 or raise Limits::put_streams"
            }
            Error::TooManyBuffers => {
                "too many buffers posted to mailboxes: post fewer, or raise \
                 Limits::mailbox_buffers"
            }
            Error::NoBuffer => "the current epoch has no buffer: post one",
            Error::EpochNotKept => {
                "the mailbox does not keep that epoch: go back less far, or raise \
                 MailboxOptions::retired"
            }
            Error::MailboxClosed => "the mailbox is closed: open another",
            Error::TooManyReceives => {
                "too many receives posted: post fewer, or raise Limits::receives"
            }
            Error::NotAgreed => {
                "the connection was made without unreliable messages, or without loads and \
                 stores: allow them with Builder::unreliable_messages or \
                 Builder::loads_and_stores on both sides"
            }
            Error::JettyNotReady => {
                "the Jetty is suspended or in the error state: resume or reset it"
            }
            Error::TooManyOrders => {
                "too many Jetties request order: use fewer, or raise Limits::order_records"
            }
            Error::Shared => "other handles to the object exist: drop them first",
            Error::ShutDown => "the context has been shut down: build a new one",
            Error::Forked => {
                "the context belongs to the process that this one was forked from: build one after \
                 the fork"
            }
            _ => return None,
        })
    }

    /// Writes an error that concerns a peer.
    fn fmt_peer(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::PeerGone { peer } => {
                write!(f, "the channel to {peer} is gone: connect again")
            }
            Error::Timeout { awaited, waited } => {
                write!(f, "no {awaited} within {waited:?}: wait longer, or check the peer")
            }
            Error::Unanswered { peer, waited, report } => {
                write!(f, "{peer} did not answer a connection request within {waited:?}")?;
                if let Some(report) = report {
                    write!(f, " (the network reports: {report})")?;
                }
                write!(
                    f,
                    ": check that a Fairway program listens there and that firewalls let UDP \
                     through to all of its ports and back, or wait longer"
                )
            }
            Error::NoSharedMemory { peer, waited } => write!(
                f,
                "{peer} did not answer through shared memory within {waited:?}: check that a \
                 program of this user on this host listens there whose datapath is auto or shm, or \
                 choose the datapath auto or udp"
            ),
            Error::UnknownHost { name, source } => write!(
                f,
                "no address of the host {name:?} is known ({source}): check the name, or give an \
                 address"
            ),
            Error::NoListener { peer } => write!(
                f,
                "no program listens at UDP port {} of {}, the network reports: start the program \
                 there first, check its port, or have the firewall let UDP through",
                peer.port(),
                peer.ip()
            ),
            Error::Refused { peer, reason } => write!(f, "{peer} refused to connect: {reason}"),
            _ => Ok(()),
        }
    }
}

/// Writes an error of the operating system, with a remedy if there is one.
fn fmt_io(f: &mut fmt::Formatter<'_>, doing: &str, source: &io::Error) -> fmt::Result {
    write!(f, "could not {doing}: {source}")?;
    if source.raw_os_error() == Some(libc::EMFILE) {
        f.write_str(
            ": raise the limit of open files of this process (ulimit -n; a context takes about 20, \
             and two for each peer on this host)",
        )?;
    }
    Ok(())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = self.text() {
            return f.write_str(text);
        }
        match self {
            Error::Io { doing, source } => fmt_io(f, doing, source),
            Error::Parameter { name, value, remedy } => {
                write!(f, "{name} can't be {value}: {remedy}")
            }
            Error::Limit { name: "completions" } => write!(
                f,
                "no more completions: each Jetty takes its JettyOptions::depth of \
                 Limits::completions; create Jetties with less depth, drop some, or raise \
                 Limits::completions"
            ),
            Error::Limit { name } => {
                write!(f, "no more {name}: drop some, or raise Limits::{name}")
            }
            Error::Number { name, value } => {
                write!(
                    f,
                    "{name} {value} is taken or too large: choose another or let it be chosen"
                )
            }
            Error::OutOfBounds { offset, length, segment } => write!(
                f,
                "{length} bytes at offset {offset} leave a segment of {segment} bytes: \
                 shorten the range"
            ),
            Error::TooLong { length } => write!(
                f,
                "{length} bytes are too many for one operation: split it into pieces below 4 GiB"
            ),
            Error::JettyState { from, to } => write!(
                f,
                "the Jetty can't go from {from:?} to {to:?}: ready ones are suspended, suspended \
                 ones resumed, and failed ones reset"
            ),
            Error::JettyBusy { outstanding } => {
                write!(f, "{outstanding} operations of the Jetty are under way: drain it first")
            }
            Error::Failed { operation, status } => {
                let (cause, remedy) = crate::completion::explanation(*status);
                write!(f, "the {operation} failed because {cause}: {remedy}")
            }
            Error::Unreliable { operation, length, packet } => write!(
                f,
                "mode UNO can't carry a {operation} of {length} bytes: use WRITE or SEND of at \
                 most {packet} bytes, or another mode"
            ),
            Error::Width { operation, length } => write!(
                f,
                "a {operation} can't have {length} bytes: use 1 to 64, or a READ or WRITE"
            ),
            Error::Posted { to } => write!(
                f,
                "memory of the segment is posted to {to}: receive into it, or drop the object, \
                 before the segment"
            ),
            Error::Foreign { what } => {
                write!(f, "the {what} belongs to another context: use objects of one context")
            }
            _ => self.fmt_peer(f),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Version { min, max } => write!(
                f,
                "it speaks protocol versions {min} to {max}: run matching releases on both sides"
            ),
            Refusal::NoResources => {
                write!(
                    f,
                    "it has no channel left for this address, which gets three quarters of its \
                     Limits::channels at most, and its network seven eighths: raise that limit or \
                     close some"
                )
            }
            Refusal::StaleCookie => {
                write!(f, "it did not recognise its cookie: connect again")
            }
            Refusal::Parameters => {
                write!(f, "it can't meet the parameters: lower the MTU, paths or windows requested")
            }
            Refusal::Unwanted => write!(
                f,
                "it accepts no connections from here: this address may have used too many wrong \
                 keys, and has to wait"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } | Error::UnknownHost { source, .. } => Some(source),
            _ => None,
        }
    }
}
