//! State that stays small: what a control law may keep per flow, per tenant or per NIC.
//!
//! A processor of events (SCR §4.3.3) that keeps to its cache remembers little and computes
//! without floating point. Here are a table of records ([`FixedMap`]) and fixed-point numbers
//! ([`Fixed`], [`ewma`], [`log2`]). All take their memory when they are made and none afterwards;
//! `state_bytes` says how much. They hash without a seed of chance, so that two machines that see the
//! same keys hold the same state.

mod fixed;
mod hash;
mod map;

pub use fixed::{Fixed, ewma, log2};
pub use map::{FixedMap, Full};
