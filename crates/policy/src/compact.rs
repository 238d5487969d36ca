//! State that stays small: what a control law may keep per flow, per tenant or per NIC.
//!
//! A processor of events (SCR §4.3.3) that keeps to its cache remembers little and computes
//! without floating point. Here are a membership filter ([`BloomFilter`]), a table of records
//! ([`FixedMap`]), a sketch of sums ([`CountMin`]), a counter of distinct things
//! ([`HyperLogLog`]) and fixed-point numbers ([`Fixed`], [`ewma`], [`log2`]). All take their memory
//! when they are made and none afterwards; `state_bytes` says how much. They hash without a seed of
//! chance, so that two machines that see the same keys hold the same state.

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
