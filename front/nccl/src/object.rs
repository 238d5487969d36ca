//! Objects that C holds by pointer. A tag before each object reveals pointers to other objects.

use std::ffi::c_void;

use crate::status::{Failure, Result};

/// An object that C may hold, with the number that identifies its type.
pub(crate) trait Object {
    /// Name of the type, for errors.
    const NAME: &'static str;
    /// Any number that no other type has.
    const TAG: u64;
}

/// An object behind its tag.
#[repr(C)]
pub(crate) struct Tagged<T> {
    tag: u64,
    value: T,
}

impl<T: Object> Tagged<T> {
    pub(crate) fn new(value: T) -> Tagged<T> {
        Tagged { tag: T::TAG, value }
    }

    /// Returns the pointer by which C names the object, while it stays where it is.
    pub(crate) fn pointer(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

/// Moves an object to the heap and returns the pointer by which C names it.
pub(crate) fn give<T: Object>(value: T) -> *mut c_void {
    Box::into_raw(Box::new(Tagged::new(value))).cast()
}

/// Returns the object that C names.
///
/// # Safety
/// `pointer` is NULL, or a pointer of [`give`] or [`Tagged::pointer`], of any type, whose object
/// still exists and does so for `'a`.
pub(crate) unsafe fn borrow<'a, T: Object>(pointer: *mut c_void) -> Result<&'a T> {
    check::<T>(pointer)?;
    // SAFETY: the tag was written by `Tagged::new` of this type.
    Ok(unsafe { &(*pointer.cast::<Tagged<T>>()).value })
}

/// Takes the object back from C.
///
/// # Safety
/// As for [`borrow`], but the pointer is of [`give`], and C uses it no more.
pub(crate) unsafe fn take<T: Object>(pointer: *mut c_void) -> Result<T> {
    check::<T>(pointer)?;
    // SAFETY: made by `give`, as the caller says, with this type, as the tag says.
    let mut object = unsafe { Box::from_raw(pointer.cast::<Tagged<T>>()) };
    object.tag = 0;
    Ok(object.value)
}

fn check<T: Object>(pointer: *mut c_void) -> Result<()> {
    let is_aligned = pointer.cast::<Tagged<T>>().is_aligned();
    // SAFETY: the callers' condition: an object of some type, which begins with a tag.
    if !pointer.is_null() && is_aligned && unsafe { *pointer.cast::<u64>() } == T::TAG {
        return Ok(());
    }
    Err(Failure::argument(format!("{pointer:p} is no {}", T::NAME)))
}
