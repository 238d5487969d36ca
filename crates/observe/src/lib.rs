//! What the live NIC measures of itself and of its host.
//!
//! **What it is.** [`Meter`] and [`Probe`] measure how late a side acts on what arrives
//! ([`ControlLatency`]). [`PressureWatch`] looks from a thread of its own whether the host is short
//! of CPU time, memory, bus or queues ([`HostSignals`]).
//!
//! **May import:** `fairway-runtime` (for the clock and its errors), `fairway-port`.
//!
//! **Invariants.** Nothing here is waited for by the data path: a [`Meter`] stores numbers, and is
//! asked only where a context was built with one. Nothing here knows a protocol.
//!
//! **How to test:** `cargo test -p fairway-observe`; live, `cargo test -p fairway --test
//! control_latency --test host_signals`.

mod control_latency;
mod pressure;

pub use control_latency::{ControlLatency, LatencySample, Meter, Probe, Receipt};
pub use pressure::{
    HostPressure, HostPressureError, HostReading, HostResource, HostSignals, PressureWatch,
};
