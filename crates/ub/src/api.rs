//! The interface of [`crate::UbDevice`]: this module has names, requests and settings that callers
//! pass in, `answers` has verdicts, completions, events and errors that it returns.

mod answers;

pub use answers::*;

use crate::names::ChannelIndex;
pub use fairway_device::{
    CompletionQueueId, Grant, LocalRange, Rights, SegmentId, SegmentRequest, SetupError,
};
use fairway_policy::PolicySet;
use fairway_wire::{AtomicOperator, Cna, Msn, Psn, ServiceMode, Tag, Target, TokenId, Tpn};

/// Names a TP channel of one NIC. The id carries a generation, so the id of a closed channel is
/// invalid even after its index has been reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(pub(crate) u32);

impl ChannelId {
    /// Channel id in completions of receives that were flushed: no channel delivered a message.
    pub const UNKNOWN: ChannelId = ChannelId(u32::MAX);

    /// The channel's number on the wire (its TPN at this node).
    pub const fn tpn(self) -> Tpn {
        Tpn::new(self.0)
    }
    /// The dense index of the channel: below `Limits::channels`, reused after closing.
    pub const fn index(self) -> usize {
        (self.0 & 0xFFFF) as usize
    }

    /// The index of the channel's record in the pools of the NIC.
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

/// The operation of a work request, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Copy the local range into remote memory.
    Write {
        /// The remote range that is written.
        remote: RemoteRange,
    },
    /// As `Write`; then a posted receive of `target` completes with `immediate`.
    WriteImmediate {
        /// The remote range that is written.
        remote: RemoteRange,
        /// The remote Jetty or Jetty group.
        target: Target,
        /// Application data.
        immediate: u64,
    },
    /// Copy remote memory into the local range.
    Read {
        /// The remote range that is read.
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
    /// Change a remote word of 4 or 8 bytes, exactly once; the completion carries its old value.
    /// The local range is not used.
    Atomic {
        /// The remote word.
        remote: RemoteRange,
        /// The word's length in bytes: 4 or 8.
        width: u8,
        /// The function that computes the new value from the old one and the operand.
        operator: AtomicOperator,
        /// The operand; the new value of a compare-and-swap.
        operand: u64,
        /// The value that a compare-and-swap compares the word with.
        compare: u64,
    },
    /// Copy the local range into a mailbox.
    Put {
        /// The remote mailbox.
        mailbox: RemoteMailbox,
        /// Offset in the buffer, in bytes; 0 for a mailbox in stream mode.
        offset: u64,
        /// The epoch that the put must belong to, modulo 2^32; `None`: the epoch that is open when
        /// the put's turn comes.
        epoch: Option<u32>,
    },
    /// Copy from a mailbox's current buffer into the local range.
    Get {
        /// The remote mailbox.
        mailbox: RemoteMailbox,
        /// Offset of the first byte in the buffer.
        offset: u64,
        /// A retired epoch, modulo 2^32; `None`: the current one.
        epoch: Option<u32>,
    },
    /// As `Read`, of at most [`fairway_wire::BYPASS_BYTES`] bytes, without transport state:
    /// repeated after a time-out.
    Load {
        /// The remote range that is read.
        remote: RemoteRange,
    },
    /// As `Write`, of at most [`fairway_wire::BYPASS_BYTES`] bytes, without transport state:
    /// repeated after a time-out.
    Store {
        /// The remote range that is written.
        remote: RemoteRange,
    },
}

/// A mailbox of a remote node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteMailbox {
    /// The mailbox's address.
    pub address: u64,
    /// The mailbox's key.
    pub key: u32,
}

