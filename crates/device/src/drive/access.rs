//! What a device has done to memory, in one form for every protocol.

use crate::contract::{AtomicExecution, Device, Ranges};
use crate::scatter::ScatterList;
use crate::values::LocalRange;

/// An access to memory that a device asks for. `P` is the payload, as the caller has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access<T, K, P> {
    /// Put the payload of a packet there.
    Place {
        /// Where it belongs.
        target: T,
        /// The payload that came with the packet.
        payload: P,
        /// Reported with [`Driver::handle_placed`](super::Driver::handle_placed).
        token: K,
    },
    /// Put a value there: 8 bytes, in the order of the machine's bytes.
    Store {
        /// Where it belongs.
        target: ScatterList,
        /// The value.
        value: u64,
        /// Reported with [`Driver::handle_placed`](super::Driver::handle_placed).
        token: K,
    },
    /// Copy a payload that was set aside.
    Copy {
        /// The range of the staging memory that holds it.
        from: LocalRange,
        /// The range that it belongs to, of the same length.
        to: LocalRange,
        /// Reported with [`Driver::handle_placed`](super::Driver::handle_placed).
        token: K,
    },
    /// Change a word, and report the value that it had before.
    Atomic(AtomicExecution<K>),
}

/// The accesses that a device asks for.
pub type AccessOf<D, P> = Access<<D as Device>::Target, <D as Device>::Token, P>;

/// The memory of a caller in which devices are simulated: the bytes of its registered segments.
pub trait Memory {
    /// Why the bytes of a range cannot be had: the device must not name them, for one.
    type Error;

    /// The bytes of a range.
    ///
    /// # Errors
    /// If the caller has no such bytes.
    fn bytes(&mut self, range: &LocalRange) -> Result<&mut [u8], Self::Error>;
}

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

impl<T: Ranges, K: Copy, P> Access<T, K, P> {
    /// The ranges that the access changes, in order.
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
    /// Carries the access out. Returns what [`Driver::handle_placed`](super::Driver::handle_placed)
    /// reports: the value that a word had before, otherwise 0. Words are little-endian on every
    /// machine, so that a simulation gives the same bits on each.
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

/// Changes a word of 4 or 8 bytes. Returns what it was.
fn change<K>(word: &mut [u8], atomic: &AtomicExecution<K>) -> u64 {
    let mut bytes = [0; 8];
    bytes[..word.len()].copy_from_slice(word);
    let old = u64::from_le_bytes(bytes);
    let new = atomic.operator.apply(old, atomic.operand, atomic.compare).to_le_bytes();
    word.copy_from_slice(&new[..word.len()]);
    old
}
