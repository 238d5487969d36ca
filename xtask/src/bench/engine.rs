//! Cost of the protocol per packet, as measured by the example program of `fairway-ub`.

use std::io;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Budget of the receiver in nanoseconds per packet (docs/performance.md).
const BUDGET_NS: f64 = 100.0;

/// One result of the program.
pub struct Row {
    what: String,
    sender_ns: f64,
    receiver_ns: f64,
    codec_ns: f64,
}

/// Runs the program, which itself repeats its measurements and takes medians.
pub fn packet_cost() -> io::Result<Vec<Row>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--release", "--package", "fairway-ub"]);
    command.args(["--example", "packet_cost"]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{command:?} ended with {}", output.status)));
    }
    let rows: Vec<Row> = String::from_utf8_lossy(&output.stdout).lines().filter_map(row).collect();
    if rows.is_empty() { Err(io::Error::other("the example printed no figures")) } else { Ok(rows) }
}

/// Parses a line that ends in three numbers.
fn row(line: &str) -> Option<Row> {
    let (rest, codec) = line.trim_end().rsplit_once(' ')?;
    let (rest, receiver) = rest.trim_end().rsplit_once(' ')?;
    let (what, sender) = rest.trim_end().rsplit_once(' ')?;
    Some(Row {
        what: what.trim().to_owned(),
        sender_ns: sender.parse().ok()?,
        receiver_ns: receiver.parse().ok()?,
        codec_ns: codec.parse().ok()?,
    })
}

/// The results as a table.
pub fn markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "| engine, ns per data packet | sender | receiver | budget of the receiver | | codec |\n\
         |---|---|---|---|---|---|\n",
    );
    for row in rows {
        let met = if row.receiver_ns <= BUDGET_NS { "met" } else { "missed" };
        text += &format!(
            "| {} | {:.1} | {:.1} | ≤ {BUDGET_NS} | {met} | {:.1} |\n",
            row.what, row.sender_ns, row.receiver_ns, row.codec_ns
        );
    }
    text
}

/// The results as JSON.
pub fn json(rows: &[Row]) -> Value {
    let row = |row: &Row| {
        json!({
            "what": row.what,
            "sender_ns": row.sender_ns,
            "receiver_ns": row.receiver_ns,
            "codec_ns": row.codec_ns,
        })
    };
    rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_and_headings_are_not() {
        let found =
            row("WRITE 1 MiB, 16 paths            41.2       60.1       30.5").expect("a row");
        assert_eq!((found.what.as_str(), found.sender_ns), ("WRITE 1 MiB, 16 paths", 41.2));
        assert!(row("engine, ns per data packet      sender   receiver  codec").is_none());
        assert!(markdown(&[found]).contains("60.1"));
    }
}
