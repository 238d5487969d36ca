//! What callers of a [`RoceDevice`](super::RoceDevice) say and hear.

use super::state::QueuePairState;
use crate::work::{Pending, Send};
use core::fmt;
use fairway_device::pool::Index;
use fairway_device::{CompletionQueueId, LocalRange, Ranges, Rights, ScatterList, SegmentId};
use fairway_wire::roce::{Packet, RnrTimer, Tail};
use fairway_wire::{Duration, Ecn, Psn, Qpn};

/// The transport service of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagrams.
    Ud,
}

/// A receive queue: of one queue pair, or shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReceiveQueueId(pub(crate) u32);

impl ReceiveQueueId {
    /// The queue at this index, of whatever counts its queues so.
    pub const fn new(index: u32) -> Self {
        ReceiveQueueId(index)
    }
    /// The dense index of the queue.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Memory to register.
#[derive(Clone, Copy, Debug)]
pub struct MemoryRequest {
    /// The protection domain: only queue pairs of the same one have access.
    pub domain: u32,
    /// The address remote peers use for its first byte (the IOVA).
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
    /// What remote peers may do.
    pub rights: Rights,
}

/// Registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRegion {
    /// Its name in local ranges.
    pub segment: SegmentId,
    /// Its name to peers, and their right to it.
    pub r_key: u32,
}

/// A queue pair to be made.
#[derive(Clone, Copy, Debug)]
pub struct QueuePairConfig {
    /// The service.
    pub transport: Transport,
    /// The protection domain.
    pub domain: u32,
    /// Where its sends complete.
    pub send_queue: CompletionQueueId,
    /// Where its receives complete.
    pub receive_queue: CompletionQueueId,
    /// A shared receive queue, or `None` for one of its own.
    pub shared_receives: Option<ReceiveQueueId>,
    /// Sends that may be posted at once.
    pub send_depth: u32,
    /// Receives that may be posted at once, without a shared queue.
    pub receive_depth: u32,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its network address: the caller's own number for it.
    pub address: u64,
    /// Its queue pair.
    pub queue_pair: Qpn,
}

/// Time-outs and retries of a requester (9.7.5.2.8, 9.7.6.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reliability {
    /// How long to wait for an acknowledgement; zero for ever. The field of the verbs, a code `n`,
    /// means 4.096 µs × 2^n.
    pub timeout: Duration,
    /// How often to try again without any progress: 0 to 7.
    pub retries: u8,
    /// How often to try again when the receiver is not ready: 0 to 6; 7 means for ever.
    pub rnr_retries: u8,
    /// READs and atomics in flight at once. Not more than the peer serves.
    pub read_depth: u8,
}

impl Default for Reliability {
    fn default() -> Self {
        let timeout = Duration::from_ns(4_096 << 12);
        Reliability { timeout, retries: 7, rnr_retries: 7, read_depth: 16 }
    }
}

/// A step in the life of a queue pair: what `ibv_modify_qp` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Everything posted is forgotten, without completions.
    Reset,
    /// Receives may be posted.
    Init {
        /// What the peer may do by way of this queue pair. With [`Rights::RELAXED`], memory may
        /// change in another order than that of the operations, of the peer and of this side.
        rights: Rights,
        /// The partition.
        p_key: u16,
        /// The secret a datagram must carry (UD).
        q_key: u32,
    },
    /// It answers its peer.
    ReadyToReceive {
        /// The queue pair that it is connected to (RC, UC).
        peer: Peer,
        /// Payload bytes of every packet but a message's last: 256, 512, 1024, 2048 or 4096.
        mtu: u32,
        /// The first PSN the peer sends.
        expected: Psn,
        /// READs and atomics of the peer in flight at once (RC).
        read_depth: u8,
        /// How long the peer is to wait when no receive is posted (RC).
        rnr_timer: RnrTimer,
    },
    /// It sends.
    ReadyToSend {
        /// The first PSN it sends.
        first: Psn,
        /// Time-outs and retries (RC).
        reliability: Reliability,
    },
    /// Begins no further send. [`Event::Drained`] says when what was begun is done.
    Drain,
    /// Sends again, after a drain or a send queue error.
    Resume,
    /// Flushes everything.
    Error,
}

