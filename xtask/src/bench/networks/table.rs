//! The table of the matrix.

use serde_json::{Value, json};

use super::flows::{Controller, Sample};
use super::{Cell, Row};
use crate::bench::table::Spread;

/// Least fraction of TCP's rate that a congestion control must reach alone, and largest fraction of
/// needlessly repeated packets.
const RATIO: f64 = 0.95;
const FOR_NOTHING: f64 = 0.001;

impl Row {
    fn spread(&self, number: impl Fn(&Sample) -> f64) -> Option<Spread> {
        Spread::of(&self.samples.iter().map(number).collect::<Vec<f64>>())
    }

    fn rate(&self) -> Option<f64> {
        self.spread(|sample| sample.mbps).map(|spread| spread.median)
    }

    /// Median of the flow's rate relative to half of the total of the flow and the TCP flow beside
    /// it.
    fn share(&self) -> Option<f64> {
        let share = |sample: &Sample| {
            let both = sample.mbps + sample.beside_mbps.unwrap_or_default();
            if both > 0.0 { 2.0 * sample.mbps / both } else { 0.0 }
        };
        self.spread(share).filter(|_| self.flow.beside_tcp).map(|spread| spread.median)
    }

    /// Fraction of all sent packets, in all repetitions, that `number` counts.
    fn part(&self, number: impl Fn(&Sample) -> u64) -> f64 {
        let sum = |number: &dyn Fn(&Sample) -> u64| self.samples.iter().map(number).sum::<u64>();
        sum(&number) as f64 / sum(&|sample| sample.packets).max(1) as f64
    }
}

/// TCP's median rate in a cell.
fn tcp_rate(rows: &[Row], cell: Cell) -> Option<f64> {
    let is_tcp = |row: &&Row| {
        row.cell == cell && row.flow.controller == Controller::Tcp && !row.flow.beside_tcp
    };
    rows.iter().find(is_tcp).and_then(Row::rate).filter(|rate| *rate > 0.0)
}

/// The flow's rate as a fraction of TCP's.
fn ratio(rows: &[Row], row: &Row) -> Option<f64> {
    Some(row.rate()? / tcp_rate(rows, row.cell)?).filter(|_| !row.flow.beside_tcp)
}

/// The tables of flows alone and of flows beside TCP, and the summary.
pub fn markdown(rows: &[Row]) -> String {
    let alone: Vec<&Row> = rows.iter().filter(|row| !row.flow.beside_tcp).collect();
    let beside: Vec<&Row> = rows.iter().filter(|row| row.flow.beside_tcp).collect();
    let mut text = String::new();
    if !alone.is_empty() {
        text += "| Mb/s | ms | loss, % | queue, BDP | flow | Mb/s | of TCP | packets | again, % \
                 | for nothing, % | CPU s |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
        alone.iter().for_each(|row| text += &line_alone(rows, row));
    }
    if !beside.is_empty() {
        text += "\nBeside a TCP flow; a share of 1 is half of what both have:\n\n\
                 | Mb/s | ms | loss, % | queue, BDP | flow | Mb/s | TCP beside, Mb/s | share \
                 | again, % | for nothing, % |\n|---|---|---|---|---|---|---|---|---|---|\n";
        beside.iter().for_each(|row| text += &line_beside(row));
    }
    text + &summary(rows)
}

fn head(row: &Row) -> String {
    format!("| {} | {} ", row.cell.columns().join(" | "), row.flow.controller)
}

fn line_alone(rows: &[Row], row: &Row) -> String {
    let Some(rate) = row.spread(|sample| sample.mbps) else { return line_failed(row) };
    let packets = row.spread(|sample| sample.packets as f64).unwrap_or_default().median;
    let cpu = row.spread(|sample| sample.cpu_seconds.unwrap_or_default()).unwrap_or_default();
    format!(
        "{}| {:.1} ({:.1}–{:.1}) | {} | {packets:.0} | {:.2} | {:.3} | {:.2} |\n",
        head(row),
        rate.median,
        rate.min,
        rate.max,
        ratio(rows, row).map_or(String::from("–"), |ratio| format!("{ratio:.2}")),
        100.0 * row.part(|sample| sample.again),
        100.0 * row.part(|sample| sample.for_nothing),
        cpu.median,
    )
}

fn line_beside(row: &Row) -> String {
    let Some(rate) = row.spread(|sample| sample.mbps) else { return line_failed(row) };
    let beside = row.spread(|sample| sample.beside_mbps.unwrap_or_default()).unwrap_or_default();
    format!(
        "{}| {:.1} ({:.1}–{:.1}) | {:.1} ({:.1}–{:.1}) | {:.2} | {:.2} | {:.3} |\n",
        head(row),
        rate.median,
        rate.min,
        rate.max,
        beside.median,
        beside.min,
        beside.max,
        row.share().unwrap_or_default(),
        100.0 * row.part(|sample| sample.again),
        100.0 * row.part(|sample| sample.for_nothing),
    )
}

fn line_failed(row: &Row) -> String {
    let error = row.errors.last().map_or("nothing was measured", String::as_str);
    format!("{}| failed: {} |\n", head(row), error.replace(['|', '\n'], " "))
}

/// For every congestion control, the number of cells in which it reached its target.
fn summary(rows: &[Row]) -> String {
    let mut text = String::new();
    let others = rows.iter().filter(|row| row.flow.controller != Controller::Tcp);
    let mut controllers: Vec<String> = others.map(|row| row.flow.controller.to_string()).collect();
    controllers.sort_unstable();
    controllers.dedup();
    for controller in controllers {
        let own = || rows.iter().filter(|row| row.flow.controller.to_string() == controller);
        let alone: Vec<&Row> = own().filter(|row| !row.flow.beside_tcp).collect();
        let ratios: Vec<f64> = alone.iter().filter_map(|row| ratio(rows, row)).collect();
        let enough = ratios.iter().filter(|ratio| **ratio >= RATIO).count();
        let worst = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let is_clean = |row: &&&Row| {
            !row.samples.is_empty() && row.part(|sample| sample.for_nothing) < FOR_NOTHING
        };
        let clean = alone.iter().filter(is_clean).count();
        let shares: Vec<f64> = own().filter_map(Row::share).collect();
        let fair = shares.iter().filter(|share| (0.5..=2.0).contains(*share)).count();
        if !alone.is_empty() {
            text += &format!(
                "\n{controller}: at least {RATIO} of TCP in {enough} of {} cells (least {worst:.2}), fewer than \
                 0.1 % of packets for nothing in {clean}.",
                alone.len()
            );
        }
        if !shares.is_empty() {
            text += &format!(
                "\n{controller}: half to twice its share beside TCP in {fair} of {}.",
                shares.len()
            );
        }
    }
    text
}

/// All results as JSON.
pub fn json(rows: &[Row]) -> Value {
    let one = |row: &Row| {
        let sample = |sample: &Sample| {
            json!({
                "mbps": sample.mbps,
                "beside_mbps": sample.beside_mbps,
                "packets": sample.packets,
                "again": sample.again,
                "for_nothing": sample.for_nothing,
                "cpu_seconds": sample.cpu_seconds,
            })
        };
        json!({
            "cell": row.cell.json(),
            "flow": row.flow.controller.to_string(),
            "beside_tcp": row.flow.beside_tcp,
            "ratio_to_tcp": ratio(rows, row),
            "share": row.share(),
            "samples": row.samples.iter().map(sample).collect::<Vec<Value>>(),
            "errors": row.errors,
        })
    };
    rows.iter().map(one).collect()
}
