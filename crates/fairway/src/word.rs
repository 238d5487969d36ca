//! Words of remote memory, and the atomics that change them.

use fairway_ub::Work;
use fairway_ub::wire::AtomicOperator;

use crate::error::Error;
use crate::key::RemoteSlice;

/// A word of 4 or 8 bytes in a peer's segment. Its address, in the segment's address space, must be
/// a multiple of its length; the peer refuses others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteWord {
    place: RemoteSlice,
    width: u8,
}

impl RemoteSlice {
    /// The 4-byte word that begins here.
    pub fn word32(self) -> RemoteWord {
        RemoteWord { place: self, width: 4 }
    }

    /// The 8-byte word that begins here.
    pub fn word64(self) -> RemoteWord {
        RemoteWord { place: self, width: 8 }
    }
}

impl RemoteWord {
    /// The place of the word's first byte.
    pub fn place(&self) -> RemoteSlice {
        self.place
    }

    /// Length of the word in bytes.
    pub fn width(&self) -> u8 {
        self.width
    }

    /// Converts the operation to the protocol's type.
    pub(crate) fn work(&self, operation: AtomicOp) -> Result<Work, Error> {
        let (operator, operand, compare) = operation.parts();
        if let Some(value) = [operand, compare].into_iter().find(|&value| !self.holds(value)) {
            return Err(Error::Parameter {
                name: "operand",
                value: value.to_string(),
                remedy: "give a word of 4 bytes a value below 2^32, or use a word of 8 bytes",
            });
        }
        let remote = self.place.range();
        Ok(Work::Atomic { remote, width: self.width, operator, operand, compare })
    }

    fn holds(&self, value: u64) -> bool {
        self.width == 8 || value <= u64::from(u32::MAX)
    }
}

/// The change that an atomic makes to its word. Every atomic is executed exactly once, and its
/// completion contains the previous value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AtomicOp {
    /// Sets the word to `new` if it equals `expected`. It did if the previous value is `expected`.
    CompareSwap {
        /// The value required for the change.
        expected: u64,
        /// The value that the word is set to.
        new: u64,
    },
    /// Sets the word to this value.
    Swap(u64),
    /// Leaves the word unchanged.
    Load,
    /// Sets the word to this value, as [`AtomicOp::Swap`] does, but does not return the previous
    /// one.
    Store(u64),
    /// Adds this value, wrapping.
    Add(u64),
    /// Subtracts this value, wrapping.
    Subtract(u64),
    /// Applies a bitwise and with this value.
    And(u64),
    /// Applies a bitwise or with this value.
    Or(u64),
    /// Applies a bitwise exclusive or with this value.
    Xor(u64),
}

impl AtomicOp {
    /// Returns the operator, the operand, and the value to compare with.
    pub(crate) fn parts(self) -> (AtomicOperator, u64, u64) {
        match self {
            AtomicOp::CompareSwap { expected, new } => (AtomicOperator::CompareSwap, new, expected),
            AtomicOp::Swap(value) => (AtomicOperator::Swap, value, 0),
            AtomicOp::Load => (AtomicOperator::Load, 0, 0),
            AtomicOp::Store(value) => (AtomicOperator::Store, value, 0),
            AtomicOp::Add(value) => (AtomicOperator::Add, value, 0),
            AtomicOp::Subtract(value) => (AtomicOperator::Subtract, value, 0),
            AtomicOp::And(value) => (AtomicOperator::And, value, 0),
            AtomicOp::Or(value) => (AtomicOperator::Or, value, 0),
            AtomicOp::Xor(value) => (AtomicOperator::Xor, value, 0),
        }
    }
}
