//! librdmacm: the connection manager's interface for C programs.
//!
//! **What it is.** The C ABI of librdmacm, on top of [`roce::cm`](fairway_roce::cm) and of
//! libibverbs (`fairway-verbs`). One file contains both libraries, because a provider and its
//! sockets exist once in a process: the static library of this crate contains libibverbs and is
//! linked to `libibverbs.so.1`, and `librdmacm.so.1` is a second name of that file.
//!
//! **May import:** `fairway-verbs` ([`fairway_verbs::manager`] and the C boundary), `fairway-rdma`,
//! `fairway-roce`, `fairway-wire`, `fairway`, `libc`.
//!
//! **Modules.** `abi` mirrors the header, `verbs` declares the calls of libibverbs used here.
//! `cm_device` runs the state machine of one device: its datagrams, its timers, and the ids that
//! receive its events; `clock` supplies the time. `id` is `rdma_cm_id`, with its addresses
//! (`address`, `port`, `resolve`; `claims` excludes other processes from a port), which `lifetime`
//! creates and destroys; `connect` has the calls that establish and end connections; `queue_pair`
//! those that change the states of queue pairs; `note` is an undelivered event, which `channel`
//! returns to the program and `deferred_disconnect` may delay; `endpoint` has the calls that
//! combine several steps; `inherited` refuses what a child of `fork` cannot use.
//!
//! **Invariants.** The lock of an id is taken while that of a device is held, never the other way
//! round; and no lock is held during a call of the provider or of libibverbs.
//!
//! **How to test:** `cargo test -p fairway-rdmacm` compares the structs with the installed header,
//! calls the functions, and runs programs of rdma-core where they are installed.
#![warn(unsafe_op_in_unsafe_fn)]

mod abi;
mod address;
mod channel;
mod claims;
mod clock;
mod cm_device;
mod connect;
mod deferred_disconnect;
mod endpoint;
mod id;
mod inherited;
mod lifetime;
mod note;
mod options;
mod port;
mod queue_pair;
mod resolve;
mod sockets;
mod transport;
mod verbs;

#[cfg(test)]
mod tests;
