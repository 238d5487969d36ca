//! The exported functions. `include/rvma.h` says what each does; here arguments are checked.
//!
//! Common to all: pointers are NULL or point to what the header says, which is all that C can vouch
//! for; so each `SAFETY` comment only says which promise of the header it rests on.
#![allow(non_snake_case)] // The paper's names.
#![allow(clippy::missing_safety_doc)] // The header has the contracts.

mod setup;
mod status;
mod transfer;
mod wait;
mod window;

use crate::status::{Failure, Result};

/// A place for a result, which must not be NULL.
///
/// # Safety
/// `place` is NULL, or a T may be written there while the reference is used.
unsafe fn out<'a, T>(place: *mut T, name: &str) -> Result<&'a mut std::mem::MaybeUninit<T>> {
    // SAFETY: as the caller vouches; uninitialised memory may be there.
    let place = unsafe { place.cast::<std::mem::MaybeUninit<T>>().as_mut() };
    place.ok_or_else(|| Failure::argument(name, "NULL", "give a place for the result"))
}
