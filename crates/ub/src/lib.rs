//! The protocol, as a state machine.
//!
//! **What it is.** [`UbDevice`] is a whole NIC without I/O: it handles packet *values* and only
//! *names* payload. Callers post work, hand in packets and the time, and poll for packets,
//! completions and events. The same code runs live (`fairway`), in the deterministic test
//! (`storm`), in the simulator (`sim`) and under the NIC model (`nicmodel`). [`setup`] opens its
//! channels.
//!
//! **May import:** `wire`, `policy` (both re-exported for the rooms above), `device`.
//!
//! **Invariants.** No clock, no sockets, no threads, no payload bytes, no globals; `no_std`, no
//! `unsafe`, no floating point. Nothing is allocated between opening a channel and closing it.
//! The same inputs give the same outputs, bit for bit. Every packet placed is placed once; a
//! completion or acknowledgement that promises a placement appears only after
//! [`UbDevice::handle_placed`]. Nothing that came from a wire is unwrapped, asserted or used as an
//! unchecked index.
//!
//! **How to test:** `cargo test -p fairway-ub`, and the storm in `fairway-storm`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
#[macro_use]
extern crate std;

pub use fairway_device::{
    CompletionQueueId, Device, Grant, LocalRange, Ranges, Rights, ScatterList, SegmentId,
    SegmentRequest, SetupError, StateSize,
};
use fairway_device::{completion, deadlines, guard, list, pace, pool, random, segment};
pub use fairway_policy as policy;
pub use fairway_wire as wire;

mod answer;
mod api;
mod arrival;
mod channel;
mod contract;
pub mod control;
mod counters;
mod deferred;
mod flow;
mod group;
mod injected_bug;
mod jetty;
mod limits;
mod mailbox;
mod message;
mod names;
mod nic;
mod order;
mod placement;
mod put_streams;
mod receive_window;
mod send_window;
pub mod setup;
mod shared;
mod tpg;
mod usage;

pub use api::{
    ChannelConfig, ChannelId, Completion, CompletionKind, Dispatch, DropReason, EpochDone, Event,
    ExceptionMode, GroupConfig, JettyConfig, JettyState, MailboxConfig, MailboxId, OrderRequest,
    PostError, ReceiveRequest, Received, RemoteMailbox, RemoteRange, Status, Steering, Threshold,
    Transmit, WhenEmpty, Work, WorkRequest,
};
pub use counters::Counters;
pub use injected_bug::InjectedBug;
pub use limits::{LimitError, Limits, Profile};
pub use nic::{FlowView, UbDevice};
pub use placement::{AtomicExecution, Execution, Placement, PlacementToken, Verdict};
pub use usage::Usage;
