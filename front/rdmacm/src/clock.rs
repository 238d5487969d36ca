//! The clock of the state machines, and unpredictable numbers.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;
use std::time;

use fairway_wire::{Duration, Instant};

/// A number that no peer can predict.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The current time in the state machine's units.
pub(super) fn now() -> Instant {
    static START: OnceLock<time::Instant> = std::sync::OnceLock::new();
    let passed = START.get_or_init(time::Instant::now).elapsed();
    Instant::ZERO + Duration::from_ns(passed.as_nanos() as u64)
}
