//! Datagrams over UDP sockets.

mod address;
mod control;
mod counters;
mod knock;
mod port;
mod queues;
mod receive;
mod receive_call;
pub(crate) mod route;
mod send;
mod sys;
mod train;
mod waiter;

#[cfg(test)]
mod tests;

pub use address::Address;
pub(crate) use control::{ecn_bits, ecn_from_bits};
pub use counters::PortCounters;
pub use knock::Knock;
pub use port::{Features, Granted, UdpConfig, UdpPort, mtu_towards};
pub use queues::{QueueUse, QueueWatch};
pub use receive::{Arrival, ReceiveBuffer};
pub use route::is_local;
pub use send::{PacketTooLong, Sent};
pub(crate) use sys::check;
pub use train::{DoesNotFit, Train};
pub use waiter::{Doorbell, Waiter, Watched, Woken};
