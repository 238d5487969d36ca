//! The operations that can be measured, and their properties.

use clap::ValueEnum;
use fairway::Rights;

/// Largest payload of one operation in bytes.
pub(crate) const SIZE_MAX: u64 = 1 << 30;
/// Largest number of bytes of a load or store: a cache line.
const LINE_BYTES: u64 = 64;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Operation {
    /// One-sided write
    Write,
    /// Write, and notify the target's application
    WriteImm,
    /// One-sided read
    Read,
    /// Two-sided message
    Send,
    /// Atomic compare and swap of a word
    AtomicCas,
    /// Atomic fetch and add
    AtomicFadd,
    /// Read of up to 64 bytes that bypasses the transport
    Load,
    /// Write of up to 64 bytes that bypasses the transport
    Store,
    /// Write into a mailbox, whose buffers the target chooses
    Put,
}

impl Operation {
    /// All operations, in the order of their numbers.
    pub(crate) const ALL: [Operation; 9] = [
        Operation::Write,
        Operation::WriteImm,
        Operation::Read,
        Operation::Send,
        Operation::AtomicCas,
        Operation::AtomicFadd,
        Operation::Load,
        Operation::Store,
        Operation::Put,
    ];

    /// Name of the operation on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Write => "write",
            Operation::WriteImm => "write-imm",
            Operation::Read => "read",
            Operation::Send => "send",
            Operation::AtomicCas => "atomic-cas",
            Operation::AtomicFadd => "atomic-fadd",
            Operation::Load => "load",
            Operation::Store => "store",
            Operation::Put => "put",
        }
    }

    /// Whether the operation changes a word depending on its previous value.
    pub(crate) fn is_atomic(self) -> bool {
        matches!(self, Operation::AtomicCas | Operation::AtomicFadd)
    }

    /// Whether the operation returns bytes to the initiator.
    pub(crate) fn fetches(self) -> bool {
        matches!(self, Operation::Read | Operation::Load)
    }

    /// Whether the operation bypasses the transport.
    pub(crate) fn bypasses(self) -> bool {
        matches!(self, Operation::Load | Operation::Store)
    }

    /// Whether the target chooses the buffer.
    pub(crate) fn is_message(self) -> bool {
        matches!(self, Operation::Send | Operation::Put)
    }

    /// Whether the target's application receives a completion for each operation.
    pub(crate) fn is_counted(self) -> bool {
        self.is_message() || self == Operation::WriteImm
    }

    /// Whether the operation changes the target's memory at an address that the initiator chooses.
    pub(crate) fn changes_slots(self) -> bool {
        !self.is_message() && !self.fetches()
    }

    /// Whether the operation can be a single unreliable packet.
    pub(crate) fn may_be_unreliable(self) -> bool {
        matches!(self, Operation::Write | Operation::WriteImm | Operation::Send)
    }

    /// Rights to the target's memory that the operation requires.
    pub(crate) fn rights(self) -> Rights {
        match self {
            Operation::Write | Operation::WriteImm | Operation::Store => Rights::WRITE,
            Operation::Read | Operation::Load => Rights::READ,
            Operation::AtomicCas | Operation::AtomicFadd => Rights::ATOMIC,
            Operation::Send | Operation::Put => Rights::NONE,
        }
    }

    /// Default number of bytes of one operation.
    pub(crate) fn usual_size(self, small: bool) -> u64 {
        match self {
            _ if self.is_atomic() => 8,
            _ if self.bypasses() || small => 64,
            _ => 64 * 1024,
        }
    }

    /// Whether an operation can have this size; the error describes the allowed sizes.
    pub(crate) fn check_size(self, size: u64) -> Result<(), &'static str> {
        match self {
            _ if self.is_atomic() && !matches!(size, 4 | 8) => Err("4 or 8"),
            _ if self.bypasses() && !(1..=LINE_BYTES).contains(&size) => Err("1 to 64"),
            _ if !(1..=SIZE_MAX).contains(&size) => Err("1 to 1G"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_agree() {
        for (number, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, number);
            let value = operation.to_possible_value().expect("a name");
            assert_eq!(value.get_name(), operation.name());
            assert_eq!(operation.check_size(operation.usual_size(false)), Ok(()));
            assert_eq!(operation.check_size(operation.usual_size(true)), Ok(()));
        }
    }
}
