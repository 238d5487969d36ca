//! Runs a scenario, window by window.
//!
//! A window is as long as the latency of the shortest link. Within a window, one partition of the
//! network cannot affect another before the window ends, so partitions may run on different cores
//! and exchange packets in between. A run on one core uses the same windows and ends with the same
//! one, so that all its counts are the same.

use super::capture::Captured;
use super::nic::HostNic;
use super::partition::{Partition, Totals};
use super::plan::Plan;
use super::report::Report;
use super::scenario::{LATENCY_MAX_PS, LINK_MEGABITS, Scenario, Stack};
use super::setup::make_partitions;
use super::shortfall::Watch;
use super::streams::Sending;
use super::topology::{Link, Network, TopologyError};
use super::workers::Workers;
use crate::calendar::NEVER;
use crate::error::SimulationError;
use crate::group::{Group, ROUNDS_MAX};
use crate::members::Members;
use crate::stream::Verb;
use fairway_collectives::Schedule;
use fairway_ub::control::TraceRecord;
use fairway_ub::policy::Share;
use fairway_ub::wire::Instant;
use std::sync::Arc;

/// Progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Simulated time, in picoseconds.
    pub now_ps: u64,
    /// Bytes in place.
    pub placed_bytes: u64,
    /// Bytes that the run has to place.
    pub bytes: u64,
    /// Flows that have completed.
    pub completed: u64,
    /// Events executed so far.
    pub events: u64,
}

/// State of the network at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Simulated time, in picoseconds.
    pub now_ps: u64,
    /// Bytes that are in place.
    pub placed_bytes: u64,
    /// Packets on links and in queues.
    pub in_flight: u64,
    /// Bytes in all queues.
    pub waiting_bytes: u64,
    /// Bytes in the longest queue; [`Self::longest_port`] names its port.
    pub longest_bytes: u64,
    /// The port of the longest queue.
    pub longest_port: u32,
    /// Ports whose data is paused by the peer.
    pub paused_ports: u32,
    /// Packets dropped so far because a queue was full.
    pub dropped: u64,
    /// Flows that have completed.
    pub completed: u64,
}

/// State of a stream at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamSample {
    /// Bytes in place so far.
    pub placed_bytes: u64,
    /// Dequeue rate of the stream in bytes per second; `None` if the scheduler sets none.
    pub dequeue_rate: Option<u64>,
    /// Congestion window of its channel, and bytes in flight.
    pub window_bytes: (u64, u64),
    /// Smoothed round trip of its channel in picoseconds; 0 before the first measurement.
    pub round_trip_ps: u64,
    /// Smoothed round trip of each path in picoseconds, and whether the path is considered usable.
    pub paths: Vec<(u64, bool)>,
}

/// A window with fewer events runs on one thread, because handing it to several takes longer.
const EVENTS_MIN: u64 = 64;

/// A run in progress.
pub struct Simulation {
    pub(crate) plan: Arc<Plan>,
    pub(crate) partitions: Vec<Partition>,
    /// Threads for all partitions but the first, if there are several.
    workers: Option<Workers>,
    /// All events before this time have been executed.
    pub(crate) now: u64,
    pub(super) watch: Watch,
}

impl Simulation {
    /// Makes the network and its NICs, divided into `parts` partitions that may run on as many
    /// cores.
    ///
    /// # Errors
    /// Names what is wrong with the scenario.
    pub fn new(scenario: Scenario, parts: u32) -> Result<Simulation, SimulationError> {
        check(&scenario)?;
        let plan = Arc::new(Plan::new(scenario, parts));
        let partitions = make_partitions(&plan)?;
        let workers = (partitions.len() > 1).then(|| Workers::new(partitions.len()));
        let watch = Watch::new(&plan.scenario);
        Ok(Simulation { plan, partitions, workers, now: 0, watch })
    }

    /// Returns the run's progress.
    pub fn progress(&self) -> Progress {
        let totals = self.totals();
        Progress {
            now_ps: self.now,
            placed_bytes: totals.placed_bytes,
            bytes: self.plan.bytes(),
            completed: totals.completed,
            events: totals.events,
        }
    }

    /// Runs one window, or more if they have no events. Returns false if the run is over, or was
    /// stopped because nothing was delivered any more ([`Self::shortfall`] reports what is
    /// missing). The partitions run on as many cores, unless the window has very few events.
    pub fn step(&mut self) -> bool {
        let totals = self.totals();
        let Some(window) = self.next_window() else {
            self.watch.note(self.now, &totals);
            self.reach_end();
            return false;
        };
        if !self.watch.goes_on(self.now, &totals) {
            return false;
        }
        let events: u64 = self.partitions.iter().map(|partition| partition.expected(window)).sum();
        match &mut self.workers {
            Some(workers) if events >= EVENTS_MIN => workers.run(&mut self.partitions, window),
            _ => self.partitions.iter_mut().for_each(|partition| partition.run(window)),
        }
        self.exchange((window + 1) * self.plan.window_ps);
        true
    }

