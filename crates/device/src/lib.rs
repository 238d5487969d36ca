//! Parts that the protocols of a NIC share.
//!
//! **What it is.** The values of the contract between a protocol and its caller that are the same
//! for Unified Bus (`ub`) and RoCEv2 (`roce`): [`Device`], which both implement, verdicts,
//! placements, names of segments and completion queues, access rights, ranges of registered memory,
//! errors of set-up. Also the parts that both are built from: pools of records, lists through them,
//! a heap of deadlines, the table of segments with its access check, completion queues, quotas of
//! source addresses, a seeded random number generator; the [`control`] framework, and the gates of
//! flows that a scheduler shares a NIC among ([`flow`]); and [`drive`], the driver for callers that
//! manage the memory themselves.
//!
//! **May import:** `wire`, `policy`.
//!
//! **Invariants.** Nothing here depends on the meaning of a packet. No clock, no sockets, no
//! threads, no globals, no payload bytes except those that a caller passes to [`drive`]; `no_std`,
//! no `unsafe`. Records are allocated when a device is created, and an exhausted pool reports that
//! instead of growing.
//!
//! **How to test:** `cargo test -p fairway-device`; the storm in `fairway-storm` runs both
//! protocols over it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
#[macro_use]
extern crate std;

pub mod completion;
mod contract;
pub mod control;
pub mod deadlines;
pub mod drive;
pub mod flow;
pub mod guard;
pub mod list;
pub mod pace;
pub mod pool;
pub mod quota;
pub mod random;
mod scatter;
pub mod segment;
mod values;

pub use contract::{
    AtomicExecution, Device, Execution, Placement, Ranges, ReceiveRequest, Verdict, VerdictOf,
};
pub use scatter::{SGE_MAX, ScatterList};
pub use values::{
    CompletionQueueId, Grant, LocalRange, Rights, SegmentId, SegmentRequest, SetupError, StateSize,
};
