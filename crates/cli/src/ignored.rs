//! Refusal of options that would have no effect in combination with others, and of negative
//! numbers.

use clap::ArgMatches;
use clap::error::{Error, ErrorKind};
use clap::parser::ValueSource;

use fairway::Policies;

use crate::failure::Failure;

/// Options of a command that have no effect with another option, or without it.
struct Rule {
    command: &'static str,
    option: &'static str,
    /// True if the options have no effect when `option` is given; false if they have none when it
    /// is not given.
    with: bool,
    without_effect: &'static [&'static str],
    remedy: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        command: "perf",
        option: "server",
        with: true,
        without_effect: &[
            "size",
            "sizes",
            "duration",
            "iters",
            "depth",
            "buffer",
            "latency",
            "ping_pong",
            "no_verify",
            "json",
            "flows",
            "weights",
            "tenants",
            "line",
            "order",
            "tag",
            "fence",
            "connect_timeout",
        ],
        remedy: "the side that measures, with --connect, takes it",
    },
    Rule {
        command: "perf",
        option: "latency",
        with: true,
        without_effect: &["depth"],
        remedy: "latency is measured with one operation at a time",
    },
    Rule {
        command: "perf",
        option: "flows",
        with: true,
        without_effect: &["buffer"],
        remedy: "each flow has as much memory as it has messages in flight (--depth)",
    },
    Rule {
        command: "perf",
        option: "connect",
        with: false,
        without_effect: &["connect_timeout"],
        remedy: "it is for a server that was given by --connect",
    },
    Rule {
        command: "info",
        option: "state",
        with: false,
        without_effect: &["jetties", "hosts", "paths"],
        remedy: "it is for --state",
    },
];

/// Options of `fairway perf` that name a policy, as `--policy KIND=NAME` does, and their kinds.
const POLICIES: [(&str, &str); 4] =
    [("cc", "cc"), ("path", "path"), ("loss_detector", "loss"), ("sched", "sched")];

/// Refuses an option that names a policy of a kind that `--policy` also names.
fn check_policies(matches: &ArgMatches) -> Result<(), Failure> {
    let text = matches.get_raw("policy").into_iter().flatten().next();
    let Some(text) = text.map(|text| text.to_string_lossy().into_owned()) else { return Ok(()) };
    let usual = Policies::default().to_string();
    for (id, kind) in POLICIES.iter().filter(|(id, _)| given(matches, id)) {
        let label = format!("{kind}=");
        let Some(item) = usual.split(',').find(|item| item.starts_with(&label)) else { continue };
        // Policies cannot be parsed if there are two of a kind.
        if format!("{text},{item}").parse::<Policies>().is_err() {
            return Err(Failure::usage(format!(
                "{} and --policy {text} both name a policy of the kind {kind}: give it once",
                shown(matches, id)
            )));
        }
    }
    Ok(())
}

/// Refuses options without effect.
pub(crate) fn check(matches: &ArgMatches) -> Result<(), Failure> {
    let Some((command, matches)) = matches.subcommand() else { return Ok(()) };
    if command == "perf" {
        check_policies(matches)?;
    }
    for rule in RULES.iter().filter(|rule| rule.command == command) {
        if given(matches, rule.option) != rule.with {
            continue;
        }
        if let Some(id) = rule.without_effect.iter().find(|id| given(matches, id)) {
            let beside = if rule.with { "with" } else { "without" };
            return Err(Failure::usage(format!(
                "{} has no effect {beside} --{}: leave it out; {}",
                shown(matches, id),
                dashed(rule.option),
                rule.remedy
            )));
        }
    }
    Ok(())
}

fn given(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// The option as written on the command line, with its value.
fn shown(matches: &ArgMatches, id: &str) -> String {
    let mut text = format!("--{}", dashed(id));
    let is_flag = matches.try_get_one::<bool>(id).is_ok();
    let values = matches.get_raw(id).into_iter().flatten();
    let values: Vec<_> = values.map(|value| value.to_string_lossy().into_owned()).collect();
    if !is_flag && !values.is_empty() {
        text += &format!(" {}", values.join(","));
    }
    text
}

fn dashed(id: &str) -> String {
    id.replace('_', "-")
}

/// A better message than the parser's, which mistakes a negative number for another option and
/// proposes something that does not work.
pub(crate) fn negative_number(error: &Error, arguments: &[String]) -> Option<Failure> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let is_negative = |text: &str| {
        let number = text.strip_prefix('-').unwrap_or_default();
        number.starts_with(|first: char| first.is_ascii_digit() || first == '.')
    };
    let found = arguments.windows(2).find(|pair| {
        pair[0].starts_with("--") && !pair[0].contains('=') && is_negative(&pair[1])
    })?;
    Some(Failure::usage(format!(
        "{} cannot be '{}': it takes no negative numbers",
        found[0], found[1]
    )))
}
