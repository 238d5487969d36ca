//! The NIC model: measures the cost of state, ordering, placement and attachment by executing the
//! protocol.
//!
//! **What it is.** Hosts around the real engines (`UbDevice` for UB, `RoceDevice` for RoCEv2).
//! Every step of an operation is a server with a latency and an occupancy. The engines decide what
//! is sent, placed, retransmitted and completed; the model around them only charges time. Bytes are
//! real: the result of a READ is compared, and so is the target's memory when a WRITE has
//! completed.
//!
//! **May import:** `ub`, `roce` and `device`.
//!
//! **Invariants.** No protocol rule is implemented a second time. The same configuration gives the
//! same report, bit for bit. Every constant has a name and a source in [`constants`]. With
//! [`Config::oracle`] nothing is ever occupied and the published constants are charged as the paper
//! charges them; the model then equals its closed form, to the nanosecond (`tests/oracle.rs`).
//!
//! **How to test:** `cargo test -p fairway-nicmodel`.
#![forbid(unsafe_code)]

mod adapter;
mod caches;
mod coherent;
mod config;
pub mod constants;
mod doorbell;
mod error;
mod events;
mod fanout;
mod ledger;
mod node;
mod path;
mod post_list;
mod random;
mod receive;
mod report;
mod run;
mod server;
mod setup;
pub mod stages;
pub mod state;
mod swap;
mod workload;
mod world;

pub use adapter::EngineCounters;
pub use config::{
    Ablations, CachePolicy, Config, Dispatching, Lossy, Notice, Ordering, Stack, Verb, WorkloadKind,
};
pub use constants::Constants;
pub use error::{ConfigError, ConnectError, ModelError, Violation};
pub use path::Phase;
pub use report::{Report, ServerUse};
pub use run::{run, run_with};
pub use world::PhaseSum;
