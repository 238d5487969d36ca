//! What connection managers say to each other, as values. Sections are those of IBTA vol 1.

use crate::{Psn, Qpn};

/// One management datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The exchange it belongs to: an answer has the number of what it answers.
    pub transaction: u64,
    /// What it says.
    pub message: Message,
}

/// Names a connection, or an attempt at one, at one end. Zero: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommunicationId(pub u32);

/// A connection's names at both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// At the sender of the message.
    pub local: CommunicationId,
    /// At its receiver.
    pub remote: CommunicationId,
}

/// What a datagram says.
// Copied around a few times per connection: boxes would need an allocator.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// REQ: asks for a connection.
    Request(Request),
    /// MRA: what was received takes its time.
    Acknowledgement(Acknowledgement),
    /// REJ: refuses.
    Reject(Reject),
    /// REP: grants what REQ asked for.
    Reply(Reply),
    /// RTU: both ends are connected.
    ReadyToUse(ReadyToUse),
    /// DREQ: ends a connection.
    Disconnect(Disconnect),
    /// DREP: agrees to its end.
    Disconnected(Disconnected),
    /// SIDR_REQ: asks which queue pair serves datagrams.
    ServiceRequest(ServiceRequest),
    /// SIDR_REP: says so.
    ServiceReply(ServiceReply),
    /// LAP or APR, about alternate paths: only the names of the connection are kept.
    Path(PathRequest),
}

/// A path, as REQ describes it (12.6.5.1 and following).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// The sender's LID. RoCE has none: 0xffff, by custom.
    pub local_lid: u16,
    /// The receiver's.
    pub remote_lid: u16,
    /// The sender's address.
    pub local_gid: [u8; 16],
    /// The receiver's.
    pub remote_gid: [u8; 16],
    /// Flow label (upper 20 bits) and packet rate (lower 6), with what lies between: Linux fills
    /// that with bits which mean nothing.
    pub flow_and_rate: u32,
    /// The traffic class.
    pub traffic_class: u8,
    /// Hops at most.
    pub hop_limit: u8,
    /// The service level: 4 bits.
    pub service_level: u8,
    /// Both ends are in one subnet.
    pub subnet_local: bool,
    /// How long the sender waits for acknowledgements, 4.096 µs × 2^n: 5 bits.
    pub ack_timeout: u8,
}

/// REQ (12.6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The connection's name at the sender.
    pub local: CommunicationId,
    /// The service that is asked for.
    pub service: u64,
    /// The sender's adapter.
    pub ca_guid: u64,
    /// Its Q_Key, for services that have one.
    pub q_key: u32,
    /// Its queue pair.
    pub queue_pair: Qpn,
    /// READs and atomics it serves at once.
    pub responder_resources: u8,
    /// READs and atomics it wants to have in flight.
    pub initiator_depth: u8,
    /// How soon the receiver is to answer, 4.096 µs × 2^n: 5 bits.
    pub remote_response_timeout: u8,
    /// The transport service.
    pub transport: Service,
    /// It has end-to-end credits.
    pub flow_control: bool,
    /// The first PSN that the receiver of this message is to send.
    pub psn: Psn,
    /// How soon it answers, 4.096 µs × 2^n: 5 bits.
    pub local_response_timeout: u8,
    /// How often it sends again without an acknowledgement: 3 bits.
    pub retries: u8,
    /// The partition.
    pub p_key: u16,
    /// Payload bytes of a packet: code 1 for 256, 2 for 512, … 5 for 4096. 4 bits.
    pub mtu: u8,
    /// How often it sends again when there is no receive: 3 bits.
    pub rnr_retries: u8,
    /// How often each side repeats its messages: 4 bits.
    pub cm_retries: u8,
    /// Its queue pair has a shared receive queue.
    pub shared_receives: bool,
    /// The extended transport type: 3 bits.
    pub extended_transport: u8,
    /// The path.
    pub primary: Path,
    /// Another, for when that fails: all zero for none.
    pub alternate: Path,
    /// The application's, or (Annex A11) first an [`IpHeader`](super::IpHeader).
    pub private: [u8; Request::PRIVATE_LEN],
}

impl Request {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 92;
}

/// The transport service that REQ asks for (12.6.6): 2 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Reliable datagrams.
    Rd,
    /// What the extended transport type says.
    Extended,
}

/// MRA (12.6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Whose.
    pub names: Names,
    /// Which message was received.
    pub received: Refused,
    /// How long the answer takes at most, 4.096 µs × 2^n: 5 bits.
    pub service_timeout: u8,
    /// The application's.
    pub private: [u8; Acknowledgement::PRIVATE_LEN],
}

impl Acknowledgement {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 222;
}

/// Which message MRA or REJ is about: 2 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// REQ.
    Request,
    /// REP.
    Reply,
    /// LAP (MRA), or none in particular (REJ).
    Other,
    /// The code the specification leaves undefined.
    Undefined,
}

/// REJ (12.6.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Whose; the sender may have no name for it.
    pub names: Names,
    /// What is refused.
    pub refused: Refused,
    /// Why.
    pub reason: Reason,
    /// Bytes of `information` that mean something: 7 bits.
    pub information_len: u8,
    /// More about the reason.
    pub information: [u8; Reject::INFORMATION_LEN],
    /// The application's.
    pub private: [u8; Reject::PRIVATE_LEN],
}

