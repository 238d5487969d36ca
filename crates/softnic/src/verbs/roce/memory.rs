//! Registered memory, by segment. All that is ever done to it is copying, byte by byte or word by
//! word as atomics, because the application may use it at the same time.

use std::ptr::NonNull;

use fairway_engine::LocalRange;
use fairway_engine::wire::AtomicOperator;
use fairway_roce::{Execution, ScatterList};

use crate::memory::{Gone, SharedBytes};
use crate::verbs::ForeignMemory;

/// The table. A deregistered segment is not in it, so nothing reaches its memory any more.
#[derive(Debug, Default)]
pub(super) struct Memories {
    segments: Vec<Option<ForeignMemory>>,
}

impl Memories {
    pub(super) fn insert(&mut self, index: usize, memory: ForeignMemory) {
        if self.segments.len() <= index {
            self.segments.resize_with(index + 1, || None);
        }
        self.segments[index] = Some(memory);
    }

    pub(super) fn remove(&mut self, index: usize) {
        if let Some(segment) = self.segments.get_mut(index) {
            *segment = None;
        }
    }

    /// Copies the bytes of `list` to `out`, which is as long. False if some are not there: their
    /// segment is deregistered, or its memory is gone.
    pub(super) fn gather(&self, list: &ScatterList, out: &mut [u8]) -> bool {
        let mut rest = out;
        for range in list.ranges() {
            let (now, later) = rest.split_at_mut(range.length as usize);
            match self.bytes(range) {
                Some(bytes) if bytes.read(now).is_ok() => {}
                _ => return false,
            }
            rest = later;
        }
        true
    }

    /// Copies `data` to the bytes of `list`, of which there are as many, in the order of their
    /// addresses. What belongs to no segment any more is left out.
    ///
    /// # Errors
    /// The memory of a segment is gone.
    pub(super) fn scatter(&self, list: &ScatterList, data: &[u8]) -> Result<(), Gone> {
        let mut rest = data;
        for range in list.ranges() {
            let (now, later) = rest.split_at(rest.len().min(range.length as usize));
            let part = LocalRange { length: now.len() as u32, ..*range };
            if let Some(bytes) = self.bytes(&part) {
                bytes.write(now)?;
            }
            rest = later;
        }
        Ok(())
    }

    /// Changes a word; what it was.
    ///
    /// # Errors
    /// Its memory is gone.
    pub(super) fn change(&self, execution: &Execution) -> Result<u64, Gone> {
        let Some(word) = self.bytes(&execution.target) else { return Ok(0) };
        if !word.is_aligned_word() {
            // The address peers know is a multiple of 8, but the memory behind it is not.
            return self.change_unaligned(execution);
        }
        match execution.compare {
            Some(compare) => word.change(AtomicOperator::CompareSwap, execution.operand, compare),
            None => word.change(AtomicOperator::Add, execution.operand, 0),
        }
    }

    /// Atomic among what peers do, who all come through here one by one.
    fn change_unaligned(&self, execution: &Execution) -> Result<u64, Gone> {
        let mut bytes = [0; 8];
        if !self.gather(&execution.target.into(), &mut bytes) {
            return Err(Gone);
        }
        let old = u64::from_ne_bytes(bytes);
        let new = match execution.compare {
            None => old.wrapping_add(execution.operand),
            Some(compare) if compare == old => execution.operand,
            Some(_) => old,
        };
        self.scatter(&execution.target.into(), &new.to_ne_bytes())?;
        Ok(old)
    }

    fn bytes(&self, range: &LocalRange) -> Option<SharedBytes> {
        let memory = self.segments.get(range.segment.index())?.as_ref()?;
        let end = range.offset.checked_add(u64::from(range.length))?;
        if end > memory.len() as u64 {
            return None;
        }
        let start = memory.start().wrapping_add(range.offset as usize);
        // SAFETY: within the memory, as was checked; its registration promised that it is the
        // program's until it is deregistered, which removes it from this table, and that nobody has
        // references to it. The value is used at once, while the table is borrowed.
        Some(unsafe { SharedBytes::new(NonNull::new(start)?, range.length as usize) })
    }
}
