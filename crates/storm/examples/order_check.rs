//! The long search for schedules that break the rules of order; see `fairway_storm::order`.
//!
//! `order_check [deep [THREADS]]` runs the whole search; `order_check drawn SEED COUNT BOUNDS` runs
//! random programs; `order_check explore PROGRAM BOUNDS` explores one program; `order_check replay
//! PROGRAM BOUNDS CHOICES SLOW [drawn]` repeats one schedule.

use fairway_storm::order::programs::{
    Findings, MODES, Space, asks_in_vain, everything, medium, plain, search, search_drawn,
    to_two_nodes,
};
use fairway_storm::order::{Bounds, Choices, Exploration, Kind, Program, explore, replay};
use fairway_storm::threads;
use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

/// State of the long search, which consists of several parts.
struct Deep {
    threads: usize,
    sum: Exploration,
    failed: usize,
}

impl Deep {
    fn report(&mut self, name: &str, bounds: &Bounds, started: Instant, findings: &Findings) {
        let seconds = started.elapsed().as_secs_f64();
        let skipped = findings.skipped;
        println!("{name} [{bounds}]: {}, {skipped} left out, {seconds:.1} s", findings.sum);
        for failing in &findings.failing {
            println!("FAILED: {failing}\n");
        }
        self.sum.add(&findings.sum);
        self.failed += findings.failing.len();
    }

    /// Explores every program of a space.
    fn whole(&mut self, space: &Space, limits: &str) {
        let (started, bounds) = (Instant::now(), bounds(limits));
        let findings = search(space, &bounds, 1, self.threads, |_| false);
        let name = format!("{} (all {} programs)", space.name, space.count());
        self.report(&name, &bounds, started, &findings);
    }

    /// Explores every `stride`th program, except those whose fences and tags have nothing to wait
    /// for.
    fn space(&mut self, space: &Space, limits: &str, stride: u64) {
        let (started, bounds) = (Instant::now(), bounds(limits));
        let findings = search(space, &bounds, stride, self.threads, asks_in_vain);
        let count = space.count();
        let every = if stride == 1 { String::new() } else { format!(", every {stride}th") };
        let name = format!("{} ({count} programs{every})", space.name);
        self.report(&name, &bounds, started, &findings);
    }

    fn drawn(&mut self, seeds: std::ops::Range<u64>, most: u64, limits: &str, runs: u64) {
        let (started, bounds) = (Instant::now(), bounds(limits));
        let name = format!("seeds {seeds:?}, up to {most} operations, {runs} schedules each");
        let findings = search_drawn(seeds, most, &bounds, runs, self.threads);
        self.report(&name, &bounds, started, &findings);
    }
}

fn bounds(text: &str) -> Bounds {
    text.parse().expect("bounds")
}

