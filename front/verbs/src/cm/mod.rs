//! librdmacm: the connection manager as C programs know it.
//!
//! **What it is.** The C ABI of librdmacm on top of
//! [`roce::cm`](fairway_roce::cm) and of the verbs of this library. One
//! file is both libraries: `librdmacm.so.1` is a second name of it.
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
//! no lock is held while the carrier or a call of libibverbs is at work.

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
