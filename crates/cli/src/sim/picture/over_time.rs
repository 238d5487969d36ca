//! One run over time: operations of a trace, rates, windows and queues.

use super::Run;
use crate::plot::{Axis, Panel, Point, Series, Style, bytes_unit, time_unit};
use crate::sim::history::{Moment, STREAMS};
use crate::sim::results::us;

/// Largest number of operations that are drawn.
const OPERATIONS: usize = 400;

/// All panels over time that the run has.
pub(super) fn panels(run: &Run) -> Vec<Panel> {
    let moments = run.history.moments();
    let ended = run.operations.iter().filter_map(|operation| operation.completed_ps).max();
    let end = moments.last().map_or(0, |last| last.now_ps).max(ended.unwrap_or(0));
    let (unit, factor) = time_unit(us(end));
    let time = Time { unit, factor };
    let mut panels: Vec<Panel> = operations(run, &time).into_iter().collect();
    if moments.is_empty() {
        return panels;
    }
    panels.extend(rates(run, &time));
    panels.extend(windows(run, &time));
    panels.extend(queues(moments, &time));
    panels
}

/// The unit of the axis.
struct Time {
    unit: &'static str,
    factor: f64,
}

impl Time {
    fn of(&self, ps: u64) -> f64 {
        us(ps) / self.factor
    }

    fn axis(&self) -> Axis {
        Axis::linear(format!("simulated time ({})", self.unit))
    }
}

fn operations(run: &Run, time: &Time) -> Option<Panel> {
    let all = &run.operations;
    let drawn = &all[..all.len().min(OPERATIONS)];
    let mut points = Vec::new();
    for (row, operation) in drawn.iter().enumerate() {
        let (Some(from), Some(to)) = (operation.started_ps, operation.completed_ps) else {
            continue;
        };
        let (low, high, y) = (time.of(from), time.of(to), -(row as f64));
        let (ranks, bytes, unit) = (operation.ranks, operation.bytes, time.unit);
        let title = format!(
            "{}: {ranks} ranks, {bytes} bytes, {low:.3} to {high:.3} {unit}",
            operation.name
        );
        points.push(Point { x: low, y, low, high, title });
    }
    // Above some number of rows, not every name has room.
    let every = drawn.len().div_ceil(200).max(1);
    let names = drawn.iter().enumerate().step_by(every);
    let ticks = names.map(|(row, operation)| (-(row as f64), operation.name.clone())).collect();
    let title = if drawn.len() < all.len() {
        format!("Operations: the first {} of {}", drawn.len(), all.len())
    } else {
        String::from("Operations, from the first rank's start to the last rank's end")
    };
    let y = Axis { ticks, ..Axis::default() };
    let series = vec![Series { name: String::from("operations"), style: Style::Bars, points }];
    (!all.is_empty()).then_some(Panel { title, x: time.axis(), y, series })
}

/// Rates between two moments, in gigabits per second, of the bytes that `placed` returns.
fn rate(name: String, moments: &[Moment], time: &Time, placed: impl Fn(&Moment) -> u64) -> Series {
    let mut before = (0, 0);
    let mut points = Vec::new();
    for moment in moments {
        let bytes = placed(moment);
        let span = moment.now_ps - before.0;
        if span > 0 {
            let rate = bytes.saturating_sub(before.1) as f64 * 8e3 / span as f64;
            let at = time.of(moment.now_ps);
            let title = format!("{name}: {rate:.3} Gb/s up to {at:.3} {}", time.unit);
            points.push(Point::new(at, rate, title));
        }
        before = (moment.now_ps, bytes);
    }
    Series { name, style: Style::Line, points }
}

fn rates(run: &Run, time: &Time) -> Option<Panel> {
    let moments = run.history.moments();
    let mut series = vec![rate(String::from("all hosts"), moments, time, |now| now.placed_bytes)];
    if !run.streams.is_empty() {
        let named = run.streams.iter().take(STREAMS).enumerate();
        series = named
            .map(|(number, (from, to))| {
                let name = format!("stream {number}: {from} to {to}");
                let placed = |now: &Moment| now.streams.get(number).map_or(0, |stream| stream.0);
                rate(name, moments, time, placed)
            })
            .collect();
    }
    let more = run.streams.len() > STREAMS;
    let title = if more {
        format!("Rate of bytes in place: the first {STREAMS} of {} streams", run.streams.len())
    } else {
        String::from("Rate of bytes in place")
    };
    let y = Axis::linear("rate (Gb/s)");
    let is_idle = moments.iter().all(|moment| moment.placed_bytes == 0);
    (!is_idle).then_some(Panel { title, x: time.axis(), y, series })
}

/// A series of lengths in bytes, without its unit.
fn lengths(
    name: String,
    moments: &[Moment],
    time: &Time,
    (unit, factor): (&str, f64),
    bytes: impl Fn(&Moment) -> u64,
) -> Series {
    let points = moments.iter().map(|moment| {
        let (at, bytes) = (time.of(moment.now_ps), bytes(moment) as f64 / factor);
        let title = format!("{name}: {bytes:.1} {unit} at {at:.3} {}", time.unit);
        Point::new(at, bytes, title)
    });
    Series { points: points.collect(), name, style: Style::Line }
}

fn windows(run: &Run, time: &Time) -> Option<Panel> {
    let moments = run.history.moments();
    let windows = moments.iter().flat_map(|moment| moment.streams.iter().map(|stream| stream.1));
    let unit = bytes_unit(windows.max()? as f64);
    let named = run.streams.iter().take(STREAMS).enumerate();
    let series = named.map(|(number, (from, to))| {
        let name = format!("stream {number}: {from} to {to}");
        let window = |now: &Moment| now.streams.get(number).map_or(0, |stream| stream.1);
        lengths(name, moments, time, unit, window)
    });
    Some(Panel {
        title: String::from("Congestion window"),
        x: time.axis(),
        y: Axis::linear(format!("window ({})", unit.0)),
        series: series.collect(),
    })
}

fn queues(moments: &[Moment], time: &Time) -> Option<Panel> {
    let most = moments.iter().map(|moment| moment.longest_bytes).max()?;
    let unit = bytes_unit(most as f64);
    let drops = moments.last()?.dropped;
    let name = String::from("longest queue");
    let series = vec![lengths(name, moments, time, unit, |now| now.longest_bytes)];
    Some(Panel {
        title: format!("Longest queue of any port ({drops} packets dropped in all)"),
        x: time.axis(),
        y: Axis::linear(format!("queue ({})", unit.0)),
        series,
    })
}
