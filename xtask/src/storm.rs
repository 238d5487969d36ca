//! `storm` and `injected-bugs`: the randomized whole-system test, for any number of seeds.
//!
//! ```text
//! storm [--seeds A..B] [--threads N]          run a range of seeds; stop at the first that fails;
//!                                             print one hash of all packets and completions
//!       [--where CONDITION,...]               only seeds whose plan meets each condition: a name
//!                                             ("not zero"), NAME>=N or NAME<=N
//!       [--list]                              print those seeds, and run none
//!       [--plan-of SEED]                      with the plan of one seed: nodes, links, limits,
//!                                             policies, kinds of operations and faults
//!       [--bug NAME]                          with a bug injected, to find a seed that catches it
//! storm --seed N [--plan-of SEED] [--bug NAME] run one seed; print or write every event
//!       [--trace] [--trace-file F]
//! injected-bugs                               inject every known bug; each has to be caught
//! ```

use fairway_storm::engine::{DropReason, InjectedBug};
use fairway_storm::storm::{self, Options, Report};
use fairway_storm::{Condition, Fault, Variation, bug_runs, matching, sweep, threads};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::time::Instant;

/// A range of seeds to run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Search {
    seeds: Range<u64>,
    threads: usize,
    variation: Variation,
    /// Seeds whose plan does not meet these are skipped.
    conditions: Vec<Condition>,
}

/// The requested task.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Order {
    Range(Search),
    List { seeds: Range<u64>, conditions: Vec<Condition> },
    One { seed: u64, variation: Variation, trace: bool, file: Option<String> },
}

const USAGE: &str = "usage: storm [--seeds A..B] [--threads N] [--where CONDITION,... [--list]] \
                     [--plan-of SEED] [--bug NAME] | storm --seed N [--plan-of SEED] \
                     [--bug NAME] [--trace] [--trace-file FILE]\n\
                     conditions on plans: QUANTITY (not zero), QUANTITY>=N, QUANTITY<=N";
/// Default seeds.
const SEEDS: Range<u64> = 0..20_000;
/// Number of seeds between two lines of progress.
const PROGRESS: u64 = 5_000;
/// Combines the hashes of seeds into one: 2^64 divided by the golden ratio, odd.
const DIGEST_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
/// Number of seeds in which an injected bug must be caught.
const BUG_SEEDS: u64 = 1_000;

/// Runs `storm` with the arguments that follow it. The error of a failing seed ends with the
/// command that replays it.
pub fn run(arguments: &[String]) -> io::Result<()> {
    let order = parse(arguments).ok_or_else(|| io::Error::other(usage()))?;
    let bug = match &order {
        Order::Range(Search { variation, .. }) | Order::One { variation, .. } => variation.bug,
        Order::List { .. } => None,
    };
    if bug.is_some() && !cfg!(feature = "injected-bugs") {
        let text = "build with `--features injected-bugs` to have bugs to inject";
        return Err(io::Error::other(text));
    }
    match order {
        Order::Range(search) => range(search),
        Order::List { seeds, conditions } => {
            matching(seeds, &conditions).for_each(|seed| println!("{seed}"));
            Ok(())
        }
        Order::One { seed, variation, trace, file } => one(seed, variation, trace, file),
    }
}

fn usage() -> String {
    let quantities: Vec<_> = Condition::quantities().collect();
    format!("{USAGE}\nquantities of plans: {}", quantities.join(", "))
}

fn parse(arguments: &[String]) -> Option<Order> {
    let (mut seeds, mut seed, mut count, mut trace, mut file) =
        (None, None, threads(), false, None);
    let mut variation = Variation::default();
    let (mut conditions, mut lists) = (Vec::new(), false);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--trace" => trace = true,
            "--list" => lists = true,
            "--trace-file" => file = Some(words.next()?.clone()),
            "--threads" => count = words.next()?.parse().ok()?,
            "--bug" => {
                let name = words.next()?;
                let known = InjectedBug::ALL.into_iter().find(|bug| format!("{bug:?}") == *name);
                variation.bug = Some(known?);
            }
            "--plan-of" => variation.plan_of = Some(words.next()?.parse().ok()?),
            "--where" => {
                let read: Option<Vec<_>> = words.next()?.split(',').map(Condition::parse).collect();
                conditions.extend(read?);
            }
            "--seed" => seed = Some(words.next()?.parse().ok()?),
            "--seeds" => {
                let (from, to) = words.next()?.split_once("..")?;
                seeds = Some(from.parse().ok()?..to.parse().ok()?);
            }
            _ => return None,
        }
    }
    match (seeds, seed) {
        (seeds, None) if !trace && file.is_none() => {
            let seeds = seeds.unwrap_or(SEEDS);
            if lists {
                let is_plain = variation == Variation::default();
                return is_plain.then_some(Order::List { seeds, conditions });
            }
            Some(Order::Range(Search { seeds, threads: count, variation, conditions }))
        }
        (None, Some(seed)) if conditions.is_empty() && !lists => {
            Some(Order::One { seed, variation, trace, file })
        }
        _ => None,
    }
}

