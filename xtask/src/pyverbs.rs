//! rdma-core's own Python tests as a scoreboard: how many pass, are skipped and fail over each
//! provider, and over soft-RoCE in a guest.
//!
//! The tests come from a checkout of rdma-core (its folder `tests`), and the bindings from the
//! system's package. Tests for devices of one vendor (mlx5, efa) are skipped.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::interop::Guests;
use crate::programs::{catch_signals, check_signals, fairway};

/// Packages that the guest needs in addition to its own.
const GUEST_PACKAGES: &str = "python3.11 python3.11-minimal libpython3.11-stdlib \
     libpython3.11-minimal python3-pyverbs libexpat1 zlib1g media-types";

/// Time in seconds after which a module is considered hung.
const SECONDS_MAX: &str = "300";

/// Results of a module's tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u32,
    pub skipped: u32,
    pub failed: u32,
    /// Whether the process crashed, so that the remaining tests were not run.
    pub crashed: bool,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.skipped += other.skipped;
        self.failed += other.failed;
        self.crashed |= other.crashed;
    }

    fn cell(self) -> String {
        let crashed = if self.crashed { " (died)" } else { "" };
        format!("{} / {} / {}{crashed}", self.passed, self.skipped, self.failed)
    }
}

/// Results of a column, by module, and the tests that failed.
struct Column {
    name: String,
    modules: BTreeMap<String, Counts>,
    failures: Vec<String>,
}

/// Runs the scoreboard.
pub fn run(arguments: &[String]) -> io::Result<()> {
    let mut tests = None;
    let mut peer = None;
    let mut only = None;
    let mut providers = vec!["roce".to_owned(), "fairway".to_owned()];
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let value = rest.next().ok_or_else(|| io::Error::other(format!("{name} needs a value")))?;
        match name.as_str() {
            "--tests" => tests = Some(PathBuf::from(value)),
            "--peer" => peer = Some(PathBuf::from(value)),
            "--provider" => providers = vec![value.clone()],
            "--module" => only = Some(value.clone()),
            _ => return Err(io::Error::other(format!("there is no option {name}"))),
        }
    }
    let tests = tests.filter(|path| path.join("run_tests.py").is_file()).ok_or_else(|| {
        io::Error::other("--tests PATH: the folder `tests` of a checkout of rdma-core")
    })?;
    catch_signals();
    let modules = modules(&tests, only.as_deref())?;
    let mut columns = Vec::new();
    for provider in &providers {
        columns.push(column(provider, &modules, |module| here(&tests, provider, module))?);
    }
    if let Some(script) = peer {
        columns.push(guest_column(&script, &tests, &modules)?);
    }
    print(&columns, &modules);
    Ok(())
}

pub fn modules(tests: &Path, only: Option<&str>) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(tests)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some(module) = name.strip_suffix(".py").filter(|name| name.starts_with("test_")) else {
            continue;
        };
        let vendor = module.contains("mlx5") || module.contains("efa");
        if !vendor && only.is_none_or(|only| module.contains(only)) {
            names.push(module.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn column(
    name: &str,
    modules: &[String],
    mut run: impl FnMut(&str) -> io::Result<String>,
) -> io::Result<Column> {
    let mut column =
        Column { name: name.to_owned(), modules: BTreeMap::new(), failures: Vec::new() };
    for module in modules {
        check_signals()?;
        eprint!("\r{name}: {module:<40}");
        io::stderr().flush()?;
        let text = run(module)?;
        let counts = count(&text, &mut column.failures);
        column.modules.insert(module.clone(), counts);
    }
    eprintln!("\r{name}: done{:<40}", "");
    Ok(column)
}

/// Runs a module under `fairway run`.
fn here(tests: &Path, provider: &str, module: &str) -> io::Result<String> {
    let output = Command::new("timeout")
        .arg(SECONDS_MAX)
        .arg(fairway()?)
        .args(["run", "--provider", provider, "--"])
        // The bindings belong to the system, so the system's Python has to run them.
        .args(["/usr/bin/python3", "-B", "run_tests.py", "-v"])
        .arg(format!("tests.{module}"))
        .current_dir(tests)
        .stdin(Stdio::null())
        .output()?;
    Ok(format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    ))
}

fn guest_column(script: &Path, tests: &Path, modules: &[String]) -> io::Result<Column> {
    let guests = Guests::start_with(script, "pyverbs", GUEST_PACKAGES)?;
    let copied = Command::new("cp").arg("-r").arg(tests).arg(guests.share()).status()?;
    if !copied.success() {
        return Err(io::Error::other("the tests can't be copied to the guest"));
    }
    let folder = tests.file_name().unwrap_or_default().to_string_lossy().into_owned();
    column("soft-RoCE", modules, |module| {
        guests.guest_any(&format!(
            "cd /host/{folder} && python3.11 -B run_tests.py -v tests.{module} 2>&1"
        ))
    })
}

/// Counts the output of `unittest -v`: the name of a test, possibly a line about it, and its
/// result.
pub fn count(text: &str, failures: &mut Vec<String>) -> Counts {
    let mut counts = Counts::default();
    let mut name = "";
    for line in text.lines() {
        if line.starts_with("test") && line.contains('(') {
            name = line.split(" ... ").next().unwrap_or(line);
        }
        // A program may print text between the dots and the result.
        let Some(end) = ["ok", "FAIL", "ERROR"].iter().find(|end| line.trim_end().ends_with(*end))
        else {
            counts.skipped += u32::from(skip_reason(line).is_some());
            continue;
        };
        let is_result = line.contains("... ") || line.trim() == *end || line.contains(" ok");
        match *end {
            "ok" if is_result => counts.passed += 1,
            "ok" => {}
            _ if is_result => {
                counts.failed += 1;
                failures.push(name.to_owned());
            }
            _ => {}
        }
    }
    counts.crashed = !text.lines().any(|line| line.starts_with("Ran "));
    counts
}

/// The reason why a test was skipped, if this line of `unittest -v` reports one. A program may
/// print text between the dots and the result.
pub fn skip_reason(line: &str) -> Option<&str> {
    let late = || line.strip_prefix("skipped ").filter(|rest| rest.starts_with(['\'', '"']));
    let rest = line.split_once("... skipped").map(|(_, rest)| rest).or_else(late)?;
    Some(rest.trim().trim_matches(['\'', '"']))
}

fn print(columns: &[Column], modules: &[String]) {
    println!("passed / skipped / failed\n");
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    println!("| module | {} |", names.join(" | "));
    println!("|---|{}", "---|".repeat(names.len()));
    for module in modules {
        let cells: Vec<String> =
            columns.iter().map(|column| column.modules[module].cell()).collect();
        println!("| {module} | {} |", cells.join(" | "));
    }
    let mut totals = Vec::new();
    for column in columns {
        let mut total = Counts::default();
        column.modules.values().for_each(|counts| total.add(*counts));
        totals.push(total.cell());
    }
    println!("| all | {} |", totals.join(" | "));
    for column in columns.iter().filter(|column| !column.failures.is_empty()) {
        println!("\nfailed over {}:", column.name);
        column.failures.iter().for_each(|name| println!("  {name}"));
    }
    let failures: BTreeMap<&str, &Vec<String>> =
        columns.iter().map(|column| (column.name.as_str(), &column.failures)).collect();
    eprintln!("{}", json!({ "failed": failures }));
}

#[cfg(test)]
mod tests;
