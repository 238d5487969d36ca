//! Drives a [`Device`] for callers that have memory of their own: a simulator, a model, a test.
//!
//! [`Driver`] turns the verdicts and executions of any protocol into one kind of request,
//! [`Access`]. The caller carries an access out, now or later, and reports it with
//! [`Driver::handle_placed`]. After every packet it asks [`Driver::poll_recall`], and after every
//! packet and every report [`Driver::poll_execution`], until they return `None`.

use crate::contract::{AtomicExecution, Device, Execution, Verdict};
use crate::scatter::ScatterList;
use crate::values::LocalRange;
use alloc::vec::Vec;
use core::fmt;
use fairway_wire::Instant;

/// A device whose own verdicts a [`Driver`] can carry out.
pub trait Driven: Device<OwnVerdict: Into<Request<Self::Token>>> {
    /// The place of a packet that was kept ([`Request::Keep`]) and whose turn has come.
    fn poll_recall(&mut self) -> Option<u32> {
        None
    }

    /// A packet as it is handed in again after it was kept: its congestion mark has been counted.
    fn unmarked(received: &Self::Received) -> Self::Received;
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
    /// Keep the packet at this place until [`Driven::poll_recall`] names the place.
    Keep(u32),
}

impl<K> From<AtomicExecution<K>> for Request<K> {
    fn from(atomic: AtomicExecution<K>) -> Self {
        Request::Atomic(atomic)
    }
}

/// An access to memory that a device asks for. `P` is the payload, as the caller has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access<T, K, P> {
    /// Put the payload of a packet there.
    Place {
        /// Where it belongs.
        target: T,
        /// The payload that came with the packet.
        payload: P,
        /// Reported with [`Driver::handle_placed`].
        token: K,
    },
    /// Put a value there: 8 bytes, in the order of the machine's bytes.
    Store {
        /// Where it belongs.
        target: ScatterList,
        /// The value.
        value: u64,
        /// Reported with [`Driver::handle_placed`].
        token: K,
    },
    /// Copy a payload that was set aside.
    Copy {
        /// The range of the stash that holds it.
        from: LocalRange,
        /// The range that it belongs to, of the same length.
        to: LocalRange,
        /// Reported with [`Driver::handle_placed`].
        token: K,
    },
    /// Change a word, and report the value that it had before.
    Atomic(AtomicExecution<K>),
}

/// The accesses that a device asks for.
pub type AccessOf<D, P> = Access<<D as Device>::Target, <D as Device>::Token, P>;

impl<T, K: Copy, P> Access<T, K, P> {
    /// Names the access to the device when it is reported.
    pub fn token(&self) -> K {
        match self {
            Access::Place { token, .. }
            | Access::Store { token, .. }
            | Access::Copy { token, .. } => *token,
            Access::Atomic(atomic) => atomic.token,
        }
    }
}

/// A device, and the packets that it has asked to be kept with payloads of type `P`.
pub struct Driver<D: Device, P> {
    device: D,
    kept: Vec<Option<(D::Received, P)>>,
}

impl<D: Driven, P> Driver<D, P> {
    /// Drives a device that asks for at most `kept` packets to be kept at a time.
    pub fn new(device: D, kept: usize) -> Self {
        let mut places = Vec::with_capacity(kept);
        places.resize_with(kept, || None);
        Driver { device, kept: places }
    }

    /// The device, for everything but packets and placements.
    #[inline]
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device, likewise.
    #[inline]
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Hands a packet to the device. Returns the access that the device asks for, if any.
    #[inline]
    pub fn handle_packet(
        &mut self,
        now: Instant,
        received: &D::Received,
        payload: P,
    ) -> Option<AccessOf<D, P>> {
        let request = match self.device.handle_packet(now, received) {
            Verdict::Place(placement) => {
                let (target, token) = (placement.target, placement.token);
                return Some(Access::Place { target, payload, token });
            }
            Verdict::Own(own) => own.into(),
            Verdict::Done | Verdict::Drop(_) => return None,
        };
        match request {
            Request::Atomic(atomic) => Some(Access::Atomic(atomic)),
            Request::Store { target, value, token } => Some(Access::Store { target, value, token }),
            Request::Keep(place) => {
                let place = self.kept.get_mut(place as usize);
                *place.expect("a device keeps no more than it said") =
                    Some((D::unmarked(received), payload));
                None
            }
        }
    }

    /// Hands in the packets that were kept and whose turn has come. Returns the first access that
    /// one of them needs.
    #[inline]
    pub fn poll_recall(&mut self, now: Instant) -> Option<AccessOf<D, P>> {
        loop {
            let place = self.device.poll_recall()?;
            let kept = self.kept.get_mut(place as usize).and_then(Option::take);
            let Some((received, payload)) = kept else { continue };
            let access = self.handle_packet(now, &received, payload);
            if access.is_some() {
                return access;
            }
        }
    }

    /// The next access that waited for its turn and is due now.
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
}

impl<D: Device + fmt::Debug, P> fmt::Debug for Driver<D, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("device", &self.device).finish_non_exhaustive()
    }
}
