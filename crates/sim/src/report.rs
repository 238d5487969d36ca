//! What came of a run, in numbers.

use super::control::ControlResult;
use super::run::Simulation;
use super::traffic::Span;
use crate::calendar::NEVER;
use crate::quantiles::Quantiles;
use crate::stream::Verb;
use fairway_engine::Nic;

/// How one flow went. Times are in picoseconds; `None` if it did not come to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowResult {
    /// The host that sent.
    pub source: u32,
    /// The host that received.
    pub destination: u32,
    /// How much.
    pub bytes: u32,
    /// When the NIC took it.
    pub started_ps: Option<u64>,
    /// When its last byte was in place.
    pub delivered_ps: Option<u64>,
    /// When its sender knew that.
    pub completed_ps: Option<u64>,
}

impl FlowResult {
    /// From beginning to completion.
    pub fn completion_time_ps(&self) -> Option<u64> {
        Some(self.completed_ps? - self.started_ps?)
    }
}

/// How one stream went, from [`super::Scenario::measure_ps`] to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamResult {
    /// The host that the bytes came from.
    pub source: u32,
    /// The host that they went to.
    pub destination: u32,
    /// How.
    pub verb: Verb,
    /// Bytes of a message.
    pub bytes: u32,
    /// Bytes that were placed.
    pub placed_bytes: u64,
    /// How long it could send, in picoseconds.
    pub span_ps: u64,
    /// Of its messages, from posting to completion, in picoseconds; those posted since.
    pub latency: Quantiles,
}

impl StreamResult {
    /// What was placed, in megabits per second of the time in which it could send.
    pub fn megabits(&self) -> u64 {
        let bits = u128::from(self.placed_bytes) * 8_000_000;
        (bits / u128::from(self.span_ps.max(1))) as u64
    }
}

/// How one operation of a trace went. Times are in picoseconds; `None` if it did not come to that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationResult {
    /// As the trace calls it.
    pub name: String,
    /// How many ranks took part.
    pub ranks: u32,
    /// Its buffer; 0 if it only computed.
    pub bytes: u32,
    /// When the first rank began.
    pub started_ps: Option<u64>,
    /// When the last rank was done.
    pub completed_ps: Option<u64>,
}

