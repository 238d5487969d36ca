//! `storm` and `injected-bugs`: the randomized whole-system test, for any number of seeds.
//!
//! ```text
//! storm [--seeds A..B] [--threads N]          run a range of seeds; stop at the first that fails;
//!                                             print one hash of all packets and completions
//!       [--bug NAME]                       with a bug injected, to find a seed that catches it
//! storm --seed N [--trace] [--trace-file F]   run one seed, printing every event
//! injected-bugs                               inject every known bug; each has to be caught
//! ```

use fairway_storm::engine::{DropReason, InjectedBug};
use fairway_storm::storm::{self, Options, Report};
use fairway_storm::{Fault, bug_seeds, sweep, threads};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::time::Instant;

/// The requested task.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Order {
    Range { seeds: Range<u64>, threads: usize, bug: Option<InjectedBug> },
    One { seed: u64, trace: bool, file: Option<String> },
}

const USAGE: &str = "usage: storm [--seeds A..B] [--threads N] [--bug NAME] | storm --seed N \
                     [--trace] [--trace-file FILE]";
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
    match parse(arguments).ok_or_else(|| io::Error::other(USAGE))? {
        Order::Range { bug: Some(_), .. } if !cfg!(feature = "injected-bugs") => {
            Err(io::Error::other("build with `--features injected-bugs` to have bugs to inject"))
        }
        Order::Range { seeds, threads, bug } => range(seeds, threads, bug),
        Order::One { seed, trace, file } => one(seed, trace, file),
    }
}

fn parse(arguments: &[String]) -> Option<Order> {
    let (mut seeds, mut seed, mut count, mut trace, mut file) =
        (None, None, threads(), false, None);
    let mut bug = None;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--trace" => trace = true,
            "--trace-file" => file = Some(words.next()?.clone()),
            "--threads" => count = words.next()?.parse().ok()?,
            "--bug" => {
                let name = words.next()?;
                bug = Some(InjectedBug::ALL.into_iter().find(|bug| format!("{bug:?}") == *name)?);
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
            Some(Order::Range { seeds: seeds.unwrap_or(SEEDS), threads: count, bug })
        }
        (None, Some(seed)) if bug.is_none() => Some(Order::One { seed, trace, file }),
        _ => None,
    }
}

fn range(seeds: Range<u64>, threads: usize, bug: Option<InjectedBug>) -> io::Result<()> {
    println!("storm seeds {}..{} on {threads} threads", seeds.start, seeds.end);
    let start = Instant::now();
    let mut sums: Option<Report> = None;
    let mut done = 0;
    let mut digest = 0_u64;
    let mut failed = None;
    sweep(seeds, threads, bug, |outcome| match outcome {
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
    sums.resent += report.resent;
    sums.healing = sums.healing.max(report.healing);
    add(&mut sums.faults, &report.faults);
    add(&mut sums.drops, &report.drops);
    add(&mut sums.statuses, &report.statuses);
}

fn summary(report: &Report) {
    println!(
        "{} operations, {} packets, {} data packets, {} resent; healed after {} us at most",
        report.operations,
        report.packets,
        report.data_packets,
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

fn one(seed: u64, trace: bool, file: Option<String>) -> io::Result<()> {
    println!("storm seed {seed}");
    let sink: Option<Box<dyn Write>> = match file {
        Some(name) => Some(Box::new(BufWriter::new(std::fs::File::create(name)?))),
        None if trace => Some(Box::new(BufWriter::new(io::stdout()))),
        None => None,
    };
    let report = storm::run(seed, Options { trace: sink, bug: None }).map_err(io::Error::other)?;
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
        let inject = |seed| storm::run(seed, Options { trace: None, bug: Some(bug) }).err();
        let caught = bug_seeds(bug, BUG_SEEDS).find_map(inject);
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
        let default = Order::Range { seeds: SEEDS, threads: threads(), bug: None };
        assert_eq!(parse(""), Some(default));
        assert_eq!(
            parse("--seeds 3..9 --threads 2"),
            Some(Order::Range { seeds: 3..9, threads: 2, bug: None })
        );
        let bug = Some(InjectedBug::LeakSlot);
        assert_eq!(
            parse("--seeds 3..9 --threads 2 --bug LeakSlot"),
            Some(Order::Range { seeds: 3..9, threads: 2, bug })
        );
        let file = Some(String::from("f"));
        assert_eq!(
            parse("--seed 7 --trace --trace-file f"),
            Some(Order::One { seed: 7, trace: true, file })
        );
        for wrong in [
            "--trace",
            "--seed",
            "--seeds 1",
            "--seed x",
            "--seeds 1..2 --trace",
            "--bug Nothing",
            "--seed 1 --bug LeakSlot",
            "other",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
