//! Reports what is missing when a run stops before everything has been delivered, and stops runs in
//! which switches drop packets and hosts retransmit them without end.

use super::partition::Totals;
use super::roce;
use super::run::Simulation;
use super::scenario::{Scenario, Stack};
use crate::calendar::NEVER;
use crate::members::Members;
use crate::waiting_rank::WaitingRank;
use std::cmp::Reverse;
use std::fmt;

/// Round trips, and longest time-outs of a host, without a placed byte after which a run with
/// overflowing queues is stopped. After each time-out the hosts retransmit, and may succeed.
const ROUND_TRIPS: u64 = 100;
const TIMEOUTS: u64 = 4;
/// Times in which the queue of a slow link or host empties, for which such a run goes on.
const QUEUES: u64 = 8;
/// Packets that queues must have dropped meanwhile. Fewer drops may be the aftermath of a failed
/// link.
const REFUSED: u64 = 1000;
/// Maximum number of incomplete flows that are described one by one.
const DESCRIBED: usize = 3;
/// Maximum number of ranks that are described one by one.
const RANKS: usize = 16;

/// Detects a run in which queues overflow and nothing is delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    bound_ps: u64,
    /// Time at which something was last delivered or completed, and the counters at that time.
    since_ps: u64,
    before: Totals,
    /// True if the run has been stopped.
    is_stopped: bool,
}

/// Counters of progress: a run goes on as long as any of them grows.
fn achieved(totals: &Totals) -> [u64; 5] {
    let Totals { placed_bytes, completed, ranks_done, messages, failed, .. } = *totals;
    [placed_bytes, completed, ranks_done, messages, failed]
}

fn refused(totals: &Totals) -> u64 {
    totals.dropped + totals.delivered_trimmed
}

/// True if links of the scenario fail.
fn links_fail(scenario: &Scenario) -> bool {
    scenario.changes.iter().any(|change| change.megabits == 0)
}

/// Time without a placed byte after which a run with overflowing queues is stopped.
fn bound_ps(scenario: &Scenario) -> u64 {
    let timing = scenario.profile.unwrap_or_else(|| scenario.timing());
    let timeout = match scenario.stack {
        Stack::Fairway => timing.timeout_max.max(timing.timeout_min),
        Stack::Roce | Stack::RoceIrn => roce::longest_timeout(scenario),
    };
    let round_trips = scenario.base_rtt_ps().saturating_mul(ROUND_TRIPS);
    round_trips
        .max(timeout.times(TIMEOUTS).as_ps())
        .max(scenario.slow_queue_ps().saturating_mul(QUEUES))
}

impl Watch {
    /// Makes the watch of a scenario. Where links fail, hosts may retransmit for long to a host
    /// that is cut off, and overflow queues, until they give it up; such a run is not stopped.
    pub(super) fn new(scenario: &Scenario) -> Watch {
        let bound_ps = match links_fail(scenario) {
            true => u64::MAX,
            false => bound_ps(scenario),
        };
        Watch { bound_ps, since_ps: 0, before: Totals::default(), is_stopped: false }
    }

    /// Notes the counters at `now`.
    pub(super) fn note(&mut self, now: u64, totals: &Totals) {
        if achieved(totals) != achieved(&self.before) {
            (self.since_ps, self.before) = (now, *totals);
        }
    }

    /// Notes the counters at `now`. Returns false if the run is to stop.
    pub(super) fn goes_on(&mut self, now: u64, totals: &Totals) -> bool {
        self.note(now, totals);
        let in_vain = refused(totals) - refused(&self.before);
        self.is_stopped = now - self.since_ps > self.bound_ps && in_vain >= REFUSED;
        !self.is_stopped
    }
}

/// What a stopped run has not delivered, and its last progress. The `Display` text names the flows
/// that are incomplete, or what each rank waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// True if the run was stopped because switches dropped packets and no byte was placed for 100
    /// round trips and four of the hosts' longest time-outs; false if it reached its end time.
    pub is_livelock: bool,
    /// Time at which the run stopped, in picoseconds.
    pub stopped_ps: u64,
    /// Time at which something was last delivered or completed, in picoseconds.
    pub progress_ps: u64,
    /// Packets that hosts have sent since then.
    pub sent: u64,
    /// Headers of trimmed packets that have arrived since then.
    pub trimmed: u64,
    /// Packets dropped by full queues since then.
    pub dropped: u64,
    /// Those of them that full receive queues of hosts dropped.
    pub dropped_at_hosts: u64,
    /// Packets lost on links since then.
    pub lost: u64,
    /// Number of incomplete flows or ranks, and their total number.
    pub incomplete: (u64, u64),
    /// True if no event was left, so that a later end would have changed nothing.
    pub is_idle: bool,
    /// True if ranks are counted, and not flows.
    pub are_ranks: bool,
    /// True if links of the scenario fail.
    pub links_fail: bool,
    /// Time in picoseconds at which the next flow begins, or the next computation ends, if that
    /// depends on nothing but time.
    pub next_ps: Option<u64>,
    /// What the first incomplete ranks of a group wait for.
    pub ranks: Vec<WaitingRank>,
    /// The first incomplete flows.
    pub flows: Vec<WaitingFlow>,
}

/// A flow that is incomplete at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingFlow {
    /// Number of the flow.
    pub flow: u32,
    /// Sending host.
    pub source: u32,
    /// Receiving host.
    pub destination: u32,
    /// Bytes in place.
    pub placed_bytes: u32,
    /// Length, in bytes.
    pub bytes: u32,
    /// The first of the incomplete flows that have to end before this one begins; `None` if it
    /// waits for no other flow.
    pub after: Option<u32>,
}

