//! What callers of a [`Manager`](super::Manager) say and hear.

use core::net::IpAddr;
use fairway_wire::roce::cm::{
    CommunicationId, MAD_LEN, ReadyToUse, Reject, Reply, Request, ServiceReply, ServiceRequest,
};

/// A connection, an attempt at one, or a query: its name at this end.
pub type ConnectionId = CommunicationId;

/// A service listened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub(super) u32);

/// Where in its life a connection is (12.9.7, figures 130 and 131).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// REQ was sent: REP, REJ or MRA is awaited.
    Requesting,
    /// REP was received: the caller is to confirm or reject.
    Replied,
    /// REQ was received: the caller is to accept or reject.
    Requested,
    /// REP was sent: RTU, or a first packet, is awaited.
    Accepting,
    /// Both ends are connected.
    Established,
    /// DREQ was sent: DREP is awaited.
    Disconnecting,
    /// It is over. What the peer may not have heard is said again when it asks again.
    Waiting,
    /// It is over, and waits to be closed.
    Ended,
    /// SIDR_REQ was sent: SIDR_REP is awaited.
    Querying,
    /// SIDR_REQ was received: the caller is to answer.
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

/// Why a command was refused. Nothing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// There is no such connection or listener.
    Missing,
    /// Not in this state.
    State(State),
    /// All of this kind are taken.
    Limit(&'static str),
    /// There is a listener for this service already.
    ServiceTaken,
}

/// Something a caller has to know.
// Made a few times per connection: boxes would need an allocation each.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer requests a connection: accept, reject or close.
    Requested {
        /// The listener for the requested service.
        listener: ListenerId,
        /// The new connection.
        connection: ConnectionId,
        /// The network address it is from: the caller's own number for it.
        from: u64,
        /// What was asked for.
        request: Request,
    },
    /// A peer asks for a queue pair that takes datagrams: answer or close.
    Queried {
        /// The listener for the requested service.
        listener: ListenerId,
        /// The query.
        connection: ConnectionId,
        /// The network address it is from.
        from: u64,
        /// What was asked for.
        request: ServiceRequest,
    },
    /// The peer accepted: confirm, reject or close.
    Replied {
        /// Which connection.
        connection: ConnectionId,
        /// What it said.
        reply: Reply,
    },
    /// A query was answered. It has ended.
    Answered {
        /// Which query.
        connection: ConnectionId,
        /// What was said.
        reply: ServiceReply,
    },
    /// The peer is connected, too (the end that accepted).
    Established {
        /// Which connection.
        connection: ConnectionId,
        /// What it said; zeros if it was its first packet that proved it.
        private: [u8; ReadyToUse::PRIVATE_LEN],
    },
    /// The attempt was refused. It has ended.
    Rejected {
        /// Which connection.
        connection: ConnectionId,
        /// Why.
        reject: Reject,
    },
    /// The peer did not answer, in spite of all repetitions. It has ended.
    TimedOut {
        /// Which connection.
        connection: ConnectionId,
    },
    /// One of both ended the connection, or the peer is gone.
    Disconnected {
        /// Which connection.
        connection: ConnectionId,
    },
    /// Nothing of the connection can be on its way any more: its queue pair may have a new use.
    Released {
        /// Which connection.
        connection: ConnectionId,
    },
}

impl Event {
    /// The connection or query it is about.
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
    /// The network address it is for: the caller's own number for it.
    pub to: u64,
    /// Its bytes.
    pub bytes: [u8; MAD_LEN],
}

/// Where a datagram came from, as the network has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The caller's own number for the address.
    pub number: u64,
    /// The address: that of the packet, not one that the packet's payload names.
    pub ip: IpAddr,
    /// It is an address of this host, whose programs share a machine: no quota keeps them apart.
    pub is_local: bool,
}

/// Why a datagram was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropReason {
    /// It is no message of a connection manager.
    Malformed,
    /// It names a connection there is not. Where an answer helps the peer, it got one.
    NoConnection,
    /// It doesn't fit the state of the connection: repeated, late, or wrong.
    State,
    /// There is no listener for the service; the request is rejected.
    NoListener,
    /// All places of the listener are taken; the peer will ask again.
    Backlog,
    /// As many requests of this source, or of its network, wait to be answered or confirmed as may;
    /// the peer will ask again.
    Quota,
    /// `Limits::connections` are in use; the peer is told.
    NoRoom,
    /// The source, or its network, has its part of `Limits::connections`; the answer is
    /// REJ with reason 3.
    Share,
    /// The request names another address than it came from; the answer is REJ with reason 12.
    Address,
    /// Alternate paths are not offered.
    Unsupported,
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = 10;
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that came in.
    pub received: u64,
    /// Datagrams to be sent, repeated ones and answers included.
    pub sent: u64,
    /// Of these, repeated for want of an answer.
    pub repeated: u64,
    /// Datagrams that were not sent, because the peer has not proven that it receives at its
    /// address and has been sent as many as came from it.
    pub withheld: u64,
    /// Datagrams that found no room: `Limits::transmits` waited.
    pub overflowed: u64,
    /// Datagrams ignored, by [`DropReason`].
    pub dropped: [u64; DropReason::COUNT],
}