/// The order that an operation requests (UB §7.3). The default requests none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OrderRequest {
    /// The service mode: the side that enforces the order.
    pub mode: ServiceMode,
    /// The tag: whether the operation waits for others, and others wait for it. With [`Tag::Mo`]
    /// and without `complete_in_order`, a WRITE or SEND completes when it has arrived, perhaps
    /// before memory has changed; it then succeeds even if its memory is missing when its turn
    /// comes.
    pub tag: Tag,
    /// True: the operation is issued only when every earlier READ and atomic of its Jetty has
    /// completed.
    pub fence: bool,
    /// True: the operation completes here only after every earlier operation of its Jetty.
    pub complete_in_order: bool,
    /// True: the receive that the operation consumes completes only after the receives of all
    /// earlier operations of its Jetty to the same node that have this flag. Ignored for an
    /// operation that consumes none, such as a READ.
    pub receive_in_order: bool,
}

/// One operation to be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// The caller's own number, returned in the completion.
    pub id: u64,
    /// The channel to the peer.
    pub channel: ChannelId,
    /// The operation.
    pub work: Work,
    /// The local bytes.
    pub local: LocalRange,
    /// If false, success makes no completion; failure always does.
    pub signaled: bool,
    /// The order that the operation requests.
    pub order: OrderRequest,
}

/// A buffer for one incoming SEND, or a slot for one WRITE_IMM (which leaves the buffer alone).
pub type ReceiveRequest = fairway_device::ReceiveRequest<LocalRange>;

/// Settings of a Jetty to be created.
#[derive(Clone, Copy, Debug)]
pub struct JettyConfig {
    /// A fixed number, or `None` for any free one.
    pub number: Option<u32>,
    /// Completion queue for the Jetty's own operations.
    pub send_queue: CompletionQueueId,
    /// Completion queue for the Jetty's receives.
    pub receive_queue: CompletionQueueId,
    /// The secret that a remote peer must present to send to it.
    pub token_value: u32,
    /// The effect on the Jetty when one of its operations fails.
    pub exception: ExceptionMode,
    /// True: messages of a peer Jetty that request their receives in order consume them in that
    /// order, however early they arrive; and they complete only when everything that was posted
    /// before with a number of the target's order has been executed. Such a peer Jetty must request
    /// this for all that it sends to this Jetty, and for nothing that it sends to other Jetties of
    /// the node. It does not wait for what other peer Jetties send to this one.
    pub in_sequence: bool,
}

impl JettyConfig {
    /// Settings with any free number and no secret; the Jetty continues when operations fail.
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

/// The effect on a Jetty when one of its own operations fails for a recoverable reason: a refusal,
/// or a receiver that was never ready. (If the peer is gone, every operation to it fails and the
/// Jetty stays as it is.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ExceptionMode {
    /// The Jetty stays ready.
    #[default]
    Continue,
    /// The Jetty is suspended: what was posted runs to its end, and nothing more may be posted
    /// until the Jetty is resumed.
    Suspend,
    /// The Jetty enters the error state: everything is flushed.
    Error,
}

/// The state of a Jetty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum JettyState {
    /// The number is free.
    Reset,
    /// The Jetty sends and receives.
    Ready,
    /// What was posted runs to its end; nothing more may be posted, and messages of peers are
    /// refused as "not ready".
    Suspended,
    /// What was not yet sent is flushed; nothing may be posted, and messages of peers are refused
    /// as "no such Jetty".
    Error,
    /// The number is that of a group: a name under which other Jetties receive.
    Group,
}

/// How a Jetty group chooses the member that takes a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dispatch {
    /// The member whose number is the message's hint modulo the number of members.
    Hint,
    /// Each member in turn.
    #[default]
    RoundRobin,
    /// The member with the fewest receives that messages have consumed and that were not posted
    /// again; of equal ones the first.
    LeastDepth,
}

/// Settings of a Jetty group to be created.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupConfig {
    /// A fixed number, or `None` for any free one.
    pub number: Option<u32>,
    /// How members are chosen.
    pub dispatch: Dispatch,
    /// The secret that a remote peer must present to send to it.
    pub token_value: u32,
}

/// Names a mailbox of one NIC. The id carries a generation, so the id of a closed mailbox is
/// invalid even after its index has been reused.
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