    /// Runs to the end, and reports progress to `each` every `windows` windows.
    pub fn run(&mut self, windows: u32, mut each: impl FnMut(&Progress)) -> Report {
        let mut left = windows;
        while self.step() {
            left -= 1;
            if left == 0 {
                left = windows;
                each(&self.progress());
            }
        }
        self.report()
    }

    /// Returns a time before which nothing happens: the start of the next window with an event;
    /// `None` if the run is over.
    pub fn next_ps(&self) -> Option<u64> {
        self.next_window().map(|window| window * self.plan.window_ps)
    }

    /// Samples the current state of the network.
    pub fn sample(&self) -> Sample {
        let mut sample = Sample { now_ps: self.now, ..Sample::default() };
        for (port, part) in self.plan.port_part.iter().enumerate() {
            let part = usize::from(*part);
            let waiting = u64::from(self.partitions[part].ports[port].waiting());
            sample.waiting_bytes += waiting;
            if waiting > sample.longest_bytes {
                (sample.longest_bytes, sample.longest_port) = (waiting, port as u32);
            }
            sample.paused_ports += u32::from(self.partitions[part].ports[port].paused);
        }
        let totals = self.totals();
        (sample.placed_bytes, sample.dropped) = (totals.placed_bytes, totals.dropped);
        (sample.completed, sample.in_flight) = (totals.completed, self.in_flight());
        sample
    }

    /// Samples the current state of the streams, by number.
    pub fn streams(&self) -> Vec<StreamSample> {
        let mut samples = vec![StreamSample::default(); self.plan.scenario.streams.len()];
        for partition in &self.partitions {
            for (sample, placed) in samples.iter_mut().zip(&partition.placed_of_streams) {
                sample.placed_bytes += placed.bytes;
            }
            for host in partition.hosts.iter().flatten() {
                let Some(streams) = host.streams.as_deref() else { continue };
                // The responses of a Jetty use one channel, but Jetties of different peers may have
                // the same number.
                let key = |jetty, channel, answers: bool| (jetty, answers.then_some(channel));
                let Some(nic) = host.nic.as_fairway() else { continue };
                let rates: std::collections::BTreeMap<_, _> = nic
                    .flows()
                    .map(|flow| {
                        let key = key(flow.jetty, flow.channel, flow.answers);
                        (key, flow.dequeue_rate)
                    })
                    .collect();
                for &Sending { number, jetty, channel, answers } in streams.sending() {
                    let sample = &mut samples[number as usize];
                    let rate = rates.get(&key(jetty, channel, answers));
                    sample.dequeue_rate = rate.copied().flatten();
                    sample.window_bytes = nic.window(channel).unwrap_or_default();
                    sample.round_trip_ps = nic.round_trip(channel).as_ps();
                    let paths = nic.paths(channel).iter();
                    sample.paths =
                        paths.map(|path| (path.smoothed_rtt.as_ps(), path.usable)).collect();
                    // Paths that were never used have no record.
                    sample.paths.resize(nic.path_count(channel), (0, true));
                }
            }
        }
        samples
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.plan.scenario
    }

    /// Packets that left by the captured port.
    pub fn captured(&self) -> impl Iterator<Item = &Captured> {
        self.partitions.iter().flat_map(|partition| &partition.captured)
    }

    /// Makes every Fairway NIC record the inputs and decisions of its congestion controllers, with
    /// room for `records` of them between two calls of [`Self::take_trace`].
    pub fn set_trace(&mut self, records: u32) {
        let now = Instant::from_ps(self.now);
        let hosts =
            self.partitions.iter_mut().flat_map(|partition| partition.hosts.iter_mut().flatten());
        // The trace has what each channel did since the run began.
        hosts.for_each(|host| host.open_all());
        for host in
            self.partitions.iter_mut().flat_map(|partition| partition.hosts.iter_mut().flatten())
        {
            if let HostNic::Fairway(driver) = &mut host.nic {
                let nic = driver.device_mut();
                nic.set_trace(now, records);
            }
        }
    }

    /// Passes the records since the last call to `out`, host by host. Returns how many records have
    /// been lost so far for lack of room. Must be called after every [`Self::step`].
    pub fn take_trace(&mut self, mut out: impl FnMut(u32, &TraceRecord)) -> u64 {
        let now = Instant::from_ps(self.now);
        let (mut records, mut dropped) = (Vec::new(), 0);
        for number in 0..self.plan.scenario.network.hosts {
            let part = usize::from(self.plan.part[number as usize]);
            let Some(host) = &mut self.partitions[part].hosts[number as usize] else { continue };
            let HostNic::Fairway(driver) = &mut host.nic else { continue };
            let nic = driver.device_mut();
            dropped += nic.take_trace(now, &mut records);
            records.drain(..).for_each(|record| out(number, &record));
        }
        dropped
    }

