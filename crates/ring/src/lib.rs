//! Fairway's lock-free code: rings, doorbells, and the progress lock.
//!
//! **What it is.** The few structures that threads or processes share without a lock: [`Spsc`], a
//! bounded ring from one producer to one consumer; [`Doorbell`], a word on which threads sleep
//! until it is rung; [`ProgressLock`], the word that determines which thread drives a NIC. The
//! first two work between processes, over memory that both have mapped: they contain offsets and no
//! pointers, and nothing that the other side writes can make them access memory outside their area.
//!
//! **May import:** nothing.
//!
//! **Invariants.** Every shared word is an atomic. Values that a counterpart in shared memory
//! writes are never trusted: a nonsensical index reads as "empty" or "full". No wake-up is lost: a
//! thread that rings after publishing wakes all threads that listened before checking.
//!
//! **How to test:** `cargo test -p fairway-ring`, and every interleaving with
//! `RUSTFLAGS="--cfg loom" cargo test -p fairway-ring --release --lib`.
#![warn(unsafe_op_in_unsafe_fn)]

mod doorbell;
mod futex;
#[cfg(all(loom, test))]
mod interleavings;
mod progress_lock;
mod spsc;
mod sync;

pub use doorbell::{Doorbell, Ticket};
pub use progress_lock::{ProgressLock, Role, next_role};
pub use spsc::{AreaError, Consumer, Producer, Spsc};
