//! What [`crate::UbDevice`] returns: packets to send, completions, events, errors.

use super::{ChannelId, JettyState, LocalRange, SegmentId};
use fairway_wire::{Ecn, JettyId, Packet, Route};

/// A received packet, decoded.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// The packet's source, destination and channel.
    pub route: Route,
    /// The decoded headers of the packet.
    pub packet: Packet,
    /// Bytes of payload behind the packet's headers.
    pub payload: u32,
    /// The packet's congestion mark.
    pub ecn: Ecn,
    /// Number of switches that the packet has passed; 0 if they are not counted.
    pub hops: u8,
}

/// Why a received packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropReason {
    /// The packet's channel does not exist here, or is closed.
    NoChannel,
    /// The packet comes from, or is meant for, another incarnation of a node.
    StaleIncarnation,
    /// The packet had arrived before.
    Duplicate,
    /// The packet's sequence number lies beyond the receive window.
    BeyondWindow,
    /// No bitmap block was free.
    BitmapPool,
    /// No record for an incoming message was free.
    ArrivalPool,
    /// No record for the answer to a read was free.
    MessagePool,
    /// Too many placements or refusals are pending on the channel.
    AcksBlocked,
    /// The packet carries no address and the receiver does not know its message.
    StartUnknown,
    /// The packet's fields contradict each other, or contradict what is recorded of its message.
    Malformed,
    /// The packet acknowledges what was never sent.
    BadAcknowledgement,
    /// The packet answers a read that is not pending.
    NoRead,
    /// The packet's path number is beyond the channel's paths.
    BadPath,
    /// The packet is an unreliable message, a load or a store, and these were not agreed on at
    /// set-up.
    NotAgreed,
    /// The packet closes the channel, but names a sequence number outside the window.
    BadClose,
    /// The packet grants only credit that was not requested.
    BadCredit,
    /// The packet's channel is retired.
    Retired,
    /// The packet ends a channel that is not another one of its channel's group, or this was not
    /// agreed on at set-up.
    BadRetire,
}

impl DropReason {
    /// Number of reasons.
    pub const COUNT: usize = 18;
    /// Every reason, in the order of the discriminants.
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
        DropReason::Retired,
        DropReason::BadRetire,
    ];
}

/// A packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The channel that the packet belongs to; it determines the peer's addresses.
    pub channel: ChannelId,
    /// The packet's source, destination, channel and path.
    pub route: Route,
    /// The decoded headers of the packet.
    pub packet: Packet,
    /// The payload to gather behind the headers; its `length` is 0 if there is none.
    pub gather: LocalRange,
}

// A larger one would be moved by calls of `memcpy`, several times for each packet.
const _: () = assert!(size_of::<Transmit>() <= 128);

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Status {
    /// The operation is done, and its data is in place.
    Success,
    /// The peer has no such segment, the token is wrong, or the range leaves the segment.
    RemoteAccess,
    /// The segment does not grant this right.
    RemoteRights,
    /// The peer has no such Jetty.
    RemoteNoJetty,
    /// The message is longer than the peer's receive buffer. Of a receive: an unreliable message
    /// was longer than the receive ([`UbDevice::fail_short_receives`](crate::UbDevice)).
    RemoteLength,
    /// The peer does not offer this operation.
    RemoteOperation,
    /// The address of the atomic is not a multiple of its length.
    RemoteMisaligned,
    /// The peer has no free record for the requested order, or for a put to a mailbox
    /// (`Limits::put_streams`); or the mailbox has no buffer, and does not let puts wait for one;
    /// or the buffer's memory is missing.
    RemoteResources,
    /// The peer has no such mailbox, the key is wrong, or the mailbox is closed.
    RemoteNoMailbox,
    /// The epoch that the operation named has ended.
    RemoteEpoch,
    /// The load or store was not answered despite all retries.
    TimedOut,
    /// The peer posted no receive despite all retries.
    ReceiverNotReady,
    /// Nothing was received from the peer for longer than
    /// [`Profile::peer_dead`](crate::Profile::peer_dead).
    PeerDead,
    /// The peer closed the channel.
    PeerClosed,
    /// This side closed the channel or destroyed the Jetty first.
    Flushed,
    /// The memory of this side's operation or receive is no longer registered, or cannot be
    /// written.
    LocalMemory,
}

