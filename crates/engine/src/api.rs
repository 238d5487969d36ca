//! What callers of the engine say and hear: commands, verdicts, completions, events, errors.

use fairway_policy::PolicySet;
use fairway_wire::{Cna, Ecn, JettyId, Msn, Packet, Psn, Route, TokenId, Tpn};

/// A TP channel of one NIC. Carries a generation: the id of a closed channel names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(pub(crate) u32);

impl ChannelId {
    /// The channel's number on the wire (its TPN at this node).
    pub const fn tpn(self) -> Tpn {
        Tpn::new(self.0)
    }
    /// The dense index of the channel: below `Limits::channels`, reused after closing.
    pub const fn index(self) -> usize {
        (self.0 & 0xFFFF) as usize
    }
}

/// A segment of one NIC: its index, which is also its [`TokenId`] on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub(crate) u32);

impl SegmentId {
    /// The segment's name on the wire.
    pub const fn token_id(self) -> TokenId {
        TokenId::new(self.0)
    }
    /// The dense index of the segment: below `Limits::segments`, reused after release.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A completion queue of one NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CompletionQueueId(pub(crate) u32);

impl CompletionQueueId {
    /// The dense index of the queue.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What remote peers may do to a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// Nothing: the segment is local.
    pub const NONE: Rights = Rights(0);
    /// READ.
    pub const READ: Rights = Rights(1);
    /// WRITE and WRITE_IMM.
    pub const WRITE: Rights = Rights(2);
    /// Atomics (checked by a later issue's operations).
    pub const ATOMIC: Rights = Rights(4);
    /// READ and WRITE.
    pub const READ_WRITE: Rights = Rights(3);

    /// The union.
    #[must_use]
    pub const fn with(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
    /// True if every right of `other` is granted.
    pub const fn contains(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Memory to register. The engine only knows its numbers; the bytes are the caller's affair.
#[derive(Clone, Copy, Debug)]
pub struct SegmentRequest {
    /// The address remote peers use for its first byte.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
    /// What remote peers may do.
    pub rights: Rights,
    /// The secret a remote peer must know.
    pub token_value: u32,
}

/// A range of a local segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalRange {
    /// The segment.
    pub segment: SegmentId,
    /// First byte, from the start of the segment.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
}

/// The start of a range in a remote segment; the length is that of the local range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteRange {
    /// The segment's name at the remote node.
    pub token_id: TokenId,
    /// The segment's secret.
    pub token_value: u32,
    /// First byte, in the segment's own addresses.
    pub address: u64,
}

/// What a work request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Copy the local range into remote memory.
    Write {
        /// Where to.
        remote: RemoteRange,
    },
    /// As `Write`; then a posted receive of `target` completes with `immediate`.
    WriteImmediate {
        /// Where to.
        remote: RemoteRange,
        /// The remote Jetty.
        target: JettyId,
        /// Application data.
        immediate: u64,
    },
    /// Copy remote memory into the local range.
    Read {
        /// Where from.
        remote: RemoteRange,
    },
    /// Copy the local range into the next posted receive of `target`.
    Send {
        /// The remote Jetty.
        target: JettyId,
    },
    /// As `Send`, with immediate data.
    SendImmediate {
        /// The remote Jetty.
        target: JettyId,
        /// Application data.
        immediate: u64,
    },
}

/// One operation to be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// The caller's own number, returned in the completion.
    pub id: u64,
    /// Whom to.
    pub channel: ChannelId,
    /// What.
    pub work: Work,
    /// The local bytes.
    pub local: LocalRange,
    /// If false, success makes no completion; failure always does.
    pub signaled: bool,
}

/// A buffer for one incoming SEND, or a slot for one WRITE_IMM (which leaves the buffer alone).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveRequest {
    /// The caller's own number, returned in the completion.
    pub id: u64,
    /// The buffer.
    pub local: LocalRange,
}

/// Where a Jetty's completions go.
#[derive(Clone, Copy, Debug)]
pub struct JettyConfig {
    /// A fixed number, or `None` for any free one.
    pub number: Option<u32>,
    /// Queue for the Jetty's own operations.
    pub send_queue: CompletionQueueId,
    /// Queue for its receives.
    pub receive_queue: CompletionQueueId,
}

/// What both sides agreed on when a channel was set up.
pub struct ChannelConfig {
    /// The peer's node address.
    pub remote: Cna,
    /// The peer's number for this channel.
    pub remote_tpn: Tpn,
    /// The first PSN this side sends.
    pub first_psn: Psn,
    /// The first PSN the peer sends.
    pub remote_first_psn: Psn,
    /// Payload bytes of every packet of a message but its last.
    pub mtu: u32,
    /// Paths: 1 to 256.
    pub paths: u32,
    /// Packets the peer is able to track beyond what it has acknowledged.
    pub remote_window: u32,
    /// Messages of several packets the peer tracks at once.
    pub remote_message_slots: u32,
    /// Reads the peer serves at once.
    pub remote_read_slots: u32,
    /// Control.
    pub policy: PolicySet,
}

/// A packet that arrived, decoded.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Whom it is from and for.
    pub route: Route,
    /// What it says.
    pub packet: Packet,
    /// Bytes of payload behind its headers.
    pub payload: u32,
    /// Its congestion mark.
    pub ecn: Ecn,
}

/// What is to become of a packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing more to do.
    Done,
    /// Put the payload there, then call [`crate::Nic::handle_placed`].
    Place(Placement),
    /// Ignore it; the reason has been counted.
    Drop(DropReason),
}

/// Where the payload of a packet belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Where.
    pub target: LocalRange,
    /// What to hand to [`crate::Nic::handle_placed`] afterwards.
    pub token: PlacementToken,
}

