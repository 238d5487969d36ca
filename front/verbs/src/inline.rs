//! Inline data, which is copied when posted and kept until it is sent.

use std::ptr::null_mut;
use std::sync::Arc;

use fairway::Rights;
use fairway_device::LocalRange;
use fairway_rdma::{ForeignMemory, Provider};
use fairway_roce::{MemoryRegion, MemoryRequest};

use crate::abi::ibv_sge;
use crate::guard::{ENOMEM, Result};

/// Largest number of requests passed to the provider at once.
pub(crate) const BATCH: usize = 16;

/// A ring of slots: one for each send that may be posted, and one for each that may be prepared
/// before any of them is posted (`depth` by `ibv_wr_*`, [`BATCH`] by `ibv_post_send`). So a request
/// that is being prepared reuses the slot of a request that is at least `depth` requests older than
/// the first of its batch. The provider never holds more than `depth` requests, so it has finished
/// that one.
pub(crate) struct InlineRing {
    memory: *mut u8,
    bytes: usize,
    slot_bytes: usize,
    slots: usize,
    /// Index of the next request's slot.
    next: usize,
    region: MemoryRegion,
    provider: Arc<dyn Provider>,
}

// SAFETY: the memory is the ring's own, and touched only under the lock of its queue pair.
unsafe impl Send for InlineRing {}

impl InlineRing {
    pub(crate) fn new(
        provider: &Arc<dyn Provider>,
        domain: u32,
        depth: u32,
        slot_bytes: u32,
    ) -> Result<InlineRing> {
        let slots = 2 * depth as usize + BATCH;
        let bytes = slots * slot_bytes as usize;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, which takes no room before it is touched.
        let memory = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(ENOMEM);
        }
        // SAFETY: mapped until the ring is dropped, which deregisters it first.
        let foreign = unsafe { ForeignMemory::new(memory.cast(), bytes) };
        let request =
            MemoryRequest { domain, address: 0, length: bytes as u64, rights: Rights::NONE };
        let region = provider.register(foreign, &request).inspect_err(|_| {
            // SAFETY: mapped above, and not registered.
            unsafe { libc::munmap(memory, bytes) };
        })?;
        Ok(InlineRing {
            memory: memory.cast(),
            bytes,
            slot_bytes: slot_bytes as usize,
            slots,
            next: 0,
            region,
            provider: Arc::clone(provider),
        })
    }

    /// Copies the bytes of `list` into the slot of the request that follows `waiting` prepared
    /// ones.
    ///
    /// # Safety
    ///
    /// The bytes of `list` are readable, and together are no more than a slot.
    pub(crate) unsafe fn fill(&mut self, list: &[ibv_sge], waiting: usize) -> LocalRange {
        let slot = (self.next + waiting) % self.slots;
        let offset = slot * self.slot_bytes;
        let mut length = 0;
        for sge in list {
            // SAFETY: as the caller says; the slot is in the ring, and no request uses it.
            unsafe {
                let to = self.memory.add(offset + length);
                std::ptr::copy_nonoverlapping(sge.addr as *const u8, to, sge.length as usize);
            }
            length += sge.length as usize;
        }
        LocalRange { segment: self.region.segment, offset: offset as u64, length: length as u32 }
    }

    /// Advances the ring by `requests` posted requests (inline or not).
    pub(crate) fn taken(&mut self, requests: usize) {
        self.next = (self.next + requests) % self.slots;
    }
}

impl Drop for InlineRing {
    fn drop(&mut self) {
        if self.provider.deregister(self.region.segment).is_ok() {
            // SAFETY: mapped in `new`, and the provider does not use it any more.
            unsafe { libc::munmap(self.memory.cast(), self.bytes) };
        }
    }
}
