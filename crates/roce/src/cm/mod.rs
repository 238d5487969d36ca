//! The connection manager: how two programs find each other's queue pairs, and agree to end it.
//!
//! **What it is.** [`Manager`] speaks the datagrams of [`wire::roce::cm`](crate::wire::roce::cm)
//! for one process at one device. It knows names, repeats and refuses, and tells its caller what
//! peers want; queue pairs are the caller's. Sections in comments are those of the InfiniBand
//! Architecture Specification, volume 1.
//!
//! **Contract.** That of the engine: commands, `handle_*`, `poll_*`, getters; time is an argument;
//! the same inputs give the same outputs. After every command and input, [`Manager::poll_event`]
//! and [`Manager::poll_transmit`] are asked until they say `None`.
//!
//! **Invariants.** An attempt to connect ends in exactly one of established, rejected and timed
//! out, at both ends, unless the caller closes it first. What is established ends in exactly one
//! [`Event::Disconnected`]. A lost or repeated datagram makes no difference that a caller sees.
//! Nothing that came from a wire is unwrapped, asserted or used as an unchecked index.
//!
//! **Files.** `manager` has the commands, `receive` what comes in, `admission` how many requests a
//! source may have, `record` one connection, `names` draws names, `route` says whose a datagram is,
//! `refuse` the answers to requests that no program answers.

mod admission;
mod api;
mod limits;
mod manager;
mod names;
mod receive;
mod record;
mod refuse;
mod route;

pub use api::{
    CommandError, ConnectionId, Counters, DropReason, Event, ListenerId, Sender, State, Transmit,
};
pub use limits::{Limits, Profile};
pub use manager::Manager;
pub use refuse::Refuser;
pub use route::{Route, destination, route, source};

#[cfg(test)]
mod tests;
