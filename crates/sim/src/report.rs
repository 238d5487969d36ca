//! The results of a run, in numbers.

use super::control::ControlResult;
use super::run::Simulation;
use super::traffic::Span;
use crate::calendar::NEVER;
use crate::members::Members;
use crate::nic::NicCounts;
use crate::quantiles::Quantiles;
use crate::stream::Verb;
use fairway_ub::UbDevice;

/// Result of one flow. Times are in picoseconds; `None` if the event did not occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowResult {
    /// Sending host.
    pub source: u32,
    /// Receiving host.
    pub destination: u32,
    /// Length, in bytes.
    pub bytes: u32,
    /// Time at which the NIC accepted the flow.
    pub started_ps: Option<u64>,
    /// Time at which its last byte was in place.
    pub delivered_ps: Option<u64>,
    /// Time at which it completed at its source.
    pub completed_ps: Option<u64>,
}

impl FlowResult {
    /// Time from start to completion.
    pub fn completion_time_ps(&self) -> Option<u64> {
        Some(self.completed_ps? - self.started_ps?)
    }
}

/// Result of one stream, from [`super::Scenario::measure_ps`] to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamResult {
    /// Host that the bytes come from.
    pub source: u32,
    /// Host that the bytes go to.
    pub destination: u32,
    /// Operation that moves the bytes.
    pub verb: Verb,
    /// Bytes of a message.
    pub bytes: u32,
    /// Bytes that were placed.
    pub placed_bytes: u64,
    /// Time from which the stream could send and was measured, in picoseconds.
    pub from_ps: u64,
    /// Time at which the stream stopped posting, or at which the last of its bytes was placed if
    /// that was later, in picoseconds.
    pub until_ps: u64,
    /// Time from posting to completion of the messages posted since measuring began, in
    /// picoseconds.
    pub latency: Quantiles,
}

impl StreamResult {
    /// Time in which the bytes were placed, in picoseconds.
    pub fn span_ps(&self) -> u64 {
        self.until_ps.saturating_sub(self.from_ps)
    }

    /// Throughput: the placed bytes in megabits per second, over [`Self::span_ps`].
    pub fn megabits(&self) -> f64 {
        self.megabits_over(self.span_ps())
    }

    /// The placed bytes in megabits per second, if they took this time.
    pub fn megabits_over(&self, span_ps: u64) -> f64 {
        megabits(self.placed_bytes, span_ps)
    }
}

/// Calls of one rank of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankResult {
    /// Host of the rank.
    pub host: u32,
    /// When each of its calls began, and when it was done, in picoseconds; `None` if it was not.
    pub calls: Vec<(u64, Option<u64>)>,
}

/// Result of one operation of a trace, or of one call of a group. Times are in picoseconds; `None`
/// if the event did not occur.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationResult {
    /// Name of the operation in the trace.
    pub name: String,
    /// Number of ranks that take part.
    pub ranks: u32,
    /// Bytes of its buffer; 0 if it only computes.
    pub bytes: u32,
    /// Time at which the first rank began.
    pub started_ps: Option<u64>,
    /// Time at which the last rank was done.
    pub completed_ps: Option<u64>,
}

