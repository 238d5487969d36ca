//! Messages of connection managers, as values. Sections are those of IBTA vol 1.

use crate::{Psn, Qpn};

/// One management datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The number of the exchange; an answer repeats the number of its request.
    pub transaction: u64,
    /// The message in the datagram.
    pub message: Message,
}

/// Number that one end gives to a connection, or to an attempt at one. Zero: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommunicationId(pub u32);

/// The numbers of a connection at both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The number at the sender of the message.
    pub local: CommunicationId,
    /// The number at the receiver of the message.
    pub remote: CommunicationId,
}

/// The kinds of message.
// Messages are copied a few times per connection; boxes would need an allocator.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// REQ: requests a connection.
    Request(Request),
    /// MRA: acknowledges a message whose answer takes time.
    Acknowledgement(Acknowledgement),
    /// REJ: refuses a connection.
    Reject(Reject),
    /// REP: grants the connection that REQ requested.
    Reply(Reply),
    /// RTU: both ends are connected.
    ReadyToUse(ReadyToUse),
    /// DREQ: requests the end of a connection.
    Disconnect(Disconnect),
    /// DREP: confirms the end of a connection.
    Disconnected(Disconnected),
    /// SIDR_REQ: requests the queue pair that serves datagrams.
    ServiceRequest(ServiceRequest),
    /// SIDR_REP: the answer to SIDR_REQ.
    ServiceReply(ServiceReply),
    /// LAP or APR, about alternate paths: only the numbers of the connection are kept.
    Path(PathRequest),
}

/// A path, as REQ describes it (12.6.5.1 and following).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// The sender's LID. RoCE has none and uses 0xffff by custom.
    pub local_lid: u16,
    /// The receiver's LID.
    pub remote_lid: u16,
    /// The sender's GID.
    pub local_gid: [u8; 16],
    /// The receiver's GID.
    pub remote_gid: [u8; 16],
    /// Flow label (upper 20 bits) and packet rate (lower 6) with the reserved bits between them,
    /// which Linux fills with meaningless values.
    pub flow_and_rate: u32,
    /// The traffic class.
    pub traffic_class: u8,
    /// The hop limit.
    pub hop_limit: u8,
    /// The service level: 4 bits.
    pub service_level: u8,
    /// True if both ends are in one subnet.
    pub subnet_local: bool,
    /// How long the sender waits for acknowledgements, 4.096 µs × 2^n: 5 bits.
    pub ack_timeout: u8,
}

/// REQ (12.6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The connection's number at the sender.
    pub local: CommunicationId,
    /// The id of the requested service.
    pub service: u64,
    /// The GUID of the sender's adapter.
    pub ca_guid: u64,
    /// The sender's Q_Key, for services that have one.
    pub q_key: u32,
    /// The sender's queue pair.
    pub queue_pair: Qpn,
    /// READs and atomics that the sender serves at once.
    pub responder_resources: u8,
    /// READs and atomics that the sender would like to have in flight.
    pub initiator_depth: u8,
    /// Time within which the receiver should answer, 4.096 µs × 2^n: 5 bits.
    pub remote_response_timeout: u8,
    /// The transport service.
    pub transport: Service,
    /// True if the sender uses end-to-end credits.
    pub flow_control: bool,
    /// The first PSN that the receiver of this message is to send.
    pub psn: Psn,
    /// Time within which the sender answers, 4.096 µs × 2^n: 5 bits.
    pub local_response_timeout: u8,
    /// How often the sender retransmits without an acknowledgement: 3 bits.
    pub retries: u8,
    /// The partition's key.
    pub p_key: u16,
    /// Payload bytes of a packet: code 1 for 256, 2 for 512, … 5 for 4096. 4 bits.
    pub mtu: u8,
    /// How often the sender retries when the receiver has no receive posted: 3 bits.
    pub rnr_retries: u8,
    /// How often each side repeats its connection manager messages: 4 bits.
    pub cm_retries: u8,
    /// True if the sender's queue pair has a shared receive queue.
    pub shared_receives: bool,
    /// The extended transport type: 3 bits.
    pub extended_transport: u8,
    /// The path of the connection.
    pub primary: Path,
    /// The alternate path, for when the primary fails: all zero for none.
    pub alternate: Path,
    /// Private data of the application; under Annex A11 an [`IpHeader`](super::IpHeader) comes
    /// first.
    pub private: [u8; Request::PRIVATE_LEN],
}

impl Request {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 92;
}

/// The transport service that REQ requests (12.6.6): 2 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Reliable datagrams.
    Rd,
    /// The service in the field of the extended transport type.
    Extended,
}

