//! The contract between a protocol and its caller: [`Device`], and the values that both protocols
//! hand over in the same form.
//!
//! | step | call | the caller's part |
//! |---|---|---|
//! | a packet arrived | [`Device::handle_packet`] | carries out the [`Verdict`] |
//! | payload or word is in memory | [`Device::handle_placed`] | |
//! | the memory is missing | [`Device::handle_unplaced`] | |
//! | work that waited is due | [`Device::poll_execution`] | carries it out, in the order given |
//! | a packet may be sent | [`Device::poll_transmit`] | gathers the payload and sends both |
//! | its payload is missing | [`Device::handle_ungathered`] | sends nothing |
//! | time has passed | [`Device::handle_timeout`] | |
//!
//! **What stays a type of the protocol's own**, because the protocols differ there: packets
//! (`Received`, `Transmit`: Unified Bus routes by node and path, RoCE by address and queue pair),
//! what a placement needs beside its bytes (`Target`), the verdicts that only one of them gives
//! (`OwnVerdict`), and everything that names its objects: completions, status codes, events,
//! reasons for drops, limits. Posting work is not part of the contract: each protocol has work
//! requests of its own.

use crate::scatter::ScatterList;
use crate::values::{CompletionQueueId, LocalRange};
use fairway_wire::{AtomicOperator, Instant};

/// A NIC as a state machine: no clock, no sockets, no payload bytes. Payload is named, never held.
///
/// The order of calls is the caller's to keep: after every [`Self::handle_packet`] and
/// [`Self::handle_placed`], [`Self::poll_execution`] until it returns `None`. Times never decrease
/// from one call to the next.
pub trait Device {
    /// A packet that arrived, decoded and proven genuine.
    type Received;
    /// The bytes of registered memory that a payload belongs to.
    type Target: Ranges;
    /// Names a placement under way.
    type Token: Copy;
    /// A verdict that only this protocol gives.
    type OwnVerdict;
    /// Why a packet was ignored.
    type DropReason;
    /// Work that waited for its turn.
    type Execution: Into<Execution<Self::Token>>;
    /// A packet to be sent: its destination, its headers, and the name of its payload.
    type Transmit;
    /// One operation has ended.
    type Completion;
    /// Something happened that no operation asked for.
    type Event;

    /// Takes in a packet, and returns what is to be done with it.
    fn handle_packet(&mut self, now: Instant, received: &Self::Received) -> VerdictOf<Self>;

    /// Reports that a payload is where a verdict or an execution said, or that a word was changed
    /// and was `old` before. For everything but words `old` is 0.
    fn handle_placed(&mut self, now: Instant, token: Self::Token, old: u64);

    /// Reports, instead of [`Self::handle_placed`], that the memory is not there any more or cannot
    /// be written. Any of the bytes may have been written.
    fn handle_unplaced(&mut self, now: Instant, token: Self::Token);

    /// Reports that a packet was not sent, because the memory of its payload is not there any more.
    /// Of a packet that no peer acknowledges this comes before anything else is polled.
    fn handle_ungathered(&mut self, transmit: &Self::Transmit);

    /// Does what is due at `now`.
    fn handle_timeout(&mut self, now: Instant);

    /// The next packet to send, as long as there is one that may go.
    fn poll_transmit(&mut self, now: Instant) -> Option<Self::Transmit>;

    /// The next work that waited for its turn and is due now.
    fn poll_execution(&mut self) -> Option<Self::Execution>;

    /// The next completion of a queue.
    fn poll_completion(&mut self, queue: CompletionQueueId) -> Option<Self::Completion>;

    /// The next event.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// When [`Self::handle_timeout`] is to be called at the latest; it may be called earlier.
    fn poll_timeout(&self) -> Option<Instant>;
}

/// The verdicts of a device.
pub type VerdictOf<D> = Verdict<
    Placement<<D as Device>::Target, <D as Device>::Token>,
    <D as Device>::OwnVerdict,
    <D as Device>::DropReason,
>;

/// What is to become of a packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<P, O, R> {
    /// Nothing more to do.
    Done,
    /// Put the payload there, then call [`Device::handle_placed`].
    Place(P),
    /// What only this protocol asks for; its type says what is to be done.
    Own(O),
    /// Ignore it; the reason has been counted.
    Drop(R),
}

/// Where the payload of a packet belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement<T, K> {
    /// Where.
    pub target: T,
    /// What to hand to [`Device::handle_placed`] afterwards.
    pub token: K,
}

/// An atomic to be executed now, atomically with everything else that touches the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicExecution<K> {
    /// The word: 4 or 8 bytes, at an address that is a multiple of its length.
    pub target: LocalRange,
    /// How it changes.
    pub operator: AtomicOperator,
    /// The operand; the new value of a compare-and-swap.
    pub operand: u64,
    /// What a compare-and-swap compares with; otherwise 0.
    pub compare: u64,
    /// What to hand to [`Device::handle_placed`] together with the old value.
    pub token: K,
}

/// Work that waited for its turn and is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution<K> {
    /// Copy a payload that was set aside to where it belongs, then call
    /// [`Device::handle_placed`].
    Copy {
        /// Where it was set aside: a range of the staging memory.
        from: LocalRange,
        /// Where it belongs: as long.
        to: LocalRange,
        /// What to hand over afterwards.
        token: K,
    },
    /// Change a word, likewise.
    Atomic(AtomicExecution<K>),
}

impl<K> From<AtomicExecution<K>> for Execution<K> {
    fn from(atomic: AtomicExecution<K>) -> Self {
        Execution::Atomic(atomic)
    }
}

/// A buffer for one incoming message. (A WRITE with immediate data consumes one, and leaves the
/// bytes alone.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveRequest<L> {
    /// The caller's own number, returned in the completion.
    pub id: u64,
    /// The buffer.
    pub local: L,
}

/// Bytes that lie in one or more ranges of registered memory, in that order.
pub trait Ranges {
    /// The ranges.
    fn ranges(&self) -> &[LocalRange];

    /// Bytes in all.
    fn length(&self) -> u32 {
        self.ranges().iter().map(|range| range.length).sum()
    }
}

impl Ranges for LocalRange {
    fn ranges(&self) -> &[LocalRange] {
        core::slice::from_ref(self)
    }
}

impl Ranges for ScatterList {
    fn ranges(&self) -> &[LocalRange] {
        ScatterList::ranges(self)
    }
}
