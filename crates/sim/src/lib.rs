//! The fabric simulator: thousands of NICs on a network of links and switches.
//!
//! **What it is.** Every host is a [`fairway_ub::UbDevice`] or a [`fairway_roce::RoceDevice`], the
//! very protocol code that runs live ([`Stack`]). The packets are values; payload is only named,
//! never copied. Between hosts are output-queued switches. A [`Scenario`] describes a run
//! completely, [`Simulation`] runs it, and [`Report`] holds the results. `docs/simulator.md`
//! describes the model in full.
//!
//! **May import:** `ub` and `roce` (and through them `wire` and `policy`), `device`; `sandbox`
//! for user-supplied policies; `collectives`.
//!
//! **Invariants.** Times are integer picoseconds. The same scenario and seed give the same results,
//! bit for bit, on any machine and any number of cores. Nothing is allocated while a run goes on
//! whose channels are all in use. A switch decides only by the current state of its own ports.
//! No code is unsafe except the prefetch instruction (`prefetch`).
//!
//! **Files.** `calendar` (pending events), `packets`, `port` (queues and links), `partition`
//! (events of one part of the network), `prefetch` (memory of the next nodes), `run` (windows),
//! `workers` (partitions on several cores), `setup`, `host`, `nic` (the protocol of a host's NIC),
//! `opening` (channels that are opened on use), `roce`, `plan`, `switch` (shared buffers, pauses),
//! `topology`, `traffic`, `program` (operations of an application's ranks), `ranks` (their
//! execution), `group` (ranks that call a collective operation), `members` (their execution),
//! `application` (either of them, on a host), `counts`, `waiting_rank`, `streams` (continuous
//! traffic of tenants), `intake` (the receive queue of a slow host), `control` (a scheduler apart
//! from the data path), `emulation` (a network for the caller's frames), `scenario`, `report`,
//! `placement` (checks).
//!
//! **How to test:** `cargo test -p fairway-sim`.
#![deny(unsafe_code)]

mod application;
mod calendar;
mod capture;
mod chunked;
mod control;
mod counts;
mod emulation;
mod endpoint;
mod error;
mod group;
mod host;
mod intake;
mod members;
mod nic;
mod opening;
mod packets;
mod partition;
mod placement;
mod plan;
mod port;
mod prefetch;
pub mod program;
mod quantiles;
mod quantity;
mod ranks;
mod report;
mod roce;
mod run;
mod scenario;
mod settings;
mod setup;
mod shortfall;
mod stream;
mod streams;
mod switch;
mod telemetry;
pub mod topology;
pub mod traffic;
mod waiting_rank;
mod workers;

pub use capture::{Captured, pcap};
pub use control::{ControlResult, ControlSpec};
pub use emulation::{Emulation, EmulationCounters, Frame};
pub use error::{SettingsError, SimulationError, StreamError};
pub use fairway_collectives::Means;
pub use fairway_ub::control::TraceRecord;
pub use fairway_ub::wire::Priority;
pub use group::Group;
pub use program::{Program, Protocol};
pub use quantiles::Quantiles;
pub use report::{FlowResult, OperationResult, PortResult, RankResult, Report, StreamResult};
pub use run::{Progress, Sample, Simulation, StreamSample};
pub use scenario::{
    Change, Delay, Drain, FRAME_BYTES, Marking, Overflow, Pfc, QueueSpec, ReceiveQueue, Routing,
    Scenario, SharedBuffer, Stack,
};
pub use settings::{SETTINGS, Settings, WORKLOADS};
pub use shortfall::{Shortfall, WaitingFlow};
pub use stream::{Stream, Verb};
pub use telemetry::{CaqmSpec, HintSpec};
pub use topology::{Clos, Direct, Network, Planes, Wiring};
pub use traffic::Flow;
pub use waiting_rank::WaitingRank;
