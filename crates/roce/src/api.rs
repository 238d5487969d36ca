//! The types that callers of a [`RoceDevice`](super::RoceDevice) pass in and receive.

use super::state::QueuePairState;
use crate::work::{Pending, Send};
use fairway_device::pool::Index;
use fairway_device::{CompletionQueueId, LocalRange, Ranges, Rights, ScatterList, SegmentId};
use fairway_wire::roce::{NakCode, Packet, RnrTimer, Tail};
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

/// The id of a receive queue, either of one queue pair or shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReceiveQueueId(pub(crate) u32);

impl ReceiveQueueId {
    /// The queue at `index` in the numbering of its device.
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
    /// Operations that remote peers may perform.
    pub rights: Rights,
}

/// Registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRegion {
    /// The id of the region in local ranges.
    pub segment: SegmentId,
    /// The key by which peers name the region, and which grants them access.
    pub r_key: u32,
}

/// Parameters of a new queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QueuePairConfig {
    /// The service.
    pub transport: Transport,
    /// The protection domain.
    pub domain: u32,
    /// The completion queue of its sends.
    pub send_queue: CompletionQueueId,
    /// The completion queue of its receives.
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
    /// The peer's network address, as the caller's own number for it.
    pub address: u64,
    /// The peer's queue pair.
    pub queue_pair: Qpn,
}

/// Time-outs and retries of a requester (9.7.5.2.8, 9.7.6.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reliability {
    /// Time to wait for an acknowledgement; zero: for ever. The field of the verbs, a code `n`,
    /// means 4.096 µs × 2^n.
    pub timeout: Duration,
    /// Retries without any progress: 0 to 7.
    pub retries: u8,
    /// Retries when the receiver is not ready: 0 to 6; 7 means for ever.
    pub rnr_retries: u8,
    /// READs and atomics in flight at once. Must not exceed what the peer serves.
    pub read_depth: u8,
}

impl Default for Reliability {
    fn default() -> Self {
        let timeout = Duration::from_ns(4_096 << 12);
        Reliability { timeout, retries: 7, rnr_retries: 7, read_depth: 16 }
    }
}

/// A change of a queue pair's state, as `ibv_modify_qp` requests it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Discards everything posted, without completions.
    Reset,
    /// Receives may be posted from now on.
    Init {
        /// Operations that the peer may perform through this queue pair. With [`Rights::RELAXED`],
        /// the operations of the peer and of this side may change memory in another order than that
        /// of posting.
        rights: Rights,
        /// The partition's key.
        p_key: u16,
        /// The Q_Key that a datagram must carry (UD).
        q_key: u32,
    },
    /// The queue pair receives and answers requests of its peer.
    ReadyToReceive {
        /// The queue pair to which it is connected (RC, UC).
        peer: Peer,
        /// Payload bytes of every packet but a message's last: 256, 512, 1024, 2048 or 4096.
        mtu: u32,
        /// The first PSN that the peer sends.
        expected: Psn,
        /// READs and atomics that the peer may have in flight at once (RC).
        read_depth: u8,
        /// Time that the peer has to wait when no receive is posted (RC).
        rnr_timer: RnrTimer,
    },
    /// The queue pair sends.
    ReadyToSend {
        /// The first PSN that the queue pair sends.
        first: Psn,
        /// Time-outs and retries (RC).
        reliability: Reliability,
    },
    /// The queue pair begins no further send. [`Event::Drained`] reports when those it had begun
    /// have completed.
    Drain,
    /// The queue pair sends again, after a drain or a send queue error.
    Resume,
    /// Attributes change, and the state stays the same.
    Adjust(Attributes),
    /// The queue pair flushes everything that is posted.
    Error,
}

/// Attributes that may change while a queue pair receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Operations that the peer may perform through this queue pair.
    pub rights: Rights,
    /// The Q_Key that a datagram must carry (UD).
    pub q_key: u32,
    /// Time-outs and retries (RC). Those of a request that is under way may count for it still.
    pub reliability: Reliability,
    /// Time that the peer has to wait when no receive is posted (RC).
    pub rnr_timer: RnrTimer,
}