/// Explores random programs only; every range of seeds gives other programs.
fn drawn(first: u64, count: u64, limits: &str) -> ExitCode {
    let mut deep = Deep { threads: threads(), sum: Exploration::default(), failed: 0 };
    deep.drawn(first..first + count, 6, limits, 40);
    if deep.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn deep(threads: usize) -> ExitCode {
    let started = Instant::now();
    let mut deep = Deep { threads, sum: Exploration::default(), failed: 0 };
    let two = vec![0, 0];
    let space = |name, alphabet: &[_], length, jetties: &[usize]| Space {
        name,
        alphabet: alphabet.to_vec(),
        length,
        jetties: jetties.to_vec(),
    };
    let all = everything();
    deep.space(&space("one operation", &all, 1, &[0]), "2,2,1,2,2,1,20000", 1);
    deep.whole(&space("two operations", &all, 2, &two), "1,0,0,0,0,0,2000");
    deep.space(&space("two operations", &all, 2, &two), "2,1,1,1,1,0,600", 1);
    deep.space(&space("two operations, no staging memory", &all, 2, &two), "2,1,0,1,0,0,200,0", 1);
    let some = medium(&MODES);
    deep.space(&space("three operations", &some, 3, &two), "1,0,0,0,0,0,60", 5);
    deep.space(&space("three operations, one place", &some, 3, &two), "2,1,0,1,0,0,20,1", 7);
    for mode in MODES {
        let alphabet = medium(&[mode]);
        deep.space(&space("three, one mode", &alphabet, 3, &two), "2,1,1,1,1,1,200", 1);
    }
    let kinds = [Kind::Write(1), Kind::Read(1)];
    for mode in MODES {
        let alphabet = plain(&[mode], &kinds);
        deep.space(&space("four, one mode", &alphabet, 4, &two), "2,1,0,1,0,0,100", 1);
        deep.space(&space("five, one mode", &alphabet, 5, &[0]), "3,0,0,0,0,0,60", 1);
        let alphabet = plain(&[mode], &[Kind::Write(1), Kind::Atomic]);
        deep.space(&space("four, atomics", &alphabet, 4, &two), "2,1,0,1,0,0,60,1", 1);
    }
    let across = to_two_nodes(&plain(&MODES, &kinds));
    deep.space(&space("two nodes, two", &across, 2, &[0]), "1,1,1,1,0,0,500", 1);
    deep.space(&space("two nodes, three", &across, 3, &[0]), "1,0,0,0,0,0,60", 2);
    let aliased = plain(&MODES, &kinds);
    deep.space(&space("equal numbers", &aliased, 3, &[0, 2]), "1,0,0,0,0,0,60", 1);
    let sends = plain(&MODES, &[Kind::Send(1), Kind::Write(1)]);
    deep.space(&space("late receives", &sends, 3, &two), "1,1,0,1,0,0,60,16,3", 1);
    deep.drawn(0..20_000, 5, "3,2,1,3,2,1,0", 40);
    deep.drawn(20_000..40_000, 6, "6,1,1,2,0,2,0,1", 40);
    deep.drawn(40_000..60_000, 6, "4,2,1,2,1,1,0,16,3", 40);
    let seconds = started.elapsed().as_secs();
    println!("all: {}, {} failures, {seconds} s", deep.sum, deep.failed);
    if deep.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(program: &str, limits: &str) -> Result<(), Box<dyn Error>> {
    let program: Program = program.parse()?;
    match explore(&program, &limits.parse()?) {
        Ok(sum) => println!("{sum}"),
        Err(failing) => println!("{failing}"),
    }
    Ok(())
}

fn again(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let &[program, limits, list, slow, ref rest @ ..] = arguments else {
        return Err("replay PROGRAM BOUNDS CHOICES SLOW [drawn]".into());
    };
    let program: Program = program.parse()?;
    let number = |word: &str| word.parse::<u8>().map_err(|_| format!("not a number: {word}"));
    let listed = |text: &str| match text {
        "-" => Ok(Vec::new()),
        list => list.split(',').map(number).collect::<Result<Vec<u8>, String>>(),
    };
    let slow = if slow == "-" { None } else { Some(usize::from(number(slow)?)) };
    let mut choices = Choices::listed(&listed(list)?, rest.contains(&"drawn"));
    match replay(&program, &limits.parse()?, &mut choices, slow) {
        Ok(run) => println!("{}nothing is wrong", run.history.describe(&program)),
        Err((failure, run)) => println!("{}{failure}", run.history.describe(&program)),
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match &words[..] {
        [] | ["deep"] => return deep(threads()),
        ["deep", count] => return deep(count.parse().unwrap_or(1)),
        ["drawn", first, count, limits] => {
            let number = |word: &str| word.parse().unwrap_or(0);
            return drawn(number(first), number(count), limits);
        }
        ["explore", program, limits] => one(program, limits),
        ["replay", rest @ ..] => again(rest),
        _ => Err("order_check [deep [THREADS] | drawn … | explore … | replay …]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
