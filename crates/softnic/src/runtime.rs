//! The live driver: what happens between a protocol's state machine and the machine it runs on,
//! written once for every [`Device`](fairway_device::Device).
//!
//! | module | what it does |
//! |---|---|
//! | `protocol` | what differs between protocols: datagrams, addresses, what lives beside the device |
//! | `sockets` | which socket is tried next, and the calls that receive |
//! | `io` | the run of packets that is put together, and the calls that send |
//! | `receiving` | datagram, packet, verdict, place |
//! | `sending` | packet, payload, run |
//! | `turn` | both, and timers in between |
//! | `memories` | the registered memory, and how it is copied and changed |
//! | `execution` | what a device asks to be done to memory is done and reported |
//! | `error` | what the operating system refuses |
//! | `shared` | the lock, the threads that poll, the background thread |
//!
//! Nothing here knows a packet, and nothing asks which protocol it drives.

mod error;
mod execution;
mod io;
mod memories;
mod protocol;
mod receiving;
mod sending;
mod shared;
mod sockets;
mod turn;

pub use error::SystemError;
pub(crate) use execution::{execute_due, report};
pub(crate) use io::{Appended, Bound, Companion, Io, Outbox};
pub(crate) use memories::{Memories, Unregistered};
pub(crate) use protocol::{Eagerness, Parsed, Placing, Protocol};
pub(crate) use receiving::{handle, handle_arrival};
pub(crate) use sending::{fill, transmit};
pub(crate) use shared::{Asleep, BACKGROUND, Locked, Shared, earlier, run_background, span_until};
pub(crate) use sockets::{OTHERS, Sockets, ns};
pub(crate) use turn::{fire_timers, is_due, turn};
