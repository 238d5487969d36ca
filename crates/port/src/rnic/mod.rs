//! Datagrams through queue pairs of an RDMA NIC, by any verbs library.
//!
//! [`Rnic`] opens a device of `libibverbs.so.1`, which is loaded when it is first used, and makes
//! queue pairs of the kind that every RDMA NIC has, unreliable datagrams (UD), and on request also
//! unreliable connections (UC). [`ports`] lists the devices. Memory for packets is allocated and
//! registered when the device is opened; payload is copied there and from there. A train of
//! packets is one list of requests, so it rings the NIC's doorbell once; a completion is requested
//! for every few packets only.
//!
//! The layouts of the library's structs are written by hand (`abi`), so that no header is needed to
//! build.

mod abi;
mod device;
mod library;
mod nic;
mod objects;
mod queue_pair;
#[cfg(test)]
mod tests;

pub use device::{FoundPort, Gid, NoDeviceName, RnicChoice, ports};
pub use library::LIBRARY_VARIABLE;
pub use nic::{CONNECTIONS_MAX, Datagram, Rnic, Target, Unsent};
