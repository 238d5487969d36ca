//! What the oracles and the applications record: operations that were posted, receives, where their
//! bytes lie, and what became of them.

use fairway_engine::wire::JettyId;
use fairway_engine::{ChannelId, OrderRequest, Status};

/// Every way in which an operation can end.
pub const STATUSES: [Status; 16] = [
    Status::Success,
    Status::RemoteAccess,
    Status::RemoteRights,
    Status::RemoteNoJetty,
    Status::RemoteLength,
    Status::RemoteOperation,
    Status::RemoteMisaligned,
    Status::RemoteResources,
    Status::RemoteNoMailbox,
    Status::RemoteEpoch,
    Status::TimedOut,
    Status::ReceiverNotReady,
    Status::PeerDead,
    Status::PeerClosed,
    Status::Flushed,
    Status::LocalMemory,
];

/// A range of a piece of memory: its key, and where in it.
pub(crate) type Place = (usize, usize);

/// A node in one of its lives.
pub(crate) type Life = (usize, u32);

/// A set of [`Status`]es.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statuses(u32);

impl Statuses {
    pub(crate) fn of(statuses: &[Status]) -> Self {
        Statuses(statuses.iter().fold(0, |set, status| set | 1 << *status as u8))
    }
    pub(crate) fn with(self, status: Status) -> Self {
        Statuses(self.0 | 1 << status as u8)
    }
    pub(crate) fn has(self, status: Status) -> bool {
        self.0 & 1 << status as u8 != 0
    }
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Write,
    WriteImmediate,
    Read,
    Send,
    SendImmediate,
    Atomic,
    Load,
    Store,
}

/// Where an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Pending,
    Done(Status),
    /// Its node crashed before it was done.
    Lost,
}

/// An operation that was posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) life: Life,
    pub(crate) target_life: Life,
    pub(crate) channel: ChannelId,
    pub(crate) jetty: JettyId,
    pub(crate) target_jetty: JettyId,
    pub(crate) kind: Kind,
    pub(crate) local: Place,
    /// Where its bytes belong (or, of a read, come from); none for sends, and for operations that
    /// name nothing that exists.
    pub(crate) remote: Option<Place>,
    pub(crate) length: u32,
    pub(crate) signaled: bool,
    /// How it may end if the channel lives.
    pub(crate) allowed: Statuses,
    pub(crate) state: State,
    /// Its receive has completed, of those that say so.
    pub(crate) noticed: bool,
    /// What it asks of the order.
    pub(crate) order: OrderRequest,
    /// Bytes of its own range that were changed.
    pub(crate) affected: u32,
    /// Of an atomic: the word's old value, once executed.
    pub(crate) old: Option<u64>,
    /// Of an atomic: it changes its word in a way of its own, so that it is recognised.
    pub(crate) counted: bool,
    /// Which member of a group is to take it, by the sender's choice.
    pub(crate) hint: u8,
    /// It found memory missing.
    pub(crate) missed: Trouble,
}

/// A posted receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    pub(crate) life: Life,
    pub(crate) jetty: JettyId,
    pub(crate) buffer: Place,
    pub(crate) length: u32,
    pub(crate) state: State,
    /// What was to be placed in it found it missing.
    pub(crate) missed: bool,
}

/// A message: its sender, the sender's life and channel, and the message's number there.
pub(crate) type MessageName = (usize, u32, u32, u32);

/// Where the bytes of a message begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Start {
    /// Its sender.
    pub(crate) life: Life,
    /// The Jetty of its operation: the sender's, or of an answer the reader's.
    pub(crate) jetty: JettyId,
    pub(crate) place: Place,
}

/// What found its memory missing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Missed {
    /// A packet of a request, at its sender.
    Request(Start),
    /// An unreliable message, at its sender.
    Datagram(Start),
    /// A packet of the answer to a READ of this peer, at the target.
    Answer(Life, Start),
    /// A packet of a request, at its target. Did it come from the staging memory?
    Payload { name: MessageName, is_from_staging: bool },
    /// What a READ or load brought.
    Brought,
    /// An atomic with this operand.
    Word(u64),
    /// A store of these bytes.
    Store(Place),
}

/// What an operation met with of memory that was missing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trouble {
    /// How it may end because of that.
    pub(crate) allowed: Statuses,
    /// What keeps it from success.
    pub(crate) bar: Option<Bar>,
    /// Some of it was in the staging memory, and could not be brought to its place.
    pub(crate) was_set_aside: bool,
}

/// What keeps an operation from success.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bar {
    /// It has ended in error.
    Ended,
    /// It was refused under this name. It may have been sent again under another, because the
    /// target had refused that message for another reason before.
    Refused(Start, MessageName),
}

impl Trouble {
    pub(crate) fn is_any(&self) -> bool {
        self.allowed != Statuses::default()
    }
}
