//! The kinds of messages: local operations and answers to the peer's, one variant per kind.

use crate::api::{CompletionKind, RemoteMailbox, RemoteRange, Work};
use crate::limits::Profile;
use crate::list::Links;
use crate::message::Message;
use crate::pool::Index;
use fairway_wire::{Access, AtomicOperator, Executed, Get, Operation, Put, Refusal, Target};

/// The kind of a message, with the data that only this kind has. The kind never changes.
///
/// The tag is a separate byte, because every packet reads it.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Body {
    Write {
        remote: RemoteRange,
    },
    WriteImmediate {
        remote: RemoteRange,
        target: Target,
        immediate: u64,
    },
    /// `placed`: bytes of the answer that are in place.
    Read {
        remote: RemoteRange,
        placed: u32,
    },
    Send {
        target: Target,
    },
    SendImmediate {
        target: Target,
        immediate: u64,
    },
    Atomic(OwnAtomic),
    Put(OwnPut),
    /// `placed`: as in `Read`.
    Get {
        mailbox: RemoteMailbox,
        offset: u64,
        epoch: Option<u32>,
        placed: u32,
    },
    Load(Unsequenced),
    Store(Unsequenced),
    Answer(OwnAnswer),
}

/// A local atomic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnAtomic {
    remote: RemoteRange,
    operator: AtomicOperator,
    operand: u64,
    compare: u64,
    /// The old value of the word; zero until the answer has arrived.
    pub(crate) old: u64,
}

/// A local put; [`crate::put_streams`] numbers it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnPut {
    pub(crate) mailbox: RemoteMailbox,
    offset: u64,
    /// The epoch that the operation names.
    pub(crate) epoch: Option<u32>,
    /// The put's number among the puts of its Jetty to its mailbox, and the bytes of those before
    /// it.
    pub(crate) sequence: u32,
    pub(crate) before: u32,
    /// Number of puts of its stream issued before this one was issued, or was sent back.
    pub(crate) serial: u32,
    pub(crate) links: Links<Index<Message>>,
    /// Set if the receiver has not recorded the put's number.
    pub(crate) is_unnoted: bool,
    /// Set if all earlier puts of its Jetty to its mailbox have ended.
    pub(crate) is_oldest: bool,
    /// Set if an earlier put may be waiting for something.
    pub(crate) follows: bool,
    /// Set if the put counts as under way; and if it was sent back because earlier ones were
    /// missing.
    pub(crate) is_issued: bool,
    pub(crate) was_early: bool,
    /// Set if the put may have to wait for something.
    pub(crate) is_bound: bool,
}

/// A local load or store, which takes no packet sequence number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsequenced {
    pub(crate) remote: RemoteRange,
    /// Number among the loads and stores of its channel, set when it is first sent.
    pub(crate) number: u32,
}

/// The answer to an operation of the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnAnswer {
    pub(crate) reply: Reply,
    /// Set if the number of the peer's operation is to be marked as executed when the answer has
    /// arrived.
    pub(crate) marks: bool,
    /// Set for the answer to a READ in memory order: operations that overlap it wait until it has
    /// arrived.
    pub(crate) is_tracked: bool,
    /// The local Jetty that granted the peer's access, where Jetties guard the segments.
    pub(crate) via: Option<u32>,
    /// Further operations of the peer, all executed, that this answer acknowledges. Only in
    /// `Reply::Done(None)`.
    others: Executed,
}

/// Content of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Not known yet: the record is reserved until the operation has been executed or refused.
    Pending,
    /// The bytes that a READ or GET requests. `refused_next`: they could not be gathered, and a
    /// refusal takes over the record when nothing of them is under way.
    Bytes { refused_next: bool },
    /// The old value of an atomic's word.
    Old(u64),
    /// The transaction's acknowledgement (TAACK), or the reason for its refusal.
    Done(Option<Refusal>),
}

/// Notice to the target that the record of an ended operation sends in place of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The operation was abandoned: nothing needs to wait for it.
    Abandoned,
    /// All puts of the stream up to this number have ended.
    PutsOver { through: u32 },
}

impl Body {
    #[inline(always)]
    pub(super) fn of(work: &Work) -> Body {
        match *work {
            Work::Write { remote } => Body::Write { remote },
            Work::WriteImmediate { remote, target, immediate } => {
                Body::WriteImmediate { remote, target, immediate }
            }
            Work::Read { remote } => Body::Read { remote, placed: 0 },
            Work::Send { target } => Body::Send { target },
            Work::SendImmediate { target, immediate } => Body::SendImmediate { target, immediate },
            Work::Atomic { remote, operator, operand, compare, .. } => {
                Body::Atomic(OwnAtomic { remote, operator, operand, compare, old: 0 })
            }
            Work::Put { mailbox, offset, epoch } => Body::Put(OwnPut {
                mailbox,
                offset,
                epoch,
                sequence: 0,
                before: 0,
                serial: 0,
                links: Links::UNLINKED,
                is_unnoted: false,
                is_oldest: false,
                follows: false,
                is_issued: false,
                was_early: false,
                is_bound: false,
            }),
            Work::Get { mailbox, offset, epoch } => Body::Get { mailbox, offset, epoch, placed: 0 },
            Work::Load { remote } => Body::Load(Unsequenced { remote, number: 0 }),
            Work::Store { remote } => Body::Store(Unsequenced { remote, number: 0 }),
        }
    }

