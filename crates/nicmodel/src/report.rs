//! What a run has measured.

use crate::adapter::EngineCounters;
use crate::path::Phase;
use crate::world::{PhaseSum, World};

/// When operations began and ended.
#[derive(Debug, Default)]
pub(crate) struct Times {
    spans: Vec<u64>,
    bytes: u64,
    first: Option<u64>,
    last: u64,
    under_way: u64,
    /// Operations under way, summed over time.
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

    /// An operation begins. In an open loop those that wait for a buffer are counted from when they
    /// get one: see [`Report::concurrency`].
    pub(crate) fn begin(&mut self, now: u64) {
        self.advance(now);
        self.began.get_or_insert(now);
        self.under_way += 1;
    }

    pub(crate) fn end(&mut self, now: u64, span: u64, bytes: u32) {
        self.advance(now);
        self.under_way -= 1;
        self.spans.push(span);
        self.bytes += u64::from(bytes);
        self.first.get_or_insert(now);
        self.last = now;
    }
}

/// A server, and how busy it was.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerUse {
    /// Its name, with its host.
    pub name: String,
    /// Share of the time that it was held.
    pub utilisation: f64,
    /// Jobs.
    pub jobs: u64,
    /// What a job waited on average, in ns.
    pub waited_ns: f64,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Operations that were completed.
    pub ops: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Of all latencies: the mean, in ns.
    pub mean_ns: f64,
    /// Their percentiles, in ns: half of them are no longer.
    pub p50_ns: f64,
    /// 99 in 100.
    pub p99_ns: f64,
    /// 999 in 1000.
    pub p999_ns: f64,
    /// The longest.
    pub max_ns: f64,
    /// All latencies are equal: there is no distribution, and no tail.
    pub is_deterministic: bool,
    /// Operations per microsecond, from the first completion to the last.
    pub mops: f64,
    /// From the first beginning to the last completion, in ns.
    pub elapsed_ns: f64,
    /// Operations under way on average over that time.
    pub concurrency: f64,
    /// Packets sent, with those that were lost.
    pub packets: u64,
    /// Bytes of those, from Ethernet header to payload.
    pub wire_bytes: u64,
    /// Packets that were lost on the wire.
    pub lost: u64,
    /// Doorbells that several work requests might have shared (`--batch`).
    pub doorbells: u64,
    /// Packets that found a switch's port full, and those that were marked there.
    pub dropped: u64,
    /// See `dropped`.
    pub marked: u64,
    /// What the engines have counted, all hosts together.
    pub counted: EngineCounters,
    /// Context cache: hits and misses, all hosts together.
    pub context: [u64; 2],
    /// Bytes that were compared with what they had to be.
    pub compared: u64,
    /// Bytes that were placed.
    pub placed: u64,
    /// The phases of the round trip: sums over all operations.
    pub phases: Vec<(Phase, PhaseSum)>,
    /// Servers that did anything, the busiest first.
    pub servers: Vec<ServerUse>,
    /// The workload's own figures.
    pub figures: Vec<(&'static str, f64)>,
}

impl Report {
    /// Of a run that is none of operations: so many things, and how long each took.
    pub(crate) fn of_spans(
        mut spans: Vec<u64>,
        elapsed: u64,
        figures: Vec<(&'static str, f64)>,
    ) -> Report {
        spans.sort_unstable();
        let elapsed_ns = elapsed as f64 / 1000.0;
        let mops = spans.len() as f64 * 1000.0 / elapsed_ns.max(1e-3);
        Report { elapsed_ns, mops, figures, ..Report::default() }.with_spans(&spans)
    }

    fn with_spans(self, spans: &[u64]) -> Report {
        let count = spans.len();
        let ns = |span: u64| span as f64 / 1000.0;
        // The paper's: sorted[n/2], sorted[99n/100].
        let at = |share: usize| spans.get(count * share / 1000).copied().map_or(0.0, ns);
        let total: u128 = spans.iter().map(|&span| u128::from(span)).sum();
        Report {
            ops: count as u64,
            mean_ns: total as f64 / 1000.0 / count.max(1) as f64,
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
        let count = spans.len();
        let ns = |span: u64| span as f64 / 1000.0;
        let began = times.began.unwrap_or(0);
        let elapsed = times.last.saturating_sub(began);
        let between = times.last - times.first.unwrap_or(times.last);
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
            mops: count.saturating_sub(1) as f64 * 1e6 / between.max(1) as f64,
            elapsed_ns: ns(elapsed),
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
            servers: servers(world, elapsed),
            figures,
            ..Report::default()
        }
        .with_spans(&spans)
    }
}

fn servers(world: &World, elapsed: u64) -> Vec<ServerUse> {
    let mut list = Vec::new();
    for (host, node) in world.nodes.iter().enumerate() {
        for (name, units, tally) in node.tallies() {
            if tally.jobs == 0 {
                continue;
            }
            let time = elapsed.max(1) as f64 * units as f64;
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
