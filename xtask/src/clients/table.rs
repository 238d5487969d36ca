//! The results as Markdown and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::judge::{Score, Verdict};

/// Result of a case over a provider.
pub struct Row {
    pub client: &'static str,
    pub provider: &'static str,
    pub name: String,
    pub verdict: Verdict,
    /// Number of runs; all but the last failed.
    pub runs: usize,
    pub seconds: f64,
}

/// A set of programs that could not run.
pub struct Absent {
    pub client: &'static str,
    pub reason: String,
    pub install: String,
}

/// Total of a client over a provider: its score, and how many cases passed only in a repeated run.
fn sum(rows: &[Row], client: &str, provider: &str) -> Option<(Score, u32)> {
    let mut found = None;
    for row in rows.iter().filter(|row| row.client == client && row.provider == provider) {
        let (score, second): &mut (Score, u32) = found.get_or_insert_default();
        score.add(row.verdict.score);
        *second += u32::from(row.runs > 1 && row.verdict.word() == "pass");
    }
    found
}

/// Every name once, in the order of first appearance.
fn distinct(names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// The summary, followed by the cases that did not pass.
pub fn markdown(rows: &[Row], absent: &[Absent]) -> String {
    let clients = distinct(rows.iter().map(|row| row.client));
    let providers = distinct(rows.iter().map(|row| row.provider));
    let mut text = format!("| client | {} |\n", providers.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(providers.len()));
    let cell = |client: &str, provider: &str| match sum(rows, client, provider) {
        None => "–".to_owned(),
        Some((Score { passed, refused, failed }, second)) => {
            let mark = if second > 0 {
                format!(" ({second} not on the first run)")
            } else {
                String::new()
            };
            format!("{passed}{mark} / {refused} / {failed}")
        }
    };
    for client in &clients {
        let cells: Vec<String> = providers.iter().map(|provider| cell(client, provider)).collect();
        let _ = writeln!(text, "| {client} | {} |", cells.join(" | "));
    }
    for gone in absent {
        let _ = writeln!(text, "| {} | absent: {} ({}) |", gone.client, gone.reason, gone.install);
    }
    for (title, word) in [("failed", "fail"), ("refused", "refused")] {
        text.push_str(&list(rows, title, word));
    }
    text.push_str(&refusals(rows));
    let again: Vec<&Row> =
        rows.iter().filter(|row| row.runs > 1 && row.verdict.word() != "fail").collect();
    if !again.is_empty() {
        text.push_str("\npassed or refused, but not on the first run:\n\n");
        for row in again {
            let _ = writeln!(
                text,
                "* {}: `{}` ({}, run {})",
                row.client, row.name, row.provider, row.runs
            );
        }
    }
    text
}

/// The cases with this result: a line for each case and reason, with its providers.
fn list(rows: &[Row], title: &str, word: &str) -> String {
    type Line<'a> = (&'a str, &'a str, &'a str, Vec<&'a str>);
    let mut lines: Vec<Line<'_>> = Vec::new();
    // Reasons of suites are in a separate table.
    let is_listed = |row: &&Row| row.verdict.word() == word && !row.verdict.reason.is_empty();
    for row in rows.iter().filter(is_listed) {
        let reason = row.verdict.reason.as_str();
        let same =
            |line: &&mut Line<'_>| line.0 == row.client && line.1 == row.name && (line.2 == reason);
        match lines.iter_mut().find(same) {
            Some(line) => line.3.push(row.provider),
            None => lines.push((row.client, &row.name, reason, vec![row.provider])),
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("\n| {title} | over | reason |\n|---|---|---|\n");
    for (client, name, reason, providers) in lines {
        let _ = writeln!(text, "| {client}: `{name}` | {} | {reason} |", providers.join(", "));
    }
    text
}

/// Number of a suite's reasons that are listed; the others are summed.
const REFUSALS_MAX: usize = 12;

/// Reasons for which suites refused some of their tests: a line for each suite and reason, with the
/// number for each provider, the most frequent first.
fn refusals(rows: &[Row]) -> String {
    let providers = distinct(rows.iter().map(|row| row.provider));
    let mut text = String::new();
    for client in distinct(rows.iter().map(|row| row.client)) {
        let mut lines: Vec<(&str, Vec<u32>)> = Vec::new();
        for row in rows.iter().filter(|row| row.client == client) {
            let column = providers.iter().position(|provider| *provider == row.provider);
            for (reason, count) in &row.verdict.refusals {
                let at = lines.iter().position(|line| line.0 == reason).unwrap_or_else(|| {
                    lines.push((reason, vec![0; providers.len()]));
                    lines.len() - 1
                });
                lines[at].1[column.unwrap_or(0)] += count;
            }
        }
        lines.sort_by_key(|line| std::cmp::Reverse(line.1.iter().sum::<u32>()));
        if lines.len() > REFUSALS_MAX {
            let mut others = vec![0; providers.len()];
            for line in lines.split_off(REFUSALS_MAX - 1) {
                others.iter_mut().zip(line.1).for_each(|(sum, count)| *sum += count);
            }
            lines.push(("other reasons", others));
        }
        for (reason, counts) in lines {
            let cells: Vec<String> = counts.iter().map(u32::to_string).collect();
            let _ = writeln!(text, "| {client} | {} | {reason} |", cells.join(" | "));
        }
    }
    if text.is_empty() {
        return text;
    }
    let (titles, rule) = (providers.join(" | "), "---|".repeat(providers.len()));
    format!("\n| refused by tests of | {titles} | reason |\n|---|{rule}---|\n{text}")
}

/// All results as JSON.
pub fn to_json(rows: &[Row], absent: &[Absent]) -> Value {
    let cases: Vec<Value> = rows
        .iter()
        .map(|row| {
            let pairs = row.verdict.refusals.iter();
            let refusals: Vec<Value> =
                pairs.map(|(reason, count)| json!({"reason": reason, "tests": count})).collect();
            let Score { passed, refused, failed } = row.verdict.score;
            json!({
                "client": row.client, "provider": row.provider, "case": row.name,
                "result": row.verdict.word(), "reason": row.verdict.reason,
                "passed": passed, "refused": refused, "failed": failed,
                "refusals": refusals,
                "runs": row.runs, "seconds": row.seconds,
            })
        })
        .collect();
    let absent: Vec<Value> = absent
        .iter()
        .map(|gone| json!({"client": gone.client, "reason": gone.reason, "install": gone.install}))
        .collect();
    json!({ "cases": cases, "absent": absent })
}

#[cfg(test)]
mod tests;