    /// The operation's kind in its completion.
    pub(super) fn completes_as(&self) -> CompletionKind {
        match self {
            Body::Read { .. } => CompletionKind::Read,
            Body::Send { .. } | Body::SendImmediate { .. } => CompletionKind::Send,
            Body::Atomic(_) => CompletionKind::Atomic,
            Body::Put(_) => CompletionKind::Put,
            Body::Get { .. } => CompletionKind::Get,
            Body::Load(_) => CompletionKind::Load,
            Body::Store(_) => CompletionKind::Store,
            Body::Write { .. } | Body::WriteImmediate { .. } | Body::Answer(_) => {
                CompletionKind::Write
            }
        }
    }

    /// True if the message carries the bytes of its local range.
    pub(super) fn has_payload(&self) -> bool {
        matches!(
            self,
            Body::Write { .. }
                | Body::WriteImmediate { .. }
                | Body::Send { .. }
                | Body::SendImmediate { .. }
                | Body::Put(_)
                | Body::Answer(OwnAnswer { reply: Reply::Bytes { .. }, .. })
        )
    }

    /// True if the message returns data of the target, and so gets an answer in every mode.
    pub(super) fn is_fetch(&self) -> bool {
        matches!(self, Body::Read { .. } | Body::Get { .. } | Body::Atomic(_))
    }

    /// The operation in a packet of a message of `length` bytes. `start_known`: the receiver has
    /// recorded where the message starts.
    pub(super) fn operation(&self, length: u32, start_known: bool, profile: &Profile) -> Operation {
        match *self {
            Body::Read { ref remote, .. } | Body::Load(Unsequenced { ref remote, .. }) => {
                Operation::Read { access: access(remote, length) }
            }
            Body::Answer(ref answer) => answer.operation(profile),
            Body::Atomic(ref atomic) => Operation::Atomic {
                access: access(&atomic.remote, length),
                operator: atomic.operator,
                operand: atomic.operand,
                compare: atomic.compare,
            },
            Body::Get { mailbox, offset, epoch, .. } => Operation::Get(Get {
                mailbox: mailbox.address,
                offset,
                length,
                key: mailbox.key,
                epoch: epoch.unwrap_or(0),
                named: epoch.is_some(),
            }),
            _ if start_known => Operation::Continuation,
            Body::Put(ref put) => Operation::Put(put.packet(length)),
            Body::Write { ref remote } | Body::Store(Unsequenced { ref remote, .. }) => {
                Operation::Write { access: access(remote, length) }
            }
            Body::WriteImmediate { ref remote, target, immediate } => {
                Operation::WriteImmediate { access: access(remote, length), target, immediate }
            }
            Body::Send { target } => Operation::Send { target, length },
            Body::SendImmediate { target, immediate } => {
                Operation::SendImmediate { target, length, immediate }
            }
        }
    }
}

impl OwnAnswer {
    /// An answer whose content is not known yet.
    pub(super) const PENDING: OwnAnswer = OwnAnswer {
        reply: Reply::Pending,
        marks: false,
        is_tracked: false,
        via: None,
        others: Executed::NONE,
    };
}

impl OwnPut {
    fn packet(&self, length: u32) -> Put {
        Put {
            mailbox: self.mailbox.address,
            offset: self.offset,
            sequence: self.sequence,
            before: self.before,
            length,
            key: self.mailbox.key,
            epoch: self.epoch.unwrap_or(0),
            named: self.epoch.is_some(),
            oldest: self.is_oldest,
            follows: self.follows,
        }
    }
}

impl OwnAnswer {
    fn operation(&self, profile: &Profile) -> Operation {
        match self.reply {
            Reply::Pending => unreachable!("an answer is sent that says nothing yet"),
            Reply::Bytes { .. } => Operation::ReadResponse,
            Reply::Old(value) => Operation::AtomicResponse { value },
            Reply::Done(refusal) => {
                let retry_after = profile.not_ready_delay.as_us().min(0xFFFF) as u16;
                let waits = refusal == Some(Refusal::ReceiverNotReady);
                let retry_after_us = if waits { retry_after } else { 0 };
                Operation::Done { refusal, retry_after_us, others: self.others }
            }
        }
    }

    /// Acknowledges one more operation of the peer with this answer. False if the answer is not the
    /// acknowledgement of an executed operation, or is full.
    pub(super) fn acknowledge_also(&mut self, slot: u8, transaction: u16) -> bool {
        self.reply == Reply::Done(None) && self.others.push(slot, transaction)
    }
}

/// The remote memory that an operation on `length` bytes accesses.
pub(crate) fn access(remote: &RemoteRange, length: u32) -> Access {
    Access {
        address: remote.address,
        length,
        token_id: remote.token_id,
        token_value: remote.token_value,
    }
}
