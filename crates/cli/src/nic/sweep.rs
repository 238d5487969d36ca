//! Many runs, described by a small text file, on all cores.
//!
//! Each line is a family of runs: options without their dashes, `name=value`, where a value may be
//! a list, `payload=8,64,256`, or with semicolons if values have commas, as in `fairway sim
//! --sweep`. All combinations are run, the last name varying fastest. Options without a value stand
//! alone (`oracle`); `#` begins a comment. Options of the command line are those of every run,
//! except where the line gives them other values.

use super::given::{GivenOptions, word};
use super::{NicOptions, value};
use crate::failure::Failure;
use crate::input;
use crate::process;
use crate::progress;
use crate::sim::sweep::list;
use clap::Parser;
use fairway_nicmodel::{Config, ModelError, run as run_model};
use indicatif::ProgressBar;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A run's options, as a command line of their own.
#[derive(Debug, Parser)]
#[command(name = "sweep", no_binary_name = true)]
struct Line {
    #[command(flatten)]
    model: super::options::ModelOptions,
}

pub(super) fn run(options: &NicOptions, path: &Path) -> Result<(), Failure> {
    let text = input::read_text(path).map_err(|error| {
        Failure::usage(format!(
            "--sweep {} cannot be read: {error}: name a file with lines of options",
            path.display()
        ))
    })?;
    let configs = configs(&text, &options.run)?;
    let next = AtomicUsize::new(0);
    let printer = Mutex::new(Printer::new(options.json, configs.len()));
    let work = || -> Result<(), Failure> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(config) = configs.get(index) else { return Ok(()) };
            let result = run_model(config).map(|report| value(config, &report));
            let mut printer = printer.lock().unwrap_or_else(PoisonError::into_inner);
            printer.take(index, result)?;
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.min(configs.len())).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.fold(Ok(()), Result::and)
    })?;
    printer.into_inner().unwrap_or_else(PoisonError::into_inner).finish()
}

/// Prints results in the order of their runs, each as soon as those before it are there, so that
/// neither a run that fails nor the end of the process takes them away.
struct Printer {
    json: bool,
    bar: ProgressBar,
    early: BTreeMap<usize, Result<Value, ModelError>>,
    next: usize,
    failed: usize,
}

impl Printer {
    fn new(json: bool, runs: usize) -> Printer {
        let (early, bar) = (BTreeMap::new(), progress::of_runs(runs as u64));
        Printer { json, bar, early, next: 0, failed: 0 }
    }

    fn take(&mut self, index: usize, result: Result<Value, ModelError>) -> Result<(), Failure> {
        self.early.insert(index, result);
        while let Some(result) = self.early.remove(&self.next) {
            self.next += 1;
            match result {
                Ok(object) => {
                    let text = if self.json { format!("{object}\n") } else { row(&object) };
                    self.bar.suspend(|| process::print(&text))?;
                }
                Err(error) => {
                    self.failed += 1;
                    let failure =
                        Failure::file(format_args!("run {} of the sweep", self.next), error);
                    self.bar.suspend(|| process::say(&format!("fairway: {}", failure.shown())));
                }
            }
        }
        self.bar.inc(1);
        Ok(())
    }

    /// Reports that runs have failed.
    fn finish(self) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        match self.failed {
            0 => Ok(()),
            failed => {
                Err(Failure::failed(format!("{failed} of {} runs of the sweep failed", self.next)))
            }
        }
    }
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

/// Configurations of all runs of a sweep file.
fn configs(text: &str, given: &GivenOptions) -> Result<Vec<Config>, Failure> {
    let mut all = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let here = |error: Failure| Failure::file(format_args!("line {}", index + 1), error);
        for run in runs(line, given).map_err(here)? {
            let parsed = Line::try_parse_from(&run);
            let parsed = parsed.map_err(|error| here(Failure::usage(error.to_string())))?;
            let config = parsed.model.config().map_err(here)?;
            config.check().map_err(|error| here(error.into()))?;
            all.push(config);
        }
    }
    if all.is_empty() { Err(Failure::usage("the sweep has no runs")) } else { Ok(all) }
}