/// Result of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortResult {
    /// Packets sent by the port.
    pub packets: u64,
    /// Bytes sent by the port.
    pub bytes: u64,
    /// Packets dropped because its queue was full.
    pub drops: u64,
    /// Packets that were trimmed.
    pub trims: u64,
    /// Packets that were marked.
    pub marks: u64,
    /// Maximum number of bytes queued at once.
    pub longest_bytes: u32,
    /// Number of pauses by the peer.
    pub pauses: u64,
    /// Total length of the pauses, in picoseconds.
    pub paused_ps: u64,
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Seed of the run.
    pub seed: u64,
    /// Results by flow.
    pub flows: Vec<FlowResult>,
    /// Results by operation of a trace, in the trace's order, or by call of a group.
    pub operations: Vec<OperationResult>,
    /// Results by stream.
    pub streams: Vec<StreamResult>,
    /// Counts of the control processors of all hosts together.
    pub control: ControlResult,
    /// Results by port: each is that of the network's link of the same number.
    pub ports: Vec<PortResult>,
    /// Simulated time that was run, in picoseconds.
    pub end_ps: u64,
    /// Events executed.
    pub events: u64,
    /// Packets that hosts have sent.
    pub sent: u64,
    /// Packets that arrived at their hosts whole.
    pub delivered: u64,
    /// Headers of trimmed packets that arrived at their hosts.
    pub delivered_trimmed: u64,
    /// Packets dropped because a queue was full, that of a switch or of a host.
    pub dropped: u64,
    /// Packets dropped because the receive queue of a host was full.
    pub dropped_at_hosts: u64,
    /// Maximum number of bytes in the receive queue of a host.
    pub receive_queue_bytes: u32,
    /// Number of times that a host began to signal pressure.
    pub pressures: u64,
    /// Packets that were on a link that failed, or were lost at random.
    pub lost_on_links: u64,
    /// Packets still in flight at the end.
    pub in_flight: u64,
    /// Packets sent by ports; each packet counts once for every link it took.
    pub packet_hops: u64,
    /// Data packets that NICs sent, including retransmissions.
    pub data_sent: u64,
    /// Retransmitted data packets.
    pub resent: u64,
    /// Retransmissions of packets that had already arrived.
    pub spurious: u64,
    /// Acknowledgements that NICs sent.
    pub acks_sent: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Messages refused because no receive or buffer was posted, and retried later.
    pub not_ready: u64,
    /// Greatest distance, in packets of a channel, from the first packet that was missing to the
    /// last that had arrived. The transport records these packets; 0 for RoCE, which is not asked.
    pub early_packets_max: u64,
    /// Most packets at a time that waited at a host to be executed in order; 0 for RoCE.
    pub deferred_packets_max: u64,
    /// Flows, or operations of ranks, that failed because a link was down for longer than NICs wait
    /// for a peer ([`fairway_ub::Profile::peer_dead`]).
    pub failed: u64,
    /// Messages that ranks have received.
    pub messages: u64,
    /// Time at which the last rank finished; `None` if not all did, or there are none.
    pub ranks_done_ps: Option<u64>,
    /// Results by rank of a group.
    pub ranks: Vec<RankResult>,
}

impl Report {
    pub(crate) fn of(run: &Simulation) -> Report {
        let plan = &run.plan;
        let totals = run.totals();
        let happened = |time: u64| (time != NEVER).then_some(time);
        let flows = plan.scenario.flows.iter().enumerate().map(|(index, flow)| {
            let (started, delivered, completed) = run.times(index);
            FlowResult {
                source: flow.source,
                destination: flow.destination,
                bytes: flow.bytes,
                started_ps: happened(started),
                delivered_ps: happened(delivered),
                completed_ps: happened(completed),
            }
        });
        let ports = ports(run);
        let flows: Vec<FlowResult> = flows.collect();
        let mut report = Report {
            seed: plan.scenario.seed,
            operations: operations(run, &flows),
            flows,
            streams: streams(run),
            control: control(run),
            packet_hops: ports.iter().map(|port| port.packets).sum(),
            ports,
            end_ps: run.now,
            events: totals.events,
            sent: totals.sent,
            delivered: totals.delivered,
            delivered_trimmed: totals.delivered_trimmed,
            dropped: totals.dropped,
            lost_on_links: totals.lost_on_links,
            dropped_at_hosts: 0,
            receive_queue_bytes: 0,
            pressures: 0,
            in_flight: run.in_flight(),
            data_sent: 0,
            resent: 0,
            spurious: 0,
            acks_sent: 0,
            timeouts: 0,
            not_ready: 0,
            early_packets_max: 0,
            deferred_packets_max: 0,
            failed: totals.failed,
            messages: totals.messages,
            ranks_done_ps: {
                let all = u64::from(plan.scenario.ranks());
                (all > 0 && totals.ranks_done == all).then_some(totals.ranks_end)
            },
            ranks: ranks(run),
        };
        for host in run.partitions.iter().flat_map(|partition| partition.hosts.iter().flatten()) {
            report.add(&host.nic.counts());
            if let Some(intake) = &host.intake {
                let tally = intake.tally();
                report.dropped_at_hosts += tally.drops;
                report.pressures += tally.pressures;
                report.receive_queue_bytes = report.receive_queue_bytes.max(tally.longest);
            }
        }
        report
    }

    /// Adds the counts of a NIC.
    fn add(&mut self, counts: &NicCounts) {
        self.data_sent += counts.data_sent;
        self.resent += counts.resent;
        self.spurious += counts.spurious;
        self.acks_sent += counts.acks_sent;
        self.timeouts += counts.timeouts;
        self.not_ready += counts.not_ready;
        self.early_packets_max = self.early_packets_max.max(counts.early_max);
        self.deferred_packets_max = self.deferred_packets_max.max(counts.deferred_max);
    }

