//! `storm`: the randomized whole-system test, for as many seeds as one likes.
//!
//! ```text
//! storm --seeds A..B [--threads N]            run a range of seeds; stop at the first that fails
//! storm --seed N [--trace] [--trace-file F]   run one seed, telling everything that happens
//! storm canaries                              plant every bug there is; each has to be caught
//! ```

use fairway_engine::Canary;
use fairway_fabric::storm::{self, Options, Report};
use fairway_fabric::{Fault, sweep, threads};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Order {
    Range { seeds: Range<u64>, threads: usize },
    One { seed: u64, trace: bool, file: Option<String> },
    Canaries,
}

const USAGE: &str = "usage: storm --seeds A..B [--threads N] | storm --seed N [--trace] \
                     [--trace-file FILE] | storm canaries";
/// Seeds between two lines of progress.
const PROGRESS: u64 = 5_000;
/// Seeds a canary gets to be caught in.
const CANARY_SEEDS: u64 = 1_000;

/// Runs the command with the arguments that follow `storm`.
pub fn command(arguments: &[String]) -> ExitCode {
    let Some(order) = parse(arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let fine = match order {
        Order::Range { seeds, threads } => range(seeds, threads),
        Order::One { seed, trace, file } => one(seed, trace, file),
        Order::Canaries => canaries(),
    };
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(arguments: &[String]) -> Option<Order> {
    if arguments == ["canaries"] {
        return Some(Order::Canaries);
    }
    let (mut seeds, mut seed, mut count, mut trace, mut file) = (None, None, threads(), false, None);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--trace" => trace = true,
            "--trace-file" => file = Some(words.next()?.clone()),
            "--threads" => count = words.next()?.parse().ok()?,
            "--seed" => seed = Some(words.next()?.parse().ok()?),
            "--seeds" => {
                let (from, to) = words.next()?.split_once("..")?;
                seeds = Some(from.parse().ok()?..to.parse().ok()?);
            }
            _ => return None,
        }
    }
    match (seeds, seed) {
        (Some(seeds), None) if !trace && file.is_none() => {
            Some(Order::Range { seeds, threads: count })
        }
        (None, Some(seed)) => Some(Order::One { seed, trace, file }),
        _ => None,
    }
}

fn range(seeds: Range<u64>, threads: usize) -> bool {
    println!("storm seeds {}..{} on {threads} threads", seeds.start, seeds.end);
    let start = Instant::now();
    let mut sums: Option<Report> = None;
    let mut done = 0;
    let mut fine = true;
    sweep(seeds, threads, None, |outcome| match outcome {
        Ok(report) => {
            done += 1;
            add(&mut sums, report);
            if done % PROGRESS == 0 {
                println!("{done} seeds passed in {:.0?}", start.elapsed());
            }
            true
        }
        Err(failure) => {
            println!("{failure}");
            fine = false;
            false
        }
    });
    if fine {
        println!("{done} seeds passed in {:.1?}", start.elapsed());
        if let Some(sums) = &sums {
            summary(sums);
        }
    }
    fine
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
    for (reason, count) in fairway_engine::DropReason::ALL.iter().zip(report.drops) {
        println!("  drop   {:<20} {count}", format!("{reason:?}"));
    }
    for (status, count) in storm::STATUSES.iter().zip(report.statuses) {
        println!("  status {:<20} {count}", format!("{status:?}"));
    }
}

fn one(seed: u64, trace: bool, file: Option<String>) -> bool {
    println!("storm seed {seed}");
    let sink: Option<Box<dyn Write>> = match (file, trace) {
        (Some(name), _) => match std::fs::File::create(&name) {
            Ok(file) => Some(Box::new(BufWriter::new(file))),
            Err(error) => {
                eprintln!("cannot write the trace to {name}: {error}");
                return false;
            }
        },
        (None, true) => Some(Box::new(BufWriter::new(std::io::stdout()))),
        (None, false) => None,
    };
    match storm::run(seed, Options { trace: sink, canary: None }) {
        Ok(report) => {
            summary(&report);
            true
        }
        Err(failure) => {
            println!("{failure}");
            false
        }
    }
}

fn canaries() -> bool {
    let hook = std::panic::take_hook();
    // A canary may trip an assertion of the engine as well: that is a catch, not a crash.
    std::panic::set_hook(Box::new(|_| {}));
    let mut fine = true;
    for canary in Canary::ALL {
        let mut caught = None;
        sweep(0..CANARY_SEEDS, threads(), Some(canary), |outcome| {
            caught = outcome.err();
            caught.is_none()
        });
        match caught {
            Some(failure) => {
                let first = failure.message.lines().next().unwrap_or_default();
                let text: String = first.chars().take(100).collect();
                println!("{canary:?}: caught by seed {}: {text}", failure.seed);
            }
            None => {
                println!("{canary:?}: NOT CAUGHT in {CANARY_SEEDS} seeds");
                fine = false;
            }
        }
    }
    std::panic::set_hook(hook);
    fine
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
        assert_eq!(parse("canaries"), Some(Order::Canaries));
        assert_eq!(
            parse("--seeds 3..9 --threads 2"),
            Some(Order::Range { seeds: 3..9, threads: 2 })
        );
        let file = Some(String::from("f"));
        assert_eq!(
            parse("--seed 7 --trace --trace-file f"),
            Some(Order::One { seed: 7, trace: true, file })
        );
        for wrong in ["", "--seed", "--seeds 1", "--seed x", "--seeds 1..2 --trace", "other"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