/// Why a [`Change`] was refused. The queue pair is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// No such queue pair.
    Missing,
    /// The change is not allowed in this state.
    State(QueuePairState),
    /// The parameter of this name is out of range.
    Parameter(&'static str),
}

/// The address of remote memory and the key that grants access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteAddress {
    /// The address of the first byte.
    pub address: u64,
    /// The R_Key.
    pub r_key: u32,
}

/// The operation of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// SEND (RC, UC), possibly with immediate data or (RC) an invalidation.
    Send {
        /// Immediate data, or the key to invalidate.
        tail: Tail,
    },
    /// RDMA WRITE (RC, UC).
    Write {
        /// The memory to write.
        remote: RemoteAddress,
        /// Immediate data, which consumes a receive of the peer.
        immediate: Option<u32>,
    },
    /// RDMA READ (RC).
    Read {
        /// The memory to read.
        remote: RemoteAddress,
    },
    /// Sets a word of 8 bytes to `swap` if it equals `compare` (RC).
    CompareSwap {
        /// The word.
        remote: RemoteAddress,
        /// The value with which the word is compared.
        compare: u64,
        /// The new value of the word.
        swap: u64,
    },
    /// Adds to a word of 8 bytes (RC).
    FetchAdd {
        /// The word.
        remote: RemoteAddress,
        /// The number to add.
        add: u64,
    },
    /// SEND of one packet (UD).
    Datagram {
        /// The queue pair to which the datagram goes.
        to: Peer,
        /// The Q_Key of that queue pair.
        q_key: u32,
        /// Immediate data.
        immediate: Option<u32>,
    },
}

/// An operation to be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// The caller's own number, returned in the completion.
    pub id: u64,
    /// The operation.
    pub work: Work,
    /// The local bytes; for an atomic the 8 bytes that receive the old value, or none.
    pub local: ScatterList,
    /// If false, success produces no completion; failure always does.
    pub signaled: bool,
    /// True if the peer's completion should raise an event.
    pub solicited: bool,
    /// True if the operation begins only when every earlier READ and atomic has completed.
    pub fence: bool,
}

/// A buffer for one incoming message. The buffer of a UD queue pair begins with 40 bytes for the IP
/// header.
pub type ReceiveRequest = fairway_device::ReceiveRequest<ScatterList>;

/// Why a request was not accepted. Nothing has been posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// No such queue pair or receive queue.
    Missing,
    /// The state does not allow it, or the queue pair uses a shared receive queue.
    State,
    /// The queue has reached its depth, or `Limits::sends` or `receives` are posted.
    Full,
    /// The completion queue could not hold the completion: poll it first. (A
    /// [`RoceDevice`](super::RoceDevice) never returns this error: see [`Event::Overrun`].)
    CompletionQueueFull,
    /// The queue pair's service does not have this operation; or it is a READ or atomic, of which
    /// none may be in flight ([`Reliability::read_depth`]).
    Operation,
    /// The message is longer than 2^22 packets, or 2^31 bytes; a datagram is longer than a packet;
    /// or the buffer for the old value of an atomic does not have 8 bytes.
    Length,
}

/// A packet that arrived, decoded and with a verified ICRC.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// The network address of its sender, as the caller's own number for it.
    pub source: u64,
    /// The packet.
    pub packet: Packet,
    /// Number of payload bytes behind the headers.
    pub payload: u32,
    /// The ECN bits of the IP header.
    pub ecn: Ecn,
}

/// What the caller has to do with a packet that arrived.
pub type Verdict = fairway_device::Verdict<Placement, OwnVerdict, DropReason>;

/// The memory into which the payload of a packet belongs.
pub type Placement = fairway_device::Placement<Target, PlacementToken>;

/// An atomic operation of a peer that the caller has to execute.
pub type AtomicExecution = fairway_device::AtomicExecution<PlacementToken>;