/// What kind of operation completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompletionKind {
    /// A WRITE posted here.
    Write,
    /// A READ posted here.
    Read,
    /// A SEND posted here.
    Send,
    /// A receive posted here, consumed by a SEND.
    Receive,
    /// A receive posted here, consumed by a WRITE_IMM.
    ReceiveWrite,
    /// An atomic posted here.
    Atomic,
    /// A PUT posted here.
    Put,
    /// A GET posted here.
    Get,
    /// A load posted here.
    Load,
    /// A store posted here.
    Store,
}

/// Reports how an operation or a receive ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The caller's number from the request.
    pub id: u64,
    /// The local Jetty.
    pub jetty: JettyId,
    /// How the operation ended.
    pub status: Status,
    /// The kind of the operation.
    pub kind: CompletionKind,
    /// Bytes moved.
    pub bytes: u32,
    /// Immediate data, if the operation carried any (receives only).
    pub immediate: Option<u64>,
    /// The old value of the word (atomics only).
    pub value: u64,
    /// The channel that carried the operation.
    pub channel: ChannelId,
    /// The remote Jetty: the sender's in a receive, otherwise the target's.
    pub remote_jetty: JettyId,
}

/// Reports a change that is not the completion of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing was received from the peer for longer than
    /// [`Profile::peer_dead`](crate::Profile::peer_dead), on any channel of the group or on one
    /// without which the group cannot go on. The channel has ended, and its operations
    /// have completed in error.
    PeerDead {
        /// The channel.
        channel: ChannelId,
    },
    /// The peer closed the channel, which has ended.
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
    /// A message that the peer may already regard as executed could not be executed: its memory was
    /// missing when its turn came, and no packet was left by which to refuse it. Nothing more is
    /// sent on the channel's group, so the peer reports none of what waits behind the message. The
    /// group must be closed.
    ExecutionLost {
        /// The first channel of the group.
        channel: ChannelId,
    },
    /// A channel is retired: it is dead, while other channels of its group still hear from the
    /// peer, or the peer has found it dead. The group goes on without it, and nothing has failed.
    ChannelRetired {
        /// The first channel of the group, which leads it on even if it is the retired one.
        channel: ChannelId,
        /// The channel that is retired.
        retired: ChannelId,
    },
    /// A channel that this side closed has ended.
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
        /// The reason.
        status: Status,
        /// The Jetty's new state.
        state: JettyState,
    },
    /// No operation of a suspended Jetty, or of one in the error state, is in progress any more.
    JettyDrained {
        /// The Jetty.
        jetty: JettyId,
    },
}

/// Why a request was rejected. The device's state has not changed, and the request may be tried
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The channel does not exist, or is closed.
    NoChannel,
    /// The Jetty does not exist.
    NoJetty,
    /// The segment does not exist, or is being released.
    NoSegment,
    /// The range leaves the segment.
    OutOfBounds,
    /// The completion queue may have no room for the completion: poll it first.
    CompletionQueueFull,
    /// `Limits::messages` operations are in flight: poll for completions first.
    TooManyMessages,
    /// `Limits::receives` receives are posted.
    TooManyReceives,
    /// The Jetty is suspended, in the error state, or a group.
    NotReady,
    /// `Limits::order_records` Jetties, or pairs of a Jetty and a node, already request order.
    TooManyOrders,
    /// The mode is UNO, which carries only WRITE and SEND of one packet, without any order; or
    /// order was requested for a load or store, which keep none.
    Unreliable,
    /// Memory order is kept by WRITEs and SENDs in mode ROL, and by READs and atomics in mode ROT.
    /// A Jetty that keeps it cannot also post relaxed or strict operations.
    MemoryOrder,
    /// Unreliable messages, or loads and stores, were not agreed on when the channel was set up.
    NotAgreed,
    /// A load or store is longer than [`fairway_wire::BYPASS_BYTES`], or an atomic's width is
    /// neither 4 nor 8.
    Width,
    /// Puts between `Limits::put_streams` pairs of a Jetty and a remote mailbox are in progress; or
    /// puts of 4 GiB in total from this Jetty to this mailbox are: poll for completions first.
    TooManyPuts,
    /// The mailbox does not exist, or is closed.
    NoMailbox,
    /// `Limits::mailbox_buffers` buffers are in use.
    TooManyBuffers,
}
