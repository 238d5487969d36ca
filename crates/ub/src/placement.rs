//! Pending placements: where the payload of a packet belongs, and what its token is for.

use crate::answer::Answer;
use crate::api::{ChannelId, DropReason, LocalRange};
use crate::arrival::Arrival;
use crate::deferred::Deferred;
use crate::message::Message;
use crate::pool::Index;
use fairway_wire::{Msn, Psn};

/// The decision about a received packet. The verdict `Own` is an atomic: the caller changes the
/// word, then calls [`crate::UbDevice::handle_placed`] with its old value.
pub type Verdict = fairway_device::Verdict<Placement, AtomicExecution, DropReason>;

/// Where the payload of a packet belongs.
pub type Placement = fairway_device::Placement<LocalRange, PlacementToken>;

/// An atomic to be executed now, atomically with everything else that touches the word.
pub type AtomicExecution = fairway_device::AtomicExecution<PlacementToken>;

/// Work that waited for its turn and is due now; see [`crate::UbDevice::poll_execution`].
pub type Execution = fairway_device::Execution<PlacementToken>;

/// Identifies a pending placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementToken {
    pub(crate) channel: ChannelId,
    pub(crate) psn: Psn,
    pub(crate) message: Msn,
    pub(crate) purpose: Purpose,
    pub(crate) bytes: u32,
    pub(crate) ack_request: bool,
    pub(crate) retry: bool,
}

impl PlacementToken {
    /// The channel on which the packet came.
    pub const fn channel(&self) -> ChannelId {
        self.channel
    }
}

/// The operation that a placement is part of, with the record that counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A WRITE of one packet, or nothing: only the transport counts it.
    Plain,
    /// A part of this arrival.
    Arrival(Index<Arrival>),
    /// A part of the answer to this READ or GET posted here.
    Read(Index<Message>),
    /// The payload of this deferred packet, into the staging memory until its turn comes.
    Staging(Index<Deferred>),
    /// A word is being changed, and this answer returns its old value.
    Atomic(Index<Message>),
    /// This deferred packet, which is being executed.
    Deferred(Index<Deferred>),
    /// An unreliable message for this arrival.
    Datagram(Index<Arrival>),
    /// An unreliable WRITE, which no record counts.
    DatagramWrite,
    /// A store that bypasses the transport, with the answer to be sent.
    Stored(Index<Answer>),
    /// The answer to this load posted here.
    Loaded(Index<Message>),
}
