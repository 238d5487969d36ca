//! What the engine answers: packets to send, completions, events, errors.

use super::{ChannelId, JettyState, LocalRange, SegmentId};
use fairway_wire::{Ecn, JettyId, Packet, Route};

/// A packet that arrived, decoded.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Its source, destination and channel.
    pub route: Route,
    /// What it says.
    pub packet: Packet,
    /// Bytes of payload behind its headers.
    pub payload: u32,
    /// Its congestion mark.
    pub ecn: Ecn,
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
    AcksBlocked,
    /// It carries no address and the receiver does not know its message.
    StartUnknown,
    /// Its fields contradict each other, or what is known of its message.
    Malformed,
    /// It acknowledges what was never sent.
    BadAcknowledgement,
    /// It answers a read that is not pending.
    NoRead,
    /// Its path number is beyond the channel's paths.
    BadPath,
    /// It is an unreliable message, a load or a store, which were not agreed on at set-up.
    NotAgreed,
    /// It closes the channel, but names a sequence number outside the window.
    BadClose,
    /// It grants no credit but such as was not requested.
    BadCredit,
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = 16;
    /// Every reason, in the order of their numbers.
    pub const ALL: [DropReason; Self::COUNT] = [
        DropReason::NoChannel,
        DropReason::StaleIncarnation,
        DropReason::Duplicate,
        DropReason::BeyondWindow,
        DropReason::BitmapPool,
        DropReason::ArrivalPool,
        DropReason::MessagePool,
        DropReason::AcksBlocked,
        DropReason::StartUnknown,
        DropReason::Malformed,
        DropReason::BadAcknowledgement,
        DropReason::NoRead,
        DropReason::BadPath,
        DropReason::NotAgreed,
        DropReason::BadClose,
        DropReason::BadCredit,
    ];
}

/// A packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The channel it belongs to: tells the caller the peer's addresses.
    pub channel: ChannelId,
    /// Its source, destination, channel and path.
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
    /// Memory of this side's operation or receive is not there any more, or cannot be written.
    LocalMemory,
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
    /// The peer has used more wrong keys for segments, Jetties and mailboxes than
    /// [`Profile::refused_keys`](crate::Profile::refused_keys) allows. Reported once for a
    /// channel, which should be closed: otherwise it goes on, and the peer may go on guessing.
    KeysRefused {
        /// The first channel of the group.
        channel: ChannelId,
    },
    /// A message that the peer may believe to be executed could not be: its memory was missing when
    /// its turn came, and no packet was left by which to refuse it. Nothing leaves the channel's
    /// group any more, so the peer reports none of what waits behind the message. The group must be
    /// closed.
    ExecutionLost {
        /// The first channel of the group.
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
    /// Memory order is kept by WRITEs and SENDs in mode ROL, and by READs and atomics in mode ROT;
    /// and a Jetty that keeps it takes no relaxed and strict operations, nor the other way round.
    MemoryOrder,
    /// Unreliable messages, or loads and stores, were not agreed on when the channel was set up.
    NotAgreed,
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
