//! The choice of an algorithm by its estimated time.
//!
//! The estimate of an algorithm is its number of messages in a row, its bytes through the busiest
//! rank, and the bytes that a rank combines, each times a measured cost. Spans of long buffers
//! follow each other, so latency counts once for the whole path of a span, not for each span. A
//! rank passes a span on when it has received all of it, which takes as long as its bytes, once for
//! each rank on that path ([`passed_bytes`]).

use crate::algorithms::Algorithm;
use crate::call::{Call, Kind};

#[cfg(test)]
mod tests;

/// Time that a message costs besides its latency and its bytes, in nanoseconds: the work of both
/// ranks, and a packet that is not full.
const MESSAGE_WORK_NS: f64 = 10_000.0;
/// Length that a message has at least, if there are so many bytes: about one packet.
const PASSED_MIN: f64 = 4096.0;

/// Costs of one group of ranks. All ranks must use the same ones, so that they choose alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Time from the start of a small message to its receiver's next step, in nanoseconds.
    pub message_ns: f64,
    /// Time to send a byte from one rank to another, in nanoseconds.
    pub byte_ns: f64,
    /// Time to combine a byte with another, in nanoseconds.
    pub combine_ns: f64,
    /// Number of ranks that can send at full rate at the same time. Ranks of one host share its
    /// processors.
    pub senders: f64,
}

impl Default for Costs {
    /// Costs of a network with 10 us of latency and 10 Gb/s.
    fn default() -> Costs {
        Costs { message_ns: 10_000.0, byte_ns: 0.8, combine_ns: 0.2, senders: f64::INFINITY }
    }
}

/// Returns the algorithm with the lowest estimate among those that can execute the call.
pub fn choose(call: &Call, ranks: u32, hosts: &[u32], costs: &Costs) -> Algorithm {
    let able = Algorithm::of(call.kind()).iter().copied();
    let count = count(hosts);
    // Without ranks that share a host, the hierarchical one is a tree without the second half. The
    // spread is for ranks that read the memory of each other ([`choose_for_readers`]).
    let is_useful = |algorithm: &Algorithm| match algorithm {
        Algorithm::Hierarchical => count > 1 && count < ranks as usize,
        Algorithm::Spread => false,
        _ => true,
    };
    let estimate = |algorithm: &Algorithm| {
        let passing = if count > 1 { passing_ns(call, *algorithm, ranks, costs) } else { 0.0 };
        estimate_ns(call, *algorithm, ranks, costs) + passing
    };
    let by_estimate = |a: &Algorithm, b: &Algorithm| estimate(a).total_cmp(&estimate(b));
    able.filter(is_useful).min_by(by_estimate).expect("every kind of call has an algorithm")
}

/// The algorithm of a call of ranks that all read the memory of each other, if there is one in
/// which they do so at the same time, without waiting for each other in between.
pub fn choose_for_readers(call: &Call, ranks: u32) -> Option<Algorithm> {
    match call.kind() {
        // Between two ranks slots are as good, or better: both sides work at the same time, and a
        // copy by the processor takes less than a read by the kernel.
        Kind::AllReduce | Kind::ReduceScatter | Kind::Broadcast if ranks <= 2 => None,
        Kind::AllReduce | Kind::ReduceScatter => Some(Algorithm::Spread),
        Kind::Broadcast => Some(Algorithm::Direct),
        Kind::AllGather | Kind::Gather | Kind::Scatter | Kind::Exchange => Some(Algorithm::Direct),
        _ => None,
    }
}

/// Number of different hosts.
fn count(hosts: &[u32]) -> usize {
    let mut different = hosts.to_vec();
    different.sort_unstable();
    different.dedup();
    different.len()
}

/// The best length of the messages of a call, in bytes, between ranks on different hosts that pass
/// on what they receive. The shorter they are, the sooner the next rank can begin, but the more of
/// them there are. `None` if no rank passes anything on.
pub fn passed_bytes(call: &Call, algorithm: Algorithm, ranks: u32, costs: &Costs) -> Option<u64> {
    let Load { rows, busiest, .. } = load(call, algorithm, ranks);
    if call.kind() == Kind::Exchange || rows <= 1.0 {
        return None;
    }
    let byte_ns = costs.byte_ns.max(f64::MIN_POSITIVE);
    // The time is that of `busiest / length` messages and of `rows - 1` times `length` bytes.
    let best = (busiest * MESSAGE_WORK_NS / ((rows - 1.0) * byte_ns)).sqrt();
    // A rank has some slots for messages under way, which return after two latencies.
    let under_way = costs.message_ns / byte_ns / 4.0;
    let length = best.max(under_way).max(PASSED_MIN);
    Some((length as u64).next_multiple_of(64))
}