    /// Returns the results so far.
    pub fn report(&self) -> Report {
        Report::of(self)
    }

    /// Returns the next window with an event; `None` if the run is over.
    fn next_window(&self) -> Option<u64> {
        if self.plan.scenario.streams.is_empty() && self.is_complete() {
            return None;
        }
        let window = self.plan.window_ps;
        let next = self.partitions.iter().filter_map(|partition| {
            let crossing = (partition.earliest_crossing != NEVER)
                .then_some(partition.earliest_crossing / window);
            partition.calendar.next_window().into_iter().chain(crossing).min()
        });
        let next = next.min()?;
        (next * self.plan.window_ps < self.plan.scenario.end_ps).then_some(next)
    }

    /// Advances the time to the end of the scenario if it cuts the run short: streams continue,
    /// packets are under way, or flows begin later. Timers of NICs alone do not count.
    fn reach_end(&mut self) {
        let is_cut = match self.plan.scenario.streams.is_empty() {
            true if self.is_complete() => false,
            true => self.in_flight() > 0 || self.next_start_ps().is_some(),
            false => !self.is_idle(),
        };
        if is_cut {
            self.now = self.now.max(self.plan.scenario.end_ps);
        }
    }

    /// True if no event is left, whatever its time.
    pub(super) fn is_idle(&self) -> bool {
        self.partitions.iter().all(|partition| {
            partition.earliest_crossing == NEVER && partition.calendar.next_window().is_none()
        })
    }

    /// True if all flows have completed, and all ranks are done. A run of streams has neither.
    fn is_complete(&self) -> bool {
        let totals = self.partitions.iter().map(|partition| &partition.totals);
        let completed: u64 = totals.clone().map(|totals| totals.completed).sum();
        let ranks: u64 = totals.map(|totals| totals.ranks_done).sum();
        completed == self.plan.scenario.flows.len() as u64
            && ranks == u64::from(self.plan.scenario.ranks())
    }

    /// Hands packets and signals from partition to partition.
    fn exchange(&mut self, until: u64) {
        self.now = until;
        for from in 0..self.partitions.len() {
            for to in 0..self.partitions.len() {
                if from == to || self.partitions[from].outbox[to].is_empty() {
                    continue;
                }
                let crossings = std::mem::take(&mut self.partitions[from].outbox[to]);
                let first = crossings.iter().map(|crossing| crossing.at).min();
                let there = &mut self.partitions[to];
                there.earliest_crossing = there.earliest_crossing.min(first.unwrap_or(NEVER));
                let empty = std::mem::replace(&mut there.inbox[from], crossings);
                self.partitions[from].outbox[to] = empty;
            }
            for (at, port, wait) in std::mem::take(&mut self.partitions[from].signals) {
                self.partitions
                    .iter_mut()
                    .for_each(|partition| partition.pause_signal(at, port, wait));
            }
        }
        if self.partitions.iter().all(|partition| partition.remote_dependents.is_empty()) {
            return;
        }
        let mut remote_dependents: Vec<u32> =
            self.partitions.iter_mut().flat_map(|d| d.remote_dependents.drain(..)).collect();
        remote_dependents.sort_unstable();
        for partition in &mut self.partitions {
            remote_dependents.iter().for_each(|&flow| partition.dependency_done(until, flow));
        }
    }

    /// The ranks of a group on each host, if there is a group.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Members> {
        let hosts = self.partitions.iter().flat_map(|partition| partition.hosts.iter().flatten());
        hosts.filter_map(|host| host.ranks.as_ref()?.members())
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        for partition in &self.partitions {
            let totals = &partition.totals;
            sum.events += totals.events;
            sum.sent += totals.sent;
            sum.delivered += totals.delivered;
            sum.delivered_trimmed += totals.delivered_trimmed;
            sum.dropped += totals.dropped;
            sum.lost_on_links += totals.lost_on_links;
            sum.dropped_at_hosts += totals.dropped_at_hosts;
            sum.completed += totals.completed;
            sum.placed_bytes += totals.placed_bytes;
            sum.ranks_done += totals.ranks_done;
            sum.messages += totals.messages;
            sum.failed += totals.failed;
            sum.ranks_end = sum.ranks_end.max(totals.ranks_end);
        }
        sum
    }

    /// Number of packets in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        let waiting =
            |partition: &Partition| partition.inbox.iter().map(Vec::len).sum::<usize>() as u64;
        self.partitions
            .iter()
            .map(|partition| u64::from(partition.packets.live()) + waiting(partition))
            .sum()
    }

    /// Returns when a flow began, was delivered and completed; [`NEVER`] for what has not occurred.
    pub(crate) fn times(&self, flow: usize) -> (u64, u64, u64) {
        let mut times = (NEVER, NEVER, NEVER);
        for partition in &self.partitions {
            let state = &partition.flows[flow];
            times.0 = times.0.min(state.started);
            times.1 = times.1.min(state.delivered);
            times.2 = times.2.min(state.completed);
        }
        times
    }
}

