//! Compact state that a policy may keep per flow, per tenant or per NIC.
//!
//! An event processor (SCR §4.3.3) whose state fits into its cache stores little and computes
//! without floating point. This module has a membership filter ([`BloomFilter`]), a table of
//! records ([`FixedMap`]), a sketch of sums ([`CountMin`]), a counter of distinct keys
//! ([`HyperLogLog`]) and fixed-point numbers ([`Fixed`], [`ewma`], [`log2`]). All allocate their
//! memory on creation and none afterwards; `state_bytes` returns its size. They hash without a
//! random seed, so that two machines that process the same keys hold the same state.

mod bloom;
mod count_min;
mod fixed;
mod hash;
mod hyper_log_log;
mod map;

pub use bloom::BloomFilter;
pub use count_min::CountMin;
pub use fixed::{Fixed, ewma, log2};
pub use hyper_log_log::HyperLogLog;
pub use map::{FixedMap, Full};
