//! Several values of a setting: each combination of them is run with every seed.

use fairway_sim::{SETTINGS, Settings};

use super::SimOptions;
use crate::failure::Failure;
use crate::quantity::ValueError;

/// Largest number of runs of one command.
const RUNS: u64 = 100_000;

/// A setting, and the values that it has one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Sweep {
    name: &'static str,
    values: Vec<String>,
}

impl Sweep {
    /// The values as they were given.
    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(String::as_str)
    }
}

/// Parses `name=value,value`, or with semicolons ([`list`]).
pub(crate) fn sweep(text: &str) -> Result<Sweep, ValueError> {
    let wrong = |wrong| ValueError::Sweep { text: text.to_owned(), wrong };
    let (name, values) = text.split_once('=').ok_or_else(|| wrong("no '=' after a name"))?;
    let known = SETTINGS.iter().find(|setting| setting.0 == name);
    let name = known.ok_or_else(|| wrong("no setting has this name (--help lists them)"))?.0;
    let values = list(values).map_err(wrong)?;
    let numbers: Vec<f64> = values.iter().filter_map(|value| number(name, value)).collect();
    let is_same = |left: f64, right: f64| (left - right).abs() <= left.abs() * 1e-12;
    if (1..numbers.len()).any(|at| numbers[..at].iter().any(|other| is_same(*other, numbers[at]))) {
        return Err(wrong("two values are the same number, as 1M and 1024K: leave one out"));
    }
    Ok(Sweep { name, values: values.into_iter().map(str::to_owned).collect() })
}

/// Splits a list of values at commas; with a semicolon anywhere, at semicolons, of which one may
/// follow the last value, so that a single value can have commas.
///
/// # Errors
/// Names what is wrong with the list.
pub(crate) fn list(text: &str) -> Result<Vec<&str>, &'static str> {
    let values: Vec<&str> = match text.contains(';') {
        true => text.strip_suffix(';').unwrap_or(text).split(';').collect(),
        false => text.split(',').collect(),
    };
    if values.iter().any(|value| value.is_empty()) {
        return Err("a value is empty");
    }
    if (1..values.len()).any(|at| values[..at].contains(&values[at])) {
        return Err("a value occurs twice");
    }
    Ok(values)
}

/// A value of each setting that is swept.
pub(super) type Combination = Vec<(&'static str, String)>;

/// The settings of each combination, in the order in which they run: the last name varies fastest.
///
/// # Errors
/// If a value is wrong, or if options cannot be combined with a sweep.
pub(super) fn combinations(
    options: &SimOptions,
    base: Settings,
) -> Result<Vec<(Combination, Settings)>, Failure> {
    if options.sweep.is_empty() {
        return Ok(vec![(Vec::new(), base)]);
    }
    let files = [
        ("--csv", options.csv.is_some()),
        ("--series", options.series.is_some()),
        ("--stream-series", options.stream_series.is_some()),
        ("--pcap", options.pcap.is_some()),
        ("--trace", options.trace.trace.is_some()),
    ];
    if let Some((name, _)) = files.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::usage(format!(
            "{name} is of one configuration: leave it out, or --sweep (--json has a line for each \
             run)"
        )));
    }
    let names: Vec<&str> = options.sweep.iter().map(|sweep| sweep.name).collect();
    if let Some(twice) = (1..names.len()).find(|at| names[..*at].contains(&names[*at])) {
        let name = names[twice];
        return Err(Failure::usage(format!(
            "--sweep {name} is given twice: give all values in one"
        )));
    }
    if let Some((name, value)) = options.settings.0.iter().find(|(name, _)| names.contains(name)) {
        return Err(Failure::usage(format!(
            "--{name} {value} has no effect beside --sweep {name}: leave one of them out"
        )));
    }
    let counts = options.sweep.iter().map(|sweep| sweep.values.len() as u64);
    let runs = counts.fold(options.seeds, u64::saturating_mul);
    if runs > RUNS {
        return Err(Failure::usage(format!(
            "--sweep and --seeds make {runs} runs, more than {RUNS}: give fewer values or seeds"
        )));
    }
    let mut all = vec![(Combination::new(), base)];
    for sweep in &options.sweep {
        let mut longer = Vec::with_capacity(all.len() * sweep.values.len());
        for (combination, settings) in all {
            for value in &sweep.values {
                let (mut combination, mut settings) = (combination.clone(), settings.clone());
                settings.set(sweep.name, value).map_err(Failure::Flag)?;
                combination.push((sweep.name, value.clone()));
                longer.push((combination, settings));
            }
        }
        all = longer;
    }
    // Before the first run, so that no run is in vain.
    for (combination, settings) in &all {
        settings.build(options.seed).map_err(|error| failure(combination, error.into()))?;
    }
    Ok(all)
}

/// A failure of a run with these values of settings.
pub(super) fn failure(combination: &Combination, error: Failure) -> Failure {
    match text(combination) {
        empty if empty.is_empty() => error,
        text => Failure::file(format_args!("with {text}"), error),
    }
}

/// A combination as text; empty without a sweep.
pub(super) fn text(combination: &[(&'static str, String)]) -> String {
    let each = combination.iter().map(|(name, value)| format!("{name} {value}"));
    each.collect::<Vec<_>>().join(", ")
}

/// The number of a value such as `16`, `64K`, `0.1%`, `400G` or `10us` of a setting; `None` for a
/// word. K, M and G are powers of 1000 in rates, and of 1024 elsewhere.
pub(super) fn number(name: &str, text: &str) -> Option<f64> {
    let setting = SETTINGS.iter().find(|setting| setting.0 == name);
    let kilo = if setting.is_some_and(|setting| setting.1 == "RATE") { 1000.0_f64 } else { 1024.0 };
    let end = text.find(|character: char| !character.is_ascii_digit() && character != '.');
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    let factor = match unit {
        "" => 1.0,
        "K" | "k" => kilo,
        "M" => kilo.powi(2),
        "G" => kilo.powi(3),
        "T" => kilo.powi(4),
        "%" => 0.01,
        "ps" => 1e-6,
        "ns" => 1e-3,
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(digits.parse::<f64>().ok()? * factor)
}
