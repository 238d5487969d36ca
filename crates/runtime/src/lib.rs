//! The live driver: what happens between a protocol's state machine and the machine it runs on,
//! written once for every [`Device`](fairway_device::Device).
//!
//! **What it is.** A protocol implements [`Protocol`]: how datagrams are read and written, where
//! they go, and what lives beside its device. This crate is the rest: the loop of receiving, timers
//! and sending, the lock around it, the background thread, and registered memory.
//!
//! | module | what it does |
//! |---|---|
//! | `protocol` | what differs between protocols: datagrams, addresses, what lives beside the device |
//! | `sockets` | which socket is tried next, and the calls that receive |
//! | `io` | the run of packets that is put together, and the calls that send |
//! | `receiving` | datagram, packet, verdict, place |
//! | `sending` | packet, payload, run |
//! | `poll` | both, and timers in between |
//! | `memories` | the registered memory, and how it is copied and changed |
//! | `execution` | what a device asks to be done to memory is done and reported |
//! | `clock` | the one place that reads the clock and draws random bytes |
//! | `memory` | registered memory: where it comes from, and copies that survive its disappearance |
//! | `delayed_ack` | whether the application answers at once, so that an acknowledgement may wait |
//! | `poll_detector` | whether the users of verbs poll, or the background thread has to drive |
//! | `addresses` | addresses of this host and of others |
//! | `signals` | which signals the threads of a library block |
//! | `error` | what the operating system refuses |
//! | `shared` | the lock, the threads that poll, the background thread |
//!
//! **May import:** `fairway-wire`, `fairway-device`, `fairway-port`, `fairway-ring`, `libc`.
//!
//! **Invariants.** Nothing here decodes a packet, and nothing asks which protocol it drives. What
//! differs between protocols is a method or a constant of [`Protocol`]. Nothing is allocated per
//! packet. Payload is copied, and words are changed, by [`Memories`] alone. An access to memory
//! that its owner has unmapped fails with [`Gone`] instead of ending the process.
//!
//! **How to test:** `cargo test -p fairway-runtime`; `make miri` runs the tests of memory. The
//! protocols are tested live by `cargo test -p fairway`.
#![warn(unsafe_op_in_unsafe_fn)]

pub mod addresses;
pub mod clock;
mod delayed_ack;
mod error;
mod execution;
mod io;
mod memories;
mod memory;
mod poll;
mod poll_detector;
mod protocol;
mod receiving;
mod sending;
mod shared;
mod signals;
mod sockets;

pub use delayed_ack::DelayedAck;
pub use error::SystemError;
pub use execution::{execute_due, report};
pub use io::{Appended, Companion, Destination, Io, Outbox};
pub use memories::{Memories, MemoryCounters, Unregistered};
pub use memory::{Gone, Memory, SharedBytes, survive_missing_memory};
pub use poll::{fire_timers, is_due, poll};
pub use poll_detector::PollDetector;
pub use protocol::{Eagerness, Parsed, Placing, Protocol, TransmitOf};
pub use receiving::{handle, handle_arrival};
pub use sending::{fill, transmit};
pub use shared::{Asleep, BACKGROUND, Locked, Shared, earlier, run_background, span_until};
pub use signals::without_signals;
pub use sockets::{OTHERS, Sockets, ns};
