//! Fairway's policies.
//!
//! **What it is.** Congestion control, path choice, loss detection and scheduling, each a small
//! trait with one algorithm per file; and [`compact`], data structures and arithmetic for their
//! state. A policy receives samples and returns numbers. It cannot access a packet, send one, or
//! read a clock; it cannot distinguish whether the protocol that calls it runs live, in the
//! simulator or under the NIC model.
//!
//! **May import:** `wire` (for instants, durations, ids).
//!
//! **Invariants.** Integer arithmetic only; no allocation after construction; random numbers are
//! arguments. Two machines that receive the same samples decide the same.
//!
//! **How to test:** `cargo test -p fairway-policy`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod backpressure;
mod base_round_trip;
mod bitmap;
mod caqm;
mod chunk;
pub mod compact;
mod credit;
mod cubic;
mod dcqcn;
mod dcqcn_rate;
mod delivery_rate;
mod fixed_window;
mod flowlet;
mod hpcc;
mod least_round_trip;
mod limited;
mod losses;
mod memory;
mod multipath_window;
mod names;
mod nscc;
mod path_order;
mod plb;
mod power_of_two;
mod probe;
mod rack;
mod receiver_distance;
mod reps;
mod reuse;
mod sack_threshold;
mod scheduler;
mod spray;
mod swift;
mod timely;
mod tolerance;
mod traits;

pub use backpressure::{Backpressure, BackpressureParameters};
pub use bitmap::Bitmap;
pub use caqm::{Caqm, CaqmParameters};
pub use credit::{
    Credit, CreditPolicy, CreditRequest, CreditSender, CreditSenderParameters, DATA_CLASSES, Eqds,
    EqdsParameters, Homa, HomaParameters, SourceId, UnscheduledClasses,
};
pub use cubic::{Cubic, CubicParameters};
pub use dcqcn::{Dcqcn, DcqcnParameters};
pub use dcqcn_rate::{DcqcnRate, DcqcnRateParameters};
pub use fixed_window::FixedWindow;
pub use flowlet::{Flowlet, FlowletParameters};
pub use hpcc::{Hpcc, HpccParameters};
pub use least_round_trip::LeastRoundTrip;
pub use memory::MemoryVisitor;
pub use multipath_window::{MultipathParameters, MultipathWindow, Pick};
pub use names::{
    CongestionSpec, LossSpec, PathSpec, PolicyError, PolicyKind, PolicySet, PolicySpec,
    SchedulerSpec,
};
pub use nscc::{Nscc, NsccParameters};
pub use path_order::PathOrder;
pub use plb::{Plb, PlbParameters};
pub use power_of_two::{Memory, PowerOfTwo, PowerOfTwoParameters};
pub use probe::ProbeSpec;
pub use rack::Rack;
pub use receiver_distance::ReceiverDistance;
pub use reps::{Explore, Late, Reps, RepsParameters};
pub use sack_threshold::SackThreshold;
pub use scheduler::{
    Eager, FlowId, Greedy, HintedWeights, Hints, Join, Leave, QUANTUM_MIN, RateRegisters,
    RoundRobin, RoundRobinParameters, Scheduler, Share, Start, StaticParameters, StaticShare,
    TransmitSample, WaterFilling, WaterFillingParameters,
};
pub use spray::Spray;
pub use swift::{Swift, SwiftParameters};
pub use timely::{Timely, TimelyParameters};
pub use traits::{
    AckSample, ChunkRequest, CongestionControl, Evidence, LateArrival, LossDetector, LossSample,
    PathAck, PathChoice, PathView,
};