/// The words of each run of a line.
fn runs(line: &str, given: &GivenOptions) -> Result<Vec<Vec<String>>, Failure> {
    let words = line.split_whitespace().map(|word| match word.split_once('=') {
        Some((name, values)) => (name, Some(values)),
        None => (word, None),
    });
    let words: Vec<(&str, Option<&str>)> = words.collect();
    let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
    let mut runs = vec![given.words(&names)];
    for (name, values) in words {
        let Some(values) = values else {
            runs.iter_mut().for_each(|run| run.push(word(name, None)));
            continue;
        };
        let values = list(values).map_err(|wrong| {
            Failure::usage(format!(
                "{name}={values}: {wrong}: write a list as payload=8,64, or with semicolons where \
                 values have commas, as policy=cc=dcqcn,sched=greedy;cc=fixed:16M"
            ))
        })?;
        let with = |run: Vec<String>| {
            values
                .iter()
                .map(move |&value| {
                    let last = word(name, Some(value));
                    run.iter().cloned().chain([last]).collect::<Vec<_>>()
                })
                .collect::<Vec<_>>()
        };
        runs = runs.into_iter().flat_map(with).collect();
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::{Failure, GivenOptions};
    use clap::{Args, Command, FromArgMatches};
    use fairway_nicmodel::Config;

    /// The runs of a file, beside these options of the command line.
    fn beside(words: &[&str], text: &str) -> Result<Vec<Config>, Failure> {
        let command = GivenOptions::augment_args(Command::new("nic").no_binary_name(true));
        let matches = command.get_matches_from(words);
        super::configs(text, &GivenOptions::from_arg_matches(&matches).expect("options"))
    }

    fn configs(text: &str) -> Result<Vec<Config>, Failure> {
        beside(&[], text)
    }

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

    /// The last of several values of a constant was the only one that ran.
    #[test]
    fn constants_have_lists_as_other_options_have() {
        let runs = configs("set=link_gbps=100,link_gbps=10 set=dram_ns=1").unwrap();
        let seen = runs.iter().map(|run| (run.constants.link_gbps, run.constants.dram_ns));
        assert_eq!(seen.collect::<Vec<_>>(), [(100.0, 1.0), (10.0, 1.0)]);
        let both = configs("set=link_gbps=100,dram_ns=2;").unwrap();
        assert_eq!(both.len(), 1);
        assert_eq!((both[0].constants.link_gbps, both[0].constants.dram_ns), (100.0, 2.0));
    }

    #[test]
    fn semicolons_separate_values_that_have_commas() {
        let policies = |text: &str| {
            let runs = configs(text).unwrap();
            runs.into_iter().map(|run| run.policy).collect::<Vec<_>>()
        };
        let two = "policy=cc=dcqcn,sched=static:line=20Gbps;cc=fixed:16M";
        assert_eq!(policies(two), ["cc=dcqcn,sched=static:line=20Gbps", "cc=fixed:16M"]);
        let one = "policy=cc=dcqcn,sched=greedy;";
        assert_eq!(policies(one), ["cc=dcqcn,sched=greedy"]);
        let runs = configs("loss=0.1 loss-of=acks,requests; ops=5").unwrap();
        assert_eq!(runs.len(), 1);
        assert!(runs[0].lossy.acknowledgements && runs[0].lossy.requests);
        for text in ["payload=8,,64", "payload=", "payload=8,8", "policy=;"] {
            let error = configs(text).unwrap_err().to_string();
            assert!(error.contains("line 1") && error.contains("a value "), "{text}: {error}");
        }
    }

    #[test]
    fn options_of_the_command_line_are_those_of_every_run() {
        let words = ["--stack=roce-dma", "--ops=7", "--set=link_gbps=100", "--oracle"];
        let runs =
            beside(&words, "payload=8\nops=9 stack=ub-urma set=dram_ns=1,dram_ns=2").unwrap();
        let seen = runs.iter().map(|run| {
            let constants = &run.constants;
            (run.stack.name(), run.payload, run.ops, constants.link_gbps, constants.dram_ns)
        });
        let expected = [
            ("roce-dma", 8, 7, 100.0, 30.0),
            ("ub-urma", 64, 9, 100.0, 1.0),
            ("ub-urma", 64, 9, 100.0, 2.0),
        ];
        assert_eq!(seen.collect::<Vec<_>>(), expected);
        assert!(runs.iter().all(|run| run.oracle));
    }

    #[test]
    fn errors_name_the_line() {
        for (text, word) in [("\nstack=up", "line 2"), ("nothing=1", "line 1"), ("", "no runs")] {
            let error = configs(text).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
