//! The connection manager: two programs exchange their queue pairs, and later end the connection.
//!
//! **What it is.** [`Manager`] sends and receives the datagrams of
//! [`wire::roce::cm`](crate::wire::roce::cm) for one process at one device. It assigns connection
//! ids, repeats messages, refuses requests, and reports peers' requests to its caller; queue pairs
//! are the caller's. Sections in comments are those of the InfiniBand Architecture Specification,
//! volume 1.
//!
//! **Contract.** That of the protocol: commands, `handle_*`, `poll_*`, getters; time is an
//! argument; the same inputs give the same outputs. After every command and input,
//! [`Manager::poll_event`] and [`Manager::poll_transmit`] have to be called until they return
//! `None`.
//!
//! **Invariants.** An attempt to connect ends in exactly one of established, rejected and timed
//! out, at both ends, unless the caller closes it first. An established connection ends in exactly
//! one [`Event::Disconnected`]. A lost or repeated datagram makes no difference to the caller.
//! Nothing that came from a wire is unwrapped, asserted or used as an unchecked index.
//!
//! **Files.** `manager` has the commands, `receive` handles datagrams, `admission` limits the
//! requests of a source, `record` is one connection, `names` draws connection ids, `route` finds
//! the process to which a datagram belongs, and `refuse` answers requests for which there is no
//! program.

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
pub use route::{Claim, Route, claim, destination, route, source};

#[cfg(test)]
mod tests;
