//! Metrics of several runs: by seed, or over the values of a sweep.

use super::Run;
use crate::plot::{Axis, Panel, Point, Series, Style};
use crate::sim::results::middle;
use crate::sim::sweep;

/// Largest number of seeds that are marked on an axis.
const SEEDS: usize = 32;

/// A number of each run: its name, its place in the JSON object, and its unit.
type Metric = (&'static str, &'static str, &'static str);

const COMPLETION: Metric = ("completion", "/completion_us", "us");
const CALL: Metric = ("mean time of a call", "/group/call_us", "us");
const BUS: Metric = ("bus bandwidth", "/group/bus_gbytes_per_second", "GB/s");

/// The panels of a kind of result: a title, and what is drawn in it.
fn kinds(runs: &[Run]) -> Vec<(&'static str, Vec<Metric>)> {
    let has =
        |path: &str| runs.iter().any(|run| number(run, path).is_some_and(|value| value > 0.0));
    if has(CALL.1) {
        return vec![("Time of a call", vec![CALL]), ("Bus bandwidth", vec![BUS])];
    }
    if has("/streams/gbps") {
        return vec![
            ("Rate of all streams together", vec![("rate", "/streams/gbps", "Gb/s")]),
            ("Fairness", vec![("Jain's index", "/streams/jain", "1 is equal")]),
        ];
    }
    let mut kinds = vec![("Time until all was complete", vec![COMPLETION])];
    if has("/fct_us/max") {
        let quantiles = vec![("median", "/fct_us/p50", "us"), ("99 %", "/fct_us/p99", "us")];
        kinds.push(("Flow completion time", quantiles));
        kinds.push(("Goodput of all flows", vec![("goodput", "/goodput_gbps", "Gb/s")]));
    }
    kinds
}

/// A metric of a run, unless the run did not complete: its time and its rate are of what was done
/// by the end, and not comparable with those of others.
fn number(run: &Run, path: &str) -> Option<f64> {
    run.number(path).filter(|_| !run.is_incomplete())
}

/// Metrics of runs that differ in their seeds.
pub(super) fn by_seed(runs: &[Run]) -> Vec<Panel> {
    let panel = |(title, metrics): (&str, Vec<Metric>)| {
        let series = metrics.iter().map(|(name, path, unit)| {
            let points = runs.iter().filter_map(|run| {
                let value = number(run, path)?;
                let title = format!("{name}, seed {}: {value:.3} {unit}", run.seed);
                Some(Point::new(run.seed as f64, value, title))
            });
            Series { name: (*name).to_owned(), style: Style::Marks, points: points.collect() }
        });
        // Many seeds have round marks instead.
        let ticks = runs.iter().take_while(|_| runs.len() <= SEEDS);
        let ticks = ticks.map(|run| (run.seed as f64, run.seed.to_string()));
        let x = Axis { label: String::from("seed"), ticks: ticks.collect(), ..Axis::default() };
        Panel {
            title: format!("{title}, by seed{}", super::left_out(runs)),
            x,
            y: Axis::linear(format!("{title} ({})", metrics[0].2)),
            series: series.collect(),
        }
    };
    kinds(runs).into_iter().map(panel).collect()
}

/// Metrics over the values of the setting that was swept last, a line for each combination of the
/// others: the median of the seeds, and the least and the most.
pub(super) fn over_values(runs: &[Run]) -> Vec<Panel> {
    let Some((name, _)) = runs.first().and_then(|run| run.combination.last()) else {
        return Vec::new();
    };
    let given = runs.iter().filter_map(|run| run.combination.last()).map(|last| &last.1);
    let values = ascending(name, distinct(given));
    let places = Places::new(name, &values);
    let lines = distinct(runs.iter().map(line).collect::<Vec<_>>().iter());
    let mut panels = Vec::new();
    for (title, metrics) in kinds(runs) {
        let mut series = Vec::new();
        for metric in &metrics {
            for of in &lines {
                let members = |value: &str| {
                    let is_in = |run: &&Run| line(run) == *of && last(run) == value;
                    runs.iter().filter(is_in).collect::<Vec<_>>()
                };
                let name = match (metrics.len(), of.as_str()) {
                    (1, "") => metric.0.to_owned(),
                    (1, of) => of.to_owned(),
                    (_, "") => metric.0.to_owned(),
                    (_, of) => format!("{}, {of}", metric.0),
                };
                let points = values.iter().enumerate();
                let points = points.filter_map(|(at, value)| {
                    let numbers =
                        members(value).iter().filter_map(|run| number(run, metric.1)).collect();
                    median(numbers, places.at[at], &format!("{name}, {value}"), metric.2)
                });
                series.push(Series { points: points.collect(), name, style: Style::Marks });
            }
        }
        let ideal = ideal(runs, &values, &places, metrics[0]);
        let lengths = series.iter().flat_map(|one| &one.points).map(|point| point.low);
        let (least, most) = ends(lengths);
        // Several orders of magnitude, as of sizes, need a logarithmic axis.
        let is_log = places.is_log && least > 0.0 && most / least > 10.0;
        series.extend(ideal);
        panels.push(Panel {
            title: format!("{title} over {name}{}", super::left_out(runs)),
            x: places.axis(name, &values),
            y: Axis {
                is_log,
                from_zero: !is_log,
                label: format!("{title} ({})", metrics[0].2),
                ..Axis::default()
            },
            series,
        });
    }
    panels
}

/// The median of the numbers and their spread, as a point; `None` without numbers.
fn median(mut numbers: Vec<f64>, x: f64, of: &str, unit: &str) -> Option<Point> {
    numbers.sort_unstable_by(f64::total_cmp);
    let (low, high) = (*numbers.first()?, *numbers.last()?);
    let y = *middle(&numbers);
    let title = match numbers.len() {
        1 => format!("{of}: {y:.3} {unit}"),
        count => format!("{of}: {y:.3} {unit} (median of {count} seeds, {low:.3} to {high:.3})"),
    };
    Some(Point { x, y, low, high, title })
}

/// What the rate of a host's link would give, if that is known and does not differ between lines.
fn ideal(runs: &[Run], values: &[String], places: &Places, metric: Metric) -> Option<Series> {
    let of = |run: &Run| {
        if metric == COMPLETION {
            run.bound_us
        } else if metric == CALL {
            run.ideal_call_us()
        } else if metric == BUS {
            Some(run.line_megabits as f64 / 8e3)
        } else {
            None
        }
    };
    let mut points = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let mut here = runs.iter().filter(|run| last(run) == value).map(of);
        let first = here.next()??;
        if here.any(|other| other.is_none_or(|other| (other - first).abs() > first * 1e-9)) {
            return None;
        }
        let title = format!("{value} at the link's rate: {first:.3} {}", metric.2);
        points.push(Point::new(places.at[at], first, title));
    }
    let name = String::from("payload at the link's rate");
    Some(Series { name, style: Style::Ideal, points })
}

