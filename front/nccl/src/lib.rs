//! libnccl-net-fairway: NCCL's network plug-in over Fairway.
//!
//! **What it is.** NCCL loads a shared library that exports tables of functions, one for each
//! version of its interface, and moves all data between hosts by them. This library exports the
//! tables of the versions 8 to 12. All of them lead to one core: a connection is a channel of a
//! [`fairway::Context`], data moves from registered memory to registered memory by WRITE, and
//! nothing is copied in between.
//!
//! **May import:** `fairway`, `libc`.
//!
//! **Invariants.** No protocol decision is made here. No panic crosses into C. No call waits for a
//! peer, except those that deregister or close, and these for a bounded time. Memory stays
//! registered until no operation refers to it. No thread outlives the last communicator.
//!
//! **Modules.** `abi` has the tables: a file per version, and the calls that all versions share.
//! The core: `interfaces` finds the devices; `instance` holds what lives from `init` to `finalize`,
//! the NIC of each device (`nics`, `nic`) among it; `listener` and `attempt` set connections up;
//! `sender` and `receiver` are their two ends; `message` has the bytes that they exchange; `memory`
//! registers.
//!
//! **One message.** The receiver posts `irecv`, which sends an announcement (tag, key, place and
//! size of each buffer) to the sender. The sender's `isend` takes the oldest announced buffer of
//! its tag and posts one WRITE with immediate data, which names announcement, buffer and size. Its
//! completion ends the send, and the notification at the other side ends the receive.
//!
//! **How to test:** `cargo test -p fairway-nccl` compiles a C program that loads the library as
//! NCCL does, and runs it with every version, also under AddressSanitizer and with emulated loss.
#![warn(unsafe_op_in_unsafe_fn)]

mod abi;
mod attempt;
mod guard;
mod instance;
mod interfaces;
mod limits;
mod listener;
mod log;
mod memory;
mod message;
mod nic;
mod nics;
mod object;
mod receiver;
mod request;
mod selection;
mod sender;
mod settings;
mod status;
