//! Many runs, described by a small text file, on all cores.
//!
//! Each line is a family of runs: options without their dashes, `name=value`, where a value may be
//! a list, `payload=8,64,256`. All combinations are run, the last name varying fastest. Options
//! without a value stand alone (`oracle`); `#` begins a comment.

use super::{NicOptions, value};
use crate::failure::Failure;
use crate::input;
use crate::process;
use clap::Parser;
use fairway_nicmodel::{Config, ModelError, run as run_model};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A run's options, as a command line of their own.
#[derive(Debug, Parser)]
#[command(name = "sweep", no_binary_name = true)]
struct Line {
    #[command(flatten)]
    model: super::options::ModelOptions,
}

pub(super) fn run(options: &NicOptions, path: &Path) -> Result<(), Failure> {
    let text = input::read_text(path)
        .map_err(|error| Failure::io(format!("read {}", path.display()), &error))?;
    let configs = configs(&text)?;
    let bar = progress(configs.len() as u64);
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<Value, ModelError>>>> =
        Mutex::new(vec![None; configs.len()]);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(configs.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(config) = configs.get(index) else { return };
                    let result = run_model(config).map(|report| value(config, &report));
                    if let Ok(mut results) = results.lock() {
                        results[index] = Some(result);
                    }
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let results = results.into_inner().unwrap_or_default();
    let mut text = String::new();
    for (number, result) in results.into_iter().enumerate() {
        let run = || format!("run {} of the sweep", number + 1);
        let result = result.ok_or_else(|| Failure::failed(format!("{}: it was not run", run())))?;
        let object = result.map_err(|error| Failure::file(run(), error))?;
        text += &if options.json { format!("{object}\n") } else { row(&object) };
    }
    process::print(&text)
}

fn row(object: &Value) -> String {
    let text = |name: &str| object[name].to_string().replace('"', "");
    let number = |name: &str| object[name].as_f64().unwrap_or(0.0);
    format!(
        "{:<11} {:<10} {:<6} {:>7} B {:>5} in flight {:>12.1} ns {:>10.4} Mops {:>8.2} Gb/s\n",
        text("stack"),
        text("workload"),
        text("verb"),
        text("payload"),
        text("concurrency"),
        number("mean_ns"),
        number("mops"),
        number("gbps"),
    )
}

fn progress(runs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} runs, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    // The bar is drawn on stderr, and only if that is a terminal.
    ProgressBar::new(runs).with_style(style)
}

/// Configurations of all runs of a sweep file.
fn configs(text: &str) -> Result<Vec<Config>, Failure> {
    let mut list = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let here = |error: Failure| Failure::file(format_args!("line {}", index + 1), error);
        let mut runs: Vec<Vec<String>> = vec![Vec::new()];
        for word in line.split_whitespace() {
            let (name, values) = match word.split_once('=') {
                // The value of `set` is itself a setting of a constant, and no list.
                Some(("set", setting)) => ("set", vec![setting]),
                Some((name, values)) => (name, values.split(',').collect()),
                None => (word, Vec::new()),
            };
            let option = format!("--{name}");
            if values.is_empty() {
                runs.iter_mut().for_each(|run| run.push(option.clone()));
                continue;
            }
            runs = runs
                .into_iter()
                .flat_map(|run| {
                    let with = |value: &&str| {
                        let option = format!("{option}={value}");
                        run.iter().cloned().chain([option]).collect::<Vec<_>>()
                    };
                    values.iter().map(with).collect::<Vec<_>>()
                })
                .collect();
        }
        for run in runs {
            let parsed = Line::try_parse_from(&run);
            let parsed = parsed.map_err(|error| here(Failure::usage(error.to_string())))?;
            let config = parsed.model.config().map_err(here)?;
            config.check().map_err(|error| here(error.into()))?;
            list.push(config);
        }
    }
    if list.is_empty() { Err(Failure::usage("the sweep has no runs")) } else { Ok(list) }
}

#[cfg(test)]
mod tests {
    use super::configs;

    #[test]
    fn lists_are_multiplied_out_and_the_last_varies_fastest() {
        let text = "# a comment\nstack=ub-urma,roce-dma payload=8,64 oracle # and another\n\n\
                    verb=write set=link_gbps=100 ops=5\n";
        let runs = configs(text).unwrap();
        let seen: Vec<_> = runs.iter().map(|run| (run.stack.name(), run.payload)).collect();
        let all = [("ub-urma", 8), ("ub-urma", 64), ("roce-dma", 8), ("roce-dma", 64)];
        assert_eq!(seen[..4], all);
        assert!(runs[3].oracle && !runs[4].oracle);
        assert_eq!((runs[4].constants.link_gbps, runs[4].ops), (100.0, 5));
    }

    #[test]
    fn errors_name_the_line() {
        for (text, word) in [("\nstack=up", "line 2"), ("nothing=1", "line 1"), ("", "no runs")] {
            let error = configs(text).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
