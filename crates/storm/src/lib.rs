//! The deterministic world: whole NICs on a simulated network, and the storm.
//!
//! **What it is.** Nodes with real byte memories, each a [`fairway_ub::UbDevice`] and an
//! application, joined by links that lose, duplicate, delay and damage packets. Time is virtual,
//! and every choice is drawn from a seed. [`storm::run`] is the randomized whole-system test that
//! carries most of the project's testing. (The packet-level simulator of thousands of NICs is
//! `sim`.)
//!
//! **May import:** `ub` (and through it `wire` and `policy`), `device`.
//!
//! **Invariants.** The protocol is that of `ub`; no part of it is implemented again here. The same
//! seed gives the same events, bit for bit, on every machine. A world has no clock, no threads, no
//! files and no sockets; [`sweep`] runs many worlds on several threads.
//!
//! **How to test:** `cargo test -p fairway-storm`. With the feature `injected-bugs`, bugs are
//! injected that the tests have to catch. `cargo run --release -p xtask -- storm --seeds 0..10000`
//! runs more seeds.
#![forbid(unsafe_code)]

mod adversary;
mod agenda;
mod application;
mod board_oracle;
mod bounds;
mod bypass_oracle;
mod finding;
mod hostile;
mod jetty_oracle;
mod mail;
mod mail_oracle;
mod memory;
mod node;
mod operation;
mod oracles;
pub mod order;
mod order_oracle;
mod plan;
mod recorded;
mod retirement_oracle;
pub mod storm;
mod sweep;
mod trace;
mod workload;
mod world;

pub use fairway_ub as engine;

pub use adversary::{Adversary, Fault, NetworkFaults, Outage};
pub use plan::Condition;
pub use sweep::{Variation, bug_runs, matching, sweep, threads};
pub use trace::Trace;
