//! What a message is: an operation of our own or an answer to one of the peer, a variant per kind.

use crate::api::{CompletionKind, RemoteMailbox, RemoteRange, Work};
use crate::limits::Profile;
use crate::list::Links;
use crate::message::Message;
use crate::pool::Index;
use fairway_wire::{Access, AtomicOperator, Get, Operation, Put, Refusal, Target};

/// What a message is, with what only messages of its kind have. The kind never changes.
///
/// The tag is a byte of its own: every packet looks at it.
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

/// An atomic of our own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnAtomic {
    remote: RemoteRange,
    operator: AtomicOperator,
    operand: u64,
    compare: u64,
    /// The old value of the word; zero until the answer has brought it.
    pub(crate) old: u64,
}

/// A put of our own; [`crate::put_streams`] numbers it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnPut {
    pub(crate) mailbox: RemoteMailbox,
    offset: u64,
    /// The epoch that the operation names.
    pub(crate) epoch: Option<u32>,
    /// Its number among the puts of its Jetty to its mailbox, and the bytes of those before it.
    pub(crate) sequence: u32,
    pub(crate) before: u32,
    /// How many of its stream had been let go when it was, or when it was sent back.
    pub(crate) serial: u32,
    pub(crate) links: Links<Index<Message>>,
    /// The receiver has not taken note of its number.
    pub(crate) is_unnoted: bool,
    /// All earlier ones of its Jetty to its mailbox are over.
    pub(crate) is_oldest: bool,
    /// An earlier one may be waiting for something.
    pub(crate) follows: bool,
    /// It counts as under way; and it was sent back because earlier ones were missing.
    pub(crate) is_issued: bool,
    pub(crate) was_early: bool,
    /// It may have to wait for something.
    pub(crate) is_bound: bool,
}

/// A load or store of our own, which takes no packet sequence number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsequenced {
    pub(crate) remote: RemoteRange,
    /// Its number among the loads and stores of its channel, from when it is sent first.
    pub(crate) number: u32,
}

/// The answer to an operation of the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnAnswer {
    pub(crate) reply: Reply,
    /// The number of the peer's operation is to be marked as executed when the answer has arrived.
    pub(crate) marks: bool,
    /// It answers a READ in memory order: what overlaps it waits until it has arrived.
    pub(crate) is_tracked: bool,
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Nothing yet: the record is set aside until the operation has been executed or refused.
    Pending,
    /// The bytes that a READ or GET asks for. `refused_next`: they could not be gathered, and a
    /// refusal takes over the record when nothing of them is under way.
    Bytes { refused_next: bool },
    /// The old value of an atomic's word.
    Old(u64),
    /// The transaction's acknowledgement (TAACK), or why the transaction was refused.
    Done(Option<Refusal>),
}

/// What the record of an operation that is over tells the target, in place of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Nothing needs to wait for the operation: it was given up.
    Abandoned,
    /// All puts of the stream up to this number are over.
    PutsOver { through: u32 },
}

impl Body {
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

    /// What the completion of the operation calls it.
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

    /// Does the local range travel with it?
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

    /// Does it ask for an answer of its own, whatever the mode?
    pub(super) fn is_question(&self) -> bool {
        matches!(self, Body::Read { .. } | Body::Get { .. } | Body::Atomic(_))
    }

    /// What a packet of a message of `length` bytes says; `start_known`: the receiver knows where
    /// the message starts.
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
    /// Nothing to say yet.
    pub(super) const PENDING: OwnAnswer =
        OwnAnswer { reply: Reply::Pending, marks: false, is_tracked: false };
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
                Operation::Done { refusal, retry_after_us: if waits { retry_after } else { 0 } }
            }
        }
    }
}

/// The remote memory that an operation on `length` bytes names.
pub(crate) fn access(remote: &RemoteRange, length: u32) -> Access {
    Access {
        address: remote.address,
        length,
        token_id: remote.token_id,
        token_value: remote.token_value,
    }
}
