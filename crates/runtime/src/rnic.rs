//! Datapath over an RDMA NIC: packets as datagrams of its queue pairs.
//!
//! [`QueuePairs`] wraps the UDP sockets of a context. To each socket at an address of the NIC
//! belongs a queue pair of unreliable datagrams (UD), and a packet from one socket to another is a
//! SEND from one queue pair to the other, so a path is a pair of queue pairs. The protocol above
//! sees the same datagrams, addresses and socket numbers as through the sockets, so every
//! operation, order and policy works unchanged, and losses are repaired by Fairway. Packets may
//! change from one way to the other at any time, which the protocol takes for reordering.
//!
//! **Introductions.** The first packet to an address takes the sockets, and so does a *request*
//! (`introduction`). A peer with this datapath answers with the numbers of its queue pairs. A
//! *probe* then goes from queue pair to queue pair, and only when the peer has confirmed it,
//! through the sockets, do packets take the NIC. Probes are repeated twice a second while packets
//! are sent; packets take the sockets again when none has been confirmed for three seconds. So a
//! peer without this datapath, a filter that drops RoCE's packets, and a peer that was started
//! again are all noticed. Each direction is probed by itself.
//!
//! **Connections.** On request, each pair of sockets also has a pair of connected queue pairs (UC).
//! They are made by messages between peers whose way is proven, and are checked by messages through
//! the connection, as often as probes. Packets with a code point, which a connection cannot
//! express, and those of connections that are not checked take the datagrams.
//!
//! **What takes the sockets.** Packets that are longer than the NIC's MTU, those of sockets at
//! other addresses than the NIC's, and those of a queue pair that has failed. A failed queue pair
//! is replaced after a second.
//!
//! **Congestion marks.** Packets are sent with the congestion bits and the code point of the train.
//! Marks of switches are seen if the NIC writes the IP header in front of the payload as it has
//! arrived; a NIC that does not gives no marks.
//!
//! **Trust.** A peer's queue pairs are accepted from a sender that has received a number at the IP
//! address for which it speaks. An attacker that cannot read what is sent to an address cannot
//! redirect packets to it. A host that introduces more queue pairs than are remembered displaces
//! its own, and not those of hosts that have fewer. The keyed checks of the protocol apply to these
//! datagrams as to all others.

mod connect;
mod connections;
mod datapath;
mod introduction;
mod peers;
mod sources;
#[cfg(test)]
mod tests;

pub use datapath::{QueuePairs, RnicService};
