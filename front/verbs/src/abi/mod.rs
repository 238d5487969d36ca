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

/// A type that can be made of zeroes.
///
/// # Safety
///
/// Bytes that are all zeroes are a legal value of the type.
pub(crate) unsafe trait Zero: Sized {}

// SAFETY: an array consists of such values.
unsafe impl<T: Zero, const LENGTH: usize> Zero for [T; LENGTH] {}

/// Implements [`Zero`] for structs of C.
macro_rules! zero {
    ($($name:ty),* $(,)?) => {
        // SAFETY: each consists of numbers, raw pointers, and what need not be initialised.
        $(unsafe impl $crate::abi::Zero for $name {})*
    };
}
pub(crate) use zero;

zero! {
    ibv_ah_attr, ibv_device_attr, ibv_device_attr_ex, ibv_port_attr, ibv_qp_attr, ibv_recv_wr,
    ibv_send_wr, ibv_wc,
}

/// A struct of C that is all zeroes.
pub(crate) fn zeroed<T: Zero>() -> T {
    // SAFETY: zeroes are a legal value of the type (`Zero`).
    unsafe { std::mem::zeroed() }
}
