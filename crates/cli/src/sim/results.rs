//! Output of `fairway sim`: text or JSON for each seed, and files of lines.

use std::path::Path;

use fairway_sim::{FlowResult, Report, Simulation, Stack};
use serde_json::{Value, json};

use super::picture::{self, Run};
use super::sweep::{self, Combination};
use super::{Outcome, SimOptions, configuration, group, operations, streams};
use crate::failure::Failure;
use crate::outputs::Draft;
use crate::process;

/// The first line of a file of flows.
const FLOWS: &str = "seed,flow,source,destination,bytes,started_ps,delivered_ps,completed_ps\n";

/// Prints outcomes in the order of their seeds.
pub(super) struct Printer<'a> {
    options: &'a SimOptions,
    json: bool,
    early: std::collections::BTreeMap<u64, Outcome>,
    next: u64,
    csv: Lines,
    series: Lines,
    stream_series: Lines,
    /// Completion times of the combination that is being printed; `None` if a run did not finish.
    completions: Vec<Option<u64>>,
    /// The combination; `None` before the first.
    combination: Option<Combination>,
    /// What a picture will show, if one is to be drawn.
    drawn: Vec<Run>,
    /// The first seed whose run did not finish, and what is missing.
    incomplete: Option<(u64, String)>,
}

impl Printer<'_> {
    pub(super) fn new(options: &SimOptions) -> Result<Printer<'_>, Failure> {
        let mut printer = Printer {
            options,
            json: options.json,
            early: std::collections::BTreeMap::new(),
            next: 0,
            csv: Lines::new(options.csv.as_deref())?,
            series: Lines::new(options.series.as_deref())?,
            stream_series: Lines::new(options.stream_series.as_deref())?,
            completions: Vec::new(),
            combination: None,
            drawn: Vec::new(),
            incomplete: None,
        };
        let head = "seed,now_us,placed_bytes,rate_gbps,in_flight,waiting_bytes,longest_bytes,\
                    longest_port,paused_ports,dropped,completed\n";
        printer.series.write(head)?;
        printer.stream_series.write(streams::HEAD)?;
        Ok(printer)
    }

    pub(super) fn take(&mut self, index: u64, outcome: Outcome) -> Result<(), Failure> {
        self.early.insert(index, outcome);
        while let Some(outcome) = self.early.remove(&self.next) {
            self.next += 1;
            self.print(outcome)?;
        }
        Ok(())
    }

    /// Prints what precedes the runs of a combination, and sums up those of the one before.
    fn begin(&mut self, outcome: &Outcome) -> Result<(), Failure> {
        self.sum_up()?;
        if self.combination.is_none() {
            self.csv.write(if outcome.group.is_some() { group::HEAD } else { FLOWS })?;
        }
        self.combination = Some(outcome.combination.clone());
        if self.json {
            return Ok(());
        }
        let combination = sweep::text(&outcome.combination);
        if !combination.is_empty() {
            process::print(&format!("# {combination}\n"))?;
        }
        process::print(&configuration::text(&outcome.configuration))
    }

    /// Prints the spread of the seeds of a combination.
    fn sum_up(&mut self) -> Result<(), Failure> {
        let all = std::mem::take(&mut self.completions);
        let mut complete: Vec<u64> = all.iter().copied().flatten().collect();
        complete.sort_unstable();
        let (count, seeds) = (complete.len(), all.len());
        let (true, false, [least, ..]) = (seeds > 1, self.json, complete.as_slice()) else {
            return Ok(());
        };
        let [least, median, most] = [*least, *middle(&complete), complete[count - 1]].map(us);
        let of = if count < seeds { format!("{count} complete of ") } else { String::new() };
        process::print(&format!(
            "{of}{seeds} seeds: completion {median} us median, {least} to {most}\n"
        ))
    }

    fn print(&mut self, mut outcome: Outcome) -> Result<(), Failure> {
        if self.combination.as_ref() != Some(&outcome.combination) {
            self.begin(&outcome)?;
        }
        let value = value(&outcome);
        if self.options.plot.is_some() {
            self.drawn.push(Run::new(&mut outcome, &value));
        }
        let (outcome, report) = (&outcome, &outcome.report);
        if !report.is_complete() && self.incomplete.is_none() {
            self.incomplete = Some((report.seed, outcome.shortfall.clone()));
        }
        self.completions.push(report.completion_ps());
        process::print(&if self.json { format!("{value}\n") } else { text(&value) })?;
        for policy in outcome.policies.iter().filter(|_| !self.json) {
            process::print(&format!("  {policy}\n"))?;
        }
        self.series.write(&outcome.series.0)?;
        self.stream_series.write(&outcome.series.1)?;
        if self.csv.0.is_some() {
            self.csv.write(&group::lines(report))?;
        }
        let number = |time: Option<u64>| time.map_or(String::new(), |time| time.to_string());
        for (index, flow) in report.flows.iter().enumerate() {
            if self.csv.0.is_none() {
                break;
            }
            if flow.bytes == 0 {
                // A step of a trace that sends nothing.
                continue;
            }
            let (seed, from, to, bytes) = (report.seed, flow.source, flow.destination, flow.bytes);
            let times = [flow.started_ps, flow.delivered_ps, flow.completed_ps].map(number);
            let times = times.join(",");
            self.csv.write(&format!("{seed},{index},{from},{to},{bytes},{times}\n"))?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.csv.finish()?;
        self.series.finish()?;
        self.stream_series.finish()?;
        self.sum_up()?;
        if let Some(plot) = &self.options.plot {
            let (picture, table) = picture::picture(self.options, &self.drawn);
            plot.write(&picture, &table)?;
        }
        match self.incomplete {
            None => Ok(()),
            Some((seed, shortfall)) => Err(Failure::failed(format!("seed {seed}: {shortfall}"))),
        }
    }
}

