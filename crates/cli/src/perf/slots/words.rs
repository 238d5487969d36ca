//! Words that atomics change. Every value follows from slot and generation, so that the old value
//! of each atomic, and the final value, show whether each was executed exactly once.

use super::{Mismatch, Pattern, Payload, Slots, Tally};
use crate::perf::operation::Operation;
use fairway::{AtomicOp, Error};

impl Pattern {
    /// The word of a slot after `generation` atomics.
    pub(crate) fn word(&self, operation: Operation, payload: Payload) -> u64 {
        let first = self.stamp(Payload { generation: 0, ..payload }, 0);
        let value = match operation {
            Operation::AtomicFadd => first.wrapping_add(u64::from(payload.generation)),
            _ => self.stamp(payload, 0),
        };
        if self.size == 8 { value } else { value & u64::from(u32::MAX) }
    }

    /// The atomic that changes the word of a slot to its next generation.
    pub(crate) fn atomic(&self, operation: Operation, payload: Payload) -> AtomicOp {
        let next = Payload { generation: payload.generation.wrapping_add(1), ..payload };
        match operation {
            Operation::AtomicFadd => AtomicOp::Add(1),
            _ => AtomicOp::CompareSwap {
                expected: self.word(operation, payload),
                new: self.word(operation, next),
            },
        }
    }

    /// Compares a word with the expected one.
    pub(crate) fn check_word(
        &self,
        operation: Operation,
        payload: Payload,
        found: u64,
        tally: &mut Tally,
    ) {
        let expected = self.word(operation, payload);
        tally.verified += self.size;
        let pairs = expected.to_le_bytes().into_iter().zip(found.to_le_bytes());
        for (offset, (expected, found)) in (0..self.size).zip(pairs) {
            if expected != found {
                tally.mismatch(Mismatch { payload, offset, expected, found });
            }
        }
    }
}

impl Slots {
    /// Writes the word of a slot.
    pub(crate) fn set_word(&self, operation: Operation, payload: Payload) -> Result<(), Error> {
        let bytes = self.pattern.word(operation, payload).to_le_bytes();
        self.segment.write_at(self.offset(payload.slot), &bytes[..self.pattern.size as usize])
    }

    /// Compares the word of an idle slot.
    pub(crate) fn compare_word(
        &self,
        operation: Operation,
        payload: Payload,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        let mut bytes = [0; 8];
        self.segment
            .read_at(self.offset(payload.slot), &mut bytes[..self.pattern.size as usize])?;
        self.pattern.check_word(operation, payload, u64::from_le_bytes(bytes), tally);
        Ok(())
    }

    /// Compares a slot that unreliable packets may or may not have changed: it holds a generation
    /// before `uses`, or its initial zeros.
    pub(crate) fn check_unreliable(
        &self,
        slot: u32,
        uses: u32,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        let mut first = [0; 8];
        let length = self.pattern.size.min(8) as usize;
        self.segment.read_at(self.offset(slot), &mut first[..length])?;
        if first == [0; 8] {
            return Ok(());
        }
        let found = self.pattern.named(u64::from_le_bytes(first));
        // Shorter stamps can't be read, so any generation of this slot is accepted.
        let generation = match length {
            8 if found.slot == slot && found.generation < uses => found.generation,
            8 => uses - 1,
            _ => return Ok(()),
        };
        self.check(slot, Payload { slot, generation }, tally)
    }
}
