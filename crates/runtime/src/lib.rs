//! The live driver: everything between a protocol's state machine and the host, written once for
//! every [`Device`](fairway_device::Device).
//!
//! **What it is.** A protocol implements [`Protocol`]: how datagrams are decoded and encoded, where
//! they are sent, and which state exists beside its device. This crate provides the rest: the loop
//! of receiving, timers and sending, the lock around it, the background thread, and registered
//! memory.
//!
//! | module | what it does |
//! |---|---|
//! | `protocol` | the differences between protocols: datagrams, addresses, further state |
//! | `sockets` | the choice of the socket to try next, and the calls that receive |
//! | `io` | the run of packets that is being built, and the calls that send |
//! | `receiving` | from a datagram to a packet, a verdict and the payload's place |
//! | `sending` | from a packet to its payload and a run |
//! | `poll` | both, and timers in between |
//! | `memories` | the table of registered memory, with copies and atomics |
//! | `execution` | execution of a device's requests on memory |
//! | `clock` | the only module that reads the clock and draws random bytes |
//! | `memory` | registered memory: its sources, and copies that survive its disappearance |
//! | `delayed_ack` | detects applications that answer at once, so that acknowledgements may wait |
//! | `poll_detector` | detects whether users of verbs poll, or the background thread must drive |
//! | `crowding` | detects more busy threads than cores, so that polling threads sleep or move |
//! | `lingering` | lets a thread poll for a moment before it sleeps, where packets come soon |
//! | `placement` | moves a thread to another core |
//! | `burst` | lets small operations that are posted one by one leave together |
//! | `addresses` | addresses of this host and of others |
//! | `shm` | packets between processes of one host through shared memory, without system calls |
//! | `xdp` | packets as frames past the kernel's network stack |
//! | `rnic` | packets as datagrams of an RDMA NIC's queue pairs |
//! | `passing` | Unix sockets with abstract names, and files that are passed through them |
//! | `watching` | how often the background thread checks whether the application still polls |
//! | `process` | whether this is a child of `fork` of the process that made a value |
//! | `signals` | the signals that threads of the library block |
//! | `error` | errors of the operating system |
//! | `shared` | the lock, the threads that poll, the background thread |
//!
//! **May import:** `fairway-wire`, `fairway-device`, `fairway-port`, `fairway-ring`, `libc`.
//!
//! **Invariants.** Nothing here decodes a packet or depends on which protocol it drives.
//! Differences between protocols are methods or constants of [`Protocol`]. Nothing is allocated per
//! packet. Only [`Memories`] copies payload and changes words. An access to memory that its owner
//! has unmapped fails with [`Gone`] instead of ending the process.
//!
//! **How to test:** `cargo test -p fairway-runtime`; `make miri` runs the tests of memory. `cargo
//! test -p fairway` tests the protocols live.
#![warn(unsafe_op_in_unsafe_fn)]

pub mod addresses;
mod burst;
pub mod clock;
mod crowding;
mod delayed_ack;
mod dscp;
mod error;
mod execution;
mod fill;
mod io;
mod lingering;
mod memories;
mod memory;
pub mod passing;
mod payload;
mod placement;
mod poll;
mod poll_detector;
mod process;
mod protocol;
mod receiving;
mod rnic;
mod sending;
mod shared;
mod shm;
mod signals;
mod sockets;
mod threads;
mod watching;
mod xdp;

pub use burst::{Burst, SMALL, SmallPosts};
pub use clock::ns;
pub use delayed_ack::DelayedAck;
pub use dscp::{Dscp, UnknownDscp};
pub use error::SystemError;
pub use execution::{execute_due, report};
pub use io::{Appended, Companion, Destination, Io, Outbox};
pub use memories::{Memories, MemoryCounters, Unregistered};
pub use memory::{Gone, Memory, SharedBytes, survive_missing_memory};
pub use payload::Payload;
pub use poll::{fire_timers, is_due, poll};
pub use poll_detector::PollDetector;
pub use process::HomeProcess;
pub use protocol::{Eagerness, Parsed, Placing, Protocol, TransmitOf};
pub use receiving::{handle, handle_arrival};
pub use rnic::{QueuePairs, RnicService};
pub use sending::{fill, transmit, transmit_posted};
pub use shared::{Asleep, BACKGROUND, LEADER, Locked, Shared, earlier, run_background, span_until};
pub use shm::SharedMemory;
pub use signals::without_signals;
pub use sockets::{OTHERS, Sockets};
pub use threads::start_thread;
pub use xdp::Frames;
