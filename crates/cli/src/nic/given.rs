//! The options of a run as they were given, so that they can be the defaults of others.

use super::options::ModelOptions;
use crate::failure::Failure;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use fairway_nicmodel::{Config, Ordering, WorkloadKind};

/// The options that may stand beside other values of themselves.
const REPEATED: [&str; 1] = ["set"];

/// Parameters of one run, and the words that gave them.
#[derive(Clone, Debug)]
pub(crate) struct GivenOptions {
    pub(crate) model: ModelOptions,
    /// Long names without dashes, each with its value if it takes one.
    given: Vec<(String, Option<String>)>,
}

impl GivenOptions {
    /// The given options as words of a command line, without those whose names are `given_again`.
    pub(super) fn words(&self, given_again: &[&str]) -> Vec<String> {
        let is_given_again = |name: &str| !REPEATED.contains(&name) && given_again.contains(&name);
        let kept = self.given.iter().filter(|(name, _)| !is_given_again(name));
        kept.map(|(name, value)| word(name, value.as_deref())).collect()
    }
}

impl GivenOptions {
    /// Refuses given options that have no effect in a run of this configuration.
    ///
    /// # Errors
    /// Names the option and its value, and what it is for.
    pub(super) fn check(&self, config: &Config) -> Result<(), Failure> {
        let shares = matches!(config.workload, WorkloadKind::Share { .. });
        let fans_out = matches!(config.workload, WorkloadKind::Fanout { .. });
        let draws = matches!(config.workload, WorkloadKind::Ycsb(_) | WorkloadKind::Zipf);
        let fills = config.rate_mops.is_some() || config.batch <= config.concurrency;
        let (flight, zipf) = (config.concurrency, "it is for --workload ycsb-a to ycsb-f and zipf");
        let posts = format!(
            "a list has at most as many work requests as are in flight: take --concurrency {} or \
             more (it is {flight}), or a smaller --batch",
            config.batch
        );
        let rules = [
            ("order-percent", config.order != Ordering::None, "it is for --order"),
            ("loss-of", config.loss > 0.0, "it is for --loss"),
            ("reads", shares, "it is for --workload share"),
            ("unfenced", shares, "it is for --workload share"),
            ("dispatch", fans_out, "it is for --workload fanout"),
            ("skew", draws, zipf),
            ("batch", fills, &posts),
        ];
        let is_idle = |name: &str| rules.iter().find(|rule| rule.0 == name && !rule.1);
        for (name, value) in &self.given {
            if let Some((.., remedy)) = is_idle(name) {
                let value = value.as_ref().map_or(String::new(), |value| format!(" {value}"));
                return Err(Failure::usage(format!(
                    "--{name}{value} has no effect in this run: leave it out; {remedy}"
                )));
            }
        }
        Ok(())
    }
}

/// An option as a word of a command line.
pub(super) fn word(name: &str, value: Option<&str>) -> String {
    value.map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}"))
}

impl Args for GivenOptions {
    fn augment_args(command: Command) -> Command {
        ModelOptions::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        ModelOptions::augment_args_for_update(command)
    }
}

impl FromArgMatches for GivenOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let all = ModelOptions::augment_args(Command::new("run"));
        let is_given = |argument: &&Arg| {
            matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine)
        };
        let mut given = Vec::new();
        for argument in all.get_arguments().filter(is_given) {
            let Some(name) = argument.get_long() else { continue };
            if !argument.get_action().takes_values() {
                given.push((name.to_owned(), None));
                continue;
            }
            for value in matches.get_raw(argument.get_id().as_str()).into_iter().flatten() {
                given.push((name.to_owned(), Some(value.to_string_lossy().into_owned())));
            }
        }
        Ok(GivenOptions { model: ModelOptions::from_arg_matches(matches)?, given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.model.update_from_arg_matches(matches)
    }
}