    /// True if every flow completed, or every rank finished.
    pub fn is_complete(&self) -> bool {
        if !self.streams.is_empty() {
            return self.failed == 0;
        }
        if self.flows.is_empty() {
            return self.ranks_done_ps.is_some();
        }
        self.flows.iter().all(|flow| flow.completed_ps.is_some() && flow.delivered_ps.is_some())
    }

    /// Time at which the last flow completed, or the last rank finished. `None` unless all did, and
    /// for streams, which do not complete.
    pub fn completion_ps(&self) -> Option<u64> {
        if self.flows.is_empty() || !self.is_complete() {
            return self.ranks_done_ps;
        }
        self.flows.iter().filter_map(|flow| flow.completed_ps).max()
    }

    /// Completion times of the flows, in picoseconds.
    pub fn completion_times(&self) -> Quantiles {
        self.completion_times_of(|_| true)
    }

    /// Completion times of some of the flows, in picoseconds. Steps are left out because they send
    /// nothing.
    pub fn completion_times_of(&self, wanted: impl Fn(&FlowResult) -> bool) -> Quantiles {
        let flows = self.flows.iter().filter(|flow| flow.bytes > 0 && wanted(flow));
        Quantiles::of(flows.filter_map(FlowResult::completion_time_ps).collect())
    }

    /// Host that most bytes go to, and the first of several equal ones; `None` without flows.
    pub fn busiest(&self) -> Option<u32> {
        let mut bytes = std::collections::BTreeMap::new();
        for flow in &self.flows {
            *bytes.entry(flow.destination).or_insert(0) += u64::from(flow.bytes);
        }
        bytes.into_iter().rev().max_by_key(|(_, bytes)| *bytes).map(|(host, _)| host)
    }

    /// Goodput: bytes of the flows that were delivered, in megabits per second, over the time until
    /// the last flow completed, or over the whole run if not all did. `None` for ranks and streams,
    /// which have no flows.
    pub fn goodput_mbps(&self) -> Option<f64> {
        let done = self.flows.iter().filter(|flow| flow.delivered_ps.is_some());
        let bytes: u64 = done.map(|flow| u64::from(flow.bytes)).sum();
        let span_ps = self.completion_ps().unwrap_or(self.end_ps);
        (!self.flows.is_empty()).then(|| megabits(bytes, span_ps))
    }

    /// Time in picoseconds in which any stream could send or place bytes. Rates over this time add
    /// up to no more than a link carries, which rates over each stream's own time may exceed.
    pub fn streams_span_ps(&self) -> u64 {
        let spans = || self.streams.iter().filter(|stream| stream.span_ps() > 0);
        let from = spans().map(|stream| stream.from_ps).min();
        let until = spans().map(|stream| stream.until_ps).max();
        until.unwrap_or(0) - from.unwrap_or(0)
    }

    /// Packets that were trimmed.
    pub fn trims(&self) -> u64 {
        self.ports.iter().map(|port| port.trims).sum()
    }

    /// Number of times that PFC paused a port.
    pub fn pauses(&self) -> u64 {
        self.ports.iter().map(|port| port.pauses).sum()
    }

    /// Packets that were marked.
    pub fn marks(&self) -> u64 {
        self.ports.iter().map(|port| port.marks).sum()
    }

    /// Hash of all results: two runs that differ in any result have different digests.
    pub fn digest(&self) -> u64 {
        let mut hash = 0xCBF2_9CE4_8422_2325u64;
        let mut stir = |numbers: &[u64]| {
            for number in numbers {
                hash = (hash ^ number).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
            }
        };
        for flow in &self.flows {
            let times = [flow.started_ps, flow.delivered_ps, flow.completed_ps];
            stir(&times.map(|time| time.unwrap_or(NEVER)));
        }
        for port in &self.ports {
            stir(&[port.packets, port.bytes, port.drops, port.trims, port.marks]);
            stir(&[u64::from(port.longest_bytes), port.pauses, port.paused_ps]);
        }
        stir(&[self.events, self.sent, self.delivered, self.in_flight, self.end_ps]);
        stir(&[self.data_sent, self.resent, self.acks_sent, self.timeouts]);
        for stream in &self.streams {
            stir(&[stream.placed_bytes, stream.latency.p50, stream.latency.max]);
        }
        if let Some(end) = self.ranks_done_ps {
            stir(&[end, self.messages, self.not_ready]);
        }
        for (started, ended) in self.ranks.iter().flat_map(|rank| &rank.calls) {
            stir(&[*started, ended.unwrap_or(NEVER)]);
        }
        hash
    }
}