/// MRA (12.6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The connection's numbers.
    pub names: Names,
    /// The kind of message that was received.
    pub received: Refused,
    /// Longest time that the answer takes, 4.096 µs × 2^n: 5 bits.
    pub service_timeout: u8,
    /// Private data of the application.
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
    /// The connection's numbers; the sender may have none for it.
    pub names: Names,
    /// The kind of message that is refused.
    pub refused: Refused,
    /// The reason of the refusal.
    pub reason: Reason,
    /// Number of valid bytes in `information`: 7 bits.
    pub information_len: u8,
    /// Additional information about the reason.
    pub information: [u8; Reject::INFORMATION_LEN],
    /// Private data of the application.
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
    /// A resource other than queue pairs is exhausted.
    pub const NO_RESOURCES: Reason = Reason(3);
    /// An answer took too long. The additional information is the GUID of the sender's adapter.
    pub const TIMEOUT: Reason = Reason(4);
    /// The request cannot be carried out.
    pub const UNSUPPORTED: Reason = Reason(5);
    /// The numbers do not belong to any connection.
    pub const INVALID_ID: Reason = Reason(6);
    /// The message does not fit the state of the connection.
    pub const INVALID_INSTANCE: Reason = Reason(7);
    /// The service is not offered.
    pub const INVALID_SERVICE: Reason = Reason(8);
    /// The transport service is not offered.
    pub const INVALID_TRANSPORT: Reason = Reason(9);
    /// The queue pair belongs to an earlier connection.
    pub const STALE: Reason = Reason(10);
    /// An address of the path is not accepted.
    pub const INVALID_GID: Reason = Reason(12);
    /// The packets would be too long for the path.
    pub const INVALID_MTU: Reason = Reason(26);
    /// The application refused.
    pub const CONSUMER: Reason = Reason(28);
    /// The receiver does not offer a vendor-specific feature (Linux).
    pub const VENDOR: Reason = Reason(35);
}

/// REP (12.6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The connection's numbers.
    pub names: Names,
    /// The sender's Q_Key, for services that have one.
    pub q_key: u32,
    /// The sender's queue pair.
    pub queue_pair: Qpn,
    /// The first PSN that the receiver of this message is to send.
    pub psn: Psn,
    /// READs and atomics that the sender serves at once.
    pub responder_resources: u8,
    /// READs and atomics that the sender will have in flight.
    pub initiator_depth: u8,
    /// Longest delay of the sender's acknowledgements, 4.096 µs × 2^n: 5 bits.
    pub ack_delay: u8,
    /// Whether the alternate path was accepted: 2 bits.
    pub failover: u8,
    /// True if the sender uses end-to-end credits.
    pub flow_control: bool,
    /// How often the sender retries when the receiver has no receive posted: 3 bits.
    pub rnr_retries: u8,
    /// True if the sender's queue pair has a shared receive queue.
    pub shared_receives: bool,
    /// The GUID of the sender's adapter.
    pub ca_guid: u64,
    /// Private data of the application.
    pub private: [u8; Reply::PRIVATE_LEN],
}

impl Reply {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 196;
}

/// RTU (12.6.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyToUse {
    /// The connection's numbers.
    pub names: Names,
    /// Private data of the application.
    pub private: [u8; ReadyToUse::PRIVATE_LEN],
}

impl ReadyToUse {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 224;
}

/// DREQ (12.6.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect {
    /// The connection's numbers.
    pub names: Names,
    /// The receiver's queue pair.
    pub queue_pair: Qpn,
    /// Private data of the application.
    pub private: [u8; Disconnect::PRIVATE_LEN],
}

impl Disconnect {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 220;
}

/// DREP (12.6.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnected {
    /// The connection's numbers.
    pub names: Names,
    /// Private data of the application.
    pub private: [u8; Disconnected::PRIVATE_LEN],
}

impl Disconnected {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 224;
}

/// SIDR_REQ (12.11.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRequest {
    /// The number that the sender gives to the request.
    pub id: CommunicationId,
    /// The partition's key.
    pub p_key: u16,
    /// The id of the requested service.
    pub service: u64,
    /// Private data of the application; under Annex A11 an [`IpHeader`](super::IpHeader) comes
    /// first.
    pub private: [u8; ServiceRequest::PRIVATE_LEN],
}

impl ServiceRequest {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 216;
}

/// SIDR_REP (12.11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceReply {
    /// The number of the request.
    pub id: CommunicationId,
    /// The outcome of the request.
    pub status: ServiceStatus,
    /// The queue pair that provides the service.
    pub queue_pair: Qpn,
    /// The id of the service.
    pub service: u64,
    /// The Q_Key that datagrams to the queue pair have to carry.
    pub q_key: u32,
    /// Number of valid bytes in `information`.
    pub information_len: u8,
    /// Additional information about the status.
    pub information: [u8; ServiceReply::INFORMATION_LEN],
    /// Private data of the application.
    pub private: [u8; ServiceReply::PRIVATE_LEN],
}

impl ServiceReply {
    /// Bytes of additional information.
    pub const INFORMATION_LEN: usize = 72;
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 136;
}

/// The outcome of a SIDR_REQ (12.11.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServiceStatus(pub u8);

impl ServiceStatus {
    /// The service has a queue pair, which the reply contains.
    pub const SUCCESS: ServiceStatus = ServiceStatus(0);
    /// The service is not offered.
    pub const UNSUPPORTED: ServiceStatus = ServiceStatus(1);
    /// The application refused.
    pub const REJECTED: ServiceStatus = ServiceStatus(2);
    /// The service has no queue pair for the request.
    pub const NO_QUEUE_PAIR: ServiceStatus = ServiceStatus(3);
}

/// LAP (12.8.1) or APR (12.8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRequest {
    /// The connection's numbers.
    pub names: Names,
    /// True if this is the answer, APR.
    pub is_answer: bool,
}
