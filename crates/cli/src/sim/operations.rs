//! Results of a trace's operations.

use std::fmt::Write;

use fairway_sim::Report;
use serde_json::{Value, json};

use super::results::us;

/// Largest number of lines in a summary, and of characters of a name.
const LINES: usize = 20;
const NAME: usize = 40;

/// Each operation, in the trace's order; missing times are null.
pub(super) fn value(report: &Report) -> Value {
    let each = report.operations.iter().map(|operation| {
        json!({
            "name": operation.name,
            "ranks": operation.ranks,
            "size": operation.bytes,
            "started_us": operation.started_ps.map(us),
            "completed_us": operation.completed_ps.map(us),
        })
    });
    each.collect()
}

/// The operations as text.
pub(super) fn text(operations: &Value) -> String {
    let all = operations.as_array().map_or(&[][..], Vec::as_slice);
    let mut text = String::new();
    for operation in all.iter().take(LINES) {
        let time = |name: &str| operation[name].as_f64();
        let (started, completed) = (time("started_us"), time("completed_us"));
        // Names of other tools' traces may be whole declarations.
        let name: String = operation["name"].as_str().unwrap_or("").chars().take(NAME).collect();
        let (ranks, size) = (&operation["ranks"], &operation["size"]);
        let when = match (started, completed) {
            (Some(from), Some(to)) => format!("{from:>12.2} to {to:>12.2} us"),
            (Some(from), None) => format!("{from:>12.2} us, not complete"),
            _ => String::from("not begun"),
        };
        // A string takes whatever is written to it.
        let _ = writeln!(text, "  {name:<16} {ranks:>6} ranks {size:>12} B  {when}");
    }
    if all.len() > LINES {
        let more = all.len() - LINES;
        let _ = writeln!(text, "  and {more} more: --json has all");
    }
    text
}
