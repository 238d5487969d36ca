//! What callers of the engine say (here) and hear (`answers`): names, requests and settings;
//! verdicts, completions, events, errors.

mod answers;

pub use answers::*;

use crate::names::ChannelIndex;
pub use fairway_device::{
    CompletionQueueId, Grant, LocalRange, Rights, SegmentId, SegmentRequest, SetupError,
};
use fairway_policy::PolicySet;
use fairway_wire::{AtomicOperator, Cna, Msn, Psn, ServiceMode, Tag, Target, TokenId, Tpn};

/// A TP channel of one NIC. Carries a generation: the id of a closed channel names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(pub(crate) u32);

impl ChannelId {
    /// Stands in completions of receives that were flushed: no channel brought a message.
    pub const UNKNOWN: ChannelId = ChannelId(u32::MAX);

    /// The channel's number on the wire (its TPN at this node).
    pub const fn tpn(self) -> Tpn {
        Tpn::new(self.0)
    }
    /// The dense index of the channel: below `Limits::channels`, reused after closing.
    pub const fn index(self) -> usize {
        (self.0 & 0xFFFF) as usize
    }

    /// The record of the channel.
    pub(crate) const fn record(self) -> ChannelIndex {
        ChannelIndex::of(self.0 & 0xFFFF)
    }
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
    /// The side that orders.
    pub mode: ServiceMode,
    /// Whether it waits, and is waited for. With [`Tag::Mo`] and without `complete_in_order`, a
    /// WRITE or SEND completes when it has arrived, perhaps before memory has changed; it then
    /// succeeds also if its memory is missing at its turn.
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
    /// The channel to the peer.
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
pub type ReceiveRequest = fairway_device::ReceiveRequest<LocalRange>;

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
    /// sends to this Jetty, and of nothing that it sends to others of the node; and it does not
    /// wait for what other peer Jetties send to this one.
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

/// The side that decides where in the buffer a put goes (RVMA §IV-B).
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
    /// The side that decides where a put goes.
    pub steering: Steering,
    /// What becomes of a put without a buffer.
    pub when_empty: WhenEmpty,
    /// How many buffers of completed epochs are kept for [`crate::UbDevice::rewind`].
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
    /// Puts that were not finished because their sender was gone: what they wrote is there,
    /// but not all they were to write.
    pub cancelled: u32,
    /// Stream mode: bytes from the start of the buffer to the end of the last put; more than
    /// `bytes` if there are holes. Otherwise 0.
    pub extent: u32,
}

/// What both sides agreed on when a channel was set up.
pub struct ChannelConfig {
    /// The first channel of the TP channel group that this one joins; `None` if it begins one.
    pub leader: Option<ChannelId>,
    /// The engine that sends its packets: see [`crate::UbDevice::poll_engine`].
    pub engine: u32,
    /// The peer's node address.
    pub remote: Cna,
    /// The peer's number for this channel.
    pub remote_tpn: Tpn,
    /// The first PSN this side sends.
    pub first_psn: Psn,
    /// The first PSN the peer sends.
    pub remote_first_psn: Psn,
    /// The first message number this side uses. The peer need not know it.
    pub first_message: Msn,
    /// Unreliable messages may be sent and are taken.
    pub unreliable: bool,
    /// Loads and stores may be sent and are taken.
    pub bypass: bool,
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

/// Does the target order transactions that ask for this? They have a number.
pub(crate) fn is_numbered(mode: ServiceMode, tag: Tag) -> bool {
    tag != Tag::No && mode != ServiceMode::Roi
}
