//! Result of a case: passed, refused with a reason, or failed.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use super::case::Proof;

mod suite;

pub use suite::rank_texts;
use suite::suite;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// By itself, with this status.
    Status(ExitStatus),
    /// It was killed at its time-out.
    Late,
    /// It was stopped, because the other process had failed, or because it serves for ever.
    Stopped,
}

impl Finish {
    fn status(self) -> Option<ExitStatus> {
        if let Finish::Status(status) = self { Some(status) } else { None }
    }

    /// True if the process ended by itself, with status 0.
    pub fn is_well(self) -> bool {
        self.status().is_some_and(|status| status.success())
    }
}

/// A process of a case, after its end.
#[derive(Clone, Debug)]
pub struct Ended {
    pub finish: Finish,
    /// Output on both streams.
    pub text: String,
}

impl Ended {
    /// The signal that ended the process, unless this program sent it.
    fn signal(&self) -> Option<i32> {
        self.finish.status()?.signal()
    }
}

/// Numbers of results of a case, or of the tests of a suite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    pub passed: u32,
    pub refused: u32,
    pub failed: u32,
}

impl Score {
    pub fn add(&mut self, other: Score) {
        self.passed += other.passed;
        self.refused += other.refused;
        self.failed += other.failed;
    }
}

/// A result with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub score: Score,
    /// Reason for the refusal or failure; empty if all passed.
    pub reason: String,
    /// For a suite: the reasons for refused tests, and the number for each.
    pub refusals: Vec<(String, u32)>,
}

impl Verdict {
    fn passed() -> Verdict {
        Verdict::single(Score { passed: 1, ..Score::default() }, String::new())
    }

    fn refused(reason: String) -> Verdict {
        Verdict::single(Score { refused: 1, ..Score::default() }, reason)
    }

    /// A failure that does not depend on the output.
    pub fn failed(reason: String) -> Verdict {
        Verdict::single(Score { failed: 1, ..Score::default() }, reason)
    }

    fn single(score: Score, reason: String) -> Verdict {
        Verdict { score, reason, refusals: Vec::new() }
    }

    /// True if nothing failed.
    pub fn is_good(&self) -> bool {
        self.score.failed == 0
    }

    /// The result as a word.
    pub fn word(&self) -> &'static str {
        match self.score {
            Score { failed: 1.., .. } => "fail",
            Score { passed: 0, refused: 1.., .. } => "refused",
            _ => "pass",
        }
    }
}

/// Words by which programs and the library report that something is not offered.
const REFUSALS: &[&str] = &[
    "not supported",
    "unsupported",
    "not available",
    "doesn't support",
    "does not support",
    "don't support",
    "not compatible",
    "unrecognized option",
    "invalid option",
    "no supported transports",
    "function not implemented",
    "protocol not available",
    "not implemented",
    "is not valid for",
    "only supported",
    "supported only",
];

/// Words of lines that report an error.
const COMPLAINTS: &[&str] = &[
    "error",
    "fail",
    "couldn't",
    "could not",
    "unable",
    "abort",
    "mismatch",
    "invalid",
    "assert",
    "illegal",
    "wrong",
    "cannot",
    "can't",
    "timed out",
    "timeout",
    "refused",
    "exceeded",
    "overflow",
];

/// Largest number of bytes of a reason in a table.
const REASON_BYTES_MAX: usize = 140;

/// Judges a case by the output of its processes and how they ended; the main process is the last. A
/// refusal is recognised by the usual words and by those of this case.
pub fn judge(proof: &Proof, own_refusal: Option<&str>, halves: &[Ended], seconds: u64) -> Verdict {
    let Some(main) = halves.last() else { return Verdict::failed("nothing ran".to_owned()) };
    if let Some(verdict) = suite(proof, main) {
        return verdict;
    }
    let hung = halves.iter().any(|half| half.finish == Finish::Late);
    // A server that serves for ever is stopped; its client's success shows that it was working.
    let stopped = |half: &Ended| half.finish == Finish::Stopped && main.finish.is_well();
    let well = halves.iter().all(|half| half.finish.is_well() || stopped(half));
    if well && let Some(corrupt) = halves.iter().find_map(|half| corruption(&half.text)) {
        return Verdict::failed(shorten(corrupt));
    }
    let proven = is_proven(proof, &main.text);
    if well && proven {
        return Verdict::passed();
    }
    if let Some(reason) = halves.iter().rev().find_map(|half| refusal(half, own_refusal)) {
        return Verdict::refused(shorten(reason));
    }
    let killed = halves.iter().rev().find(|half| half.signal().is_some());
    let signal = killed.and_then(Ended::signal);
    // If a process crashed, its output comes first, otherwise that of the main process.
    let mut order = killed.into_iter().chain(halves.iter().rev());
    let said = order.find_map(|half| complaint(&half.text));
    let said = said.or_else(|| last_line(&main.text)).unwrap_or("it printed nothing");
    let how = match (signal, hung) {
        (Some(number), _) => format!("ended by signal {number}: "),
        (None, true) => format!("no end within {seconds} s: "),
        (None, false) if well => "status 0, but no result: ".to_owned(),
        (None, false) => String::new(),
    };
    Verdict::failed(shorten(&format!("{how}{said}")))
}