impl Reject {
    /// Bytes of additional information.
    pub const INFORMATION_LEN: usize = 72;
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 148;
}

/// Why a connection was refused (12.6.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reason(pub u16);

impl Reason {
    /// No queue pairs are left.
    pub const NO_QUEUE_PAIR: Reason = Reason(1);
    /// Something else is exhausted.
    pub const NO_RESOURCES: Reason = Reason(3);
    /// An answer took too long. The information is the sender's adapter.
    pub const TIMEOUT: Reason = Reason(4);
    /// The request can't be carried out.
    pub const UNSUPPORTED: Reason = Reason(5);
    /// The names don't fit any connection.
    pub const INVALID_ID: Reason = Reason(6);
    /// The message doesn't fit the state of the connection.
    pub const INVALID_INSTANCE: Reason = Reason(7);
    /// The service is not offered.
    pub const INVALID_SERVICE: Reason = Reason(8);
    /// The transport service is not offered.
    pub const INVALID_TRANSPORT: Reason = Reason(9);
    /// The queue pair is that of an earlier connection.
    pub const STALE: Reason = Reason(10);
    /// An address of the path is not accepted.
    pub const INVALID_GID: Reason = Reason(12);
    /// The packets would be too long.
    pub const INVALID_MTU: Reason = Reason(26);
    /// The application refused.
    pub const CONSUMER: Reason = Reason(28);
    /// What is special to a vendor is not offered (Linux).
    pub const VENDOR: Reason = Reason(35);
}

/// REP (12.6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whose.
    pub names: Names,
    /// The sender's Q_Key, for services that have one.
    pub q_key: u32,
    /// Its queue pair.
    pub queue_pair: Qpn,
    /// The first PSN that the receiver of this message is to send.
    pub psn: Psn,
    /// READs and atomics it serves at once.
    pub responder_resources: u8,
    /// READs and atomics it will have in flight.
    pub initiator_depth: u8,
    /// How long it may take to acknowledge, 4.096 µs × 2^n: 5 bits.
    pub ack_delay: u8,
    /// Whether the alternate path was accepted: 2 bits.
    pub failover: u8,
    /// It has end-to-end credits.
    pub flow_control: bool,
    /// How often it sends again when there is no receive: 3 bits.
    pub rnr_retries: u8,
    /// Its queue pair has a shared receive queue.
    pub shared_receives: bool,
    /// The sender's adapter.
    pub ca_guid: u64,
    /// The application's.
    pub private: [u8; Reply::PRIVATE_LEN],
}

impl Reply {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 196;
}

/// RTU (12.6.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyToUse {
    /// Whose.
    pub names: Names,
    /// The application's.
    pub private: [u8; ReadyToUse::PRIVATE_LEN],
}

impl ReadyToUse {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 224;
}

/// DREQ (12.6.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect {
    /// Whose.
    pub names: Names,
    /// The receiver's queue pair.
    pub queue_pair: Qpn,
    /// The application's.
    pub private: [u8; Disconnect::PRIVATE_LEN],
}

impl Disconnect {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 220;
}

/// DREP (12.6.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnected {
    /// Whose.
    pub names: Names,
    /// The application's.
    pub private: [u8; Disconnected::PRIVATE_LEN],
}

impl Disconnected {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 224;
}

/// SIDR_REQ (12.11.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRequest {
    /// The request's name at the sender.
    pub id: CommunicationId,
    /// The partition.
    pub p_key: u16,
    /// Which service.
    pub service: u64,
    /// The application's, or (Annex A11) first an [`IpHeader`](super::IpHeader).
    pub private: [u8; ServiceRequest::PRIVATE_LEN],
}

impl ServiceRequest {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 216;
}

/// SIDR_REP (12.11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceReply {
    /// The name the request had.
    pub id: CommunicationId,
    /// How it went.
    pub status: ServiceStatus,
    /// The queue pair that serves.
    pub queue_pair: Qpn,
    /// The service.
    pub service: u64,
    /// What datagrams to the queue pair have to carry.
    pub q_key: u32,
    /// Bytes of `information` that mean something.
    pub information_len: u8,
    /// More about the status.
    pub information: [u8; ServiceReply::INFORMATION_LEN],
    /// The application's.
    pub private: [u8; ServiceReply::PRIVATE_LEN],
}

impl ServiceReply {
    /// Bytes of additional information.
    pub const INFORMATION_LEN: usize = 72;
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 136;
}

/// How a SIDR_REQ went (12.11.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServiceStatus(pub u8);

impl ServiceStatus {
    /// There is a queue pair.
    pub const SUCCESS: ServiceStatus = ServiceStatus(0);
    /// The service is not offered.
    pub const UNSUPPORTED: ServiceStatus = ServiceStatus(1);
    /// The application refused.
    pub const REJECTED: ServiceStatus = ServiceStatus(2);
    /// It has no queue pair for it.
    pub const NO_QUEUE_PAIR: ServiceStatus = ServiceStatus(3);
}

/// LAP (12.8.1) or APR (12.8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRequest {
    /// Whose.
    pub names: Names,
    /// It is the answer, APR.
    pub is_answer: bool,
}
