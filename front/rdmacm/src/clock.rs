//! The clock of the state machines, and unpredictable numbers.

use std::sync::OnceLock;
use std::time;

use fairway_wire::{Duration, Instant};

use fairway_verbs::guard::{Errno, Result};

/// A number that no peer can predict. The system draws it, because generators of the process would
/// return the same numbers in the children of one process.
pub(super) fn random() -> Result<u64> {
    fairway_rdma::random().map_err(Errno::from)
}

/// The current time in the state machine's units.
pub(super) fn now() -> Instant {
    static START: OnceLock<time::Instant> = std::sync::OnceLock::new();
    let passed = START.get_or_init(time::Instant::now).elapsed();
    Instant::ZERO + Duration::from_ns(passed.as_nanos() as u64)
}
