//! The rows of a page: a line for each run, with a dash for what a run has not.

use super::Run;
use crate::plot::Table;
use crate::sim::results::shown;

/// Headings, and where the JSON object of a run has the values.
const COLUMNS: [(&str, &str); 17] = [
    ("completion (us)", "/completion_us"),
    ("flows", "/flows"),
    ("complete", "/flows_completed"),
    ("failed", "/failed"),
    ("median (us)", "/fct_us/p50"),
    ("p99 (us)", "/fct_us/p99"),
    ("max (us)", "/fct_us/max"),
    ("goodput (Gb/s)", "/goodput_gbps"),
    ("call (us)", "/group/call_us"),
    ("bus bandwidth (GB/s)", "/group/bus_gbytes_per_second"),
    ("streams (Gb/s)", "/streams/gbps"),
    ("Jain", "/streams/jain"),
    ("drops", "/drops"),
    ("trims", "/trims"),
    ("marks", "/ecn_marks"),
    ("resent", "/resent"),
    ("time-outs", "/timeouts"),
];

/// A row for each run, with the columns that any of them has.
pub(super) fn of(runs: &[Run]) -> Table {
    let has = |path: &str| runs.iter().any(|run| run.number(path).is_some());
    let columns: Vec<_> = COLUMNS.into_iter().filter(|(_, path)| has(path)).collect();
    let swept = runs.first().map_or(&[][..], |run| &run.combination);
    let names = swept.iter().map(|(name, _)| (*name).to_owned());
    let head = names.chain([String::from("seed")]);
    let head = head.chain(columns.iter().map(|(name, _)| (*name).to_owned())).collect();
    let row = |run: &Run| {
        let values = run.combination.iter().map(|(_, value)| value.clone());
        let values = values.chain([run.seed.to_string()]);
        let numbers =
            columns.iter().map(|(_, path)| run.value.pointer(path).map_or(String::new(), shown));
        values.chain(numbers).collect()
    };
    Table { head, rows: runs.iter().map(row).collect() }
}
