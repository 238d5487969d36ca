//! The structs and constants of libibverbs' public header that consist of numbers.
//!
//! **What it is.** [`ibv_port_attr`], [`ibv_qp_attr`], [`ibv_wc`] and so on, with the names and the
//! layout of `infiniband/verbs.h`, written by hand. Two sides of that interface use them: Fairway's
//! own library, which other programs call, and the datapath `rdma`, which calls any such library.
//! Objects that a library makes, and requests that contain pointers, are defined by each side,
//! because they differ in which of their fields are theirs.
//!
//! Enumerations are plain integers: what the other side passes need not be one of the header's
//! values, and an illegal one must not be undefined behaviour.
//!
//! **May import:** `libc`.
//!
//! **How to test:** `cargo test -p fairway-verbs --lib abi` has the C compiler compare every size
//! and offset with the installed header (`layout`).
#![forbid(unsafe_code)]
// Types and fields are those of the header, and documented by the manual pages of libibverbs.
#![allow(non_camel_case_types, missing_docs)]

mod attributes;
mod constants;
#[cfg(feature = "layout")]
pub mod layout;
mod queue_pairs;
mod work;

pub use attributes::*;
pub use constants::*;
pub use queue_pairs::*;
pub use work::*;
