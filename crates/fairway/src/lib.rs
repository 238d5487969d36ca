//! Fairway's live NIC, and its public API.
//!
//! **What it is.** A program builds a [`Context`], registers memory as [`Segment`]s, connects to
//! [`Peer`]s, and moves bytes between its own and its peers' segments with the operations of a
//! [`Jetty`]. The protocol runs in this process: no daemon, no privilege, no kernel module. Peers
//! can be read and written while their applications do nothing.
//!
//! ```no_run
//! use fairway::{Context, Memory, Rights};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), fairway::Error> {
//! let context = Context::builder().port(4810).build()?;
//! let memory = context.register(Memory::zeroed(1 << 20)?, Rights::READ_WRITE)?;
//! println!("others reach it with the key {}", memory.key());
//! let event = context.wait_event(Duration::from_secs(60))?;
//! # Ok(())
//! # }
//! ```
//!
//! [`RemotePtr`] is a short way to access single words:
//!
//! ```
//! use fairway::{Context, Memory, Rights};
//! use std::sync::atomic::Ordering;
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), fairway::Error> {
//! let owner = Context::builder().bind([127, 0, 0, 1].into()).build()?;
//! let segment = owner.register(Memory::zeroed(4096)?, Rights::ALL)?;
//!
//! let other = Context::builder().bind([127, 0, 0, 1].into()).build()?;
//! let peer = other.connect(owner.local_addrs()[0], Duration::from_secs(5))?;
//! let memory = peer.memory(segment.key())?;
//! let counter = memory.at::<u64>(64)?;
//! counter.store(40)?;
//! assert_eq!(counter.fetch_add(2)?, 40);
//! assert_eq!(counter.compare_exchange(42, 1)?, Ok(42));
//! assert_eq!(counter.load()?, 1);
//! // The owner sees the same word, and may change it at any time.
//! assert_eq!(segment.atomic_u64(64)?.fetch_add(1, Ordering::SeqCst), 1);
//! assert_eq!(counter.load()?, 2);
//! # Ok(())
//! # }
//! ```
//!
//! The module [`guide`] is a tutorial, from the first WRITE to the packets on the wire.
//!
//! **May import:** `fairway-ub` (and through it `wire` and `policy`), `fairway-device`,
//! `fairway-observe`, `fairway-port`, `fairway-ring`, `fairway-runtime`, `fairway-sandbox`, `libc`;
//! `tokio` behind the feature of that name.
//!
//! **Invariants.** No protocol decision is made here: the protocol decides which packets to send
//! and where to place payload. Nothing is allocated per packet. Memory is freed only when the
//! protocol reports that no operation refers to it, and is never lent out as a Rust reference while
//! a NIC may write it. Application code does not run while the NIC is locked, except for the
//! condition of [`Context::wait_until`] and what [`Memory::keeping`] drops.
//!
//! **Modules.** [`Context`] and its siblings check arguments and lock the core; `core` owns the
//! engine, the sockets and the tables of live objects; `protocol` provides the functions of the
//! Unified Bus that `runtime` needs to move packets; `progress` decides which thread runs the
//! polls; `connect` opens channels, by the state machines of the protocol.
//!
//! **How to test:** `cargo test -p fairway` (over loopback, with and without emulated
//! loss, reordering and duplication).
#![warn(unsafe_op_in_unsafe_fn)]

mod batch;
mod blocking;
mod builder;
mod completion;
mod connect;
mod context;
mod control;
mod core;
mod datapath;
pub mod embed;
mod engines;
mod epoch;
mod error;
mod event;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod group;
pub mod guide;
mod jetty;
mod key;
mod mailbox;
mod next;
mod operations;
mod options;
mod order;
mod outside;
mod peer;
mod peer_state;
mod pointer;
mod post;
mod progress;
mod protocol;
mod record;
mod same_host;
mod segment;
mod server_address;
mod setup;
mod shared;
mod socket_shortage;
pub mod stats;
mod target;
#[cfg(feature = "tokio")]
mod tokio;
mod word;

pub use batch::Batch;
pub use builder::Builder;
pub use completion::{Completion, OperationError, WrId};
pub use context::Context;
pub use datapath::{DatapathKind, UnknownDatapath};
pub use epoch::{Epoch, EpochNote};
pub use error::{Error, PostedTo, Refusal};
pub use event::Event;
pub use fairway_observe::{
    ControlLatency, Counters, HostPressure, HostPressureError, HostReading, HostResource,
    HostSignals, LatencySample, NicCounters, PathStats, PeerStats,
};
pub use fairway_port::rnic::RnicChoice;
pub use fairway_port::{InterfaceAddress, PortCounters, Spec, interface_addresses};
pub use fairway_runtime::{Dscp, UnknownDscp};
pub use fairway_runtime::{Memory, SystemError, start_thread, without_signals};
pub use fairway_sandbox::{
    News as PolicyNews, Policies, PoliciesError, Report as PolicyReport, Role as PolicyRole,
    SwapError,
};
pub use fairway_ub::control::{ProcessorStats, TraceEntry, TraceRecord};
pub use fairway_ub::policy::{PolicySpec, Share};
pub use fairway_ub::wire::{Duration as ProtocolDuration, JettyId, ServiceMode, Tag};
pub use fairway_ub::{
    ChannelId, CompletionKind, Counters as EngineCounters, Dispatch, DropReason, ExceptionMode,
    FlowView, JettyState, Limits, Profile, Rights, Status, Steering, Threshold, Usage, WhenEmpty,
};
pub use group::JettyGroup;
pub use jetty::Jetty;
pub use key::{KeyError, RemoteSlice, SegmentKey};
pub use mailbox::{Mailbox, MailboxAddress};
pub use next::NextCompletion;
pub use options::{GroupOptions, JettyOptions, MailboxOptions};
pub use order::Order;
pub use peer::Peer;
pub use peer_state::LongPackets;
pub use pointer::{Pod, RemoteMemory, RemotePtr, Word};
pub use post::{Operation, Ordered, Post};
pub use record::{EpochRecord, RecordedEpoch};
pub use segment::{LocalSlice, Segment};
pub use server_address::ServerAddress;
pub use socket_shortage::{SocketLimit, SocketShortage};
pub use target::{NotifyTarget, To};
pub use word::{AtomicOp, RemoteWord};

/// Compiles the Rust examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