/// The treatment of a put for which no buffer is posted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenEmpty {
    /// The put waits at the sender, which retries it.
    #[default]
    Wait,
    /// The put is refused and fails at the sender.
    Refuse,
}

/// Settings of a mailbox to be created.
#[derive(Clone, Copy, Debug)]
pub struct MailboxConfig {
    /// The mailbox's address; `None` makes it the catch-all, which takes puts to addresses that no
    /// other mailbox has.
    pub address: Option<u64>,
    /// The secret that a remote peer must present.
    pub key: u32,
    /// When an epoch is complete.
    pub threshold: Threshold,
    /// The side that decides where in the buffer a put goes.
    pub steering: Steering,
    /// The treatment of a put for which no buffer is posted.
    pub when_empty: WhenEmpty,
    /// How many buffers of completed epochs are kept for [`crate::UbDevice::rewind`].
    pub retired: u32,
}

/// Reports that an epoch of a mailbox has ended and its buffer belongs to the application again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochDone {
    /// The mailbox.
    pub mailbox: MailboxId,
    /// The number of the epoch, counted from 0.
    pub epoch: u64,
    /// The caller's number for the buffer.
    pub id: u64,
    /// The buffer.
    pub buffer: LocalRange,
    /// Bytes of the epoch's puts.
    pub bytes: u64,
    /// Number of the epoch's puts.
    pub operations: u64,
    /// The address of the last put: the mailbox's own, or for the catch-all the one that the put
    /// named.
    pub address: u64,
    /// True if the application ended the epoch before its threshold.
    pub early: bool,
    /// Puts that were not finished because their sender was gone. What they had placed stays in the
    /// buffer, but it is not all of their bytes.
    pub cancelled: u32,
    /// Stream mode: bytes from the start of the buffer to the end of the last put; more than
    /// `bytes` if there are holes. Otherwise 0.
    pub extent: u32,
}

/// The parameters on which both sides agreed when a channel was set up.
pub struct ChannelConfig {
    /// The first channel of the TP channel group that this one joins; `None` if it begins one.
    pub leader: Option<ChannelId>,
    /// The engine that sends the channel's packets: see [`crate::UbDevice::poll_engine`].
    pub engine: u32,
    /// The peer's node address.
    pub remote: Cna,
    /// The peer's number for this channel.
    pub remote_tpn: Tpn,
    /// The first PSN that this side sends.
    pub first_psn: Psn,
    /// The first PSN the peer sends.
    pub remote_first_psn: Psn,
    /// The first message number that this side uses. The peer need not know it.
    pub first_message: Msn,
    /// Unreliable messages may be sent and are accepted.
    pub unreliable: bool,
    /// Loads and stores may be sent and are accepted.
    pub bypass: bool,
    /// Parts of operations that go by several channels of the group may be sent. (They are always
    /// accepted.)
    pub parts: bool,
    /// The group goes on without this channel when it is dead and another one of the group still
    /// hears from the peer ([`Event::ChannelRetired`]).
    pub retires: bool,
    /// Data packets may carry acknowledgements.
    pub carried_acks: bool,
    /// Payload bytes of every packet of a message but its last.
    pub mtu: u32,
    /// Paths: 1 to 256.
    pub paths: u32,
    /// Packets that the peer can track beyond what it has acknowledged.
    pub remote_window: u32,
    /// Messages of several packets that the peer tracks at once.
    pub remote_message_slots: u32,
    /// Reads that the peer serves at once.
    pub remote_read_slots: u32,
    /// The channel's policies: congestion control, path choice and loss detection.
    pub policy: PolicySet,
}

/// True if the target orders transactions of this mode and tag. Such transactions carry a sequence
/// number.
pub(crate) fn is_numbered(mode: ServiceMode, tag: Tag) -> bool {
    tag != Tag::No && mode != ServiceMode::Roi
}
