//! The contract between a protocol and its caller: [`Device`], and the values that have the same
//! form in both protocols.
//!
//! | step | call | the caller's part |
//! |---|---|---|
//! | a packet arrived | [`Device::handle_packet`] | executes the [`Verdict`] |
//! | a payload has been placed, or a word changed | [`Device::handle_placed`] | |
//! | the memory is missing | [`Device::handle_unplaced`] | |
//! | deferred work is due | [`Device::poll_execution`] | executes it, in the order given |
//! | a packet may be sent | [`Device::poll_transmit`] | gathers the payload and sends both |
//! | its payload is missing | [`Device::handle_ungathered`] | sends nothing |
//! | time has passed | [`Device::handle_timeout`] | |
//!
//! **Types that each protocol defines**, because the protocols differ there: packets (`Received`,
//! `Transmit`: Unified Bus routes by node and path, RoCE by address and queue pair), what a
//! placement needs beside its bytes (`Target`), the verdicts that only one of them returns
//! (`OwnVerdict`), and everything that names its objects: completions, status codes, events,
//! reasons for drops, limits. Posting work is not part of the contract, because each protocol has
//! its own work requests.

use crate::scatter::ScatterList;
use crate::values::{CompletionQueueId, LocalRange};
use fairway_wire::{AtomicOperator, Instant};

/// A NIC as a state machine: no clock, no sockets, no payload bytes. Payload is referred to, never
/// stored.
///
/// The caller must observe this order of calls: after every [`Self::handle_packet`] and
/// [`Self::handle_placed`], [`Self::poll_execution`] until it returns `None`. Times never decrease
/// from one call to the next.
pub trait Device {
    /// A packet that arrived, decoded and authenticated.
    type Received;
    /// The bytes of registered memory where a payload is to be placed.
    type Target: Ranges;
    /// Identifies a placement under way.
    type Token: Copy;
    /// A verdict that only this protocol returns.
    type OwnVerdict;
    /// The reason why a packet was ignored.
    type DropReason;
    /// Deferred work that is due.
    type Execution: Into<Execution<Self::Token>>;
    /// A packet to be sent: its destination, its headers, and a reference to its payload.
    type Transmit;
    /// The completion of one operation.
    type Completion;
    /// An event that no operation caused.
    type Event;

    /// Processes a packet, and returns the action that the caller must take.
    fn handle_packet(&mut self, now: Instant, received: &Self::Received) -> VerdictOf<Self>;

    /// Reports that a payload has been placed as a verdict or an execution requested, or that a
    /// word was changed, whose previous value is `old`. For everything but words `old` is 0.
    fn handle_placed(&mut self, now: Instant, token: Self::Token, old: u64);

    /// Reports, instead of [`Self::handle_placed`], that the memory is missing or read-only. Any of
    /// the bytes may have been written.
    fn handle_unplaced(&mut self, now: Instant, token: Self::Token);

    /// Reports that a packet was not sent, because the memory of its payload is missing. For a
    /// packet that no peer acknowledges this must be called before anything else is polled.
    fn handle_ungathered(&mut self, transmit: &Self::Transmit);

    /// Handles the timers that are due at `now`.
    fn handle_timeout(&mut self, now: Instant);

    /// Returns the next packet that may be sent.
    fn poll_transmit(&mut self, now: Instant) -> Option<Self::Transmit>;

    /// Returns the next deferred work that is due.
    fn poll_execution(&mut self) -> Option<Self::Execution>;

    /// Returns the next completion of a queue.
    fn poll_completion(&mut self, queue: CompletionQueueId) -> Option<Self::Completion>;

    /// Returns the next event.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// Time at which [`Self::handle_timeout`] must be called at the latest; it may be called
    /// earlier.
    fn poll_timeout(&self) -> Option<Instant>;
}

/// The verdict type of a device.
pub type VerdictOf<D> = Verdict<
    Placement<<D as Device>::Target, <D as Device>::Token>,
    <D as Device>::OwnVerdict,
    <D as Device>::DropReason,
>;

/// The action that the caller must take for a packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<P, O, R> {
    /// No action.
    Done,
    /// Copy the payload to this place, then call [`Device::handle_placed`].
    Place(P),
    /// An action that only this protocol requests; its type describes it.
    Own(O),
    /// Ignore the packet; the reason has been counted.
    Drop(R),
}

/// The place of a packet's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement<T, K> {
    /// The bytes where it is to be placed.
    pub target: T,
    /// The token to pass to [`Device::handle_placed`] afterwards.
    pub token: K,
}

/// An atomic to be executed now, atomically with all other accesses to the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicExecution<K> {
    /// The word: 4 or 8 bytes, at an address that is a multiple of its length.
    pub target: LocalRange,
    /// The change of the word.
    pub operator: AtomicOperator,
    /// The operand; the new value of a compare-and-swap.
    pub operand: u64,
    /// The value with which a compare-and-swap compares; otherwise 0.
    pub compare: u64,
    /// The token to pass to [`Device::handle_placed`] together with the previous value.
    pub token: K,
}

/// Deferred work that is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution<K> {
    /// Copy a payload that was set aside to its place, then call [`Device::handle_placed`].
    Copy {
        /// The range of the staging memory that contains it.
        from: LocalRange,
        /// The range of its place, of the same length.
        to: LocalRange,
        /// The token to pass to [`Device::handle_placed`].
        token: K,
    },
    /// Change a word, then call [`Device::handle_placed`].
    Atomic(AtomicExecution<K>),
}

impl<K> From<AtomicExecution<K>> for Execution<K> {
    fn from(atomic: AtomicExecution<K>) -> Self {
        Execution::Atomic(atomic)
    }
}

/// A buffer for one incoming message. (A WRITE with immediate data consumes one, and leaves its
/// bytes unchanged.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveRequest<L> {
    /// The caller's number, which the completion contains.
    pub id: u64,
    /// The buffer.
    pub local: L,
}

/// Bytes in one or more ranges of registered memory, in that order.
pub trait Ranges {
    /// The ranges.
    fn ranges(&self) -> &[LocalRange];

    /// Total length of the ranges, in bytes.
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
