//! Distributions of times.

use super::Run;
use crate::plot::{Axis, Panel, Point, Series, Style, time_unit};

/// Largest number of seeds with a line each; more are drawn as one.
const SEEDS: usize = 7;

/// The distribution of a run's flows or calls, if it has any. Operations of a trace are bars over
/// time instead.
pub(super) fn of_run(run: &Run) -> Option<Panel> {
    if !run.operations.is_empty() {
        return None;
    }
    let runs = std::slice::from_ref(run);
    by_seed(runs)
}

/// The same for several runs of one configuration, each with a line.
pub(super) fn by_seed(runs: &[Run]) -> Option<Panel> {
    let (is_calls, first) = (!runs[0].calls.is_empty(), &runs[0]);
    let times = |run: &Run| if is_calls { run.calls.clone() } else { run.flows.clone() };
    let all: Vec<f64> = runs.iter().flat_map(times).collect();
    let most = all.iter().copied().reduce(f64::max)?;
    let (unit, factor) = time_unit(most);
    let what = if is_calls { "time of a call of a rank" } else { "flow completion time" };
    let mut series = Vec::new();
    if runs.len() > SEEDS {
        let name = format!("{what}, all seeds");
        let share = runs.iter().map(|run| run.completed).sum::<f64>() / runs.len() as f64;
        series.push(curve(name, Style::Line, super::thinned(all), (unit, factor), share));
    } else {
        for run in runs {
            let name = match runs {
                [_] => what.to_owned(),
                _ => format!("seed {}", run.seed),
            };
            series.push(curve(name, Style::Line, times(run), (unit, factor), run.completed));
        }
    }
    if is_calls {
        if let Some(ideal) = first.ideal_call_us() {
            let name = String::from("bus bandwidth = link rate");
            series.push(curve(name, Style::Ideal, vec![ideal], (unit, factor), 1.0));
        }
    } else {
        let name = String::from("flow alone at link rate");
        series.push(curve(name, Style::Ideal, first.alone.clone(), (unit, factor), 1.0));
        // Flows of one length that share nothing have the same bound.
        let differs = |bound: &f64| first.alone.last().is_none_or(|last| bound > last);
        if let Some(bound) = first.bound_us.filter(differs) {
            let name = String::from("busiest host at link rate");
            series.push(curve(name, Style::Bound, vec![bound], (unit, factor), 1.0));
        }
    }
    let kind = if is_calls { "calls" } else { "flows" };
    let label = format!("share of {kind} that took no longer");
    Some(Panel {
        title: format!("Distribution of the {what}"),
        x: Axis::linear(format!("{what} ({unit})")),
        y: Axis {
            ticks: [0.0, 0.25, 0.5, 0.75, 0.9, 1.0]
                .map(|y| (y, format!("{} %", y * 100.0)))
                .to_vec(),
            ..Axis::linear(label)
        },
        series,
    })
}

/// The steps of a distribution of ascending values, which are the least `share` of all values; of a
/// single one, a vertical line.
fn curve(
    name: String,
    style: Style,
    values: Vec<f64>,
    (unit, factor): (&str, f64),
    share: f64,
) -> Series {
    let count = values.len() as f64;
    let point = |at: usize, part: f64| {
        let (time, part) = (values[at] / factor, part * share);
        let title = format!("{name}: {:.1} % within {time:.3} {unit}", part * 100.0);
        Point::new(time, part, title)
    };
    let start = (!values.is_empty()).then(|| point(0, 0.0));
    let points = (0..values.len()).map(|at| point(at, (at + 1) as f64 / count));
    let points = start.into_iter().chain(points).collect();
    Series { name, style, points }
}