/// Why a [`Change`] was refused. Nothing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// No such queue pair.
    Missing,
    /// Not in this state.
    State(QueuePairState),
    /// The parameter of this name is out of range.
    Parameter(&'static str),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::Missing => f.write_str("there is no such queue pair"),
            ChangeError::State(state) => write!(f, "it is in the state {state:?}"),
            ChangeError::Parameter(name) => write!(f, "the parameter {name} is out of range"),
        }
    }
}

impl core::error::Error for ChangeError {}

/// Remote memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteAddress {
    /// The first byte.
    pub address: u64,
    /// The key.
    pub r_key: u32,
}

/// What a work request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// SEND (RC, UC), possibly with immediate data or (RC) an invalidation.
    Send {
        /// What comes with it.
        tail: Tail,
    },
    /// RDMA WRITE (RC, UC).
    Write {
        /// Where to.
        remote: RemoteAddress,
        /// Immediate data: then a receive of the peer is consumed.
        immediate: Option<u32>,
    },
    /// RDMA READ (RC).
    Read {
        /// Where from.
        remote: RemoteAddress,
    },
    /// Sets a word of 8 bytes to `swap` if it equals `compare` (RC).
    CompareSwap {
        /// The word.
        remote: RemoteAddress,
        /// What it has to be.
        compare: u64,
        /// What it becomes.
        swap: u64,
    },
    /// Adds to a word of 8 bytes (RC).
    FetchAdd {
        /// The word.
        remote: RemoteAddress,
        /// How much.
        add: u64,
    },
    /// SEND of one packet (UD).
    Datagram {
        /// The queue pair that it is sent to.
        to: Peer,
        /// Its secret.
        q_key: u32,
        /// Immediate data.
        immediate: Option<u32>,
    },
}

/// One operation to be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// The caller's own number, returned in the completion.
    pub id: u64,
    /// What.
    pub work: Work,
    /// The local bytes; for an atomic the 8 bytes that take the old value, or none.
    pub local: ScatterList,
    /// If false, success makes no completion; failure always does.
    pub signaled: bool,
    /// The peer's completion is to raise an event.
    pub solicited: bool,
    /// It begins only when every earlier READ and atomic has completed.
    pub fence: bool,
}

/// A buffer for one incoming message. That of a UD queue pair begins with 40 bytes for the IP
/// header.
pub type ReceiveRequest = fairway_device::ReceiveRequest<ScatterList>;

/// Why a request was not taken. Nothing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// No such queue pair or receive queue.
    Missing,
    /// Not in this state, or the receive queue is another's.
    State,
    /// The queue is as deep as it was made, or `Limits::sends` or `receives` are posted.
    Full,
    /// The completion queue could not hold the completion: poll it first. (A
    /// [`RoceDevice`](super::RoceDevice) never says so: see [`Event::Overrun`].)
    CompletionQueueFull,
    /// This service has no such operation.
    Operation,
    /// The message is longer than 2^22 packets, or 2^31 bytes; a datagram is longer than a packet;
    /// or what takes the old value of an atomic has not 8 bytes.
    Length,
}

/// A packet that arrived, decoded, its ICRC verified.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// The network address it is from: the caller's own number for it.
    pub source: u64,
    /// The packet.
    pub packet: Packet,
    /// Bytes of payload behind its headers.
    pub payload: u32,
    /// Its congestion mark.
    pub ecn: Ecn,
}

/// What is to become of a packet that arrived.
pub type Verdict = fairway_device::Verdict<Placement, OwnVerdict, DropReason>;

/// Where the payload of a packet belongs.
pub type Placement = fairway_device::Placement<Target, PlacementToken>;