/// Bytes in a time in picoseconds, as megabits per second.
fn megabits(bytes: u64, span_ps: u64) -> f64 {
    bytes as f64 * 8e6 / span_ps.max(1) as f64
}

/// Returns the results of all ports.
fn ports(run: &Simulation) -> Vec<PortResult> {
    let ports = run.plan.port_part.iter().enumerate().map(|(port, part)| {
        let partition = &run.partitions[usize::from(*part)];
        let (here, tally) = (&partition.ports[port], &partition.tallies[port]);
        PortResult {
            packets: u64::from(here.packets),
            bytes: here.bytes,
            drops: tally.drops,
            trims: tally.trims,
            marks: tally.marks,
            longest_bytes: tally.longest,
            pauses: tally.pauses,
            paused_ps: tally.paused_ps,
        }
    });
    ports.collect()
}

/// Returns the results of the operations of a trace, or of the calls of a group.
fn operations(run: &Simulation, flows: &[FlowResult]) -> Vec<OperationResult> {
    let scenario = &run.plan.scenario;
    let Some(group) = &scenario.group else {
        return scenario.spans.iter().map(|span| operation(span, flows)).collect();
    };
    let ranks = ranks(run);
    let call = |number: usize| {
        let each = ranks.iter().map(|rank| rank.calls.get(number));
        let ends = each.clone().map(|call| call.and_then(|call| call.1));
        OperationResult {
            name: format!("call {}", number + 1),
            ranks: group.ranks(),
            bytes: group.bytes,
            started_ps: each.flatten().map(|call| call.0).min(),
            completed_ps: ends.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max()),
        }
    };
    (0..group.rounds as usize).map(call).collect()
}

/// Returns the results of the ranks of a group, in order.
fn ranks(run: &Simulation) -> Vec<RankResult> {
    let Some(group) = &run.plan.scenario.group else { return Vec::new() };
    let result = |host: &u32| RankResult { host: *host, calls: Vec::new() };
    let mut results: Vec<RankResult> = group.hosts.iter().map(result).collect();
    for (rank, calls) in run.members().flat_map(Members::rounds) {
        let calls = calls.iter().map(|call| (call.started_ps, call.ended_ps));
        results[rank as usize].calls = calls.collect();
    }
    results
}

fn operation(span: &Span, flows: &[FlowResult]) -> OperationResult {
    let own = &flows[span.flows.clone()];
    let completed = own.iter().map(|flow| flow.completed_ps);
    OperationResult {
        name: span.name.clone(),
        ranks: span.ranks,
        bytes: span.bytes,
        started_ps: own.iter().filter_map(|flow| flow.started_ps).min(),
        completed_ps: completed.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max()),
    }
}

fn streams(run: &Simulation) -> Vec<StreamResult> {
    let scenario = &run.plan.scenario;
    let results = scenario.streams.iter().enumerate().map(|(number, stream)| {
        let placed = run.partitions.iter().map(|partition| partition.placed_of_streams[number]);
        let last_ps = placed.clone().map(|placed| placed.last_ps).max().unwrap_or(0);
        StreamResult {
            source: stream.source,
            destination: stream.destination,
            verb: stream.verb,
            bytes: stream.bytes,
            placed_bytes: placed.map(|placed| placed.measured_bytes).sum(),
            from_ps: stream.start_ps.max(scenario.measure_ps),
            // Messages posted before the end are placed after it.
            until_ps: stream.end_ps.min(run.now).max(last_ps),
            latency: Quantiles::default(),
        }
    });
    let mut results: Vec<StreamResult> = results.collect();
    for host in run.partitions.iter().flat_map(|partition| partition.hosts.iter().flatten()) {
        for (number, latency) in host.streams.iter().flat_map(|streams| streams.latencies()) {
            results[number as usize].latency = latency;
        }
    }
    results
}

fn control(run: &Simulation) -> ControlResult {
    let mut sum = ControlResult::default();
    for host in run.partitions.iter().flat_map(|partition| partition.hosts.iter().flatten()) {
        let control = host.streams.as_ref().and_then(|streams| streams.control.as_ref());
        let stats = host.nic.as_fairway().and_then(UbDevice::scheduler_stats);
        let of = match (control, stats) {
            (Some(control), _) => control.result(),
            (None, Some(stats)) => ControlResult::of(&stats),
            (None, None) => continue,
        };
        sum.collected += of.collected;
        sum.handled += of.handled;
        sum.early += of.early;
        sum.bytes += of.bytes;
        sum.transmits += of.transmits;
        sum.busy_ps += of.busy_ps;
    }
    sum
}
