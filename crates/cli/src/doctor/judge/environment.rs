//! Judges the environment variables that begin with `FAIRWAY_`.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fairway::{DatapathKind, Dscp, Policies, Spec};
use fairway_rdma::ServiceLevels;
use fairway_rdma::devices::Filter;
use fairway_sandbox::Engine;
use thiserror::Error;

use super::super::finding::{Finding, Verdict, fine};

const SECTION: &str = "environment";
/// Beginning of the names of variables that only tests of Fairway read.
const TESTS: &str = "FAIRWAY_TEST_";
/// Most letters by which a name differs from the one that was probably meant.
const TYPOS: usize = 2;

/// Effect of a value that is refused.
#[derive(Clone, Copy)]
enum Refused {
    /// Contexts cannot be built, so no program works.
    Context,
    /// Programs under `fairway run`, NCCL or PyTorch do not start, or the value has no effect.
    Part,
}

/// A variable that the library or a front end reads: its name, the effect of a refused value, what
/// reads it, and a function that returns why a value is refused.
type Known = (&'static str, Refused, &'static str, fn(&str) -> Result<(), Wrong>);

/// Why a value is refused, and which ones are allowed.
#[derive(Debug, Error)]
enum Wrong {
    #[error("use a number from {0} to {1}")]
    Range(u64, u64),
    #[error("use {0}")]
    Names(String),
    #[error("this program was built without that engine: use {0}")]
    Engine(&'static str),
    #[error("there is no folder {}", .0.display())]
    Folder(PathBuf),
    /// The text of the parser that the reader uses.
    #[error("{0}")]
    Parser(String),
}

impl Wrong {
    fn parser(error: impl Display) -> Wrong {
        Wrong::Parser(error.to_string())
    }
}

/// Programs that run under `fairway run`.
const RUN: &str = "programs under fairway run";
const NCCL: &str = "the NCCL plugin";
const RUN_AND_NCCL: &str = "programs under fairway run, and the NCCL plugin";
const TORCH: &str = "the PyTorch backend";
const CONTEXTS: &str = "every context";

const KNOWN: &[Known] = &[
    ("FAIRWAY_ALGORITHM", Refused::Part, TORCH, any),
    ("FAIRWAY_BIND", Refused::Part, TORCH, any),
    ("FAIRWAY_CARRIER", Refused::Part, RUN, provider),
    ("FAIRWAY_DATAPATH", Refused::Context, CONTEXTS, datapath),
    ("FAIRWAY_DCQCN", Refused::Part, RUN, switch),
    ("FAIRWAY_DEVICES", Refused::Part, RUN, parsed::<Filter>),
    ("FAIRWAY_DSCP", Refused::Context, CONTEXTS, dscp),
    ("FAIRWAY_EMULATE", Refused::Part, RUN_AND_NCCL, parsed::<Spec>),
    ("FAIRWAY_EMULATE_SEED", Refused::Part, RUN_AND_NCCL, parsed::<u64>),
    ("FAIRWAY_NAMESPACES", Refused::Part, "programs under fairway emulate", any),
    ("FAIRWAY_NCCL_CONNECTIONS", Refused::Part, NCCL, |text| range(text, 1, 8192)),
    ("FAIRWAY_NCCL_IFNAME", Refused::Part, NCCL, any),
    ("FAIRWAY_NCCL_PEER_TIMEOUT_MS", Refused::Part, NCCL, |text| range(text, 100, 86_400_000)),
    ("FAIRWAY_NCCL_SPEED", Refused::Part, NCCL, |text| range(text, 1, i32::MAX as u64)),
    ("FAIRWAY_OUT_OF_ORDER", Refused::Part, RUN, switch),
    ("FAIRWAY_PATHS", Refused::Part, RUN_AND_NCCL, |text| range(text, 1, 256)),
    ("FAIRWAY_PEER_TIMEOUT", Refused::Part, TORCH, any),
    ("FAIRWAY_POLICIES", Refused::Part, "policies by name", folders),
    ("FAIRWAY_POLICY", Refused::Part, RUN_AND_NCCL, parsed::<Policies>),
    ("FAIRWAY_POLICY_ENGINE", Refused::Part, "policies that are files", engine),
    ("FAIRWAY_PROVIDER", Refused::Part, RUN, provider),
    ("FAIRWAY_RDMA_LIBRARY", Refused::Part, "the datapath rdma", any),
    ("FAIRWAY_SEGMENTATION", Refused::Part, RUN, switch),
    ("FAIRWAY_STATS", Refused::Part, CONTEXTS, statistics),
    ("FAIRWAY_TOOL", Refused::Part, "the Python package", any),
    // The finding about the verbs library checks the folder.
    ("FAIRWAY_VERBS_LIB", Refused::Part, "fairway run", any),
    ("FAIRWAY_WEIGHTS", Refused::Part, RUN, parsed::<ServiceLevels>),
];

/// A finding for each variable, or one that there is none.
pub(super) fn environment(variables: &[(String, String)]) -> Vec<Finding> {
    let variables = variables.iter().filter(|(name, _)| !name.starts_with(TESTS));
    let findings: Vec<Finding> = variables.map(|(name, value)| variable(name, value)).collect();
    match findings.is_empty() {
        true => vec![fine(SECTION, "variables", "none that begins with FAIRWAY_ is set")],
        false => findings,
    }
}

fn variable(name: &str, value: &str) -> Finding {
    let known = KNOWN.iter().find(|(known, ..)| *known == name);
    let Some((_, effect, reader, check)) = known else { return unknown(name, value) };
    match check(value) {
        Ok(()) => fine(SECTION, name, format!("'{value}', read by {reader}")),
        Err(why) => fine(SECTION, name, format!("'{value}' is refused by {reader}: {why}")).but(
            match effect {
                Refused::Context => Verdict::Broken,
                Refused::Part => Verdict::Missing,
            },
            format!("set it to a value that is allowed, or unset {name}"),
        ),
    }
}

/// A variable that nothing reads.
fn unknown(name: &str, value: &str) -> Finding {
    let near = KNOWN.iter().map(|(known, ..)| (distance(name, known), *known)).min();
    let remedy = match near.filter(|(letters, _)| *letters <= TYPOS) {
        Some((_, known)) => format!("write {known}, or unset {name}"),
        None => format!("unset {name}, or give a variable of yours another name"),
    };
    fine(SECTION, name, format!("'{value}' has no effect: nothing of Fairway reads it"))
        .but(Verdict::Missing, remedy)
}

/// Number of letters to insert, remove or replace to turn one name into the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, other) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// For values that only their reader can judge.
fn any(_: &str) -> Result<(), Wrong> {
    Ok(())
}

/// The readers take an empty text for an unset variable.
fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<(), Wrong> {
    match text.trim() {
        "" => Ok(()),
        text => text.parse::<T>().map(drop).map_err(Wrong::parser),
    }
}

fn range(text: &str, least: u64, most: u64) -> Result<(), Wrong> {
    match text.trim().parse::<u64>() {
        _ if text.trim().is_empty() => Ok(()),
        Ok(number) if (least..=most).contains(&number) => Ok(()),
        _ => Err(Wrong::Range(least, most)),
    }
}

fn one_of(text: &str, allowed: &[&str]) -> Result<(), Wrong> {
    let text = text.trim();
    match text.is_empty() || allowed.contains(&text) {
        true => Ok(()),
        false => Err(Wrong::Names(allowed.join(", "))),
    }
}

fn switch(text: &str) -> Result<(), Wrong> {
    one_of(text, &["1", "0", "on", "off", "yes", "no", "true", "false"])
}

fn provider(text: &str) -> Result<(), Wrong> {
    one_of(text, &["roce", "fairway"])
}

/// Any value but 1 leaves the statistics off.
fn statistics(text: &str) -> Result<(), Wrong> {
    one_of(text, &["1", "0"])
}

/// An empty text is refused, too, as by the library.
fn datapath(text: &str) -> Result<(), Wrong> {
    text.parse::<DatapathKind>().map(drop).map_err(Wrong::parser)
}

fn dscp(text: &str) -> Result<(), Wrong> {
    text.parse::<Dscp>().map(drop).map_err(Wrong::parser)
}

fn engine(text: &str) -> Result<(), Wrong> {
    let (interpreted, compiled) = (Engine::Interpreted.name(), Engine::Compiled.name());
    match text == compiled && !Engine::Compiled.is_built_in() {
        true => Err(Wrong::Engine(interpreted)),
        false if text.is_empty() || text == compiled || text == interpreted => Ok(()),
        false => Err(Wrong::Names(format!("{interpreted} or {compiled}"))),
    }
}

/// Folders, separated as in PATH.
fn folders(text: &str) -> Result<(), Wrong> {
    let absent = std::env::split_paths(text).find(|folder| {
        let is_named = folder.as_path() != Path::new("");
        is_named && !folder.is_dir()
    });
    absent.map_or(Ok(()), |folder| Err(Wrong::Folder(folder)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, value: &str) -> Finding {
        let mut findings = environment(&[(name.into(), value.into())]);
        assert_eq!(findings.len(), 1);
        findings.swap_remove(0)
    }

    #[test]
    fn values_that_are_allowed_are_fine() {
        for (name, value) in [
            ("FAIRWAY_DATAPATH", "udp"),
            ("FAIRWAY_DSCP", "off"),
            ("FAIRWAY_STATS", "1"),
            ("FAIRWAY_DEVICES", "^docker"),
            ("FAIRWAY_EMULATE", "loss=1%"),
            ("FAIRWAY_EMULATE_SEED", "7"),
            ("FAIRWAY_NCCL_SPEED", "25000"),
            ("FAIRWAY_OUT_OF_ORDER", "on"),
            ("FAIRWAY_PATHS", "256"),
            ("FAIRWAY_POLICY", "sched=drr"),
            ("FAIRWAY_POLICY_ENGINE", "interpreted"),
            ("FAIRWAY_PROVIDER", "fairway"),
            ("FAIRWAY_WEIGHTS", ""),
        ] {
            assert_eq!(of(name, value).verdict, Verdict::Ok, "{name}={value}");
        }
    }

    #[test]
    fn values_that_are_refused_are_broken_if_no_context_can_be_built() {
        for name in ["FAIRWAY_DATAPATH", "FAIRWAY_DSCP"] {
            for value in ["nosuch", ""] {
                let finding = of(name, value);
                assert_eq!(finding.verdict, Verdict::Broken, "{finding:?}");
                assert!(finding.remedy.is_some_and(|remedy| remedy.contains("unset")));
            }
        }
        for (name, value) in [
            ("FAIRWAY_STATS", "yes"),
            ("FAIRWAY_DEVICES", "a,,b"),
            ("FAIRWAY_EMULATE", "loss=2"),
            ("FAIRWAY_NCCL_SPEED", "0"),
            ("FAIRWAY_OUT_OF_ORDER", "maybe"),
            ("FAIRWAY_PATHS", "257"),
            ("FAIRWAY_POLICIES", "/nothing/at/all"),
            ("FAIRWAY_POLICY", "cc=reno"),
            ("FAIRWAY_POLICY_ENGINE", "jit"),
            ("FAIRWAY_PROVIDER", "ucx"),
        ] {
            assert_eq!(of(name, value).verdict, Verdict::Missing, "{name}={value}");
        }
    }

    #[test]
    fn unknown_name_is_answered_with_the_nearest_known_one() {
        let finding = of("FAIRWAY_DATPATH", "udp");
        assert_eq!(finding.verdict, Verdict::Missing);
        assert!(finding.remedy.is_some_and(|remedy| remedy.contains("write FAIRWAY_DATAPATH,")));
        let far = of("FAIRWAY_HOME", "/opt");
        assert!(far.remedy.is_some_and(|remedy| remedy.starts_with("unset FAIRWAY_HOME")));
        assert_eq!(of("FAIRWAY_TEST_ENGINES", "2").name, "variables");
        assert_eq!(environment(&[])[0].verdict, Verdict::Ok);
    }

    #[test]
    fn distances_are_counted_in_letters() {
        for (one, other, letters) in
            [("a", "a", 0), ("abc", "ac", 1), ("ab", "ba", 2), ("", "x", 1)]
        {
            assert_eq!(distance(one, other), letters, "{one} {other}");
        }
    }
}