/// A word that a peer changes.
pub type AtomicExecution = fairway_device::AtomicExecution<PlacementToken>;

/// What is to become of a packet whose payload has no place in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnVerdict {
    /// Put `value`, in the machine's byte order, there, then call
    /// [`RoceDevice::handle_placed`](super::RoceDevice::handle_placed).
    Store {
        /// Where: 8 bytes.
        target: ScatterList,
        /// What.
        value: u64,
        /// What to hand over afterwards.
        token: PlacementToken,
    },
    /// It came too early, and where its payload belongs is not known yet. Keep it, payload and all,
    /// at this place, one of [`Limits::buffered`](super::Limits), until
    /// [`RoceDevice::poll_replay`](super::RoceDevice::poll_replay) names the place.
    Buffer {
        /// The place. What was buffered there before is no longer wanted.
        place: u32,
    },
}

/// The bytes that a payload belongs to. Placements of one queue pair have to become visible in the
/// order they were named, unless they are `relaxed`; where those overlap, the later one's bytes
/// have to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where the payload goes.
    pub bytes: ScatterList,
    /// For a datagram, the 40 bytes that take its IP header (an IPv4 header in the last 20).
    pub header: ScatterList,
    /// It may become visible before what was named before it
    /// ([`Rights::RELAXED`](fairway_device::Rights::RELAXED)).
    pub relaxed: bool,
}

impl Ranges for Target {
    fn ranges(&self) -> &[LocalRange] {
        self.bytes.ranges()
    }
}

/// Names a placement under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementToken {
    pub(crate) queue_pair: Qpn,
    pub(crate) life: u32,
    pub(crate) subject: TokenSubject,
}

impl PlacementToken {
    /// The queue pair here.
    pub const fn queue_pair(&self) -> Qpn {
        self.queue_pair
    }
}

/// The record that a placement is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenSubject {
    /// A packet of a request.
    Request(Index<Pending>),
    /// A word changed here, by the request of this packet.
    Atomic(Index<Pending>),
    /// An answer to this READ or atomic of ours.
    Answer(Index<Send>),
}

/// Why a packet was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropReason {
    /// No such queue pair, or not in a state to receive.
    NoQueuePair,
    /// It is not from the peer.
    Stranger,
    /// Another partition.
    PartitionKey,
    /// Another Q_Key.
    QueueKey,
    /// The service has no such packet, or its length contradicts it.
    Malformed,
    /// It had arrived before, and needs no answer.
    Duplicate,
    /// One before it is missing.
    Gap,
    /// No receive is posted.
    NotReady,
    /// `Limits::pending` packets wait to be placed.
    PendingPool,
    /// It was refused, and the peer is told.
    Refused,
    /// It answers what was never asked, or no longer matters.
    BadAnswer,
    /// An unreliable message was broken off.
    Broken,
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = 12;
}

/// A packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The queue pair here.
    pub queue_pair: Qpn,
    /// The network address it is for: the caller's own number for it.
    pub to: u64,
    /// What it says.
    pub packet: Packet,
    /// The payload behind its headers.
    pub gather: ScatterList,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Done, and in place.
    Success,
    /// The message does not fit into the receive.
    LocalLength,
    /// A local range is not registered, or not in this protection domain.
    LocalProtection,
    /// The queue pair went to the error state first.
    Flushed,
    /// The peer's answer makes no sense.
    BadResponse,
    /// The peer found the request invalid.
    RemoteInvalidRequest,
    /// The peer does not grant access.
    RemoteAccess,
    /// The peer failed.
    RemoteOperation,
    /// No answer, in spite of all retries.
    RetryExceeded,
    /// The peer posted no receive, in spite of all retries.
    RnrRetryExceeded,
}

/// What kind of operation completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompletionKind {
    /// A SEND of ours, over whatever service.
    Send,
    /// A WRITE of ours.
    Write,
    /// A READ of ours.
    Read,
    /// A compare-and-swap of ours.
    CompareSwap,
    /// A fetch-and-add of ours.
    FetchAdd,
    /// A receive took a SEND.
    Receive,
    /// A receive was consumed by a WRITE with immediate.
    ReceiveWrite,
}