/// What the caller has to do with a packet whose payload is not placed in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnVerdict {
    /// Write `value`, in the machine's byte order, to `target`, then call
    /// [`RoceDevice::handle_placed`](super::RoceDevice::handle_placed).
    Store {
        /// The 8 bytes to write.
        target: ScatterList,
        /// The value to write.
        value: u64,
        /// The token for [`RoceDevice::handle_placed`](super::RoceDevice::handle_placed).
        token: PlacementToken,
    },
    /// The packet is early, and the place of its payload is not known yet. Keep the packet with its
    /// payload in this place, one of [`Limits::buffered`](super::Limits), until
    /// [`RoceDevice::poll_replay`](super::RoceDevice::poll_replay) returns the place.
    Buffer {
        /// The place. A packet that was buffered there before is no longer needed.
        place: u32,
    },
}

/// The bytes into which a payload belongs. Placements of one queue pair have to become visible in
/// the order in which they were returned, unless they are `relaxed`; where they overlap, the bytes
/// of the later one must remain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The memory for the payload.
    pub bytes: ScatterList,
    /// For a datagram, the 40 bytes that receive its IP header (an IPv4 header in the last 20).
    pub header: ScatterList,
    /// True if the payload may become visible before those of earlier placements
    /// ([`Rights::RELAXED`](fairway_device::Rights::RELAXED)).
    pub relaxed: bool,
}

impl Ranges for Target {
    fn ranges(&self) -> &[LocalRange] {
        self.bytes.ranges()
    }
}

/// The token of a placement that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementToken {
    pub(crate) queue_pair: Qpn,
    pub(crate) life: u32,
    pub(crate) subject: TokenSubject,
}

impl PlacementToken {
    /// The local queue pair of the placement.
    pub const fn queue_pair(&self) -> Qpn {
        self.queue_pair
    }
}

/// The record to which a placement belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenSubject {
    /// A packet of a request.
    Request(Index<Pending>),
    /// The word that the request of this packet changes.
    Atomic(Index<Pending>),
    /// An answer to this READ or atomic of the local side.
    Answer(Index<Send>),
}

/// Why a packet was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropReason {
    /// There is no such queue pair, or its state does not allow it to receive.
    NoQueuePair,
    /// The packet is not from the queue pair's peer.
    Stranger,
    /// The packet belongs to another partition.
    PartitionKey,
    /// The datagram has another Q_Key than the queue pair.
    QueueKey,
    /// The queue pair's service has no such packet, or the packet's length is wrong for its kind.
    Malformed,
    /// The packet had arrived before, and requires no answer.
    Duplicate,
    /// An earlier packet is missing.
    Gap,
    /// No receive is posted.
    NotReady,
    /// `Limits::pending` packets are waiting to be placed.
    PendingPool,
    /// The request was refused, and the peer is sent the reason.
    Refused,
    /// The packet answers a request that was never sent or has been answered already.
    BadAnswer,
    /// An unreliable message was broken off, because one of its packets was lost.
    Broken,
}

impl DropReason {
    /// Number of reasons.
    pub const COUNT: usize = 12;
}

/// A packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The local queue pair.
    pub queue_pair: Qpn,
    /// The receiver's network address, as the caller's own number for it.
    pub to: u64,
    /// The packet without its payload.
    pub packet: Packet,
    /// The local bytes of the payload.
    pub gather: ScatterList,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// The operation succeeded, and its data has been placed.
    Success,
    /// The message does not fit into the receive.
    LocalLength,
    /// A local range is not registered, or not in this protection domain.
    LocalProtection,
    /// The queue pair entered the error state before the operation was executed.
    Flushed,
    /// The peer's answer is invalid.
    BadResponse,
    /// The peer found the request invalid.
    RemoteInvalidRequest,
    /// The peer does not grant access.
    RemoteAccess,
    /// The peer failed.
    RemoteOperation,
    /// The peer did not answer, in spite of all retries.
    RetryExceeded,
    /// The peer posted no receive, in spite of all retries.
    RnrRetryExceeded,
}

