//! Medians, spreads and ratios.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::measure::Measurement;

/// All samples of each measurement.
pub type Samples = BTreeMap<Measurement, Vec<f64>>;

/// Requirement on the ratio (or, without a peer, on the figure itself).
#[derive(Clone, Copy, Debug)]
pub enum Budget {
    AtLeast(f64),
    AtMost(f64),
}

/// A line of the table.
pub struct Line {
    pub what: &'static str,
    pub ours: Measurement,
    pub peer: Option<(&'static str, Measurement)>,
    pub budget: Budget,
}

/// Median, minimum and maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// The spread of some samples; `None` if there are none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        };
        Some(Spread { median, min, max })
    }

    /// The spread for a table.
    pub fn show(self) -> String {
        format!("{:.2} ({:.2}–{:.2})", self.median, self.min, self.max)
    }
}

impl Budget {
    /// Whether the value is within the budget.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Budget::AtLeast(least) => value >= least,
            Budget::AtMost(most) => value <= most,
        }
    }

    /// The budget for a table.
    pub fn show(self) -> String {
        match self {
            Budget::AtLeast(least) => format!("≥ {least}"),
            Budget::AtMost(most) => format!("≤ {most}"),
        }
    }
}

/// The figures of a line: Fairway's, the peer's, and the number to which the budget applies.
fn figures(line: &Line, samples: &Samples) -> Option<(Spread, Option<Spread>, f64)> {
    let spread = |measurement| samples.get(&measurement).and_then(|list| Spread::of(list));
    let ours = spread(line.ours)?;
    match line.peer {
        None => Some((ours, None, ours.median)),
        Some((_, measurement)) => {
            let peer = spread(measurement)?;
            Some((ours, Some(peer), ours.median / peer.median))
        }
    }
}

/// The table of one place.
pub fn markdown(place: &str, lines: &[Line], samples: &Samples) -> String {
    let mut text = format!(
        "| {place} | Fairway: median (min–max) | beside | median (min–max) | ratio | budget | |\n\
         |---|---|---|---|---|---|---|\n"
    );
    for line in lines {
        let Some((ours, peer, value)) = figures(line, samples) else { continue };
        text += &format!(
            "| {} | {} | {} | {} | {} | {} | {} |\n",
            line.what,
            ours.show(),
            line.peer.map_or("", |(name, _)| name),
            peer.map_or_else(String::new, Spread::show),
            if peer.is_some() { format!("{value:.2}") } else { String::new() },
            line.budget.show(),
            if line.budget.is_met(value) { "met" } else { "missed" },
        );
    }
    text
}

/// The results as JSON, with every sample.
pub fn json(lines: &[Line], samples: &Samples) -> Value {
    let list = |measurement| samples.get(&measurement).cloned().unwrap_or_default();
    let rows = lines.iter().filter_map(|line| {
        let (ours, peer, value) = figures(line, samples)?;
        Some(json!({
            "what": line.what,
            "fairway": { "median": ours.median, "min": ours.min, "max": ours.max,
                         "samples": list(line.ours) },
            "peer": line.peer.zip(peer).map(|((name, measurement), spread)| json!({
                "what": name, "median": spread.median, "min": spread.min, "max": spread.max,
                "samples": list(measurement),
            })),
            "ratio": peer.map(|_| value),
            "budget": line.budget.show(),
            "met": line.budget.is_met(value),
        }))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_and_budgets() {
        let spread = Spread::of(&[3.0, 1.0, 2.0]).expect("samples");
        assert_eq!((spread.median, spread.min, spread.max), (2.0, 1.0, 3.0));
        assert_eq!(Spread::of(&[4.0, 1.0]).map(|spread| spread.median), Some(2.5));
        assert_eq!(Spread::of(&[]), None);
        assert!(Budget::AtLeast(0.8).is_met(0.8) && !Budget::AtMost(1.15).is_met(1.2));
    }

    #[test]
    fn a_table_has_a_row_for_what_was_measured() {
        let line = |ours, peer| Line { what: "it", ours, peer, budget: Budget::AtLeast(0.8) };
        let lines = [
            line(Measurement::Write, Some(("other", Measurement::UdpBlast))),
            line(Measurement::SmallWrites, None),
            line(Measurement::ReadLatency, None),
        ];
        let samples = Samples::from([
            (Measurement::Write, vec![9.0, 10.0, 11.0]),
            (Measurement::UdpBlast, vec![20.0]),
            (Measurement::SmallWrites, vec![1.0]),
        ]);
        let text = markdown("here", &lines, &samples);
        assert!(text.contains(
            "| 10.00 (9.00–11.00) | other | 20.00 (20.00–20.00) | 0.50 | ≥ 0.8 | missed |"
        ));
        assert_eq!(text.lines().count(), 4);
        assert_eq!(json(&lines, &samples)[0]["ratio"], 0.5);
        assert_eq!(json(&lines, &samples)[1]["met"], true);
    }
}