/// Checks that events can number every port, and that ports can represent the rate and latency of
/// their links.
pub(super) fn check_network(network: &Network) -> Result<(), TopologyError> {
    let wrong = network
        .links
        .iter()
        .find(|link| !LINK_MEGABITS.contains(&link.megabits) || link.latency_ps > LATENCY_MAX_PS);
    if let Some(&Link { from, to, megabits, latency_ps, .. }) = wrong {
        return Err(TopologyError::Link { from, to, megabits, latency_ps });
    }
    let most = super::calendar::PORTS;
    let ports = (0..network.nodes()).map(|node| network.ports_of(node).len()).max().unwrap_or(0);
    if ports > most { Err(TopologyError::Ports { ports, most }) } else { Ok(()) }
}

fn check(scenario: &Scenario) -> Result<(), SimulationError> {
    let network = &scenario.network;
    check_network(network)?;
    if scenario.flows.is_empty() && scenario.ranks() == 0 && scenario.streams.is_empty() {
        return Err(SimulationError::Nothing);
    }
    check_streams(scenario)?;
    if scenario.ranks() > 0 && !scenario.flows.is_empty() {
        return Err(SimulationError::FlowsAndProgram);
    }
    if let Some(group) = &scenario.group {
        check_group(scenario, group)?;
    }
    if let Some(program) = &scenario.program {
        let (needs, has) = (program.hosts(), network.hosts);
        if needs > has {
            let ranks = program.motif.ranks();
            return Err(SimulationError::TooFewHosts { ranks, needs, has });
        }
    }
    if !(1..=256).contains(&scenario.paths) {
        return Err(SimulationError::Paths(scenario.paths));
    }
    if !(64..=32_768).contains(&scenario.mtu) {
        return Err(SimulationError::Mtu(scenario.mtu));
    }
    if scenario.stack != Stack::Fairway {
        super::roce::check(scenario)?;
    }
    let hosts = network.hosts;
    for (index, flow) in scenario.flows.iter().enumerate() {
        let (from, to) = (flow.source, flow.destination);
        let joins = from != to && flow.bytes > 0;
        if from >= hosts || to >= hosts || !(joins || flow.is_step()) {
            let (flow, bytes, last) = (index, flow.bytes, hosts - 1);
            return Err(SimulationError::Flow { flow, bytes, from, to, last });
        }
        let last = scenario.flows.len() - 1;
        if let Some(after) = flow.after.iter().find(|after| after.flow as usize > last) {
            return Err(SimulationError::FlowWaits { flow: index, after: after.flow, last });
        }
    }
    Ok(())
}

fn check_group(scenario: &Scenario, group: &Group) -> Result<(), SimulationError> {
    let hosts = scenario.network.hosts;
    let means = &group.means;
    let slots = Schedule::SLOTS_MIN..=Schedule::SLOTS_MAX;
    let is_valid = group.has_valid_size()
        && group.hosts.iter().all(|host| *host < hosts)
        && scenario.program.is_none()
        && slots.contains(&means.slots)
        && means.slot_bytes >= 8
        && means.slot_bytes.is_multiple_of(8)
        && (1..=ROUNDS_MAX).contains(&group.rounds)
        && group.bytes > 0
        && group.copy_megabits > 0
        && group.combine_megabits > 0;
    match is_valid {
        true => Ok(()),
        false => Err(SimulationError::Group { ranks: group.ranks(), means: *means }),
    }
}

fn check_streams(scenario: &Scenario) -> Result<(), SimulationError> {
    if scenario.streams.is_empty() {
        return Ok(());
    }
    if !scenario.flows.is_empty() || scenario.ranks() > 0 || scenario.check {
        return Err(SimulationError::StreamsAlone);
    }
    for (index, stream) in scenario.streams.iter().enumerate() {
        let (from, to, hosts) = (stream.source, stream.destination, scenario.network.hosts);
        let is_short = stream.bytes == 0 || stream.depth == 0 || stream.megabits == Some(0);
        let is_configured = stream.share != Share::default() || stream.hint.is_some();
        if stream.verb == Verb::Read && is_configured {
            return Err(SimulationError::StreamReads(index));
        }
        if from >= hosts || to >= hosts || from == to || is_short || stream.share.weight == 0 {
            let (bytes, depth, last) = (stream.bytes, stream.depth, hosts - 1);
            return Err(SimulationError::Stream { stream: index, depth, bytes, from, to, last });
        }
    }
    Ok(())
}
