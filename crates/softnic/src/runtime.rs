//! The live driver: what happens between a protocol's state machine and the machine it runs on,
//! written once for every [`Device`](fairway_device::Device).
//!
//! `memories` knows the registered memory; `execution` does to it what a device asks for. Nothing
//! here knows a packet: what differs between protocols comes in as a type.

mod execution;
mod memories;

pub(crate) use execution::{execute_due, place, report};
pub(crate) use memories::{Memories, Unregistered};
