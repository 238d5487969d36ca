//! Drives a [`Device`] for callers that have memory of their own: a simulator, a model, a test.
//!
//! [`Driver`] is the contract as those callers see it: it turns the verdicts and executions of any
//! protocol into one kind of request, [`Access`], and what the device has for its application into
//! one kind of [`Output`]. It keeps the order that the contract asks for.
//!
//! | the caller | calls | until |
//! |---|---|---|
//! | has a packet that arrived | [`Driver::handle_packet`] | |
//! | after a packet or a report | [`Driver::poll_access`] | `None` |
//! | has carried an access out, now or later | [`Driver::handle_placed`] | |
//! | finds its memory missing | [`Driver::handle_unplaced`] | |
//! | has room on its wire | [`Driver::poll_transmit`] | `None`, or the wire is full |
//! | finds the payload missing | [`Driver::handle_ungathered`] | |
//! | has seen time pass | [`Driver::handle_time`] | |
//! | has time for its application | [`Driver::outputs`] | they end |
//!
//! The driver decides nothing: when an access is carried out, which packets are lost and which
//! memory is missing is the caller's part. Faults are injected there.

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

/// A device whose own verdicts and outputs a [`Driver`] can pass on.
pub trait Driven: Device<OwnVerdict: Into<Request<Self::Token>>> {
    /// An output that only this protocol has.
    type OwnOutput;

    /// The next output that only this protocol has.
    fn poll_own_output(&mut self) -> Option<Self::OwnOutput> {
        None
    }

    /// The next packet that has to be sent before `received` is handed in, because `received` will
    /// change its payload. A device of which this is not asked has `received` sent again.
    fn poll_answer(&mut self, _received: &Self::Received) -> Option<Self::Transmit> {
        None
    }

    /// The place of a packet that was buffered ([`Request::Buffer`]) and whose turn has come.
    fn poll_replay(&mut self) -> Option<u32> {
        None
    }

    /// A packet as it is handed in again after it was buffered: its congestion mark has been
    /// counted.
    fn unmarked(received: &Self::Received) -> Self::Received;

    /// The parts of the device that send independently of each other.
    fn engines(&self) -> u32 {
        1
    }

    /// The next packet of one of the [`Self::engines`].
    fn poll_engine(&mut self, now: Instant, _engine: u32) -> Option<Self::Transmit> {
        self.poll_transmit(now)
    }
}

/// The request behind a verdict that only one protocol gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<K> {
    /// Change a word.
    Atomic(AtomicExecution<K>),
    /// Put a value there: 8 bytes.
    Store {
        /// Where it belongs.
        target: ScatterList,
        /// The value, in the order of the machine's bytes.
        value: u64,
        /// Reported with [`Driver::handle_placed`].
        token: K,
    },
    /// Buffer the packet at this place until [`Driven::poll_replay`] names the place.
    Buffer(u32),
}

impl<K> From<AtomicExecution<K>> for Request<K> {
    fn from(atomic: AtomicExecution<K>) -> Self {
        Request::Atomic(atomic)
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome<A, R> {
    /// Nothing is to be done now.
    Done,
    /// Memory is to be accessed.
    Access(A),
    /// The device ignored it; the reason has been counted.
    Dropped(R),
}

impl<A, R> Outcome<A, R> {
    /// The access that is to be carried out, if any.
    #[inline]
    pub fn access(self) -> Option<A> {
        match self {
            Outcome::Access(access) => Some(access),
            Outcome::Done | Outcome::Dropped(_) => None,
        }
    }
}

/// The outcomes of a device.
pub type OutcomeOf<D, P> = Outcome<AccessOf<D, P>, <D as Device>::DropReason>;

/// A device, and the packets that it has asked to be buffered with payloads of type `P`.
pub struct Driver<D: Device, P> {
    device: D,
    buffered: Vec<Option<(D::Received, P)>>,
}

impl<D: Driven, P> Driver<D, P> {
    /// Drives a device that asks for at most `buffered` packets to be buffered at a time.
    pub fn new(device: D, buffered: usize) -> Self {
        let mut places = Vec::with_capacity(buffered);
        places.resize_with(buffered, || None);
        Driver { device, buffered: places }
    }

    /// The device, for its commands and everything else that is not part of the contract.
    #[inline]
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device, likewise.
    #[inline]
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Hands a packet to the device. `payload` is asked for only if the packet has a place.
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

    /// [`Self::handle_packet`] for a caller that can send at once: first it gets the packets that
    /// have to be sent before this one takes effect. Their payload is to be gathered at once.
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

    /// The next access that waited for its turn and is due now, whether the driver buffered its
    /// packet or the device its payload.
    #[inline]
    pub fn poll_access(&mut self, now: Instant) -> Option<AccessOf<D, P>> {
        self.poll_replay(now).or_else(|| self.poll_execution())
    }

    /// [`Self::poll_access`] for a caller that can send at once, likewise.
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

    /// The first half of [`Self::poll_access`]: hands in the packets that were buffered and whose
    /// turn has come. Returns the first access that one of them needs.
    #[inline]
    pub fn poll_replay(&mut self, now: Instant) -> Option<AccessOf<D, P>> {
        self.replay(|driver, received, payload| driver.handle_packet(now, received, || payload))
    }

    /// The second half of [`Self::poll_access`]: the next access that the device put off.
    #[inline]
    pub fn poll_execution(&mut self) -> Option<AccessOf<D, P>> {
        Some(match self.device.poll_execution()?.into() {
            Execution::Copy { from, to, token } => Access::Copy { from, to, token },
            Execution::Atomic(atomic) => Access::Atomic(atomic),
        })
    }

    /// Reports that an access was carried out. `old` is the value that a word had before, and
    /// otherwise 0.
    #[inline]
    pub fn handle_placed(&mut self, now: Instant, token: D::Token, old: u64) {
        self.device.handle_placed(now, token, old);
    }

    /// Reports that an access could not be carried out, or only in part: memory is missing.
    #[inline]
    pub fn handle_unplaced(&mut self, now: Instant, token: D::Token) {
        self.device.handle_unplaced(now, token);
    }

    /// The next packet to send.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<D::Transmit> {
        self.device.poll_transmit(now)
    }

    /// The next packet to send of any engine: `first` is asked first.
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

    /// Lets the device do what is due at `now`. Returns whether anything was.
    #[inline]
    pub fn handle_time(&mut self, now: Instant) -> bool {
        let is_due = self.device.poll_timeout().is_some_and(|due| now.is_at_or_after(due));
        if is_due {
            self.device.handle_timeout(now);
        }
        is_due
    }

    /// When [`Self::handle_time`] is to be called next, if ever.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.device.poll_timeout()
    }

    /// Takes out what the device has for its application, with the completions of `queues`.
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
