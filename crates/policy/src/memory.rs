//! Memory that is read soon, named for a caller that can have it in the CPU's cache by then.
//!
//! A simulator drives thousands of devices, whose state together is far larger than a cache, and
//! knows which of them has its turn next.

use core::fmt;

/// Passes memory on by its address and its length in bytes.
pub struct MemoryVisitor<'a> {
    visit: &'a mut dyn FnMut(*const u8, usize),
}

impl<'a> MemoryVisitor<'a> {
    /// Passes each piece of memory to `visit`, which may get an address that is not valid any more
    /// when it uses it.
    pub fn new(visit: &'a mut dyn FnMut(*const u8, usize)) -> MemoryVisitor<'a> {
        MemoryVisitor { visit }
    }

    /// Names the memory of a value, without that to which the value points.
    #[inline]
    pub fn value<T: ?Sized>(&mut self, value: &T) {
        (self.visit)(core::ptr::from_ref(value).cast(), size_of_val(value));
    }

    /// Names one element of a slice, if it exists.
    #[inline]
    pub fn element<T>(&mut self, slice: &[T], index: usize) {
        if let Some(element) = slice.get(index) {
            self.value(element);
        }
    }
}

impl fmt::Debug for MemoryVisitor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryVisitor").finish_non_exhaustive()
    }
}
