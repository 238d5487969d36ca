//! libibverbs' types, mirrored by hand from its public header; names and layout are the header's.
//! Those that consist of numbers are in the crate `fairway-ibverbs`.
//!
//! The unit test `tests.rs` has the C compiler compare every size and offset with the installed
//! header. Enumerations are plain integers here: what a C program passes need not be one of the
//! header's values, and an illegal one must not be undefined behaviour.
// Types and fields are those of the header, and documented by the manual pages of libibverbs.
#![allow(non_camel_case_types, missing_docs)]

mod context;
mod extended;
mod field;
mod objects;
#[cfg(test)]
mod tests;
mod work;

pub use context::*;
pub use extended::*;
pub use fairway_ibverbs::*;
pub use field::Field;
pub use objects::*;
pub use work::*;

/// A type that can be made of zeroes.
///
/// # Safety
///
/// Bytes that are all zeroes are a legal value of the type.
pub unsafe trait Zero: Sized {}

// SAFETY: an array consists of such values.
unsafe impl<T: Zero, const LENGTH: usize> Zero for [T; LENGTH] {}

/// Implements [`Zero`](crate::abi::Zero) for structs of C that consist of numbers, raw pointers,
/// and fields that may stay uninitialised.
#[macro_export]
macro_rules! zero {
    ($($name:ty),* $(,)?) => {
        // SAFETY: each consists of numbers, raw pointers, and what need not be initialised.
        $(unsafe impl $crate::abi::Zero for $name {})*
    };
}
zero! {
    ibv_ah_attr, ibv_device_attr, ibv_device_attr_ex, ibv_port_attr, ibv_qp_attr, ibv_recv_wr,
    ibv_send_wr, ibv_wc,
    // Structs of the operating system.
    libc::addrinfo, libc::sockaddr_in, libc::sockaddr_in6, libc::sockaddr_storage,
}

/// Returns a struct of C whose bytes are all zero.
pub fn zeroed<T: Zero>() -> T {
    // SAFETY: zeroes are a legal value of the type (`Zero`).
    unsafe { std::mem::zeroed() }
}
