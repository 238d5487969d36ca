//! Drives a [`Device`] for callers that manage the memory themselves: a simulator, a model, a test.
//!
//! [`Driver`] presents the contract to those callers: it converts the verdicts and executions of
//! any protocol to one kind of request, [`Access`], and the device's reports to its application to
//! one kind of [`Output`]. It observes the order that the contract requires.
//!
//! | the caller | calls | until |
//! |---|---|---|
//! | has received a packet | [`Driver::handle_packet`] | |
//! | has passed on a packet or a report | [`Driver::poll_access`] | `None` |
//! | has executed an access, now or later | [`Driver::handle_placed`] | |
//! | finds its memory missing | [`Driver::handle_unplaced`] | |
//! | can send a packet | [`Driver::poll_transmit`] | `None`, or no more can be sent |
//! | finds the payload missing | [`Driver::handle_ungathered`] | |
//! | has advanced the time | [`Driver::handle_time`] | |
//! | serves its application | [`Driver::outputs`] | they end |
//!
//! The driver decides nothing: the caller decides when an access is executed, which packets are
//! lost and which memory is missing, and so injects faults.

mod access;
mod output;
#[cfg(test)]
mod tests;

pub use access::{Access, AccessOf, Memory};
pub use output::{Output, OutputOf, Outputs};

use crate::contract::{AtomicExecution, Device, Execution, Verdict};
use crate::scatter::ScatterList;
use crate::values::CompletionQueueId;
use alloc::vec::Vec;
use core::fmt;
use fairway_wire::Instant;

/// A device with its own verdicts and outputs, which a [`Driver`] can pass on.
pub trait Driven: Device<OwnVerdict: Into<Request<Self::Token>>> {
    /// An output that only this protocol has.
    type OwnOutput;

    /// Returns the next output that only this protocol has.
    fn poll_own_output(&mut self) -> Option<Self::OwnOutput> {
        None
    }

    /// Returns the next packet that has to be sent before `received` is passed in, because
    /// `received` will change its payload. If the caller does not use this method, the device has
    /// `received` retransmitted.
    fn poll_answer(&mut self, _received: &Self::Received) -> Option<Self::Transmit> {
        None
    }

    /// Returns the place of a buffered packet ([`Request::Buffer`]) whose turn has come.
    fn poll_replay(&mut self) -> Option<u32> {
        None
    }

    /// Returns a buffered packet as it is passed in again: without its congestion mark, which has
    /// been counted.
    fn unmarked(received: &Self::Received) -> Self::Received;

    /// Number of parts of the device that send independently of each other.
    fn engines(&self) -> u32 {
        1
    }

    /// Returns the next packet of one of the [`Self::engines`].
    fn poll_engine(&mut self, now: Instant, _engine: u32) -> Option<Self::Transmit> {
        self.poll_transmit(now)
    }
}

/// The request in a verdict that only one protocol returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<K> {
    /// Change a word.
    Atomic(AtomicExecution<K>),
    /// Store a value of 8 bytes.
    Store {
        /// The bytes where it is stored.
        target: ScatterList,
        /// The value, in the machine's byte order.
        value: u64,
        /// The token to pass to [`Driver::handle_placed`].
        token: K,
    },
    /// Buffer the packet at this place until [`Driven::poll_replay`] returns the place.
    Buffer(u32),
}

impl<K> From<AtomicExecution<K>> for Request<K> {
    fn from(atomic: AtomicExecution<K>) -> Self {
        Request::Atomic(atomic)
    }
}

/// The result of passing a packet to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome<A, R> {
    /// Nothing is to be done now.
    Done,
    /// Memory is to be accessed.
    Access(A),
    /// The device ignored the packet; the reason has been counted.
    Dropped(R),
}

impl<A, R> Outcome<A, R> {
    /// Returns the access to execute, if any.
    #[inline]
    pub fn access(self) -> Option<A> {
        match self {
            Outcome::Access(access) => Some(access),
            Outcome::Done | Outcome::Dropped(_) => None,
        }
    }
}

/// The outcome type of a device.
pub type OutcomeOf<D, P> = Outcome<AccessOf<D, P>, <D as Device>::DropReason>;

/// A device, and the packets that it has requested to be buffered, with payloads of type `P`.
pub struct Driver<D: Device, P> {
    device: D,
    buffered: Vec<Option<(D::Received, P)>>,
}

impl<D: Driven, P> Driver<D, P> {
    /// Drives a device that requests at most `buffered` packets to be buffered at a time.
    pub fn new(device: D, buffered: usize) -> Self {
        let mut places = Vec::with_capacity(buffered);
        places.resize_with(buffered, || None);
        Driver { device, buffered: places }
    }

