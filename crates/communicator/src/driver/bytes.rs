//! Copies and combinations of bytes in buffers and slots.

use super::{Driver, Job};
use crate::error::Error;
use fairway::RemoteMemory;
use fairway_collectives::{Memory, Reduction, Work, accumulate, divide};
use std::ptr;
use std::slice;

/// Bytes that are combined at a time if the result goes to a third place: they stay in the
/// first-level cache.
const BLOCK: usize = 8192;

/// Bytes that are read at a time from the memory of another rank, to be combined: they stay in the
/// second-level cache.
pub(super) const SCRATCH: usize = 128 << 10;
const _: () = assert!(SCRATCH.is_multiple_of(BLOCK));

impl Driver {
    /// The address of bytes of this rank. They are the call's: a slot belongs to the call from the
    /// arrival of its message until the state machine returns it to its sender.
    pub(super) fn address(&self, work: Work, memory: Memory) -> *mut u8 {
        let job = self.job(work);
        match memory {
            Memory::Input(span) => job.input.at(job.input_offset, span),
            Memory::Output(span) => job.output_buffer().at(job.output_offset, span),
            Memory::Lent { .. } => unreachable!("lent bytes are read, and have no address here"),
            Memory::Slot { from, slot, bytes } => {
                assert!(bytes <= self.options.slot_bytes, "messages fit a slot");
                let offset = self.outbox.slot_offset(from, slot);
                // SAFETY: the segment lives as long as the driver, and the slot is within it.
                unsafe { self.slots.as_ptr().add(offset as usize) }
            }
        }
    }

    /// Copies bytes of a call to the place of a short message that is about to be sent.
    pub(super) fn copy_to_eager(
        &self,
        work: Work,
        memory: Memory,
        offset: u64,
    ) -> Result<(), Error> {
        let from = self.address(work, memory);
        let bytes = memory.bytes() as usize;
        // SAFETY: the bytes are the call's; nothing writes them before the message was sent.
        let bytes = unsafe { slice::from_raw_parts(from, bytes) };
        self.eager.write_at(offset, bytes)?;
        Ok(())
    }

    /// Copies bytes of a call to a slot of another rank. Returns false if that is not possible any
    /// more.
    pub(super) fn copy_to_near(
        &self,
        work: Work,
        memory: Memory,
        (near, offset): (&RemoteMemory, u64),
    ) -> bool {
        let from = self.address(work, memory);
        let bytes = memory.bytes() as usize;
        // SAFETY: the bytes are the call's, and nothing writes them during the copy.
        let bytes = unsafe { slice::from_raw_parts(from, bytes) };
        near.copy_in(offset, bytes)
    }

    pub(super) fn job(&self, work: Work) -> &Job {
        self.jobs.get(&work).expect("a call under way has a job")
    }

    /// Combines two ranges of elements. Returns false if lent ones can't be read: then the group is
    /// about to end.
    pub(super) fn combine(
        &mut self,
        work: Work,
        [left, right]: [Memory; 2],
        into: Memory,
        is_last: bool,
    ) -> Result<bool, Error> {
        let (element, reduction) =
            self.job(work).call.reduction().expect("only calls with a reduction combine");
        let divisor =
            (is_last && reduction == Reduction::Average).then(|| self.connections.ranks());
        let length = into.bytes() as usize;
        assert!(left.bytes() == into.bytes() && right.bytes() == into.bytes(), "equal lengths");
        let [left, into] = [left, into].map(|memory| self.address(work, memory));
        let lent = match right {
            Memory::Lent { from, slot, .. } => Some((from, self.lent_address(from, slot)?)),
            _ => None,
        };
        let right = match lent {
            Some(_) => self.scratch.as_mut_ptr(),
            None => self.address(work, right),
        };
        for at in (0..length).step_by(BLOCK) {
            let bytes = (length - at).min(BLOCK);
            let [left, into] = [left, into].map(|start| start.wrapping_add(at));
            let right = match lent {
                None => right.wrapping_add(at),
                Some((from, address)) => {
                    let within = at % SCRATCH;
                    let ahead = (length - at).min(SCRATCH);
                    if within == 0 && !self.read_lent(from, address + at as u64, right, ahead) {
                        return Ok(false);
                    }
                    right.wrapping_add(within)
                }
            };
            // Sums and the like do not depend on the side.
            let other = if into == right { left } else { right };
            // SAFETY: all three are within their buffers and belong to the call. The result is one
            // of the operands, or apart from both, because schedules combine into nothing else.
            let (sum, other) = unsafe {
                if into != left && into != right {
                    ptr::copy_nonoverlapping(left, into, bytes);
                }
                (slice::from_raw_parts_mut(into, bytes), slice::from_raw_parts(other, bytes))
            };
            accumulate(element, reduction, sum, other);
            if let Some(ranks) = divisor {
                divide(element, sum, ranks);
            }
        }
        Ok(true)
    }

    /// Copies bytes.
    pub(super) fn copy(&mut self, work: Work, from: Memory, into: Memory) {
        let (source, target) = (self.address(work, from), self.address(work, into));
        let bytes = from.bytes().min(into.bytes()) as usize;
        // SAFETY: both are within their buffers and belong to the call; they may overlap.
        unsafe { ptr::copy(source, target, bytes) }
    }
}
