//! Datapath over shared memory: packets between processes of one user on one host, without system
//! calls.
//!
//! [`SharedMemory`] wraps the UDP sockets of a context. It carries a packet through a ring in
//! shared memory if a process of the same user on this host owns the destination, and through the
//! sockets otherwise. The protocol above sees the same datagrams, addresses and socket numbers in
//! both cases, so every operation, order and policy works unchanged. Packets may change from one
//! way to the other at any time, which the protocol takes for reordering.
//!
//! **Attachment.** Each socket address of a context is also the abstract name of a Unix socket
//! (`attach`). The first packet to an address of this host connects there. The connecting side
//! passes a file in memory with two rings (`ring`), one for each direction, and an event descriptor
//! that wakes it; the other side answers with its own. Each side lists its socket addresses, to all
//! of which packets then take the ring. The connection stays open: its end shows that the other
//! process has ended or left, and packets take the sockets again.
//!
//! **Waking.** A thread that is about to sleep on the descriptors *arms* the rings first
//! ([`Datapath::arm`](fairway_port::Datapath::arm)). A process that writes to an armed ring rings
//! the event descriptor; to a ring that is not armed it makes no system call.
//!
//! **Trust.** Only processes of the same effective user attach to each other. Headers in the ring
//! are copied before they are checked, lengths are checked against the ring, and payload is copied
//! before it is decoded, so another process of this user that writes nonsense can end the link and
//! forge datagrams, but nothing else. (It could as well attach a debugger.) The keyed checks of the
//! protocol apply to these datagrams as to all others.

mod attach;
mod datapath;
mod link;
mod ring;
#[cfg(test)]
mod tests;

pub use datapath::SharedMemory;
