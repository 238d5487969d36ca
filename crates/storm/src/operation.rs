//! Records of the oracles and applications: posted operations and receives, the places of their
//! bytes, and how they ended.

use fairway_ub::wire::JettyId;
use fairway_ub::{ChannelId, OrderRequest, Status};

/// All status values with which an operation can end.
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

/// A place in memory: the key of its piece, and the offset.
pub(crate) type Place = (usize, usize);

/// A node in one of its incarnations.
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

/// Kind of an operation.
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

/// State of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Pending,
    Done(Status),
    /// The node crashed before the operation ended.
    Lost,
}

/// A posted operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) life: Life,
    pub(crate) target_life: Life,
    pub(crate) channel: ChannelId,
    pub(crate) jetty: JettyId,
    pub(crate) target_jetty: JettyId,
    pub(crate) kind: Kind,
    pub(crate) local: Place,
    /// Place at the peer that its bytes are written to or, for a READ, read from; `None` for sends,
    /// and for operations that name nothing that exists.
    pub(crate) remote: Option<Place>,
    pub(crate) length: u32,
    pub(crate) signaled: bool,
    /// Ways in which it may end while the channel is open.
    pub(crate) allowed: Statuses,
    pub(crate) state: State,
    /// For operations with a receive: true if the receive has completed.
    pub(crate) noticed: bool,
    /// Requested ordering.
    pub(crate) order: OrderRequest,
    /// Bytes of its own range that were changed.
    pub(crate) affected: u32,
    /// For an atomic: the old value of the word, once executed.
    pub(crate) old: Option<u64>,
    /// For an atomic: true if its operand is unique, so that the atomic can be identified.
    pub(crate) counted: bool,
    /// Hint that selects a member of a group, if the sender chooses.
    pub(crate) hint: u8,
    /// True if its Jetty was aborted while it was under way: what was sent of it may still arrive.
    pub(crate) aborted: bool,
    /// Effects of missing memory on it.
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
    /// True if its Jetty was aborted before it completed.
    pub(crate) aborted: bool,
    /// True if a payload could not be placed in it because its memory was missing.
    pub(crate) missed: bool,
}

/// Identifies a message: its sender, the sender's incarnation and channel, and its number there.
pub(crate) type MessageName = (usize, u32, u32, u32);

/// Place where the bytes of a message begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Start {
    /// The sender.
    pub(crate) life: Life,
    /// Jetty of the operation: the sender's, or for a READ response the reader's.
    pub(crate) jetty: JettyId,
    pub(crate) place: Place,
    /// Bytes of the operation before this message: it may be a part of one.
    pub(crate) before: usize,
}

/// Access that failed because memory was missing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Missed {
    /// A packet of a request, at its sender.
    Request(Start),
    /// An unreliable message, at its sender.
    Datagram(Start),
    /// A packet of the response to a READ of this peer, at the target.
    Answer(Life, Start),
    /// A packet of a request, at its target; `is_from_staging` if it was copied from staging
    /// memory.
    Payload { name: MessageName, is_from_staging: bool },
    /// Data that a READ or load returned.
    Brought,
    /// An atomic with this operand.
    Word(u64),
    /// A store of these bytes.
    Store(Place),
}

/// Effects of missing memory on an operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trouble {
    /// Ways in which it may end because of that.
    pub(crate) allowed: Statuses,
    /// Reason for which it cannot succeed, if there is one.
    pub(crate) bar: Option<Bar>,
    /// True if some of its data was set aside and could not be copied to its place.
    pub(crate) was_set_aside: bool,
}

/// Reason for which an operation cannot succeed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bar {
    /// The operation has ended in error.
    Ended,
    /// The target refused it under this message name. It may have been sent again under another
    /// name, because the target had refused the message for another reason before.
    Refused(Start, MessageName),
}

impl Trouble {
    pub(crate) fn is_any(&self) -> bool {
        self.allowed != Statuses::default()
    }
}