/// Describes what a run that has ended did not deliver, and why; empty if it delivered everything.
pub(super) fn missing(simulation: &Simulation, failed: u64) -> String {
    let shortfall = simulation.shortfall().map_or(String::new(), |missing| missing.to_string());
    if failed == 0 {
        return shortfall;
    }
    let scenario = simulation.scenario();
    let links_fail = scenario.changes.iter().any(|change| change.megabits == 0);
    let (round_trip_ps, peer_dead_ps) =
        (scenario.base_rtt_ps(), scenario.profile.unwrap_or_default().peer_dead.as_ps());
    let is_far = scenario.stack == Stack::Fairway && round_trip_ps >= peer_dead_ps;
    let distance = format!(
        "a round trip takes {} s, and a NIC waits {} s for a peer (peer_dead): give the links a \
         shorter --latency",
        round_trip_ps as f64 / 1e12,
        peer_dead_ps as f64 / 1e12,
    );
    let cause = match (links_fail, scenario.stack == Stack::Fairway) {
        _ if is_far => distance.as_str(),
        (true, true) => {
            "their links were gone for longer than a NIC waits for a peer: let them come back sooner"
        }
        (true, false) => {
            "their links were gone for longer than eight time-outs of RoCE: let them come back \
             sooner, or give RoCE a longer --timeout-min"
        }
        (false, false) => {
            "RoCE received nothing in eight time-outs: give it a longer --timeout-min"
        }
        (false, true) => {
            "no link failed, so their peers refused them, or answered later than a NIC waits for a \
             peer: let hosts do less at once, or give the switches a longer --queue"
        }
    };
    let what = if scenario.streams.is_empty() {
        "flows, or operations of ranks,"
    } else {
        "operations of streams"
    };
    format!("{failed} {what} failed: {cause}. {shortfall}").trim_end().to_owned()
}

/// A file of lines, if one was requested.
struct Lines(Option<Draft>);

impl Lines {
    fn new(path: Option<&Path>) -> Result<Lines, Failure> {
        path.map(Draft::new).transpose().map(Lines)
    }

    fn write(&mut self, lines: &str) -> Result<(), Failure> {
        self.0.as_mut().map_or(Ok(()), |draft| draft.write(lines))
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.0.take().map_or(Ok(()), Draft::finish)
    }
}

/// The median of sorted values by the nearest rank, as of the quantiles of a run: of an even number
/// of values the lower one of the two in the middle.
///
/// # Panics
/// If there are no values.
pub(super) fn middle<T>(sorted: &[T]) -> &T {
    &sorted[(sorted.len() - 1) / 2]
}

/// Converts picoseconds to microseconds.
pub(super) fn us(ps: u64) -> f64 {
    ps as f64 / 1e6
}

/// A value as text; a dash for what is missing.
pub(super) fn shown(value: &Value) -> String {
    if value.is_null() { String::from("-") } else { value.to_string() }
}

/// A rate in gigabits per second as text, with three decimals; with six below 0.01, so that
/// slow links do not show as 0. A dash for what is missing.
pub(super) fn gbps(value: &Value) -> String {
    match value.as_f64() {
        None => String::from("-"),
        Some(rate) if rate > 0.0 && rate < 0.01 => format!("{rate:.6}"),
        Some(rate) => format!("{rate:.3}"),
    }
}

/// Completion times of some of the flows; null unless there are such flows, and all have completed.
fn completion_times(report: &Report, is_wanted: impl Fn(&FlowResult) -> bool) -> Value {
    let mut flows = report.flows.iter().filter(|flow| flow.bytes > 0 && is_wanted(flow)).peekable();
    let is_complete = flows.peek().is_some() && flows.all(|flow| flow.completed_ps.is_some());
    let times = report.completion_times_of(is_wanted);
    let time = |ps: u64| is_complete.then(|| us(ps));
    json!({
        "p50": time(times.p50),
        "p99": time(times.p99),
        "p999": time(times.p999),
        "max": time(times.max),
    })
}

