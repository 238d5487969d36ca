//! Accesses to memory that a device requests, in one form for every protocol.

use crate::contract::{AtomicExecution, Device, Ranges};
use crate::scatter::ScatterList;
use crate::values::LocalRange;

/// An access to memory that a device requests. `P` is the caller's payload type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access<T, K, P> {
    /// Copy the payload of a packet to its place.
    Place {
        /// The bytes where it is placed.
        target: T,
        /// The payload of the packet.
        payload: P,
        /// The token to pass to [`Driver::handle_placed`](super::Driver::handle_placed).
        token: K,
    },
    /// Store a value of 8 bytes, in the machine's byte order.
    Store {
        /// The bytes where it is stored.
        target: ScatterList,
        /// The value.
        value: u64,
        /// The token to pass to [`Driver::handle_placed`](super::Driver::handle_placed).
        token: K,
    },
    /// Copy a payload that was set aside to its place.
    Copy {
        /// The range of the staging memory that contains it.
        from: LocalRange,
        /// The range of its place, of the same length.
        to: LocalRange,
        /// The token to pass to [`Driver::handle_placed`](super::Driver::handle_placed).
        token: K,
    },
    /// Change a word, and report its previous value.
    Atomic(AtomicExecution<K>),
}

/// The access type of a device.
pub type AccessOf<D, P> = Access<<D as Device>::Target, <D as Device>::Token, P>;

/// Memory of a caller that simulates devices: the bytes of its registered segments.
pub trait Memory {
    /// The reason why the bytes of a range are missing, for example that the device must not use
    /// them.
    type Error;

    /// Returns the bytes of a range.
    ///
    /// # Errors
    /// If the caller has no such bytes.
    fn bytes(&mut self, range: &LocalRange) -> Result<&mut [u8], Self::Error>;
}

impl<T, K: Copy, P> Access<T, K, P> {
    /// Returns the token that identifies the access to the device when it is reported.
    pub fn token(&self) -> K {
        match self {
            Access::Place { token, .. }
            | Access::Store { token, .. }
            | Access::Copy { token, .. } => *token,
            Access::Atomic(atomic) => atomic.token,
        }
    }
}

impl<T: Ranges, K: Copy, P> Access<T, K, P> {
    /// Returns the ranges that the access changes, in order.
    pub fn ranges(&self) -> &[LocalRange] {
        match self {
            Access::Place { target, .. } => target.ranges(),
            Access::Store { target, .. } => target.ranges(),
            Access::Copy { to, .. } => to.ranges(),
            Access::Atomic(atomic) => atomic.target.ranges(),
        }
    }
}

impl<T: Ranges, K: Copy, P: AsRef<[u8]>> Access<T, K, P> {
    /// Executes the access. Returns the value to report with
    /// [`Driver::handle_placed`](super::Driver::handle_placed): the previous value of a changed
    /// word, otherwise 0. Words are little-endian on every machine, so that a simulation gives the
    /// same bits on each.
    ///
    /// # Errors
    /// If the memory lacks a range; ranges before it have been written.
    ///
    /// # Panics
    /// If the ranges and the payload differ in length.
    pub fn carry_out<M: Memory>(&self, memory: &mut M) -> Result<u64, M::Error> {
        match self {
            Access::Place { payload, .. } => scatter(memory, self.ranges(), payload.as_ref()),
            Access::Store { value, .. } => scatter(memory, self.ranges(), &value.to_le_bytes()),
            Access::Copy { from, to, .. } => {
                let payload = memory.bytes(from)?.to_vec();
                scatter(memory, to.ranges(), &payload)
            }
            Access::Atomic(atomic) => Ok(change(memory.bytes(&atomic.target)?, atomic)),
        }
    }
}

fn scatter<M: Memory>(
    memory: &mut M,
    ranges: &[LocalRange],
    payload: &[u8],
) -> Result<u64, M::Error> {
    let mut rest = payload;
    for range in ranges {
        let (now, later) = rest.split_at(range.length as usize);
        memory.bytes(range)?.copy_from_slice(now);
        rest = later;
    }
    assert!(rest.is_empty(), "{} bytes of a payload have no place", rest.len());
    Ok(0)
}

/// Changes a word of 4 or 8 bytes. Returns its previous value.
fn change<K>(word: &mut [u8], atomic: &AtomicExecution<K>) -> u64 {
    let mut bytes = [0; 8];
    bytes[..word.len()].copy_from_slice(word);
    let old = u64::from_le_bytes(bytes);
    let new = atomic.operator.apply(old, atomic.operand, atomic.compare).to_le_bytes();
    word.copy_from_slice(&new[..word.len()]);
    old
}