    /// The device, for its commands and other calls outside the contract.
    #[inline]
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device, mutable.
    #[inline]
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Passes a packet to the device. `payload` is called only if the packet has a place.
    #[inline]
    pub fn handle_packet(
        &mut self,
        now: Instant,
        received: &D::Received,
        payload: impl FnOnce() -> P,
    ) -> OutcomeOf<D, P> {
        let request = match self.device.handle_packet(now, received) {
            Verdict::Place(placement) => {
                let (target, token) = (placement.target, placement.token);
                return Outcome::Access(Access::Place { target, payload: payload(), token });
            }
            Verdict::Own(own) => own.into(),
            Verdict::Done => return Outcome::Done,
            Verdict::Drop(reason) => return Outcome::Dropped(reason),
        };
        match request {
            Request::Atomic(atomic) => Outcome::Access(Access::Atomic(atomic)),
            Request::Store { target, value, token } => {
                Outcome::Access(Access::Store { target, value, token })
            }
            Request::Buffer(place) => {
                let place = self.buffered.get_mut(place as usize);
                *place.expect("a device keeps no more than it said") =
                    Some((D::unmarked(received), payload()));
                Outcome::Done
            }
        }
    }

    /// As [`Self::handle_packet`], for a caller that can send at once: `send` first receives the
    /// packets that must be sent before this one takes effect. Their payload must be gathered at
    /// once.
    pub fn handle_packet_after_answers(
        &mut self,
        now: Instant,
        received: &D::Received,
        payload: impl FnOnce() -> P,
        mut send: impl FnMut(D::Transmit),
    ) -> OutcomeOf<D, P> {
        while let Some(answer) = self.device.poll_answer(received) {
            send(answer);
        }
        self.handle_packet(now, received, payload)
    }

    /// Returns the next deferred access that is due now, of a packet that the driver buffered or of
    /// a payload that the device set aside.
    #[inline]
    pub fn poll_access(&mut self, now: Instant) -> Option<AccessOf<D, P>> {
        self.poll_replay(now).or_else(|| self.poll_execution())
    }

    /// As [`Self::poll_access`], for a caller that can send at once.
    pub fn poll_access_after_answers(
        &mut self,
        now: Instant,
        mut send: impl FnMut(D::Transmit),
    ) -> Option<AccessOf<D, P>> {
        let replayed = self.replay(|driver, received, payload| {
            driver.handle_packet_after_answers(now, received, || payload, &mut send)
        });
        replayed.or_else(|| self.poll_execution())
    }

    /// The first half of [`Self::poll_access`]: passes in the buffered packets whose turn has come.
    /// Returns the first access that one of them needs.
    #[inline]
    pub fn poll_replay(&mut self, now: Instant) -> Option<AccessOf<D, P>> {
        self.replay(|driver, received, payload| driver.handle_packet(now, received, || payload))
    }

    /// The second half of [`Self::poll_access`]: returns the next access that the device has
    /// deferred.
    #[inline]
    pub fn poll_execution(&mut self) -> Option<AccessOf<D, P>> {
        Some(match self.device.poll_execution()?.into() {
            Execution::Copy { from, to, token } => Access::Copy { from, to, token },
            Execution::Atomic(atomic) => Access::Atomic(atomic),
        })
    }

    /// Reports that an access was executed. `old` is the previous value of a changed word, and
    /// otherwise 0.
    #[inline]
    pub fn handle_placed(&mut self, now: Instant, token: D::Token, old: u64) {
        self.device.handle_placed(now, token, old);
    }

    /// Reports that an access could not be executed, or only in part, because memory is missing.
    #[inline]
    pub fn handle_unplaced(&mut self, now: Instant, token: D::Token) {
        self.device.handle_unplaced(now, token);
    }

    /// Returns the next packet to send.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<D::Transmit> {
        self.device.poll_transmit(now)
    }

    /// Returns the next packet to send of any engine, beginning with `first`.
    #[inline]
    pub fn poll_transmit_from(&mut self, now: Instant, first: u32) -> Option<D::Transmit> {
        let engines = self.device.engines();
        let mut each = (0..engines).map(|step| (first + step) % engines);
        each.find_map(|engine| self.device.poll_engine(now, engine))
    }

    /// Reports that a packet was not sent, because its payload is missing.
    #[inline]
    pub fn handle_ungathered(&mut self, transmit: &D::Transmit) {
        self.device.handle_ungathered(transmit);
    }

    /// Lets the device handle the timers that are due at `now`. Returns true if any were.
    #[inline]
    pub fn handle_time(&mut self, now: Instant) -> bool {
        let is_due = self.device.poll_timeout().is_some_and(|due| now.is_at_or_after(due));
        if is_due {
            self.device.handle_timeout(now);
        }
        is_due
    }

    /// Time at which [`Self::handle_time`] is to be called next, if ever.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.device.poll_timeout()
    }

    /// Returns the device's outputs to its application, including the completions of `queues`.
    #[inline]
    pub fn outputs<'a>(&'a mut self, queues: &'a [CompletionQueueId]) -> Outputs<'a, D> {
        Outputs::new(&mut self.device, queues)
    }

    #[inline]
    fn replay(
        &mut self,
        mut hand_in: impl FnMut(&mut Self, &D::Received, P) -> OutcomeOf<D, P>,
    ) -> Option<AccessOf<D, P>> {
        loop {
            let place = self.device.poll_replay()?;
            let buffered = self.buffered.get_mut(place as usize).and_then(Option::take);
            let Some((received, payload)) = buffered else { continue };
            let outcome = hand_in(self, &received, payload);
            if let Outcome::Access(access) = outcome {
                return Some(access);
            }
        }
    }
}

impl<D: Device + fmt::Debug, P> fmt::Debug for Driver<D, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("device", &self.device).finish_non_exhaustive()
    }
}
