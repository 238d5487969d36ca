//! The results of a run.

use crate::adapter::EngineCounters;
use crate::path::Phase;
use crate::world::{PhaseSum, World};

/// Durations of operations, and their concurrency.
#[derive(Debug, Default)]
pub(crate) struct Times {
    spans: Vec<u64>,
    bytes: u64,
    last: u64,
    under_way: u64,
    /// Operations in flight, integrated over time.
    integral: u128,
    changed: u64,
    began: Option<u64>,
}

impl Times {
    fn advance(&mut self, now: u64) {
        let now = now.max(self.changed);
        self.integral += u128::from(self.under_way) * u128::from(now - self.changed);
        self.changed = now;
    }

    /// Counts an operation that begins. In an open loop, an operation that waits for a buffer
    /// counts from when it gets one: see [`Report::concurrency`].
    pub(crate) fn begin(&mut self, now: u64) {
        self.advance(now);
        self.began.get_or_insert(now);
        self.under_way += 1;
    }

    /// Number of operations that have completed.
    pub(crate) fn completed(&self) -> u64 {
        self.spans.len() as u64
    }

    pub(crate) fn end(&mut self, now: u64, span: u64, bytes: u32) {
        self.advance(now);
        self.under_way -= 1;
        self.spans.push(span);
        self.bytes += u64::from(bytes);
        self.last = now;
    }
}

/// The use of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerUse {
    /// Name of the server, including its host.
    pub name: String,
    /// Share of the time from the first operation's start to the end of the run in which it was
    /// occupied, 0 to 1. A run ends after the last completion if lines or pages are still being
    /// written back.
    pub utilisation: f64,
    /// Number of jobs.
    pub jobs: u64,
    /// Mean waiting time of a job, in ns.
    pub waited_ns: f64,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Operations that completed.
    pub ops: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Mean of the latencies, in ns.
    pub mean_ns: f64,
    /// Median of the latencies, in ns.
    pub p50_ns: f64,
    /// 99th percentile of the latencies, in ns.
    pub p99_ns: f64,
    /// 99.9th percentile of the latencies, in ns.
    pub p999_ns: f64,
    /// Maximum of the latencies, in ns.
    pub max_ns: f64,
    /// True if all latencies are equal, so that there is no distribution and no tail.
    pub is_deterministic: bool,
    /// Operations per microsecond of [`Self::elapsed_ns`].
    pub mops: f64,
    /// Time from the first operation's start to the last completion, in ns.
    pub elapsed_ns: f64,
    /// Mean number of operations in flight over that time.
    pub concurrency: f64,
    /// Packets sent, including lost ones.
    pub packets: u64,
    /// Bytes of those packets, from Ethernet header to payload.
    pub wire_bytes: u64,
    /// Packets that were lost on the wire.
    pub lost: u64,
    /// Doorbells that several work requests might have shared (`--batch`).
    pub doorbells: u64,
    /// Packets dropped because a switch's port was full; [`Self::marked`] counts those marked
    /// there.
    pub dropped: u64,
    /// Packets marked at a switch's port.
    pub marked: u64,
    /// Counters of the engines, all hosts together.
    pub counted: EngineCounters,
    /// Hits and misses of the context cache, all hosts together.
    pub context: [u64; 2],
    /// Bytes that were compared with their expected values.
    pub compared: u64,
    /// Bytes that were placed.
    pub placed: u64,
    /// Phases of the round trip: sums over all operations.
    pub phases: Vec<(Phase, PhaseSum)>,
    /// Servers that were used, the busiest first.
    pub servers: Vec<ServerUse>,
    /// Figures specific to the workload.
    pub figures: Vec<(&'static str, f64)>,
}

impl Report {
    /// Makes the report of a run without operations from the durations of its steps.
    pub(crate) fn of_spans(
        mut spans: Vec<u64>,
        elapsed: u64,
        figures: Vec<(&'static str, f64)>,
    ) -> Report {
        spans.sort_unstable();
        let concurrency = sum(&spans) as f64 / elapsed.max(1) as f64;
        let (elapsed_ns, mops) = (elapsed as f64 / 1000.0, mops(spans.len() as u64, elapsed));
        Report { elapsed_ns, mops, concurrency, figures, ..Report::default() }.with_spans(&spans)
    }

    fn with_spans(self, spans: &[u64]) -> Report {
        let count = spans.len();
        let ns = |span: u64| span as f64 / 1000.0;
        // As in the paper: sorted[n/2], sorted[99n/100].
        let at = |share: usize| spans.get(count * share / 1000).copied().map_or(0.0, ns);
        Report {
            ops: count as u64,
            mean_ns: sum(spans) as f64 / 1000.0 / count.max(1) as f64,
            p50_ns: at(500),
            p99_ns: at(990),
            p999_ns: at(999),
            max_ns: spans.last().copied().map_or(0.0, ns),
            is_deterministic: spans.first() == spans.last(),
            ..self
        }
    }

    pub(crate) fn new(
        times: Times,
        world: &World,
        phases: Vec<(Phase, PhaseSum)>,
        figures: Vec<(&'static str, f64)>,
        compared: u64,
    ) -> Report {
        let mut spans = times.spans;
        spans.sort_unstable();
        let began = times.began.unwrap_or(0);
        let elapsed = times.last.saturating_sub(began);
        let mut counted = EngineCounters::default();
        let mut context = [0; 2];
        for node in &world.nodes {
            let own = node.adapter.counters();
            counted.sent += own.sent;
            counted.resent += own.resent;
            counted.timeouts += own.timeouts;
            counted.duplicates += own.duplicates;
            counted.gated += own.gated;
            context[0] += node.contexts.hits;
            context[1] += node.contexts.misses;
        }
        Report {
            bytes: times.bytes,
            mops: mops(spans.len() as u64, elapsed),
            elapsed_ns: elapsed as f64 / 1000.0,
            concurrency: times.integral as f64 / elapsed.max(1) as f64,
            packets: world.packets,
            wire_bytes: world.wire_bytes,
            lost: world.lost,
            doorbells: world.doorbells,
            dropped: world.dropped,
            marked: world.marked,
            counted,
            context,
            compared,
            placed: world.ledger.bytes,
            phases,
            servers: servers(world, began),
            figures,
            ..Report::default()
        }
        .with_spans(&spans)
    }
}

/// Operations per microsecond, of a number of them in so many picoseconds.
///
/// The time has to include the way of the first operation: in the time from the first completion to
/// the last, operations seem to complete faster than they could begin.
pub(crate) fn mops(operations: u64, elapsed_ps: u64) -> f64 {
    operations as f64 * 1e6 / elapsed_ps.max(1) as f64
}

fn sum(spans: &[u64]) -> u128 {
    spans.iter().map(|&span| u128::from(span)).sum()
}

fn servers(world: &World, began: u64) -> Vec<ServerUse> {
    let mut list = Vec::new();
    // No job enters a server later than now, as `Server::tally_until` demands.
    let end = world.events.now;
    let elapsed = end.saturating_sub(began).max(1) as f64;
    for (host, node) in world.nodes.iter().enumerate() {
        for (name, units, tally) in node.tallies(end) {
            if tally.jobs == 0 {
                continue;
            }
            let time = elapsed * units as f64;
            list.push(ServerUse {
                name: format!("host {host}: {name}"),
                utilisation: tally.held_ps as f64 / time,
                jobs: tally.jobs,
                waited_ns: tally.waited_ps as f64 / tally.jobs as f64 / 1000.0,
            });
        }
    }
    list.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
    list
}
