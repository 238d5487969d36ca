//! The types that callers of a [`Manager`](super::Manager) pass in and receive.

use core::net::IpAddr;
use fairway_wire::roce::cm::{
    CommunicationId, MAD_LEN, ReadyToUse, Reject, Reply, Request, ServiceReply, ServiceRequest,
};

/// The number that this end gives to a connection, an attempt at one, or a query.
pub type ConnectionId = CommunicationId;

/// The id of a listener for a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub(super) u32);

/// The state of a connection (12.9.7, figures 130 and 131).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// REQ was sent, and REP, REJ or MRA is awaited.
    Requesting,
    /// REP was received, and the caller has to confirm or reject.
    Replied,
    /// REQ was received, and the caller has to accept or reject.
    Requested,
    /// REP was sent, and RTU or a first packet is awaited.
    Accepting,
    /// Both ends are connected.
    Established,
    /// DREQ was sent, and DREP is awaited.
    Disconnecting,
    /// The connection has ended. The last message is sent again if the peer repeats its own.
    Waiting,
    /// The connection has ended, and the caller has to close it.
    Ended,
    /// SIDR_REQ was sent, and SIDR_REP is awaited.
    Querying,
    /// SIDR_REQ was received, and the caller has to answer.
    Queried,
}

impl State {
    /// Every state.
    pub const ALL: [State; 10] = [
        State::Requesting,
        State::Replied,
        State::Requested,
        State::Accepting,
        State::Established,
        State::Disconnecting,
        State::Waiting,
        State::Ended,
        State::Querying,
        State::Queried,
    ];
}

/// Why a command was refused. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// There is no such connection or listener.
    Missing,
    /// The command is not allowed in this state.
    State(State),
    /// All entries of this kind are in use.
    Limit(&'static str),
    /// There is a listener for this service already.
    ServiceTaken,
}

/// A notification for the caller.
// Events are created a few times per connection; boxes would need an allocation each.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer requests a connection: accept, reject or close.
    Requested {
        /// The listener for the requested service.
        listener: ListenerId,
        /// The new connection.
        connection: ConnectionId,
        /// The network address of the peer, as the caller's own number for it.
        from: u64,
        /// The peer's request.
        request: Request,
    },
    /// A peer requests a queue pair that receives datagrams: answer or close.
    Queried {
        /// The listener for the requested service.
        listener: ListenerId,
        /// The query.
        connection: ConnectionId,
        /// The network address of the peer.
        from: u64,
        /// The peer's request.
        request: ServiceRequest,
    },
    /// The peer accepted: confirm, reject or close.
    Replied {
        /// The connection that the peer accepted.
        connection: ConnectionId,
        /// The peer's REP.
        reply: Reply,
    },
    /// The peer answered a query, which has thereby ended.
    Answered {
        /// The query that was answered.
        connection: ConnectionId,
        /// The peer's answer.
        reply: ServiceReply,
    },
    /// The peer has confirmed the connection (at the end that accepted).
    Established {
        /// The connection.
        connection: ConnectionId,
        /// Private data of the RTU; zeros if the peer's first packet took the place of the RTU.
        private: [u8; ReadyToUse::PRIVATE_LEN],
    },
    /// The peer refused the attempt, which has thereby ended.
    Rejected {
        /// The connection that was attempted.
        connection: ConnectionId,
        /// The peer's REJ, with the reason.
        reject: Reject,
    },
    /// The peer did not answer, in spite of all repetitions. The attempt has ended.
    TimedOut {
        /// The connection or query that was attempted.
        connection: ConnectionId,
    },
    /// One of the two ends ended the connection, or the peer is gone.
    Disconnected {
        /// The connection.
        connection: ConnectionId,
    },
    /// No packet of the connection can be under way any more: its queue pair may be reused.
    Released {
        /// The connection.
        connection: ConnectionId,
    },
}

impl Event {
    /// The connection or query that the event is about.
    pub fn connection(&self) -> ConnectionId {
        match *self {
            Event::Requested { connection, .. }
            | Event::Queried { connection, .. }
            | Event::Replied { connection, .. }
            | Event::Answered { connection, .. }
            | Event::Established { connection, .. }
            | Event::Rejected { connection, .. }
            | Event::TimedOut { connection }
            | Event::Disconnected { connection }
            | Event::Released { connection } => connection,
        }
    }
}

/// A management datagram to be sent to queue pair 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The receiver's network address, as the caller's own number for it.
    pub to: u64,
    /// The bytes of the datagram.
    pub bytes: [u8; MAD_LEN],
}

/// The sender of a datagram, by the datagram's network address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The caller's own number for the address.
    pub number: u64,
    /// The address: that of the packet, not one that the packet's payload names.
    pub ip: IpAddr,
    /// True if the address belongs to this host, whose programs no quota separates.
    pub is_local: bool,
}

/// Why a datagram was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropReason {
    /// The datagram is not a message of a connection manager.
    Malformed,
    /// The datagram is for a connection that does not exist. It was answered if that helps the
    /// peer.
    NoConnection,
    /// The datagram does not fit the state of the connection: it is repeated, late, or wrong.
    State,
    /// There is no listener for the service; the request is rejected.
    NoListener,
    /// All places of the listener are taken; the peer will retry.
    Backlog,
    /// The source or its network has reached its limit of requests that wait to be answered or
    /// confirmed; the peer will retry.
    Quota,
    /// `Limits::connections` are in use; the peer is notified.
    NoRoom,
    /// The source or its network has reached its share of `Limits::connections`; the answer is REJ
    /// with reason 3.
    Share,
    /// The request gives another address than the one it came from; the answer is REJ with reason
    /// 12.
    Address,
    /// Alternate paths are not offered.
    Unsupported,
}

impl DropReason {
    /// Number of reasons.
    pub const COUNT: usize = 10;
}

/// Counts since the manager was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams received.
    pub received: u64,
    /// Datagrams to be sent, including repetitions and answers.
    pub sent: u64,
    /// Datagrams repeated because no answer came, which `sent` includes.
    pub repeated: u64,
    /// Datagrams not sent because the peer has not proven that it receives at its address and has
    /// been sent as many as came from it.
    pub withheld: u64,
    /// Datagrams lost because `Limits::transmits` were waiting to be sent.
    pub overflowed: u64,
    /// Datagrams ignored, by [`DropReason`].
    pub dropped: [u64; DropReason::COUNT],
}
