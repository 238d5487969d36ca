//! Registered memory of the application.
//!
//! C programs post any memory, and the only sign that they have reused it is that they free it. A
//! registration in software pins nothing: it is an entry in a table of memory that operations may
//! name. So the registrations of buffers are kept for their next use, and a registration whose
//! memory has been freed does no harm: its bytes are accessed only by operations and epochs, all of
//! which belong to memory that the application has posted and not received back.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use fairway::{Context, LocalSlice, Memory, Rights, Segment};

use crate::guard::lock;
use crate::status::{Failure, Result};

/// Number of registrations kept for reuse; more exist while more are in use.
const KEPT: usize = 1024;

/// Registrations, by address of the first byte.
pub(crate) struct Registry {
    context: Context,
    known: Mutex<Known>,
}

struct Known {
    by_start: BTreeMap<usize, Arc<Registered>>,
    /// Number of registrations from which unused ones are dropped. It is twice the number in use at
    /// the last removal, so that the search costs little per registration.
    enough: usize,
}

struct Registered {
    start: usize,
    length: usize,
    segment: Segment,
}

/// A range of registered memory.
#[derive(Clone)]
pub(crate) struct Lease {
    registered: Arc<Registered>,
    offset: u64,
    length: u64,
}

impl Registry {
    pub(crate) fn new(context: Context) -> Self {
        let known = Known { by_start: BTreeMap::new(), enough: KEPT };
        Registry { context, known: Mutex::new(known) }
    }

    /// Returns a lease of the `size` bytes from `start` on.
    ///
    /// # Safety
    /// The bytes can be read, and written if the lease is used for writing, until that use has
    /// ended.
    pub(crate) unsafe fn lease(&self, start: *const c_void, size: i64) -> Result<Lease> {
        let length = checked_size(size)?;
        let address = start as usize;
        if start.is_null() && length > 0 {
            return Err(Failure::argument("a buffer", "NULL", "point to its first byte"));
        }
        if address.checked_add(length).is_none() {
            return Err(Failure::argument("a size", size, "the buffer leaves the address space"));
        }
        let mut known = lock(&self.known);
        let nearest =
            known.by_start.range(..=address).next_back().map(|(_, registered)| registered);
        if let Some(found) = nearest.filter(|found| found.holds(address, length)) {
            return Ok(Lease::of(found, address, length));
        }
        known.make_room();
        let first = NonNull::new(start.cast_mut().cast::<u8>()).unwrap_or(NonNull::dangling());
        // SAFETY: the bytes are touched only for operations and epochs, and as the caller vouches,
        // they are there while those last.
        let memory = unsafe { Memory::from_raw(first, length) };
        let segment = self.context.register(memory, Rights::NONE)?;
        let registered = Arc::new(Registered { start: address, length, segment });
        known.by_start.insert(address, registered.clone());
        Ok(Lease::of(&registered, address, length))
    }
}

fn checked_size(size: i64) -> Result<usize> {
    match u32::try_from(size) {
        Ok(size) => Ok(size as usize),
        Err(_) => Err(Failure::argument("a size", size, "use 0 to 4294967295 bytes")),
    }
}

impl Known {
    fn make_room(&mut self) {
        if self.by_start.len() >= self.enough {
            self.by_start.retain(|_, registered| Arc::strong_count(registered) > 1);
            self.enough = KEPT.max(2 * self.by_start.len());
        }
    }
}

impl Registered {
    fn holds(&self, address: usize, length: usize) -> bool {
        self.start <= address && address + length <= self.start + self.length
    }
}

impl Lease {
    fn of(registered: &Arc<Registered>, address: usize, length: usize) -> Lease {
        let offset = (address - registered.start) as u64;
        Lease { registered: registered.clone(), offset, length: length as u64 }
    }

    /// The memory in the form that the NIC's calls take.
    pub(crate) fn slice(&self) -> LocalSlice<'_> {
        self.registered.segment.slice(self.offset..self.offset + self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> Registry {
        Registry::new(Context::builder().bind([127, 0, 0, 1].into()).build().unwrap())
    }

    fn count(registry: &Registry) -> usize {
        lock(&registry.known).by_start.len()
    }

    #[test]
    fn buffer_used_again_is_registered_once() {
        let registry = registry();
        let bytes = [0u8; 256];
        let at = |offset: usize| bytes[offset..].as_ptr().cast::<c_void>();
        // SAFETY: the leases are not used.
        let lease = |offset, size| unsafe { registry.lease(at(offset), size) }.unwrap();
        let whole = lease(0, 256);
        assert_eq!((whole.offset, whole.length), (0, 256));
        let part = lease(100, 50);
        assert_eq!((part.offset, part.length), (100, 50));
        assert_eq!(count(&registry), 1);
    }

    #[test]
    fn only_unused_registrations_are_released() {
        let registry = registry();
        let bytes = vec![0u8; 8 * KEPT + 16];
        // SAFETY: the leases are not used.
        let lease =
            |offset: usize| unsafe { registry.lease(bytes[offset..].as_ptr().cast(), 4).unwrap() };
        let used = lease(0);
        for number in 1..KEPT {
            lease(8 * number);
        }
        assert_eq!(count(&registry), KEPT);
        let last = lease(8 * KEPT);
        assert_eq!(count(&registry), 2);
        assert_eq!((used.offset, last.offset), (0, 0));
    }

    #[test]
    fn sizes_that_no_operation_has_are_refused() {
        let registry = registry();
        for size in [-1, 1 << 32, i64::MIN] {
            // SAFETY: the call is refused, so it uses no memory.
            let refused = unsafe { registry.lease([0u8; 4].as_ptr().cast(), size) };
            assert!(refused.is_err());
        }
        // SAFETY: no bytes.
        assert!(unsafe { registry.lease(std::ptr::null(), 0) }.is_ok());
        // SAFETY: the call is refused, so it uses no memory.
        assert!(unsafe { registry.lease(std::ptr::null(), 1) }.is_err());
    }
}
