//! What can be measured, and what each kind of operation has of its own.

use clap::ValueEnum;
use fairway::Rights;

/// Payloads of one operation.
pub(crate) const SIZE_MAX: u64 = 1 << 30;
/// The most a load or store moves: a line of the cache.
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
    /// All of them, in the order of their numbers.
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

    /// Its name on the command line.
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

    /// Does it change a word by what the word was?
    pub(crate) fn is_atomic(self) -> bool {
        matches!(self, Operation::AtomicCas | Operation::AtomicFadd)
    }

    /// Does it bring bytes here?
    pub(crate) fn fetches(self) -> bool {
        matches!(self, Operation::Read | Operation::Load)
    }

    /// Does it bypass the transport?
    pub(crate) fn bypasses(self) -> bool {
        matches!(self, Operation::Load | Operation::Store)
    }

    /// Does the target choose the buffer?
    pub(crate) fn is_message(self) -> bool {
        matches!(self, Operation::Send | Operation::Put)
    }

    /// Is the target's application told of each?
    pub(crate) fn is_counted(self) -> bool {
        self.is_message() || self == Operation::WriteImm
    }

    /// Does it change the target's memory at a place that the initiator names?
    pub(crate) fn changes_slots(self) -> bool {
        !self.is_message() && !self.fetches()
    }

    /// Can it be a single unreliable packet?
    pub(crate) fn may_be_unreliable(self) -> bool {
        matches!(self, Operation::Write | Operation::WriteImm | Operation::Send)
    }

    /// What the initiator may do to the target's memory.
    pub(crate) fn rights(self) -> Rights {
        match self {
            Operation::Write | Operation::WriteImm | Operation::Store => Rights::WRITE,
            Operation::Read | Operation::Load => Rights::READ,
            Operation::AtomicCas | Operation::AtomicFadd => Rights::ATOMIC,
            Operation::Send | Operation::Put => Rights::NONE,
        }
    }

    /// Bytes of one operation by default.
    pub(crate) fn usual_size(self, small: bool) -> u64 {
        match self {
            _ if self.is_atomic() => 8,
            _ if self.bypasses() || small => 64,
            _ => 64 * 1024,
        }
    }

    /// Can one be of so many bytes? If not: what it can be of.
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
