//! Words of remote memory, and what atomics do to them.

use fairway_engine::Work;
use fairway_engine::wire::AtomicOperator;

use crate::error::Error;
use crate::key::RemoteSlice;

/// A word of 4 or 8 bytes in a peer's segment. Its address, as the segment counts, is a multiple of
/// its length; the peer refuses others.
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
    /// Where it begins.
    pub fn place(&self) -> RemoteSlice {
        self.place
    }

    /// Its length in bytes.
    pub fn width(&self) -> u8 {
        self.width
    }

    /// The operation as the engine has it.
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

/// How an atomic changes its word. Whatever it does, it is done exactly once, and the completion
/// brings the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AtomicOp {
    /// Becomes `new` if it equals `expected`: if the old value is `expected`, it did.
    CompareSwap {
        /// What it has to be.
        expected: u64,
        /// What it becomes then.
        new: u64,
    },
    /// Becomes this.
    Swap(u64),
    /// Stays.
    Load,
    /// Becomes this, as with [`AtomicOp::Swap`], but the old value is not returned.
    Store(u64),
    /// Plus this, wrapping.
    Add(u64),
    /// Minus this, wrapping.
    Subtract(u64),
    /// And this.
    And(u64),
    /// Or this.
    Or(u64),
    /// Exclusive or this.
    Xor(u64),
}

impl AtomicOp {
    /// Operator, operand, and what to compare with.
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
