//! The tables of a place, and the same as JSON.

use serde_json::{Value, json};

use super::goals::Judged;
use super::measure::Sample;
use super::{Results, Row};
use crate::bench::table::Spread;

/// From this number of samples on, their range holds the median with 95 % confidence: the median is
/// outside only if all samples are on one side of it, which has the probability 2 * 0.5^6 = 0.03.
pub const CONFIDENT: usize = 6;

/// The tables of a place.
pub fn markdown(results: &Results) -> String {
    let mut text = format!("### Peers: {}\n\n{}\n", results.place, heading(results));
    text += "\n| goal | Fairway: median (min–max) | beside | median (min–max) | ratio | goal | |\n\
             |---|---|---|---|---|---|---|\n";
    for judged in results.judged() {
        text += &goal_line(&judged);
    }
    text += "\n| measurement | unit | median (min–max) | CPU seconds: median (min–max) | per |\n\
             |---|---|---|---|---|\n";
    for row in &results.rows {
        text += &row_line(row);
    }
    text += "\n";
    if results.rows.iter().any(|row| results.is_ping_pong(row)) {
        text += "libfabric's rates are those of fi_pingpong, which has one message in \
                 flight; with --fabtests DIR they are those of fi_rma_bw\n";
    }
    for (what, reason) in &results.absent {
        text += &format!("\nnot measured: {what}: because {reason}\n");
    }
    for row in results.rows.iter().filter(|row| !row.samples.is_empty()) {
        if let Some(reason) = row.failures.last() {
            let (failed, tried) = (row.failures.len(), row.failures.len() + row.samples.len());
            text += &format!("failed {failed} of {tried} times: {}: {reason}\n", row.subject);
        }
    }
    text
}

fn heading(results: &Results) -> String {
    let rounds = results.rounds;
    let confidence = if rounds >= CONFIDENT {
        "the range of all samples holds the median with 95 % confidence"
    } else {
        "with fewer than six samples, the range of all samples need not hold the median"
    };
    let spread = match results.until_spread {
        None => String::new(),
        Some((percent, true)) => {
            format!(" The middle half of each row is within ± {percent} % of its median.")
        }
        Some((percent, false)) => format!(
            " The rounds ended before the middle half of each row was within ± {percent} % of \
             its median."
        ),
    };
    let counted = if rounds == 1 { "round" } else { "rounds" };
    format!(
        "{rounds} {counted}, in which all measurements take turns; {confidence}.{spread} CPU time is \
         that of all processes of both sides, with their set-up, warm-up and checks of data, \
         divided by the work of the measured time."
    )
}

fn goal_line(judged: &Judged) -> String {
    let peer = judged.peer.as_ref();
    let ratio = judged.figure.filter(|_| judged.is_ratio);
    format!(
        "| {} | {} | {} | {} | {} | {} | {} |\n",
        judged.what,
        judged.ours.map_or_else(String::new, show),
        peer.map_or("", |(name, _)| name),
        peer.map_or_else(String::new, |(_, spread)| show(*spread)),
        ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        judged.budget.show(),
        judged.verdict,
    )
}

fn row_line(row: &Row) -> String {
    let (unit, per) = row.subject.unit().names();
    let value = match (Spread::of(&row.values()), row.failures.last()) {
        (Some(spread), _) => show(spread),
        (None, Some(reason)) => format!("failed: {reason}"),
        (None, None) => String::new(),
    };
    let cpu: Vec<f64> = row.samples.iter().filter_map(|sample| sample.cpu).collect();
    let cpu = Spread::of(&cpu);
    let per = per.trim_start_matches("CPU s per ");
    format!(
        "| {} | {unit} | {value} | {} | {} |\n",
        row.subject,
        cpu.map_or_else(String::new, show),
        cpu.map_or("", |_| per),
    )
}

/// A spread, with three digits after the point where the median is below 1.
fn show(spread: Spread) -> String {
    let Spread { median, min, max } = spread;
    if median < 1.0 {
        return format!("{median:.3} ({min:.3}–{max:.3})");
    }
    spread.show()
}

/// The results of a place.
pub fn to_json(results: &Results) -> Value {
    let sample = |sample: &Sample| {
        json!({
            "value": sample.value, "cpu_seconds": sample.cpu, "average_us": sample.average_us,
            "p999_us": sample.tail_us,
        })
    };
    let rows: Vec<Value> = results
        .rows
        .iter()
        .map(|row| {
            let (unit, per) = row.subject.unit().names();
            let spread = Spread::of(&row.values());
            json!({
                "what": row.subject.to_string(),
                "unit": unit,
                "cpu_unit": per,
                "median": spread.map(|spread| spread.median),
                "min": spread.map(|spread| spread.min),
                "max": spread.map(|spread| spread.max),
                "samples": row.samples.iter().map(sample).collect::<Vec<_>>(),
                "failures": row.failures,
                "is_ping_pong": results.is_ping_pong(row),
            })
        })
        .collect();
    let spread =
        |spread: Spread| json!({ "median": spread.median, "min": spread.min, "max": spread.max });
    let goals: Vec<Value> = results
        .judged()
        .iter()
        .map(|judged| {
            json!({
                "what": judged.what,
                "ours": judged.ours.map(spread),
                "peer": judged.peer.as_ref().map(|(name, _)| name),
                "peer_figures": judged.peer.as_ref().map(|(_, figures)| spread(*figures)),
                "figure": judged.figure,
                "is_ratio": judged.is_ratio,
                "goal": judged.budget.show(),
                "verdict": judged.verdict,
            })
        })
        .collect();
    let absent: Vec<Value> = results
        .absent
        .iter()
        .map(|(what, reason)| json!({ "what": what, "because": reason }))
        .collect();
    json!({
        "place": results.place, "rounds": results.rounds, "goals": goals, "measurements": rows,
        "not_measured": absent,
    })
}