/// Names a placement under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementToken {
    pub(crate) channel: ChannelId,
    pub(crate) psn: Psn,
    pub(crate) message: Msn,
    /// An arrival, a message (of a read), or nothing, as `kind` says.
    pub(crate) subject: u32,
    pub(crate) bytes: u32,
    pub(crate) kind: PlacementKind,
    pub(crate) ack_request: bool,
    pub(crate) retry: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlacementKind {
    /// A WRITE of one packet: nobody but the transport needs to know.
    Plain,
    /// Part of an arrival that is being counted.
    Arrival,
    /// Part of the answer to a read of ours.
    Read,
}

/// Why a packet was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropReason {
    /// No such channel here, or it is closed.
    NoChannel,
    /// From or for another incarnation of a node.
    StaleIncarnation,
    /// It had arrived before.
    Duplicate,
    /// Its sequence number lies beyond the receive window.
    BeyondWindow,
    /// No bitmap block was free.
    BitmapPool,
    /// No record for an incoming message was free.
    ArrivalPool,
    /// No record for the answer to a read was free.
    MessagePool,
    /// Too many placements or refusals are pending on the channel.
    Withheld,
    /// It carries no address and the receiver does not know its message.
    Unlearned,
    /// Its fields contradict each other, or what is known of its message.
    Malformed,
    /// It acknowledges what was never sent.
    BadAcknowledgement,
    /// It answers a read that is not pending.
    NoRead,
    /// Its path number is beyond the channel's paths.
    BadPath,
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = 13;
    /// Every reason, in the order of their numbers.
    pub const ALL: [DropReason; Self::COUNT] = [
        DropReason::NoChannel,
        DropReason::StaleIncarnation,
        DropReason::Duplicate,
        DropReason::BeyondWindow,
        DropReason::BitmapPool,
        DropReason::ArrivalPool,
        DropReason::MessagePool,
        DropReason::Withheld,
        DropReason::Unlearned,
        DropReason::Malformed,
        DropReason::BadAcknowledgement,
        DropReason::NoRead,
        DropReason::BadPath,
    ];
}

/// A packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The channel it belongs to: tells the caller the peer's addresses.
    pub channel: ChannelId,
    /// Whom it is from and for, and by which path.
    pub route: Route,
    /// What it says.
    pub packet: Packet,
    /// The payload to gather behind the headers; `length` 0 if none.
    pub gather: LocalRange,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Status {
    /// Done, and in place.
    Success,
    /// The peer knows no such segment, the token is wrong, or the range leaves the segment.
    RemoteAccess,
    /// The segment does not grant this right.
    RemoteRights,
    /// The peer has no such Jetty.
    RemoteNoJetty,
    /// The message is longer than the peer's receive buffer.
    RemoteLength,
    /// The peer does not offer this operation.
    RemoteOperation,
    /// The peer posted no receive in spite of all retries.
    ReceiverNotReady,
    /// The peer was not heard from for too long.
    PeerDead,
    /// The peer closed the channel.
    PeerClosed,
    /// This side closed the channel or destroyed the Jetty first.
    Flushed,
}

/// What kind of operation completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompletionKind {
    /// A WRITE of ours.
    Write,
    /// A READ of ours.
    Read,
    /// A SEND of ours.
    Send,
    /// A receive of ours took a SEND.
    Receive,
    /// A receive of ours was consumed by a WRITE_IMM.
    ReceiveWrite,
}

/// One operation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The number given with the request.
    pub id: u64,
    /// Our Jetty.
    pub jetty: JettyId,
    /// How it ended.
    pub status: Status,
    /// What it was.
    pub kind: CompletionKind,
    /// Bytes moved.
    pub bytes: u32,
    /// Immediate data, if the operation carried any (receives only).
    pub immediate: Option<u64>,
    /// The channel it went over.
    pub channel: ChannelId,
    /// The remote Jetty: the sender's in a receive, otherwise the target's.
    pub remote_jetty: JettyId,
}

/// Something happened that no operation asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer was not heard from for too long; the channel is gone, and its operations have
    /// completed in error.
    PeerDead {
        /// The channel.
        channel: ChannelId,
    },
    /// The peer closed the channel; it is gone.
    PeerClosed {
        /// The channel.
        channel: ChannelId,
    },
    /// A channel closed from this side is gone.
    Closed {
        /// The channel.
        channel: ChannelId,
    },
    /// No operation refers to the deregistered segment any more: its memory may be freed.
    SegmentReleased {
        /// The segment.
        segment: SegmentId,
    },
    /// A path was taken out of use.
    PathDown {
        /// The channel.
        channel: ChannelId,
        /// The path.
        path: u8,
    },
    /// A path is in use again.
    PathUp {
        /// The channel.
        channel: ChannelId,
        /// The path.
        path: u8,
    },
}

/// Why a request was not taken. Nothing has happened, and it may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// No such channel, or it is closed.
    NoChannel,
    /// No such Jetty.
    NoJetty,
    /// No such segment, or it is being released.
    NoSegment,
    /// The range leaves the segment.
    OutOfBounds,
    /// The completion queue could not hold the completion: poll it first.
    CompletionQueueFull,
    /// `Limits::messages` operations are in flight: poll for completions first.
    TooManyMessages,
    /// `Limits::receives` receives are posted.
    TooManyReceives,
}

/// Why an object could not be made, opened or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// The limit of this name is reached.
    Limit(&'static str),
    /// The number is taken or out of range.
    Number,
    /// The parameter of this name is out of range.
    Parameter(&'static str),
    /// No such object.
    Missing,
    /// Something still uses it.
    Busy,
}
