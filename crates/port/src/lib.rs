//! Sends and receives datagrams.
//!
//! **What it is.** [`UdpPort`]: a set of UDP sockets that send a run of packets ([`Train`]) in one
//! call, and receive a run in one ([`Arrival`]); [`Waiter`], to sleep until something arrives;
//! [`QueueWatch`], which measures how full the sockets' queues are; [`statistics`], the counters of
//! a NIC's driver; [`nic_features`], its offloads; and [`descriptors`], the process's limit. Also
//! emulated networks: a [`Spec`] of delay, loss, reordering and so on, applied to a port
//! ([`Impaired`]; [`Datapath`] is the interface that it shares with a plain port) or between two
//! programs ([`Relay`]). And [`Tun`], a network interface of a host whose other end is in this
//! process, [`xdp`], frames past the kernel's network stack, and [`rnic`], datagrams of RDMA NICs.
//!
//! **May import:** `fairway-wire` (for the congestion bits), `fairway-ibverbs`, `libc`.
//!
//! **Invariants.** The crate carries bytes and does not interpret them. Nothing is allocated per
//! packet. Nothing that arrives is truncated; what a switch has cut says so
//! ([`Arrival::cut_from`]). Memory that others may write is referred to by address and copied,
//! never borrowed. Reports of the network about a packet are counted and never end a port.
//!
//! **How to test:** `cargo test -p fairway-port` (over the loopback interface, IPv4 and IPv6).

mod descriptors;
mod emulate;
mod ethtool;
mod features;
mod interfaces;
mod limits;
mod memory;
pub mod rnic;
mod statistics;
mod tun;
mod udp;
mod user;
pub mod xdp;

pub use descriptors::descriptors;
pub use emulate::{
    ATTEND, Conditions, Datapath, Decision, FallenBack, Impaired, ModelCounters, PathModel, Relay,
    RelayConfig, RelayCounters, ShaperCounters, Spec, SpecError, Window, rate,
};
pub use fairway_wire::Ecn;
pub use features::{NicFeature, nic_features};
pub use interfaces::{InterfaceAddress, interface_addresses, interface_driver};
pub use limits::{
    DEFAULT_QUEUE_BYTES, HEADER_BYTES_MAX, HOLDING_BYTES_MAX, REORDER_HOLD_NS, SEGMENTS_MAX,
    TRAIN_BYTES_MAX,
};
pub use memory::RawSlice;
pub use statistics::{interfaces, statistics};
pub use tun::Tun;
pub use udp::{
    Address, Arrival, DoesNotFit, Doorbell, Features, Granted, Knock, PacketTooLong, PortCounters,
    QueueUse, QueueWatch, ReceiveBuffer, Sent, Train, UdpConfig, UdpPort, Waiter, Watched, Woken,
    is_local, mtu_towards,
};
pub use user::{is_same_user, process_of, user};
