//! Scales of axes: where values are, and which are marked.

use super::{Axis, Panel, Style};

/// Largest number of marks of an axis.
const TICKS: f64 = 8.0;

/// Values between the ends of an axis, mapped to positions.
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    /// Positions of the ends.
    from: f64,
    to: f64,
    /// Values with marks, and their names.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Scale {
    /// A scale for all `values`, which are finite; others are passed over.
    fn new(axis: &Axis, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Scale {
        let values = values.filter(|value| value.is_finite() && (!axis.is_log || *value > 0.0));
        let ends = values.fold(None, |ends: Option<(f64, f64)>, value| {
            Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        });
        let none = if axis.is_log { (1.0, 10.0) } else { (0.0, 1.0) };
        let (mut low, mut high) = ends.unwrap_or(none);
        if axis.is_log {
            (low, high) = if low < high { (low, high) } else { (low / 2.0, high * 2.0) };
            let margin = (high / low).powf(0.03);
            (low, high) = (low / margin, high * margin);
        } else {
            if axis.from_zero {
                (low, high) = (low.min(0.0), high.max(0.0));
            }
            let margin = if low < high { (high - low) * 0.03 } else { low.abs().max(1.0) * 0.5 };
            high += margin;
            low -= if low == 0.0 { 0.0 } else { margin };
        }
        let mut scale = Scale { low, high, is_log: axis.is_log, from, to, ticks: Vec::new() };
        scale.ticks = if axis.ticks.is_empty() { scale.round_ticks() } else { axis.ticks.clone() };
        scale
    }

    /// The position of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(self.low).ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    fn round_ticks(&self) -> Vec<(f64, String)> {
        if self.is_log {
            return self.log_ticks();
        }
        let step = round_step((self.high - self.low) / TICKS);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        let value = |number: i64| number as f64 * step;
        (first..=last).map(|number| (value(number), label(value(number), step))).collect()
    }

    fn log_ticks(&self) -> Vec<(f64, String)> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        // With more decades than fit, only some are marked; with few, parts of them are, too.
        let every = ((last - first) as usize).div_ceil(TICKS as usize).max(1);
        let parts: &[f64] = if last - first <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let decades = (first..=last).step_by(every);
        let values =
            decades.flat_map(|power| parts.iter().map(move |part| part * 10f64.powi(power)));
        let values = values.filter(|value| (self.low..=self.high).contains(value));
        values.map(|value| (value, label(value, value))).collect()
    }
}

/// The scales of both axes of a panel; `x` and `y` are the positions of their ends.
pub(super) fn scales(panel: &Panel, x: (f64, f64), y: (f64, f64)) -> (Scale, Scale) {
    let points = || {
        panel.series.iter().flat_map(|series| {
            let is_bar = series.style == Style::Bars;
            series.points.iter().map(move |point| (is_bar, point))
        })
    };
    let xs = points().flat_map(
        |(is_bar, point)| {
            if is_bar { [point.low, point.high] } else { [point.x; 2] }
        },
    );
    let ys = points().flat_map(|(is_bar, point)| {
        // A bar reaches half a row up and down.
        if is_bar { [point.y - 0.5, point.y + 0.5] } else { [point.low, point.high] }
    });
    let marked = |axis: &Axis| axis.ticks.iter().map(|tick| tick.0).collect::<Vec<_>>();
    // Points of panels without bars also have a place of their own.
    let own = points().filter(|(is_bar, _)| !is_bar).map(|(_, point)| point.y);
    (
        Scale::new(&panel.x, xs.chain(marked(&panel.x)), x.0, x.1),
        Scale::new(&panel.y, ys.chain(own).chain(marked(&panel.y)), y.0, y.1),
    )
}

/// The smallest of 1, 2 and 5 times a power of 10 that is not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let parts = [1.0, 2.0, 5.0].into_iter().map(|part| part * power);
    parts.into_iter().find(|step| *step >= least * 0.999_999).unwrap_or(10.0 * power)
}

/// A value with as many decimal places as values `step` apart need.
fn label(value: f64, step: f64) -> String {
    let places = (-step.log10()).ceil().clamp(0.0, 9.0) as usize;
    if value.abs() >= 1e7 || (value != 0.0 && value.abs() < 1e-6) {
        return format!("{value:e}");
    }
    format!("{value:.places$}")
}

/// The unit for times up to `most_us`, and the microseconds that it has.
pub(crate) fn time_unit(most_us: f64) -> (&'static str, f64) {
    match most_us {
        most if most >= 1e7 => ("s", 1e6),
        most if most >= 1e4 => ("ms", 1e3),
        _ => ("us", 1.0),
    }
}

/// The unit for lengths up to `most` bytes, and the bytes that it has.
pub(crate) fn bytes_unit(most: f64) -> (&'static str, f64) {
    match most {
        most if most >= 1e7 => ("MB", 1e6),
        most if most >= 1e4 => ("KB", 1e3),
        _ => ("bytes", 1.0),
    }
}

#[cfg(test)]
pub(super) fn scale_for_test(axis: &Axis, values: &[f64], from: f64, to: f64) -> Scale {
    Scale::new(axis, values.iter().copied(), from, to)
}
