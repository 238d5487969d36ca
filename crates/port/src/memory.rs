//! Memory that the kernel reads from, referred to by address.
//!
//! Payload belongs to applications and may be read or written by them, by the kernel, or by another
//! process at any time. So nothing here creates a Rust reference to it: it is referred to by a raw
//! address and length, and only ever copied.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Bytes to send, referred to by address.
#[derive(Clone, Copy, Debug)]
pub struct RawSlice {
    ptr: *const u8,
    len: usize,
}

// SAFETY: it is an address and nothing more; the caller of `new` promised that the memory
// stays valid for as long as it is used, and that promise does not depend on the thread.
unsafe impl Send for RawSlice {}

impl RawSlice {
    /// The slice without bytes.
    pub const EMPTY: RawSlice = RawSlice { ptr: std::ptr::null(), len: 0 };

    /// Refers to `len` bytes at `ptr`.
    ///
    /// # Safety
    /// The bytes must be readable until the send that this slice is handed to returns (for
    /// [`crate::Train`]: until the train is cleared, or is last sent or inspected). Another thread
    /// may write them meanwhile: what is sent is then any mixture of old and new bytes.
    pub const unsafe fn new(ptr: *const u8, len: usize) -> Self {
        RawSlice { ptr, len }
    }

    /// Address of the first byte.
    pub const fn as_ptr(self) -> *const u8 {
        self.ptr
    }

    /// Number of bytes.
    pub const fn len(self) -> usize {
        self.len
    }

    /// True if there are no bytes.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the bytes from `start` on.
    ///
    /// Panics if `start` is past the end.
    pub fn from(self, start: usize) -> RawSlice {
        assert!(start <= self.len, "offset {start} in a slice of {} bytes", self.len);
        RawSlice { ptr: self.ptr.wrapping_add(start), len: self.len - start }
    }

    /// Returns the first `len` bytes.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn first(self, len: usize) -> RawSlice {
        assert!(len <= self.len, "{len} bytes of a slice of {}", self.len);
        RawSlice { ptr: self.ptr, len }
    }
}

/// A zeroed allocation that is only accessed through its address, so that addresses into it (gather
/// lists) stay valid when the value that owns it is moved or borrowed.
pub(crate) struct Scratch {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: `Scratch` owns its allocation, and bytes have no thread affinity.
unsafe impl Send for Scratch {}

impl Scratch {
    const ALIGN: usize = 64;

    /// Allocates `len` zeroed bytes, aligned to a cache line. `len` must not be zero.
    pub(crate) fn new(len: usize) -> Self {
        assert!(len > 0, "an empty scratch area");
        let layout = Self::layout(len);
        // SAFETY: the layout has a size above zero, asserted above.
        let raw = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(raw) else { handle_alloc_error(layout) };
        Scratch { base, len }
    }

    /// Returns the address of byte `offset`, for a range of `len` bytes. Panics outside the
    /// allocation.
    pub(crate) fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len && len <= self.len - offset, "scratch range out of bounds");
        // SAFETY: `offset` is within the allocation, checked above.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// Returns the bytes `offset..offset + len`. Panics outside the allocation.
    pub(crate) fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        let ptr = self.at(offset, len);
        // SAFETY: in bounds and initialised (zeroed at the start). Writes through `at` happen only
        // in methods that hold the owner of this scratch area by `&mut`, so none while this
        // borrow lives.
        unsafe { std::slice::from_raw_parts(ptr, len) }
    }

    /// Returns the first `len` bytes, to be written. Panics outside the allocation.
    pub(crate) fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        let ptr = self.at(0, len);
        // SAFETY: in bounds and initialised (zeroed at the start); borrowed mutably as `self` is.
        unsafe { std::slice::from_raw_parts_mut(ptr, len) }
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, Self::ALIGN).expect("scratch sizes are constants")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this same layout, and freed only here.
        unsafe { dealloc(self.base.as_ptr(), Self::layout(self.len)) }
    }
}
