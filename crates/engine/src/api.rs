//! What callers of the engine say and hear: commands, verdicts, completions, events, errors.

use fairway_policy::PolicySet;
use fairway_wire::{
    AtomicOperator, Cna, Ecn, JettyId, Msn, Packet, Psn, Route, ServiceMode, Tag, Target, TokenId,
    Tpn,
};

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
    /// The segment at this index, of whatever counts its segments so.
    pub const fn new(index: u32) -> Self {
        SegmentId(index)
    }
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
    /// The queue at this index, of whatever counts its queues so.
    pub const fn new(index: u32) -> Self {
        CompletionQueueId(index)
    }
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
    /// Atomics.
    pub const ATOMIC: Rights = Rights(4);
    /// READ and WRITE.
    pub const READ_WRITE: Rights = Rights(3);
    /// READ, WRITE and atomics.
    pub const ALL: Rights = Rights(7);

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

/// What peers may do with memory by way of a Jetty
/// ([`Nic::guard_segments`](crate::Nic::guard_segments)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grant {
    /// Nothing: peers are told that there is no such Jetty.
    #[default]
    Nothing,
    /// Nothing yet: peers try again, as they do when a receive is missing.
    Later,
    /// Some accesses to some segments.
    Access {
        /// Which accesses.
        rights: Rights,
        /// The segments' domain.
        domain: u32,
    },
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
        /// The remote Jetty or Jetty group.
        target: Target,
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
        /// The remote Jetty or Jetty group.
        target: Target,
    },
    /// As `Send`, with immediate data.
    SendImmediate {
        /// The remote Jetty or Jetty group.
        target: Target,
        /// Application data.
        immediate: u64,
    },
    /// Change a remote word of 4 or 8 bytes, exactly once; the completion brings its old value.
    /// The local range is not used.
    Atomic {
        /// The word.
        remote: RemoteRange,
        /// Its length in bytes: 4 or 8.
        width: u8,
        /// How it changes.
        operator: AtomicOperator,
        /// The operand; the new value of a compare-and-swap.
        operand: u64,
        /// What a compare-and-swap compares with.
        compare: u64,
    },
    /// Copy the local range into a mailbox.
    Put {
        /// Which.
        mailbox: RemoteMailbox,
        /// Where in the buffer; 0 for a mailbox in stream mode.
        offset: u64,
        /// The epoch it has to fall into, modulo 2^32; `None`: whichever its turn is.
        epoch: Option<u32>,
    },
    /// Copy from a mailbox's current buffer into the local range.
    Get {
        /// Which.
        mailbox: RemoteMailbox,
        /// First byte in the buffer.
        offset: u64,
        /// A retired epoch, modulo 2^32; `None`: the current one.
        epoch: Option<u32>,
    },
    /// As `Read`, of at most [`fairway_wire::BYPASS_BYTES`] bytes, without transport state: tried
    /// again after a time-out.
    Load {
        /// Where from.
        remote: RemoteRange,
    },
    /// As `Write`, likewise.
    Store {
        /// Where to.
        remote: RemoteRange,
    },
}

/// A mailbox of a remote node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteMailbox {
    /// Its address.
    pub address: u64,
    /// Its key.
    pub key: u32,
}

/// What an operation asks of the order (UB §7.3). The default asks for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OrderRequest {
    /// Who orders.
    pub mode: ServiceMode,
    /// Whether it waits, and is waited for.
    pub tag: Tag,
    /// It is issued only when every earlier READ and atomic of its Jetty has completed.
    pub fence: bool,
    /// It completes here only after every earlier operation of its Jetty.
    pub complete_in_order: bool,
    /// The receive that it consumes completes only after those of every earlier operation of its
    /// Jetty, to the same node, that asked for the same.
    pub receive_in_order: bool,
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
    /// What it asks of the order.
    pub order: OrderRequest,
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
    /// The secret a remote peer must know to send to it.
    pub token_value: u32,
    /// What becomes of it when an operation fails.
    pub exception: ExceptionMode,
    /// Messages of a peer Jetty that ask for their receives in order take them in that order,
    /// however early they come; and they complete only when everything that was posted before with
    /// a number of the target's order has been executed. Such a peer Jetty asks that of all that it
    /// sends to this Jetty, and of nothing that it sends to others of the node; and it does not wait
    /// for what other peer Jetties send to this one.
    pub in_sequence: bool,
}

