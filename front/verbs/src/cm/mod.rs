//! librdmacm: the connection manager as C programs know it.
//!
//! **What it is.** The C ABI of librdmacm on top of
//! [`roce::cm`](fairway_softnic::roce::cm) and of the verbs of this library. One
//! file is both libraries: whoever asks for `librdmacm.so.1` finds it under that name.
//!
//! **Who does what.** `abi` mirrors the header, `verbs` names the calls of libibverbs used here.
//! `desk` runs the state machine of one device: its datagrams, its clock, and who hears of what
//! happens. `id` is `rdma_cm_id`, with its addresses (`address`, `port`, `resolve`); `connect` has
//! the calls that make and end connections; `queue_pair` those that take queue pairs through their
//! states; `channel` hands events to programs, `hold` lets some of them wait; `endpoint` the calls
//! that do several things at once.
//!
//! **Invariants.** A lock of an id is taken under that of a desk, never the other way round; and no
//! lock is held while the carrier or a call of libibverbs is at work.

mod abi;
mod address;
mod channel;
mod connect;
mod desk;
mod endpoint;
mod hold;
mod id;
mod options;
mod port;
mod queue_pair;
mod resolve;
mod sockets;
mod verbs;

pub(crate) use desk::unattended;
pub(crate) use hold::polled;

#[cfg(test)]
mod tests;
