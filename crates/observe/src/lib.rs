//! Measurements that the live NIC makes of itself and of its host.
//!
//! **What it is.** [`Meter`] and [`Probe`] measure how late a side reacts to incoming packets
//! ([`ControlLatency`]). [`PressureWatch`] checks on a separate thread whether the host is short of
//! CPU time, memory, bus or queues ([`HostSignals`]). [`Stats`] are the statistics of a context,
//! which a [`StatsServer`] and a [`StatsExporter`] serve to other programs.
//!
//! **May import:** `fairway-runtime` (for the clock and its errors), `fairway-port`, `fairway-ub`
//! (for the values that statistics report).
//!
//! **Invariants.** The data path never waits for anything here: a [`Meter`] stores numbers, and is
//! called only if a context was built with one. Statistics are read by the function that their
//! server was given; nothing here has the context's lock.
//!
//! **How to test:** `cargo test -p fairway-observe`; live, `cargo test -p fairway --test
//! control_latency --test host_signals`.

mod control_latency;
mod pressure;
mod statistics;

pub use control_latency::{ControlLatency, LatencySample, Meter, Probe, Receipt};
pub use pressure::{
    HostPressure, HostPressureError, HostReading, HostResource, HostSignals, PressureWatch,
};
pub use statistics::{
    Counters, FlowEntry, NicCounters, PathStats, PeerEntry, PeerStats, Process, Stats,
    StatsExporter, StatsServer, list, query,
};