impl JettyConfig {
    /// Any free number, no secret, and it goes on when operations fail.
    pub fn new(send_queue: CompletionQueueId, receive_queue: CompletionQueueId) -> JettyConfig {
        let exception = ExceptionMode::Continue;
        JettyConfig {
            number: None,
            send_queue,
            receive_queue,
            token_value: 0,
            exception,
            in_sequence: false,
        }
    }
}

/// What becomes of a Jetty when an operation of its own fails for a recoverable reason: a
/// refusal, or a receiver that was never ready. (If the peer is gone, every operation to it fails
/// and the Jetty stays as it is.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ExceptionMode {
    /// It goes on.
    #[default]
    Continue,
    /// It is suspended: what was posted runs to its end, and nothing more may be posted until it is
    /// resumed.
    Suspend,
    /// It goes to the error state: everything is flushed.
    Error,
}

/// The life of a Jetty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum JettyState {
    /// The number is free.
    Reset,
    /// It sends and receives.
    Ready,
    /// What was posted runs to its end; nothing more may be posted, and peers are told "not
    /// ready".
    Suspended,
    /// What was not yet sent is flushed; nothing may be posted, and peers are told "no such Jetty".
    Error,
    /// It is a group: a name under which other Jetties receive.
    Group,
}

/// How a Jetty group chooses the member that takes a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dispatch {
    /// Member number (the message's hint) mod (number of members).
    Hint,
    /// Each in turn.
    #[default]
    RoundRobin,
    /// The one with the fewest receives that messages have taken and that were not posted anew; the
    /// first of equals.
    LeastDepth,
}

/// A Jetty group to be made.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupConfig {
    /// A fixed number, or `None` for any free one.
    pub number: Option<u32>,
    /// How members are chosen.
    pub dispatch: Dispatch,
    /// The secret a remote peer must know to send to it.
    pub token_value: u32,
}

/// A mailbox of one NIC. Carries a generation: the id of a closed mailbox names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MailboxId(pub(crate) u32);

impl MailboxId {
    /// The dense index of the mailbox: below `Limits::mailboxes`, reused after closing.
    pub const fn index(self) -> usize {
        (self.0 & 0xFFFF) as usize
    }
}

/// When an epoch of a mailbox is complete (RVMA §III-B).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// When this many bytes are in place. At least 1.
    Bytes(u64),
    /// When this many puts are in place. At least 1.
    Operations(u64),
}

/// Who decides where in the buffer a put goes (RVMA §IV-B).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Steering {
    /// The sender: the put carries an offset.
    #[default]
    Sender,
    /// The receiver: puts are appended one behind the other, as in a stream.
    Receiver,
}

/// What becomes of a put for which no buffer is posted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenEmpty {
    /// It waits at the sender and is tried again.
    #[default]
    Wait,
    /// It is refused: the sender is told.
    Refuse,
}

/// A mailbox to be made.
#[derive(Clone, Copy, Debug)]
pub struct MailboxConfig {
    /// Its address; `None` makes it the catch-all: it takes puts to addresses that no other
    /// mailbox has.
    pub address: Option<u64>,
    /// The secret a remote peer must know.
    pub key: u32,
    /// When an epoch is complete.
    pub threshold: Threshold,
    /// Who decides where a put goes.
    pub steering: Steering,
    /// What becomes of a put without a buffer.
    pub when_empty: WhenEmpty,
    /// How many buffers of completed epochs are kept for [`crate::Nic::rewind`].
    pub retired: u32,
}

/// An epoch of a mailbox is over, and its buffer is the application's again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochDone {
    /// The mailbox.
    pub mailbox: MailboxId,
    /// The number of the epoch, from 0.
    pub epoch: u64,
    /// The caller's number for the buffer.
    pub id: u64,
    /// The buffer.
    pub buffer: LocalRange,
    /// Bytes that were put.
    pub bytes: u64,
    /// Puts that were made.
    pub operations: u64,
    /// The last address that was put to: the mailbox's own, or for the catch-all the one named.
    pub address: u64,
    /// The application ended the epoch before its threshold.
    pub early: bool,
    /// Puts that were not finished because their sender was gone: what they wrote is there, but
    /// not all they were to write.
    pub cancelled: u32,
    /// Stream mode: bytes from the start of the buffer to the end of the last put; more than
    /// `bytes` if there are holes. Otherwise 0.
    pub extent: u32,
}

