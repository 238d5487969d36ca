//! What a run is given beside its seed, and what it returns.

use crate::adversary::Fault;
use crate::operation::STATUSES;
use fairway_ub::wire::Duration;
use fairway_ub::{DropReason, InjectedBug};
use std::fmt;
use std::io::Write;

/// Options of a run beside its seed.
#[derive(Default)]
pub struct Options {
    /// Destination of the event trace, one line per event.
    pub trace: Option<Box<dyn Write>>,
    /// Bug to inject into every NIC. Requires the feature `injected-bugs`.
    pub bug: Option<InjectedBug>,
    /// Seed of the plan (nodes, links, limits, policies, kinds of operations and of faults), if it
    /// is not that of the run. The seed of the run determines all that happens under that plan.
    pub plan_of: Option<u64>,
}

/// Results of a run without a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Hash of every event, packet header and completion. Two runs of one seed have the same hash.
    pub hash: u64,
    /// Operations posted.
    pub operations: u64,
    /// Packets sent.
    pub packets: u64,
    /// Data packets among the packets sent.
    pub data_packets: u64,
    /// Data packets that carried an acknowledgement.
    pub carrying: u64,
    /// Data packets that were retransmitted.
    pub resent: u64,
    /// Number of occurrences of each fault (index: `Fault as usize`).
    pub faults: [u64; Fault::COUNT],
    /// Number of packets dropped, by reason (index: `DropReason as usize`).
    pub drops: [u64; DropReason::COUNT],
    /// Number of operations, by final status (index: `Status as usize`).
    pub statuses: [u64; STATUSES.len()],
    /// Virtual time from the healing to the end of all operations.
    pub healing: Duration,
}

/// A violation found by a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// Seed of the plan, if it is another one ([`Options::plan_of`]).
    pub plan_of: Option<u64>,
    /// Virtual time in nanoseconds.
    pub at_ns: u64,
    /// Report of the oracle, or of the protocol itself.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "storm seed {}: at {} ns: {}", self.seed, self.at_ns, self.message)?;
        write!(f, "replay: cargo run --release -p xtask -- storm --seed {}", self.seed)?;
        if let Some(plan_of) = self.plan_of {
            write!(f, " --plan-of {plan_of}")?;
        }
        write!(f, " --trace")
    }
}

impl std::error::Error for Failure {}