/// Time in which ranks wait for the ends of messages that they pass on.
fn passing_ns(call: &Call, algorithm: Algorithm, ranks: u32, costs: &Costs) -> f64 {
    let Load { rows, busiest, .. } = load(call, algorithm, ranks);
    let length = passed_bytes(call, algorithm, ranks, costs).map_or(0.0, |bytes| bytes as f64);
    (rows - 1.0) * length.min(busiest / rows) * costs.byte_ns
}

/// What a call consists of.
struct Load {
    /// Messages in a row.
    rows: f64,
    /// Bytes that the busiest rank sends or receives.
    busiest: f64,
    /// Bytes that it combines.
    combined: f64,
    /// Bytes that all ranks send together.
    all: f64,
}

/// Estimates the time of a call in nanoseconds.
pub fn estimate_ns(call: &Call, algorithm: Algorithm, ranks: u32, costs: &Costs) -> f64 {
    let Load { rows, busiest, combined, all } = load(call, algorithm, ranks);
    let sending = (busiest * costs.byte_ns).max(all * costs.byte_ns / costs.senders.max(1.0));
    rows * costs.message_ns + sending + combined * costs.combine_ns
}

fn load(call: &Call, algorithm: Algorithm, ranks: u32) -> Load {
    let n = f64::from(ranks.max(1));
    let log = f64::from(ranks.max(1).next_power_of_two().ilog2());
    let bytes = match call {
        Call::Exchange { sends, .. } => sends.iter().map(|message| message.piece.bytes).sum(),
        _ => (0..ranks.max(1)).map(|rank| call.input_bytes(rank)).max().unwrap_or(0),
    } as f64;
    let fold = if ranks.is_power_of_two() { 0.0 } else { 1.0 };
    let (rows, busiest, combined, all) = match (call.kind(), algorithm) {
        (Kind::AllReduce, Algorithm::Ring) => (
            2.0 * (n - 1.0),
            2.0 * bytes * (n - 1.0) / n,
            bytes * (n - 1.0) / n,
            2.0 * bytes * (n - 1.0),
        ),
        (Kind::AllReduce, Algorithm::Halving) => (
            2.0 * log + 2.0 * fold,
            2.0 * bytes * (n - 1.0) / n + 2.0 * fold * bytes,
            bytes * (1.0 + fold),
            2.0 * bytes * (n - 1.0) + 2.0 * fold * bytes,
        ),
        (Kind::AllReduce, Algorithm::Doubling) => {
            let rounds = log + fold;
            (rounds, rounds * bytes, log * bytes, rounds * bytes * n)
        }
        (Kind::AllReduce, Algorithm::Direct) => {
            (1.0, (n - 1.0) * bytes, (n - 1.0) * bytes, n * (n - 1.0) * bytes)
        }
        (Kind::AllReduce, Algorithm::Spread) => {
            let part = bytes * (n - 1.0) / n;
            (2.0, 2.0 * part, part, 2.0 * part * n)
        }
        (Kind::AllReduce, _) => (2.0 * log, 2.0 * bytes, bytes, 2.0 * bytes * (n - 1.0)),
        (Kind::ReduceScatter, Algorithm::Ring) => {
            let part = bytes * (n - 1.0) / n;
            (n - 1.0, part, part, part * n)
        }
        (Kind::ReduceScatter, _) => {
            let part = bytes * (n - 1.0) / n;
            (1.0, part * (1.0 + 0.02 * n), part, part * n)
        }
        (Kind::AllGather, Algorithm::Ring) => {
            (n - 1.0, (n - 1.0) * bytes, 0.0, n * (n - 1.0) * bytes)
        }
        (Kind::AllGather, _) => {
            (1.0, (n - 1.0) * bytes * (1.0 + 0.02 * n), 0.0, n * (n - 1.0) * bytes)
        }
        (Kind::Broadcast | Kind::Reduce, Algorithm::Ring) => {
            (n - 1.0, bytes, bytes, bytes * (n - 1.0))
        }
        (Kind::Broadcast | Kind::Reduce, Algorithm::Direct) => {
            (1.0, bytes * (n - 1.0), bytes * (n - 1.0), bytes * (n - 1.0))
        }
        (Kind::Broadcast | Kind::Reduce, _) => (log, 2.0 * bytes, 2.0 * bytes, bytes * (n - 1.0)),
        // Others are sent at once, so the end of a slow one does not delay the next.
        (Kind::Exchange, Algorithm::Pairwise) => (n - 1.0, bytes, 0.0, bytes * n),
        _ => (log.max(1.0), bytes, 0.0, bytes * n),
    };
    let combined = match call.reduction() {
        Some(_) => combined,
        None => 0.0,
    };
    Load { rows, busiest, combined, all }
}
