//! RoCEv2 queue pairs, as a state machine.
//!
//! **What it is.** [`RoceDevice`] is the RoCE side of a NIC without I/O, with the same contract as
//! `ub::UbDevice`: packets are values ([`wire::roce`]), payload is only *named*, time is an
//! argument, transmission is pulled, and placement takes two steps. Segments, completion queues,
//! pools and deadlines come from `device`. [`cm`] is the connection manager.
//!
//! **May import:** `wire`, `policy`, `device`.
//!
//! RC works as in RNICs: one path, packets in order, go-back-N. As an option ([`OutOfOrder`]),
//! early packets are accepted, and only missing ones are retransmitted. UC and UD are implemented,
//! too. Sections in comments are those of the InfiniBand Architecture Specification, volume 1.
//!
//! **Invariants.** An acknowledgement or completion that promises a placement appears only after
//! [`RoceDevice::handle_placed`]. Atomics and SENDs over RC are executed once, whatever is lost,
//! duplicated or reordered. Memory changes as if the operations of a connection were executed in
//! the order of posting, and a READ returns the bytes of its moment in that order, unless the
//! region or the queue pair allows any order
//! ([`Rights::RELAXED`](fairway_device::Rights::RELAXED)). Nothing is allocated after a queue pair
//! was connected. Nothing that came from a wire is unwrapped, asserted or used as an unchecked
//! index. The caller verifies the ICRC of every packet before passing it in.
//!
//! **Files.** `requester` sends posted operations; `answers` handles the responses to them;
//! `responder` judges requests, and `responder::reorder_buffer` early ones; `recovery` restricts
//! retransmission to missing packets; `resources` keeps READs and atomics that may be requested
//! again; `respond` sends acknowledgements and responses; `reading` and `responder::turn` prevent
//! operations posted behind a READ from changing the memory that it reads; `responder::unconnected`
//! is the receiving side of UC and UD; `state` has the states of a queue pair; `completions` are
//! its completion queues; `flow` has what a scheduler lets a queue pair send; `rate_control` says
//! which policies queue pairs can follow; `keys` draws R_Keys, and `shuffle` the order of queue
//! pair numbers.

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
mod flow;
mod injected_bug;
mod keys;
mod limits;
mod missing;
mod queue_pair;
mod rate_control;
mod reading;
mod recovery;
mod requester;
mod requests;
mod resources;
mod respond;
mod responder;
mod shared;
mod shuffle;
mod splitting;
mod state;
mod usage;
mod window;
mod work;

pub use api::{
    AtomicExecution, Attributes, Change, ChangeError, Completion, CompletionKind, Counters,
    DropReason, Event, MemoryRegion, MemoryRequest, OwnVerdict, Peer, Placement, PlacementToken,
    PostError, QueuePairConfig, ReceiveQueueId, ReceiveRequest, Received, Reliability,
    RemoteAddress, Status, Target, Transmit, Transport, Verdict, Work, WorkRequest,
};
pub use device::RoceDevice;
pub use injected_bug::InjectedBug;
pub use keys::{KEY_TAG_BITS, key_tag};
pub use limits::{Limits, OutOfOrder, Profile, READ_DEPTH_MAX};
pub use rate_control::RateControl;
pub use shuffle::shuffled;
pub use state::QueuePairState;

#[cfg(test)]
mod tests;
