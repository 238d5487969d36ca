//! RoCEv2 queue pairs, as a state machine.
//!
//! **What it is.** [`RoceDevice`] is the RoCE side of a NIC without I/O, by the same contract as
//! `engine::Nic`: packets are values ([`wire::roce`]), payload is only *named*, time is an
//! argument, transmission is pulled, and placement takes two steps. It has segments, completion
//! queues, pools and deadlines from `device`. [`cm`] is the connection manager.
//!
//! **May import:** `wire`, `policy`, `device`.
//!
//! RC is the protocol as RNICs run it: one path, packets in order, go-back-N. As an option
//! ([`OutOfOrder`]), packets are taken as they come, and only missing ones sent again.
//! UC and UD are there, too. Sections in comments are those of the InfiniBand Architecture
//! Specification, volume 1.
//!
//! **Invariants.** An acknowledgement or completion that promises a placement appears only after
//! [`RoceDevice::handle_placed`]. Atomics and SENDs over RC are executed once, whatever is lost,
//! duplicated or reordered. Memory changes as if the operations of a connection were executed in
//! the order they were posted, and a READ reads what it then finds, unless the region or the queue
//! pair allows any order ([`Rights::RELAXED`](fairway_device::Rights::RELAXED)). Nothing is
//! allocated after a queue pair was connected. Nothing that came from a wire is unwrapped, asserted
//! or used as an unchecked index. The ICRC is the caller's: a packet is handed in only after it was
//! verified.
//!
//! **Files.** `requester` sends what was posted; `answers` takes what comes back; `responder`
//! judges requests, and `responder::reorder_buffer` those that come too early; `recovery` is how a
//! requester sends again no more than what is missing; `resources` keeps what READs and atomics may
//! be asked for again; `respond` sends acknowledgements and responses; `reading` and
//! `responder::turn` keep what is posted behind a READ from changing what it reads;
//! `responder::unconnected` is the receiving side of UC and UD; `state` is the life of a queue
//! pair; `completions` are its completion queues.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
#[macro_use]
extern crate std;

pub use fairway_device::{
    CompletionQueueId, Device, LocalRange, Ranges, Rights, SGE_MAX, ScatterList, SegmentId,
    SegmentRequest, SetupError, StateSize,
};
pub use fairway_policy as policy;
pub use fairway_wire as wire;

mod answers;
mod api;
pub mod cm;
mod completions;
mod contract;
mod device;
mod injected_bug;
mod limits;
mod missing;
mod queue_pair;
mod reading;
mod recovery;
mod requester;
mod resources;
mod respond;
mod responder;
mod shared;
mod state;
mod usage;
mod window;
mod work;

pub use api::{
    AtomicExecution, Change, ChangeError, Completion, CompletionKind, Counters, DropReason, Event,
    MemoryRegion, MemoryRequest, OwnVerdict, Peer, Placement, PlacementToken, PostError,
    QueuePairConfig, ReceiveQueueId, ReceiveRequest, Received, Reliability, RemoteAddress, Status,
    Target, Transmit, Transport, Verdict, Work, WorkRequest,
};
pub use device::RoceDevice;
pub use injected_bug::InjectedBug;
pub use limits::{Limits, OutOfOrder, Profile, READ_DEPTH_MAX};
pub use state::QueuePairState;

#[cfg(test)]
mod tests;