/// The kind of operation that completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompletionKind {
    /// A SEND of the local side, over any service.
    Send,
    /// A WRITE of the local side.
    Write,
    /// A READ of the local side.
    Read,
    /// A compare-and-swap of the local side.
    CompareSwap,
    /// A fetch-and-add of the local side.
    FetchAdd,
    /// A receive that a SEND consumed.
    Receive,
    /// A receive that a WRITE with immediate data consumed.
    ReceiveWrite,
}

/// The end of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The number that the caller gave to the request.
    pub id: u64,
    /// The local queue pair.
    pub queue_pair: Qpn,
    /// The outcome of the operation.
    pub status: Status,
    /// The kind of operation.
    pub kind: CompletionKind,
    /// Number of bytes transferred, including those of the IP header in a UD receive.
    pub bytes: u32,
    /// Immediate data or the key to invalidate (receives only).
    pub tail: Tail,
    /// The old value of the word (atomics only).
    pub value: u64,
    /// The queue pair that sent the message (receives only).
    pub from: Peer,
    /// True if the sender requested an event (receives only).
    pub solicited: bool,
}

impl Completion {
    /// The initial content of an entry for completions.
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

/// Something that happened outside of any operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first packet of the peer arrived before the queue pair was ready to send.
    Established {
        /// The queue pair.
        queue_pair: Qpn,
    },
    /// The queue pair entered the error state, or the send queue error state.
    Fault {
        /// The queue pair.
        queue_pair: Qpn,
        /// The reason.
        status: Status,
    },
    /// The queue pair has refused a request of its peer, which no completion reports, and enters
    /// the error state.
    Refused {
        /// The queue pair.
        queue_pair: Qpn,
        /// The reason.
        code: NakCode,
    },
    /// All sends that had begun before [`Change::Drain`] have completed.
    Drained {
        /// The queue pair.
        queue_pair: Qpn,
    },
    /// No operation refers to the deregistered memory any more.
    SegmentReleased {
        /// The deregistered region.
        segment: SegmentId,
    },
    /// A completion found its queue full and was lost, and so are all later ones. The queue pairs
    /// that use the queue enter the error state.
    Overrun {
        /// The completion queue.
        queue: CompletionQueueId,
    },
    /// A shared queue holds fewer receives than its limit. The limit has been removed.
    ReceiveLimit {
        /// The receive queue.
        queue: ReceiveQueueId,
    },
    /// A queue pair with a shared receive queue entered the error state. It takes no more receives
    /// from the queue, and those it had taken have completed ("last WQE reached").
    LastReceive {
        /// The queue pair.
        queue_pair: Qpn,
    },
}

/// Counts since the device was created, named after those of `ethtool` and soft-RoCE where they
/// exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets returned by [`RoceDevice::poll_transmit`](super::RoceDevice::poll_transmit) or
    /// [`RoceDevice::poll_answer`](super::RoceDevice::poll_answer).
    pub sent_packets: u64,
    /// Requests retransmitted, which `sent_packets` includes.
    pub resent_packets: u64,
    /// Packets passed to [`RoceDevice::handle_packet`](super::RoceDevice::handle_packet).
    pub received_packets: u64,
    /// Requests that had arrived before.
    pub duplicate_requests: u64,
    /// Requests that arrived early, behind a missing packet.
    pub out_of_sequence: u64,
    /// Requests that arrived early and were placed nevertheless
    /// ([`OutOfOrder`](super::OutOfOrder)).
    pub placed_early: u64,
    /// Requests that arrived early and were buffered ([`OwnVerdict::Buffer`]).
    pub kept_early: u64,
    /// Refusals sent because no receive was posted.
    pub rnr_naks_sent: u64,
    /// Refusals received because the peer had posted no receive.
    pub rnr_naks_received: u64,
    /// NAKs "PSN sequence error" received.
    pub sequence_naks_received: u64,
    /// Lost answers that a later answer revealed.
    pub implied_naks: u64,
    /// Expirations of the acknowledgement timer.
    pub timeouts: u64,
    /// Packets retransmitted long before a time-out, because nothing had arrived for a few round
    /// trips ([`OutOfOrder`](super::OutOfOrder)).
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