impl fmt::Display for WaitingFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WaitingFlow { flow, source, destination, placed_bytes, bytes, after } = self;
        write!(f, "Flow {flow}, {source} to {destination}, ")?;
        match after {
            Some(after) => write!(f, "waits for flow {after}. "),
            None => write!(f, "has {placed_bytes} of {bytes} bytes in place. "),
        }
    }
}

impl Simulation {
    /// Returns what has not been delivered; `None` if the run is complete.
    pub fn shortfall(&self) -> Option<Shortfall> {
        let scenario = &self.plan.scenario;
        let totals = self.totals();
        let since = &self.watch.before;
        let are_ranks = scenario.ranks() > 0;
        let (done, all) = match are_ranks {
            true => (totals.ranks_done, u64::from(scenario.ranks())),
            false => (totals.completed, scenario.flows.len() as u64),
        };
        let is_livelock = self.watch.is_stopped;
        if done >= all && !is_livelock {
            return None;
        }
        let incomplete = (0..scenario.flows.len() as u32).filter_map(|flow| self.waiting(flow));
        let mut ranks: Vec<WaitingRank> = self.members().flat_map(Members::waiting).collect();
        ranks.sort_unstable_by_key(|waiting| waiting.rank);
        ranks.truncate(RANKS);
        Some(Shortfall {
            is_livelock,
            stopped_ps: self.now,
            progress_ps: self.watch.since_ps,
            sent: totals.sent - since.sent,
            trimmed: totals.delivered_trimmed - since.delivered_trimmed,
            dropped: totals.dropped - since.dropped,
            dropped_at_hosts: totals.dropped_at_hosts - since.dropped_at_hosts,
            lost: totals.lost_on_links - since.lost_on_links,
            incomplete: (all - done, all),
            is_idle: self.is_idle(),
            are_ranks,
            links_fail: links_fail(scenario),
            next_ps: self.next_start_ps(),
            ranks,
            flows: incomplete.take(DESCRIBED).collect(),
        })
    }

    /// Returns what a flow that is incomplete waits for; `None` for a complete one.
    fn waiting(&self, number: u32) -> Option<WaitingFlow> {
        let flows = &self.plan.scenario.flows;
        let states = |flow: u32| self.partitions.iter().map(move |part| part.flows[flow as usize]);
        let is_done = |flow| states(flow).any(|state| state.completed != NEVER);
        if is_done(number) {
            return None;
        }
        let flow = &flows[number as usize];
        let has_begun = states(number).any(|state| state.started != NEVER);
        let mut others = flow.after.iter().map(|after| after.flow);
        let left = states(number).map(|state| state.remaining).min().unwrap_or(0);
        Some(WaitingFlow {
            flow: number,
            source: flow.source,
            destination: flow.destination,
            placed_bytes: flow.bytes.saturating_sub(left),
            bytes: flow.bytes,
            after: if has_begun { None } else { others.find(|other| !is_done(*other)) },
        })
    }

    /// The earliest time at which a flow begins that waits for nothing but that time.
    pub(super) fn next_start_ps(&self) -> Option<u64> {
        let (flows, outbound) = (&self.plan.scenario.flows, &self.plan.outbound);
        let hosts = self.partitions.iter().flat_map(|partition| {
            partition.hosts.iter().enumerate().filter_map(|(at, host)| Some((at, host.as_ref()?)))
        });
        let starts = hosts.flat_map(|(number, host)| {
            let later = host.later.peek().map(|Reverse((at, _))| *at);
            let next = outbound[number].get(host.next_start).map(|flow| &flows[*flow as usize]);
            let next = next.filter(|flow| flow.after.is_empty()).map(|flow| flow.start_ps);
            later.into_iter().chain(next)
        });
        starts.min()
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ps: u64| ps / 1_000_000;
        let (missing, all) = self.incomplete;
        let what = if self.are_ranks { "ranks" } else { "flows" };
        write!(f, "{missing} of {all} {what} are incomplete at {} us. ", us(self.stopped_ps))?;
        write!(f, "The last byte was placed at {} us; since then hosts ", us(self.progress_ps))?;
        let (sent, trimmed, dropped, lost) = (self.sent, self.trimmed, self.dropped, self.lost);
        write!(
            f,
            "sent {sent} packets, of which switches trimmed {trimmed} and dropped {dropped}"
        )?;
        write!(f, ", and links lost {lost}. ")?;
        self.flows.iter().try_for_each(|waiting| write!(f, "{waiting}"))?;
        self.ranks.iter().try_for_each(|waiting| write!(f, "{waiting}"))?;
        if let Some(next) = self.next_ps.filter(|next| *next >= self.stopped_ps) {
            write!(f, "The next flow begins, or computation ends, at {} us. ", us(next))?;
        }
        if self.is_idle && !self.is_livelock {
            f.write_str("Nothing is left to happen: a later --end would change nothing")?;
            return f.write_str(match self.links_fail {
                true => ", so mend the links that --fail takes away",
                false => "",
            });
        }
        if self.is_livelock {
            let idle_ps = self.stopped_ps - self.progress_ps;
            write!(
                f,
                "The run was stopped because queues refused packets and no byte was placed for {} \
                 us: give ",
                us(idle_ps)
            )?;
            return f.write_str(match self.dropped_at_hosts * 2 > dropped {
                true => "the hosts a longer --receive-queue or a faster --drain",
                false => "the switches a longer --queue, or the hosts another --policy",
            });
        }
        f.write_str(match self.links_fail {
            true => "Give the run more --end, or mend the links that --fail takes away",
            false => "Give the run more --end",
        })
    }
}