/// How one port went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortResult {
    /// Packets that left by it.
    pub packets: u64,
    /// Bytes that left by it.
    pub bytes: u64,
    /// Packets that found no room.
    pub drops: u64,
    /// Packets that were trimmed.
    pub trims: u64,
    /// Packets that were marked.
    pub marks: u64,
    /// Most bytes that have waited at once.
    pub longest_bytes: u32,
    /// How often its data had to wait for the peer.
    pub pauses: u64,
    /// How long, in picoseconds.
    pub paused_ps: u64,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// By flow.
    pub flows: Vec<FlowResult>,
    /// By operation of a trace, in its order.
    pub operations: Vec<OperationResult>,
    /// By stream.
    pub streams: Vec<StreamResult>,
    /// What schedulers have done, all hosts together.
    pub control: ControlResult,
    /// By port: the network's link of the same number.
    pub ports: Vec<PortResult>,
    /// The simulated time that was looked at.
    pub end_ps: u64,
    /// Events that happened.
    pub events: u64,
    /// Packets that hosts have sent.
    pub sent: u64,
    /// Packets that came to their hosts.
    pub delivered: u64,
    /// Headers of trimmed packets that came to their hosts.
    pub delivered_trimmed: u64,
    /// Packets that found no room.
    pub dropped: u64,
    /// Packets that were on a link that failed.
    pub lost_on_links: u64,
    /// Packets that are still on their way.
    pub in_flight: u64,
    /// Packets that left a port: each packet once for every link it took.
    pub packet_hops: u64,
    /// Data packets that NICs sent for the first time, and again.
    pub data_sent: u64,
    /// Data packets that were sent again.
    pub resent: u64,
    /// Of those, for nothing.
    pub spurious: u64,
    /// Acknowledgements that NICs sent.
    pub acks_sent: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Messages that found no receive or buffer, and had to be tried again.
    pub not_ready: u64,
    /// Flows, or operations of ranks, that failed: a link was gone for longer than NICs wait for a
    /// peer ([`fairway_engine::Profile::peer_dead`]).
    pub failed: u64,
    /// Messages that the ranks of a program have taken.
    pub messages: u64,
    /// When the last rank was done; `None` if not all are, or there are none.
    pub ranks_done_ps: Option<u64>,
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
            operations: plan.scenario.spans.iter().map(|span| operation(span, &flows)).collect(),
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
            in_flight: run.in_flight(),
            data_sent: 0,
            resent: 0,
            spurious: 0,
            acks_sent: 0,
            timeouts: 0,
            not_ready: 0,
            failed: totals.failed,
            messages: totals.messages,
            ranks_done_ps: plan.scenario.program.and_then(|program| {
                let all = totals.ranks_done == u64::from(program.motif.ranks());
                all.then_some(totals.ranks_end)
            }),
        };
        for host in run.partitions.iter().flat_map(|partition| partition.hosts.iter().flatten()) {
            let counts = host.nic.counts();
            report.data_sent += counts.data_sent;
            report.resent += counts.resent;
            report.spurious += counts.spurious;
            report.acks_sent += counts.acks_sent;
            report.timeouts += counts.timeouts;
            report.not_ready += counts.not_ready;
        }
        report
    }

    /// Did every flow complete, or every rank?
    pub fn is_complete(&self) -> bool {
        if !self.streams.is_empty() {
            return self.failed == 0;
        }
        if self.flows.is_empty() {
            return self.ranks_done_ps.is_some();
        }
        self.flows.iter().all(|flow| flow.completed_ps.is_some() && flow.delivered_ps.is_some())
    }

    /// When the last flow was completed, or the last rank was done; 0 if none was.
    pub fn completion_ps(&self) -> u64 {
        if let Some(end) = self.ranks_done_ps {
            return end;
        }
        self.flows.iter().filter_map(|flow| flow.completed_ps).max().unwrap_or(0)
    }

    /// The times that flows took, in picoseconds.
    pub fn completion_times(&self) -> Quantiles {
        self.completion_times_of(|_| true)
    }

    /// The times that some of the flows took, in picoseconds. Steps are none: they send nothing.
    pub fn completion_times_of(&self, wanted: impl Fn(&FlowResult) -> bool) -> Quantiles {
        let flows = self.flows.iter().filter(|flow| flow.bytes > 0 && wanted(flow));
        Quantiles::of(flows.filter_map(FlowResult::completion_time_ps).collect())
    }

    /// The host that most bytes go to: the first of equals; `None` without flows.
    pub fn busiest(&self) -> Option<u32> {
        let mut bytes = std::collections::BTreeMap::new();
        for flow in &self.flows {
            *bytes.entry(flow.destination).or_insert(0) += u64::from(flow.bytes);
        }
        bytes.into_iter().rev().max_by_key(|(_, bytes)| *bytes).map(|(host, _)| host)
    }

    /// What was delivered, per second of the time until the last flow was completed, in megabits.
    pub fn goodput_mbps(&self) -> u64 {
        let done = self.flows.iter().filter(|flow| flow.delivered_ps.is_some());
        let bytes: u128 = done.map(|flow| u128::from(flow.bytes)).sum();
        (bytes * 8_000_000 / u128::from(self.completion_ps().max(1))) as u64
    }

    /// Packets that were trimmed.
    pub fn trims(&self) -> u64 {
        self.ports.iter().map(|port| port.trims).sum()
    }

    /// How often data had to wait for a peer's queue.
    pub fn pauses(&self) -> u64 {
        self.ports.iter().map(|port| port.pauses).sum()
    }

    /// Packets that were marked.
    pub fn marks(&self) -> u64 {
        self.ports.iter().map(|port| port.marks).sum()
    }

    /// One number that stands for all of it: two runs that differ in anything differ in it.
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
        hash
    }
}

/// What each port has done.
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
    let until = |end: u64| end.min(run.now);
    let results = scenario.streams.iter().enumerate().map(|(number, stream)| StreamResult {
        source: stream.source,
        destination: stream.destination,
        verb: stream.verb,
        bytes: stream.bytes,
        placed_bytes: run.partitions.iter().map(|partition| partition.stream_bytes[number].1).sum(),
        span_ps: until(stream.end_ps).saturating_sub(stream.start_ps.max(scenario.measure_ps)),
        latency: Quantiles::default(),
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
        let stats = host.nic.as_fairway().and_then(Nic::scheduler_stats);
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
