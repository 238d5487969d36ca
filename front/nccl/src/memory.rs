//! Memory that NCCL registers.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use fairway::{Memory, Rights, Segment};

use crate::limits::MESSAGE_MAX;
use crate::nics::Lease;
use crate::object::Object;
use crate::status::{Failure, Result, Status};

/// `NCCL_PTR_HOST`.
const HOST: i32 = 1;

/// Memory of the application, as an `mhandle` names it.
pub(crate) struct Registration {
    segment: Segment,
    start: usize,
    /// A number that no other registration of the process has.
    number: u64,
    /// Number of open requests that use the memory.
    uses: Arc<AtomicUsize>,
    lease: Lease,
}

/// The use of memory by an open request.
pub(crate) struct Use {
    number: u64,
    uses: Arc<AtomicUsize>,
}

impl Object for Registration {
    const NAME: &'static str = "memory handle";
    const TAG: u64 = 0x6661_6972_6e63_6303;
}

impl Registration {
    /// Registers `length` bytes from `start` on.
    ///
    /// # Safety
    /// They are readable and writable until [`Registration::end`] has returned.
    pub(crate) unsafe fn new(
        lease: Lease,
        start: *mut u8,
        length: usize,
        kind: i32,
    ) -> Result<Registration> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        if kind != HOST {
            let text = format!("memory of type {kind} can't be registered: only host memory (1)");
            return Err(Failure::argument(text));
        }
        let Some(first) = NonNull::new(start) else {
            return Err(Failure::argument("the memory to register is at NULL"));
        };
        // SAFETY: as the caller says.
        let memory = unsafe { Memory::from_raw(first, length) };
        let segment = lease.context().register(memory, Rights::WRITE)?;
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let uses = Arc::default();
        Ok(Registration { segment, start: start as usize, number, uses, lease })
    }

    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Counts a request that uses the memory, until the result is dropped.
    pub(crate) fn begin_use(&self) -> Use {
        self.uses.fetch_add(1, Ordering::AcqRel);
        Use { number: self.number, uses: self.uses.clone() }
    }

    /// Returns the place of a message in the segment, if it is within the memory, and the memory is
    /// registered with the NIC of `lease`.
    pub(crate) fn range(&self, lease: &Lease, data: usize, size: u64) -> Result<Range<u64>> {
        if !self.lease.shares_nic(lease) {
            let text = "the memory is registered with another device or communicator";
            return Err(Failure::argument(text));
        }
        if size == 0 {
            // Such a message has no place: NCCL passes a handle all the same.
            return Ok(0..0);
        }
        let offset = data.wrapping_sub(self.start) as u64;
        let end = offset.checked_add(size).filter(|end| *end <= self.segment.len());
        end.map(|end| offset..end).ok_or_else(|| {
            let (start, length) = (self.start, self.segment.len());
            let text = format!("{size} bytes at {data:#x} leave {length} registered at {start:#x}");
            Failure::argument(text)
        })
    }

    /// Ends the registration. The memory is the application's when this returns. A connection whose
    /// open requests use the memory is closed.
    pub(crate) fn end(self) -> Result<()> {
        let Registration { segment, number, uses, lease, .. } = self;
        if uses.load(Ordering::Acquire) > 0 {
            lease.abandon_memory(number);
        }
        segment.into_memory()?;
        Ok(())
    }
}

impl Use {
    /// Whether this is the memory of the registration with this number.
    pub(crate) fn is_of(&self, number: u64) -> bool {
        self.number == number
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.uses.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Checks the size of a message.
pub(crate) fn checked_size(size: u64) -> Result<u32> {
    if size <= MESSAGE_MAX {
        return Ok(size as u32);
    }
    let text = format!("a message of {size} bytes: the largest has {MESSAGE_MAX}");
    Err(Failure::new(Status::Argument, text))
}