/// The value of the setting that was swept last.
fn last(run: &Run) -> &str {
    run.combination.last().map_or("", |(_, value)| value)
}

/// The values of all other settings that were swept.
fn line(run: &Run) -> String {
    let others = run.combination.len().saturating_sub(1);
    sweep::text(&run.combination[..others])
}

fn distinct<'a>(values: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for value in values {
        if !kept.contains(value) {
            kept.push(value.clone());
        }
    }
    kept
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(least, most), value| (value.min(least), value.max(most)))
}

/// The values in the order of their numbers, so that a line through them goes in one direction;
/// values that are no numbers stay as they are.
fn ascending(name: &str, mut values: Vec<String>) -> Vec<String> {
    let number_of = |value: &String| sweep::number(name, value);
    if values.iter().all(|value| number_of(value).is_some()) {
        let order = |value: &String| number_of(value).unwrap_or_default();
        values.sort_by(|left, right| order(left).total_cmp(&order(right)));
    }
    values
}

/// Where the values of a setting are on the axis.
struct Places {
    at: Vec<f64>,
    is_log: bool,
}

impl Places {
    /// Numbers have the places of numbers, other values come one after the other.
    fn new(name: &str, values: &[String]) -> Places {
        let numbers = values.iter().map(|value| sweep::number(name, value));
        let numbers: Option<Vec<f64>> = numbers.collect();
        let Some(at) = numbers else {
            let at = (0..values.len()).map(|at| at as f64).collect();
            return Places { at, is_log: false };
        };
        let (least, most) = ends(at.iter().copied());
        Places { is_log: least > 0.0 && most / least >= 8.0, at }
    }

    fn axis(&self, name: &str, values: &[String]) -> Axis {
        let ticks = self.at.iter().copied().zip(values.iter().cloned()).collect();
        Axis { label: name.to_owned(), is_log: self.is_log, ticks, from_zero: false }
    }
}
