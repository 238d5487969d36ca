//! The picture of one or more runs: which panels show what a kind of result has.
//!
//! | result | panels |
//! |---|---|
//! | flows | distribution of completion times, beside that of each flow alone at its link's rate |
//! | collective operation | distribution of times of calls, beside that of the link's rate |
//! | trace | a bar from start to end for each operation |
//! | streams | rate and congestion window of each over time |
//! | any, one run | rate of placed bytes and length of the queues over time |
//! | several seeds | the same distributions by seed, and the metrics by seed |
//! | a sweep | metrics over the values, with the spread of the seeds |
//!
//! A run that did not complete has no point among the metrics, and the title of the panel counts
//! such runs. The line of a distribution of flows or calls ends at the part that completed.

mod distribution;
mod metrics;
mod over_time;
mod table;

use fairway_sim::{OperationResult, Report};
use serde_json::Value;

use super::history::History;
use super::results::us;
use super::sweep::Combination;
use super::{Outcome, SimOptions};
use crate::plot::{Panel, Picture, Table};

/// Largest number of points of a distribution.
const POINTS: usize = 500;

/// What a picture needs of a run.
pub(super) struct Run {
    combination: Combination,
    workload: String,
    seed: u64,
    /// The object that `--json` prints.
    value: Value,
    /// Completion times of flows, and the time that each flow would take at its link's rate, in
    /// microseconds, ascending.
    flows: Vec<f64>,
    alone: Vec<f64>,
    /// Least completion of all flows: the bytes of the busiest host at its link's rate, in
    /// microseconds; `None` unless all flows start together.
    bound_us: Option<f64>,
    /// Times of the calls of each rank in microseconds, ascending.
    calls: Vec<f64>,
    /// The part of the flows, or of the calls that have begun, that completed.
    completed: f64,
    /// Rate of a host's link, in megabits per second.
    line_megabits: u64,
    /// Bus bandwidth in bytes per second of a call that takes one second.
    bus_bytes: Option<u64>,
    operations: Vec<OperationResult>,
    /// Ends of each stream.
    streams: Vec<(u32, u32)>,
    history: History,
}

impl Run {
    /// Takes over what a picture shows of an outcome, of which `value` is the JSON object.
    pub(super) fn new(outcome: &mut Outcome, value: &Value) -> Run {
        let report = &outcome.report;
        let flows = report.flows.iter().filter(|flow| flow.bytes > 0);
        let line = outcome.line_megabits as f64;
        let alone: Vec<f64> =
            flows.clone().map(|flow| f64::from(flow.bytes) * 8.0 / line).collect();
        let times: Vec<f64> = flows.filter_map(|flow| flow.completion_time_ps()).map(us).collect();
        let begun = report.ranks.iter().flat_map(|rank| &rank.calls);
        let calls = begun.clone().filter_map(|(from, to)| Some(us((*to)?.saturating_sub(*from))));
        let calls: Vec<f64> = calls.collect();
        let all = if calls.is_empty() { alone.len() } else { begun.count() };
        let completed = times.len().max(calls.len()) as f64 / all.max(1) as f64;
        let second = 1_000_000_000_000;
        let workload = outcome.configuration.iter().find(|(name, _)| *name == "workload");
        Run {
            combination: outcome.combination.clone(),
            workload: workload.map_or(String::new(), |setting| setting.1.clone()),
            seed: report.seed,
            value: value.clone(),
            flows: thinned(times),
            alone: thinned(alone),
            bound_us: bound_us(report, outcome.line_megabits),
            calls: thinned(calls),
            completed,
            line_megabits: outcome.line_megabits,
            bus_bytes: outcome.group.as_ref().map(|group| group.bus_bandwidth(second)),
            // Calls of a group are no operations of a trace.
            operations: if outcome.group.is_some() {
                Vec::new()
            } else {
                report.operations.clone()
            },
            streams: report.streams.iter().map(|one| (one.source, one.destination)).collect(),
            history: outcome.history.take().unwrap_or_default(),
        }
    }

    /// True if the run was to complete something, and did not complete all of it.
    fn is_incomplete(&self) -> bool {
        let has_ended = self.number("/completion_us").is_some();
        self.streams.is_empty() && !has_ended
    }

    /// A number of the run's JSON object, if it has one.
    fn number(&self, path: &str) -> Option<f64> {
        self.value.pointer(path).and_then(Value::as_f64)
    }

    /// Time of a call in microseconds, if its bus bandwidth were the rate of a host's link.
    fn ideal_call_us(&self) -> Option<f64> {
        Some(self.bus_bytes? as f64 * 8.0 / self.line_megabits as f64)
    }
}

/// Sorts values, and keeps the least, the largest and others at equal distances between them.
fn thinned(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    if values.len() <= POINTS {
        return values;
    }
    let last = values.len() - 1;
    (0..POINTS).map(|at| values[at * last / (POINTS - 1)]).collect()
}

/// Text behind the title of a panel of metrics: how many of the runs are left out.
fn left_out(runs: &[Run]) -> String {
    match runs.iter().filter(|run| run.is_incomplete()).count() {
        0 => String::new(),
        count => format!(" ({count} of {} runs did not complete and are left out)", runs.len()),
    }
}

fn bound_us(report: &Report, line_megabits: u64) -> Option<f64> {
    let flows = || report.flows.iter().filter(|flow| flow.bytes > 0);
    let first = flows().next()?.started_ps?;
    if flows().any(|flow| flow.started_ps != Some(first)) {
        return None;
    }
    let mut hosts = std::collections::BTreeMap::new();
    for flow in flows() {
        *hosts.entry((flow.source, true)).or_insert(0) += u64::from(flow.bytes);
        *hosts.entry((flow.destination, false)).or_insert(0) += u64::from(flow.bytes);
    }
    hosts.into_values().max().map(|bytes: u64| bytes as f64 * 8.0 / line_megabits as f64)
}

/// The picture of all runs of a command, and the rows that it shows.
pub(super) fn picture(options: &SimOptions, runs: &[Run]) -> (Picture, Table) {
    let panels: Vec<Panel> = match runs {
        [only] => distribution::of_run(only).into_iter().chain(over_time::panels(only)).collect(),
        _ if options.sweep.is_empty() => {
            distribution::by_seed(runs).into_iter().chain(metrics::by_seed(runs)).collect()
        }
        _ => metrics::over_values(runs),
    };
    let what = runs.first().map_or("", |run| run.workload.as_str());
    let title = match runs {
        [only] => format!("{what}, seed {}", only.seed),
        _ => format!("{what}, {} runs", runs.len()),
    };
    (Picture { title, command: command(), panels }, table::of(runs))
}

/// The command line of this process, as a shell would read it.
fn command() -> String {
    let plain = |character: char| character.is_alphanumeric() || "-_=.,:/@+%".contains(character);
    let quoted = |word: String| {
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    std::iter::once(String::from("fairway")).chain(words).collect::<Vec<_>>().join(" ")
}