/// A line by which a program reports damaged data, although it ends with success.
fn corruption(text: &str) -> Option<&str> {
    let damaged = |line: &str| {
        let line = line.to_lowercase();
        ["data mismatch", "invalid data", "data validation failed", "verify failed", "corrupt"]
            .iter()
            .any(|word| line.contains(word))
    };
    text.lines().find(|line| damaged(line))
}

/// The line that reports a refusal, of a process that ended by itself with an error status.
fn refusal<'a>(half: &'a Ended, own: Option<&str>) -> Option<&'a str> {
    let status = half.finish.status()?;
    if status.success() || half.signal().is_some() {
        return None;
    }
    let own = own.and_then(|words| find_line(&half.text, &[words]));
    own.or_else(|| find_line(&half.text, REFUSALS))
}

fn complaint(text: &str) -> Option<&str> {
    find_line(text, COMPLAINTS)
}

/// The first line with one of these words, except warnings and headings.
fn find_line<'a>(text: &'a str, words: &[&str]) -> Option<&'a str> {
    text.lines().map(str::trim).find(|line| {
        let lower = line.to_lowercase();
        let noise = lower.contains("warning") || lower.contains(" warn ") || lower.starts_with('#');
        !noise && words.iter().any(|word| lower.contains(word))
    })
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}

/// The text on one line, truncated for the table.
fn shorten(text: &str) -> String {
    let clean: String = text
        .chars()
        .map(|letter| if letter.is_control() || letter == '|' { ' ' } else { letter })
        .collect();
    let mut line = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > REASON_BYTES_MAX {
        let end = (0..=REASON_BYTES_MAX).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
        line.truncate(end);
        line.push('…');
    }
    line
}

fn is_proven(proof: &Proof, text: &str) -> bool {
    match proof {
        Proof::Rows(least) => text.lines().filter(|line| is_row(line)).count() >= *least,
        Proof::Number => {
            text.lines().any(|line| line.trim().parse::<f64>().is_ok_and(|number| number > 0.0))
        }
        Proof::Texts(texts) => texts.iter().all(|part| text.contains(part.as_str())),
        Proof::Above(before) => text.split(before).skip(1).any(|rest| {
            let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
            rest[..end].parse::<u64>().is_ok_and(|number| number > 0)
        }),
        Proof::Lines { part, least } => {
            text.lines().filter(|line| line.contains(part)).count() >= *least
        }
        Proof::Osu { checked, rows, numbers } => osu_rows(text, *checked, *numbers) >= *rows,
        Proof::Quantity => text.lines().any(is_quantity),
        Proof::Unittest { .. } | Proof::GoogleTest | Proof::Fabtests => false,
    }
}

/// Whether a line is a row of results: only numbers, at least three. The first two are a size and a
/// count, or two sizes; of the others, at least one is not 0.
fn is_row(line: &str) -> bool {
    match line.trim_start().strip_prefix("Final:") {
        // With `-I` of ucx_perftest words follow.
        Some(row) => has_numbers(row.split("flags:").next().unwrap_or(row), 2),
        None => has_numbers(line, 2),
    }
}

/// Whether a line has only numbers, and at least one after the first `labels` is not 0.
fn has_numbers(line: &str, labels: usize) -> bool {
    let numbers: Option<Vec<f64>> =
        line.split_whitespace().map(|word| word.trim_end_matches('%').parse().ok()).collect();
    numbers.is_some_and(|row| row.iter().skip(labels).any(|number| *number > 0.0))
}

/// Number of rows of an OSU micro-benchmark; with `checked`, of those that end with `Pass`. 0 if
/// the data of any row was wrong.
fn osu_rows(text: &str, checked: bool, numbers: usize) -> usize {
    let mut count = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((last, before)) = words.split_last() else { continue };
        // One-sided programs use other words.
        let judged = match last.to_lowercase().as_str() {
            "pass" | "passed" => Some(true),
            "fail" | "failed" => Some(false),
            _ => None,
        };
        let row = if judged.is_some() { before } else { words.as_slice() };
        let values: Option<Vec<f64>> = row.iter().map(|word| word.parse().ok()).collect();
        let Some(values) = values.filter(|values| values.len() >= numbers) else { continue };
        if judged == Some(false) {
            return 0;
        }
        // The first number is a size, unless the row is a single time.
        let measured = values.iter().skip(usize::from(values.len() > 1)).any(|value| *value > 0.0);
        count += usize::from(measured && (judged == Some(true)) == checked);
    }
    count
}

/// Whether a line is like `bw  =  1.2 GB/sec`.
fn is_quantity(line: &str) -> bool {
    let Some((name, value)) = line.split_once('=') else { return false };
    let number = value.split_whitespace().next().unwrap_or("").replace(',', "");
    !name.trim().is_empty() && number.parse::<f64>().is_ok_and(|number| number > 0.0)
}

#[cfg(test)]
mod tests;