/// One operation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The number given with the request.
    pub id: u64,
    /// Our queue pair.
    pub queue_pair: Qpn,
    /// How it ended.
    pub status: Status,
    /// What it was.
    pub kind: CompletionKind,
    /// Bytes moved; with those of the IP header in a UD receive.
    pub bytes: u32,
    /// Immediate data or the key to be invalidated (receives only).
    pub tail: Tail,
    /// The old value of the word (atomics only).
    pub value: u64,
    /// The queue pair that sent it (receives only).
    pub from: Peer,
    /// The sender asks for an event (receives only).
    pub solicited: bool,
}

impl Completion {
    /// What a place for completions holds before there is one.
    pub const EMPTY: Completion = Completion {
        id: 0,
        queue_pair: Qpn::new(0),
        status: Status::Success,
        kind: CompletionKind::Send,
        bytes: 0,
        tail: Tail::Nothing,
        value: 0,
        from: Peer { address: 0, queue_pair: Qpn::new(0) },
        solicited: false,
    };
}

/// Something happened that no operation asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first packet of the peer came before the queue pair was ready to send.
    Established {
        /// The queue pair.
        queue_pair: Qpn,
    },
    /// The queue pair went to the error state, or to that of its send queue.
    Fault {
        /// The queue pair.
        queue_pair: Qpn,
        /// Why.
        status: Status,
    },
    /// Nothing that was begun before [`Change::Drain`] is under way any more.
    Drained {
        /// The queue pair.
        queue_pair: Qpn,
    },
    /// No operation refers to the deregistered memory any more.
    SegmentReleased {
        /// Which.
        segment: SegmentId,
    },
    /// A completion found its queue full, and was lost, as are all after it. The queue pairs that
    /// use the queue go to the error state.
    Overrun {
        /// The completion queue.
        queue: CompletionQueueId,
    },
    /// Fewer receives than the limit are left in a shared queue. The limit is none any more.
    ReceiveLimit {
        /// The receive queue.
        queue: ReceiveQueueId,
    },
    /// A queue pair with a shared receive queue went to the error state: it takes no more receives
    /// from it, and those it had taken have completed ("last WQE reached").
    LastReceive {
        /// The queue pair.
        queue_pair: Qpn,
    },
}

/// Counts since the host was made; after `ethtool`'s and soft-RoCE's names where they have any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets handed out to be sent.
    pub sent_packets: u64,
    /// Of those, requests sent again.
    pub resent_packets: u64,
    /// Packets handed in.
    pub received_packets: u64,
    /// Requests that had come before.
    pub duplicate_requests: u64,
    /// Requests that came too early.
    pub out_of_sequence: u64,
    /// Requests that came too early and were placed all the same
    /// ([`OutOfOrder`](super::OutOfOrder)).
    pub placed_early: u64,
    /// Requests that came too early and were buffered ([`OwnVerdict::Buffer`]).
    pub kept_early: u64,
    /// Refusals sent because no receive was posted.
    pub rnr_naks_sent: u64,
    /// Refusals received for that reason.
    pub rnr_naks_received: u64,
    /// NAKs "PSN sequence error" received.
    pub sequence_naks_received: u64,
    /// Lost answers that a later answer revealed.
    pub implied_naks: u64,
    /// Time-outs.
    pub timeouts: u64,
    /// Packets sent again long before a time-out, because nothing was heard for a few round trips
    /// ([`OutOfOrder`](super::OutOfOrder)).
    pub probes: u64,
    /// Acknowledgements sent.
    pub acks_sent: u64,
    /// Congestion notifications sent.
    pub cnps_sent: u64,
    /// Congestion notifications received.
    pub cnps_received: u64,
    /// Packets ignored, by reason.
    pub drops: [u64; DropReason::COUNT],
}
