//! Datapath past the kernel's network stack: whole frames through AF_XDP sockets.
//!
//! [`Frames`] wraps the UDP sockets of a context. A program on the network interface redirects
//! packets for these sockets to memory that is shared with the kernel, and packets are sent from
//! such memory, with headers that are written here. The protocol above sees the same datagrams,
//! addresses and socket numbers as through the sockets, so every operation, order and policy works
//! unchanged. The sockets stay open and in use:
//!
//! * They keep the port numbers, so that the kernel answers no packet with "port unreachable".
//! * Packets whose way the kernel does not know yet leave by them, which makes the kernel find the
//!   Ethernet address of the next host (ARP, neighbour discovery). Ways are looked up again every
//!   second, and while the kernel has not heard of the host lately, one train per second leaves by
//!   a socket.
//! * Packets that are too long for a frame, fragments, and packets with IP options or extension
//!   headers take them in both directions, as do packets to this host itself and to hosts behind
//!   other interfaces.
//!
//! * Where the kernel copies frames, trains of more than a few packets leave by them: the kernel
//!   takes a train whole, and cuts it later.
//!
//! Packets may change from one way to the other at any time, which the protocol takes for
//! reordering.
//!
//! **Trust.** Packets that arrive this way do not pass the kernel's filters (nftables) or its check
//! of source addresses. Lengths, checksums, and sources that no other host has are checked here,
//! and payload is copied before it is decoded. The keyed checks of the protocol apply to these
//! datagrams as to all others.

mod datapath;
mod ways;

pub use datapath::Frames;