/// What both sides agreed on when a channel was set up.
pub struct ChannelConfig {
    /// The first channel of the TP channel group that this one joins; `None` if it begins one.
    pub leader: Option<ChannelId>,
    /// Who sends its packets: see [`crate::Nic::poll_engine`].
    pub engine: u32,
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
    /// Change the word, then call [`crate::Nic::handle_placed`] with its old value.
    Atomic(AtomicExecution),
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

/// An atomic to be executed now, atomically with everything else that touches the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicExecution {
    /// The word: 4 or 8 bytes, at an address that is a multiple of its length.
    pub target: LocalRange,
    /// How it changes.
    pub operator: AtomicOperator,
    /// The operand; the new value of a compare-and-swap.
    pub operand: u64,
    /// What a compare-and-swap compares with.
    pub compare: u64,
    /// What to hand to [`crate::Nic::handle_placed`] together with the old value.
    pub token: PlacementToken,
}

/// Work that waited for its turn and is due now; see [`crate::Nic::poll_execution`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// Copy a payload that was set aside to where it belongs, then call
    /// [`crate::Nic::handle_placed`].
    Copy {
        /// Where it was set aside: a range of the stash.
        from: LocalRange,
        /// Where it belongs: as long.
        to: LocalRange,
        /// What to hand over afterwards.
        token: PlacementToken,
    },
    /// Change a word, likewise.
    Atomic(AtomicExecution),
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

impl PlacementToken {
    /// The channel it came over.
    pub const fn channel(&self) -> ChannelId {
        self.channel
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlacementKind {
    /// A WRITE of one packet: nobody but the transport needs to know.
    Plain,
    /// Part of an arrival that is being counted.
    Arrival,
    /// Part of the answer to a read of ours.
    Read,
    /// Into the stash, until the packet's turn comes.
    Stash,
    /// A word is being changed.
    Atomic,
    /// What was held is being executed.
    Deferred,
    /// It came in an unreliable packet.
    Datagram,
    /// A store that bypasses the transport.
    Stored,
    /// What we loaded.
    Loaded,
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
    /// The address of the atomic is no multiple of its length.
    RemoteMisaligned,
    /// The peer has no record free in which to keep the order asked for; or the mailbox has no
    /// buffer, and does not let puts wait for one.
    RemoteResources,
    /// The peer has no such mailbox, the key is wrong, or it is closed.
    RemoteNoMailbox,
    /// The epoch that was named is over.
    RemoteEpoch,
    /// The load or store was not answered in spite of all retries.
    TimedOut,
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
    /// An atomic of ours.
    Atomic,
    /// A PUT of ours.
    Put,
    /// A GET of ours.
    Get,
    /// A load of ours.
    Load,
    /// A store of ours.
    Store,
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
    /// The old value of the word (atomics only).
    pub value: u64,
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
    /// A Jetty changed its state because an operation of its own failed.
    JettyFault {
        /// The Jetty.
        jetty: JettyId,
        /// Why.
        status: Status,
        /// What it is now.
        state: JettyState,
    },
    /// Nothing of a suspended Jetty, or of one in the error state, is under way any more.
    JettyDrained {
        /// The Jetty.
        jetty: JettyId,
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
    /// The Jetty is suspended, in the error state, or a group.
    NotReady,
    /// `Limits::order_records` Jetties and channels ask for order: fewer may.
    TooManyOrders,
    /// The mode is UNO, which carries WRITE and SEND of one packet, without any order; or order was
    /// asked of a load or store, which keep none.
    Unreliable,
    /// A load or store is longer than [`fairway_wire::BYPASS_BYTES`], or an atomic's width is
    /// neither 4 nor 8.
    Width,
    /// `Limits::put_streams` pairs of a Jetty and a remote mailbox are in use; or 4 GiB are under
    /// way from this Jetty to this mailbox: poll for completions first.
    TooManyPuts,
    /// No such mailbox, or it is closed.
    NoMailbox,
    /// `Limits::mailbox_buffers` are in use.
    TooManyBuffers,
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