fn range(search: Search) -> io::Result<()> {
    let Search { seeds, threads, variation, conditions } = search;
    println!("storm seeds {}..{} on {threads} threads", seeds.start, seeds.end);
    let start = Instant::now();
    let mut sums: Option<Report> = None;
    let mut done = 0;
    let mut digest = 0_u64;
    let mut failed = None;
    let all = seeds.end.saturating_sub(seeds.start);
    sweep(seeds, threads, variation, &conditions, |outcome| match outcome {
        Ok(report) => {
            done += 1;
            digest = digest.rotate_left(5).wrapping_mul(DIGEST_FACTOR) ^ report.hash;
            add(&mut sums, report);
            if done % PROGRESS == 0 {
                println!("{done} seeds passed in {:.0?}", start.elapsed());
            }
            true
        }
        Err(failure) => {
            failed = Some(failure);
            false
        }
    });
    if let Some(failure) = failed {
        return Err(io::Error::other(failure));
    }
    println!("{done} seeds passed in {:.1?}", start.elapsed());
    if !conditions.is_empty() {
        println!("{} seeds were skipped, whose plans do not meet the conditions", all - done);
    }
    if let Some(sums) = &sums {
        summary(sums);
    }
    println!("digest of all packets and completions: {digest:016x}");
    Ok(())
}

fn add(sums: &mut Option<Report>, report: Report) {
    let Some(sums) = sums else {
        *sums = Some(report);
        return;
    };
    let add = |sums: &mut [u64], counts: &[u64]| {
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    };
    sums.operations += report.operations;
    sums.packets += report.packets;
    sums.data_packets += report.data_packets;
    sums.carrying += report.carrying;
    sums.resent += report.resent;
    sums.healing = sums.healing.max(report.healing);
    add(&mut sums.faults, &report.faults);
    add(&mut sums.drops, &report.drops);
    add(&mut sums.statuses, &report.statuses);
}

fn summary(report: &Report) {
    println!(
        "{} operations, {} packets, {} data packets, {} with an acknowledgement, {} resent; healed \
         after {} us at most",
        report.operations,
        report.packets,
        report.data_packets,
        report.carrying,
        report.resent,
        report.healing.as_us()
    );
    for (fault, count) in Fault::ALL.iter().zip(report.faults) {
        println!("  fault  {:<20} {count}", format!("{fault:?}"));
    }
    for (reason, count) in DropReason::ALL.iter().zip(report.drops) {
        println!("  drop   {:<20} {count}", format!("{reason:?}"));
    }
    for (status, count) in storm::STATUSES.iter().zip(report.statuses) {
        println!("  status {:<20} {count}", format!("{status:?}"));
    }
}

fn one(seed: u64, variation: Variation, trace: bool, file: Option<String>) -> io::Result<()> {
    println!("storm seed {seed}");
    let sink: Option<Box<dyn Write>> = match file {
        Some(name) => Some(Box::new(BufWriter::new(std::fs::File::create(name)?))),
        None if trace => Some(Box::new(BufWriter::new(io::stdout()))),
        None => None,
    };
    let options = Options { trace: sink, ..variation.options() };
    let report = storm::run(seed, options).map_err(io::Error::other)?;
    summary(&report);
    Ok(())
}

/// Injects each bug in turn, and fails unless some seed fails.
pub fn injected_bugs() -> io::Result<()> {
    if !cfg!(feature = "injected-bugs") {
        return Err(io::Error::other(
            "build with `--features injected-bugs` to have bugs to inject",
        ));
    }
    // An injected bug may also fail an assertion of the protocol; that counts as caught, not as a
    // crash.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut free = Vec::new();
    for bug in InjectedBug::ALL {
        let inject =
            |(seed, variation): (u64, Variation)| storm::run(seed, variation.options()).err();
        let caught = bug_runs(bug, BUG_SEEDS).find_map(inject);
        let Some(failure) = caught else {
            free.push(bug);
            continue;
        };
        let first = failure.message.lines().next().unwrap_or_default();
        let text: String = first.chars().take(100).collect();
        println!("{bug:?}: caught by seed {}: {text}", failure.seed);
    }
    std::panic::set_hook(hook);
    match free.as_slice() {
        [] => Ok(()),
        free => Err(io::Error::other(format!("not caught by {BUG_SEEDS} seeds: {free:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_or_refused() {
        let parse = |text: &str| {
            let words: Vec<String> = text.split_whitespace().map(String::from).collect();
            parse(&words)
        };
        let default = Search {
            seeds: SEEDS,
            threads: threads(),
            variation: Variation::default(),
            conditions: Vec::new(),
        };
        assert_eq!(parse(""), Some(Order::Range(default.clone())));
        let short = Search { seeds: 3..9, threads: 2, ..default };
        assert_eq!(parse("--seeds 3..9 --threads 2"), Some(Order::Range(short.clone())));
        let conditions = ["close>=5", "puts"].map(|text| Condition::parse(text).unwrap()).to_vec();
        assert_eq!(
            parse("--seeds 3..9 --threads 2 --where close>=5,puts"),
            Some(Order::Range(Search { conditions, ..short.clone() }))
        );
        let conditions = vec![Condition::parse("close").unwrap()];
        assert_eq!(
            parse("--seeds 3..9 --where close --list"),
            Some(Order::List { seeds: 3..9, conditions })
        );
        let variation = Variation { bug: Some(InjectedBug::LeakSlot), plan_of: Some(5) };
        assert_eq!(
            parse("--seeds 3..9 --threads 2 --bug LeakSlot --plan-of 5"),
            Some(Order::Range(Search { variation, ..short }))
        );
        assert_eq!(
            parse("--seed 7 --plan-of 5 --bug LeakSlot"),
            Some(Order::One { seed: 7, variation, trace: false, file: None })
        );
        let (variation, file) = (Variation::default(), Some(String::from("f")));
        assert_eq!(
            parse("--seed 7 --trace --trace-file f"),
            Some(Order::One { seed: 7, variation, trace: true, file })
        );
        for wrong in [
            "--trace",
            "--seed",
            "--seeds 1",
            "--seed x",
            "--seeds 1..2 --trace",
            "--bug Nothing",
            "--where Nothing",
            "--seed 1 --plan-of",
            "--seed 1 --where close",
            "--seed 1 --list",
            "--list --bug LeakSlot",
            "other",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
