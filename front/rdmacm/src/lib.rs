//! librdmacm: the connection manager as C programs know it.
//!
//! **What it is.** The C ABI of librdmacm, on top of [`roce::cm`](fairway_roce::cm) and of
//! libibverbs (`fairway-verbs`). One file is both libraries, because a provider and its sockets
//! exist once in a process: the static library of this crate contains libibverbs, is linked to
//! `libibverbs.so.1`, and `librdmacm.so.1` is a second name of that.
//!
//! **May import:** `fairway-verbs` ([`fairway_verbs::manager`] and the C boundary), `fairway-rdma`,
//! `fairway-roce`, `fairway-wire`, `fairway`, `libc`.
//!
//! **Modules.** `abi` mirrors the header, `verbs` names the calls of libibverbs used here.
//! `cm_device` runs the state machine of one device: its datagrams, its timers, and the ids that
//! receive its events; `clock` tells it the time. `id` is `rdma_cm_id`, with its addresses
//! (`address`, `port`, `resolve`), which `lifetime` makes and destroys; `connect` has the calls
//! that make and end connections; `queue_pair` those that take queue pairs through their states;
//! `note` is an event on its way to a program, which `channel` returns and `deferred_disconnect`
//! may delay; `endpoint` has the calls that do several things at once.
//!
//! **Invariants.** A lock of an id is taken under that of a device, never the other way round; and
//! no lock is held while the provider or a call of libibverbs is at work.
//!
//! **How to test:** `cargo test -p fairway-rdmacm` compares the structs with the installed header,
//! calls the functions, and runs programs of rdma-core where they are installed.
#![warn(unsafe_op_in_unsafe_fn)]

mod abi;
mod address;
mod channel;
mod clock;
mod cm_device;
mod connect;
mod deferred_disconnect;
mod endpoint;
mod id;
mod lifetime;
mod note;
mod options;
mod port;
mod queue_pair;
mod resolve;
mod sockets;
mod verbs;

#[cfg(test)]
mod tests;
