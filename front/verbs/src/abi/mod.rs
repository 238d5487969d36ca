//! libibverbs' types, mirrored by hand from its public header; names and layout are the header's.
//!
//! The unit test `tests.rs` has the C compiler compare every size and offset with the installed
//! header. Enumerations are plain integers here: what a C program passes need not be one of the
//! header's values, and an illegal one must not be undefined behaviour.
#![allow(non_camel_case_types)]

mod attributes;
mod constants;
mod context;
mod extended;
mod field;
mod objects;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use attributes::*;
pub(crate) use constants::*;
pub(crate) use context::*;
pub(crate) use extended::*;
pub(crate) use field::Field;
pub(crate) use objects::*;
pub(crate) use work::*;

/// An all-zero value of a C struct.
///
/// # Safety
///
/// All zeroes is a legal value of `T`.
pub(crate) unsafe fn zeroed<T>() -> T {
    // SAFETY: as the caller says.
    unsafe { std::mem::zeroed() }
}