fn value(outcome: &Outcome) -> Value {
    let report = &outcome.report;
    let wall = outcome.wall.as_secs_f64();
    let flows = report.flows.iter().filter(|flow| flow.bytes > 0);
    let complete = flows.clone().filter(|flow| flow.completed_ps.is_some()).count();
    let busiest = report.busiest();
    let mut value = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "configuration": configuration::value(&outcome.configuration),
        "seed": report.seed,
        "flows": flows.count(),
        "flows_completed": complete,
        "failed": report.failed,
        "completion_us": report.completion_ps().map(us),
        "fct_us": completion_times(report, |_| true),
        "fct_busiest_us": completion_times(report, |flow| Some(flow.destination) == busiest),
        "fct_others_us": completion_times(report, |flow| Some(flow.destination) != busiest),
        "goodput_gbps": report.goodput_mbps().map(|megabits| megabits / 1e3),
        "drops": report.dropped,
        "lost_on_links": report.lost_on_links,
        "pauses": report.pauses(),
        "queue_bytes_max": report.ports.iter().map(|port| port.longest_bytes).max(),
        "trims": report.trims(),
        "ecn_marks": report.marks(),
        "data_sent": report.data_sent,
        "resent": report.resent,
        "spurious": report.spurious,
        "timeouts": report.timeouts,
        "not_ready": report.not_ready,
        "early_packets_max": report.early_packets_max,
        "deferred_packets_max": report.deferred_packets_max,
        "messages": report.messages,
        "acks": report.acks_sent,
        "packets": report.sent,
        "in_flight_at_end": report.in_flight,
        "packet_hops": report.packet_hops,
        "events": report.events,
        "simulated_us": us(report.end_ps),
        "wall_s": wall,
        "hops_per_second": report.packet_hops as f64 / wall,
        "peak_rss_bytes": process::peak_rss_bytes(),
        "digest": format!("{:016x}", report.digest()),
        "policies": outcome.policies.iter().map(crate::policy::report).collect::<Vec<_>>(),
    });
    add_parts(&mut value, outcome);
    value
}

/// Adds what only some kinds of runs have.
fn add_parts(value: &mut Value, outcome: &Outcome) {
    let report = &outcome.report;
    if !outcome.combination.is_empty() {
        let swept =
            outcome.combination.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
        value["sweep"] = swept.collect::<serde_json::Map<_, _>>().into();
    }
    if report.receive_queue_bytes > 0 {
        value["receive_queue"] = receive_queue(report);
    }
    if !report.streams.is_empty() {
        value["streams"] = streams::value(report, outcome.line_megabits);
    }
    if outcome.ranks > 0 {
        value["ranks"] = json!(outcome.ranks);
    }
    if let Some(group) = &outcome.group {
        value["group"] = group::value(group, report);
    }
    if !report.operations.is_empty() {
        value["operations"] = operations::value(report);
    }
}

/// The results of receive queues, all hosts together.
fn receive_queue(report: &Report) -> Value {
    json!({
        "bytes_max": report.receive_queue_bytes,
        "drops": report.dropped_at_hosts,
        "pressures": report.pressures,
    })
}

/// The results of a run as text.
fn text(value: &Value) -> String {
    let queue = value.get("receive_queue").map_or(String::new(), |queue| {
        format!(
            "  receive queues: {} bytes most, {} drops, pressure signalled {} times\n",
            queue["bytes_max"], queue["drops"], queue["pressures"]
        )
    });
    if let Some(streams) = value.get("streams") {
        return streams::text(value, streams) + &queue;
    }
    let fct = &value["fct_us"];
    let outcome = match value.get("ranks") {
        Some(ranks) => format!(
            "seed {}: {ranks} ranks sent {} messages in {} us",
            value["seed"],
            value["messages"],
            shown(&value["completion_us"])
        ),
        None => format!(
            "seed {}: {} of {} flows in {} us, {} Gb/s together\n  \
             flow completion, us: {} median, {} p99, {} p999, {} most",
            value["seed"],
            value["flows_completed"],
            value["flows"],
            shown(&value["completion_us"]),
            gbps(&value["goodput_gbps"]),
            shown(&fct["p50"]),
            shown(&fct["p99"]),
            shown(&fct["p999"]),
            shown(&fct["max"]),
        ),
    };
    format!(
        "{outcome}\n{}  \
         {} drops, {} trims, {} marks, {} pauses, {} resent ({} for nothing), {} time-outs\n  \
         {} packets, {} packet-hops, {} events in {:.2} s: {:.2} M hops/s, {} MiB\n{queue}{}",
        value.get("group").map_or(String::new(), group::text),
        value["drops"],
        value["trims"],
        value["ecn_marks"],
        value["pauses"],
        value["resent"],
        value["spurious"],
        value["timeouts"],
        value["packets"],
        value["packet_hops"],
        value["events"],
        value["wall_s"].as_f64().unwrap_or(0.0),
        value["hops_per_second"].as_f64().unwrap_or(0.0) / 1e6,
        value["peak_rss_bytes"].as_u64().unwrap_or(0) >> 20,
        value.get("operations").map_or(String::new(), operations::text),
    )
}
