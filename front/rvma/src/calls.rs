//! The exported functions. `include/rvma.h` documents each; this module checks their arguments.
//!
//! Pointers are NULL or point to what the header requires. C offers no way to check that, so each
//! `SAFETY` comment names only the promise of the header on which it relies.
#![allow(non_snake_case)] // The paper's names.
#![allow(clippy::missing_safety_doc)] // The header documents the contracts.

mod setup;
mod status;
mod transfer;
mod wait;
mod window;

use crate::status::{Failure, Result};

/// Checks that a pointer to the memory for a result is not NULL.
///
/// # Safety
/// `place` is NULL, or a T may be written there while the reference is used.
unsafe fn out<'a, T>(place: *mut T, name: &str) -> Result<&'a mut std::mem::MaybeUninit<T>> {
    // SAFETY: as the caller vouches; uninitialised memory may be there.
    let place = unsafe { place.cast::<std::mem::MaybeUninit<T>>().as_mut() };
    place.ok_or_else(|| Failure::argument(name, "NULL", "give a place for the result"))
}
