//! The C fronts and the C programs of their tests under AddressSanitizer and ThreadSanitizer.
//!
//! Library and program are both instrumented: the Rust code, including the standard library, by a
//! nightly compiler, and the C programs by the system's C compiler. Each program is linked with the
//! sanitizer's runtime of the nightly compiler, because there can be only one in a process.
//! [`cases`] lists the programs, [`instrument`] compiles them, [`mod@run`] runs and judges them.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

mod cases;
mod instrument;
mod options;
mod run;

use cases::Case;
use instrument::Workshop;
use run::Verdict;

pub use options::HELP;

use crate::programs::{catch_signals, check_signals};

/// A tool that detects errors while a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sanitizer {
    Address,
    Thread,
}

impl Sanitizer {
    pub const ALL: [Sanitizer; 2] = [Sanitizer::Address, Sanitizer::Thread];

    /// Name of the sanitizer, in options of this task and of both compilers.
    pub fn name(self) -> &'static str {
        match self {
            Sanitizer::Address => "address",
            Sanitizer::Thread => "thread",
        }
    }
}

/// A C library of this repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    Verbs,
    Rvma,
}

impl Front {
    pub const ALL: [Front; 2] = [Front::Verbs, Front::Rvma];

    /// Name of the library, which is also that of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Front::Verbs => "verbs",
            Front::Rvma => "rvma",
        }
    }

    /// The package whose static library contains the front. That of librdmacm contains libibverbs.
    pub fn package(self) -> &'static str {
        match self {
            Front::Verbs => "fairway-rdmacm",
            Front::Rvma => "fairway-rvma",
        }
    }

    fn folder(self) -> PathBuf {
        root().join("front").join(self.name())
    }
}

/// The root of the repository.
fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Result of a case under a sanitizer.
struct Row {
    case: String,
    sanitizer: Sanitizer,
    verdict: Verdict,
}

/// Runs the selected cases.
pub fn run(arguments: &[String]) -> io::Result<()> {
    let options = options::parse(arguments)?;
    let cases = selected(&options)?;
    if options.list {
        cases.iter().for_each(|case| println!("{}", case.name()));
        return Ok(());
    }
    catch_signals();
    let mut rows = Vec::new();
    for sanitizer in &options.sanitizers {
        let cases: Vec<&Case> = cases.iter().filter(|case| case.is_for(*sanitizer)).collect();
        let mut fronts: Vec<Front> = Front::ALL.to_vec();
        fronts.retain(|front| cases.iter().any(|case| case.front == *front));
        let workshop = Workshop::open(*sanitizer, &fronts, &options.toolchain)?;
        let place = run::Place::new(*sanitizer, &options)?;
        for case in cases {
            check_signals()?;
            let name = case.name();
            let verdict = run::run(case, &workshop.compile(case)?, &place)?;
            eprintln!("{} {name}: {}", sanitizer.name(), cell(Some(&verdict)));
            rows.push(Row { case: name, sanitizer: *sanitizer, verdict });
        }
    }
    println!("{}", table(&rows, &options.sanitizers));
    let failed = rows.iter().filter(|row| row.verdict.failure.is_some()).count();
    if failed == 0 {
        return Ok(());
    }
    let logs = options.logs.display();
    Err(io::Error::other(format!("{failed} of {} runs failed; logs are in {logs}", rows.len())))
}

/// The selected cases.
fn selected(options: &options::Options) -> io::Result<Vec<Case>> {
    let mut cases = cases::all();
    cases.retain(|case| {
        let named = options.program.as_ref().is_none_or(|text| case.name().contains(text));
        let wanted = options.sanitizers.iter().any(|sanitizer| case.is_for(*sanitizer));
        named && wanted && options.fronts.contains(&case.front)
    });
    if cases.is_empty() {
        return Err(io::Error::other("no case has this name: `sanitizers --list` prints them all"));
    }
    Ok(cases)
}

/// Short text for the result of a case.
fn cell(verdict: Option<&Verdict>) -> String {
    let Some(verdict) = verdict else { return "–".to_owned() };
    match &verdict.failure {
        None => format!("passed, {:.1} s", verdict.seconds),
        Some(failure) => format!("FAILED: {failure}"),
    }
}

/// A Markdown table with a line for each case and a column for each sanitizer.
fn table(rows: &[Row], sanitizers: &[Sanitizer]) -> String {
    let names: Vec<&str> = sanitizers.iter().map(|sanitizer| sanitizer.name()).collect();
    let mut text = format!("| program | {} |\n", names.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(names.len()));
    let mut seen: Vec<&str> = Vec::new();
    for Row { case, .. } in rows {
        if seen.contains(&case.as_str()) {
            continue;
        }
        seen.push(case);
        let found = |sanitizer: &Sanitizer| {
            let row = rows.iter().find(|row| row.case == *case && row.sanitizer == *sanitizer);
            cell(row.map(|row| &row.verdict))
        };
        let cells: Vec<String> = sanitizers.iter().map(found).collect();
        let _ = writeln!(text, "| {case} | {} |", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests;
