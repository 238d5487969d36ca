//! All schedules of a program, one after the other.

use super::bounds::Bounds;
use super::choices::Choices;
use super::freedom::Freedom;
use super::program::Program;
use super::run::{Failure, Run, run};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What was gone through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exploration {
    /// Programs.
    pub programs: u64,
    /// Programs of which every schedule within the bounds was run.
    pub complete: u64,
    /// Schedules that were run to their end.
    pub runs: u64,
    /// Schedules that were given up because another stands for them.
    pub pruned: u64,
    /// Things that happened in all runs.
    pub steps: u64,
}

impl Exploration {
    /// Adds what another one went through.
    pub fn add(&mut self, other: &Exploration) {
        self.programs += other.programs;
        self.complete += other.complete;
        self.runs += other.runs;
        self.pruned += other.pruned;
        self.steps += other.steps;
    }
}

impl fmt::Display for Exploration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exploration { programs, complete, runs, pruned, steps } = self;
        write!(
            f,
            "{programs} programs ({complete} completely), {runs} runs, {pruned} cut short, {steps} steps"
        )
    }
}

/// A run in which something was wrong, and how to see it again.
#[derive(Clone, Debug)]
pub struct Failing {
    /// The program.
    pub program: Program,
    /// The bounds.
    pub bounds: Bounds,
    /// The schedule; the first of each choice after its end.
    pub choices: Vec<u8>,
    /// Was the schedule drawn? Then no choice was left out for another's sake.
    pub drawn: bool,
    /// The operation whose request was held back.
    pub slow: Option<usize>,
    /// What was wrong.
    pub failure: Failure,
    /// What was seen.
    pub history: String,
}

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.failure)?;
        write!(f, "{}", self.history)?;
        let list: Vec<String> = self.choices.iter().map(ToString::to_string).collect();
        let list = if list.is_empty() { String::from("-") } else { list.join(",") };
        let slow = self.slow.map_or_else(|| String::from("-"), |op| op.to_string());
        let drawn = if self.drawn { " drawn" } else { "" };
        write!(
            f,
            "again: cargo run --release -p fairway-fabric --example order_check -- \
             replay '{}' {} {list} {slow}{drawn}",
            self.program, self.bounds
        )
    }
}

/// Runs every schedule of `program` within `bounds`, and those in which one operation is held
/// back as long as anything else can happen. If there are more than `bounds.runs`, half of the
/// schedules are drawn.
///
/// # Errors
/// The first run in which something was wrong.
pub fn explore(program: &Program, bounds: &Bounds) -> Result<Exploration, Box<Failing>> {
    let mut sum = Exploration { programs: 1, ..Exploration::default() };
    let mut freedom = hold_back(program, bounds, &mut sum)?;
    let mut choices = Choices::new();
    loop {
        let done = attempt(program, bounds, &mut choices, None)?;
        count(&mut sum, &done);
        if !freedom.missing().is_empty() {
            freedom.observe(&done.history);
        }
        if !choices.advance() {
            sum.complete = 1;
            break;
        }
        if sum.runs + sum.pruned >= bounds.runs / 2 {
            // Those that were run differ in their ends: the other half is drawn.
            for seed in 0..bounds.runs / 2 {
                let done = attempt(program, bounds, &mut Choices::drawn(seed), None)?;
                count(&mut sum, &done);
            }
            break;
        }
    }
    free(program, bounds, &freedom)?;
    Ok(sum)
}

/// Holds back one operation after the other.
fn hold_back(
    program: &Program,
    bounds: &Bounds,
    sum: &mut Exploration,
) -> Result<Freedom, Box<Failing>> {
    let calm = bounds.calmed();
    // With few slots, a dead node or no receives, operations do wait for each other, and may.
    let waits = bounds.is_tight() || bounds.receives_after > 0 || program.dead.is_some();
    let mut freedom = if waits { Freedom::none() } else { Freedom::new(program) };
    for op in 0..program.operations.len() {
        if program.operations.len() > 1 {
            let done = attempt(program, &calm, &mut Choices::new(), Some(op))?;
            count(sum, &done);
            freedom.observe(&done.history);
        }
    }
    Ok(freedom)
}

fn free(program: &Program, bounds: &Bounds, freedom: &Freedom) -> Result<(), Box<Failing>> {
    freedom.check().map_err(|violation| {
        let slow = Some(violation.first);
        let (bounds, choices) = (*bounds, Vec::new());
        let (program, failure) = (program.clone(), Failure::Rule(violation));
        let history = String::new();
        Box::new(Failing { program, bounds, choices, drawn: false, slow, failure, history })
    })
}

/// Runs `runs` schedules of `program` that are drawn from `seed`.
///
/// # Errors
/// The first run in which something was wrong.
pub fn sample(
    program: &Program,
    bounds: &Bounds,
    seed: u64,
    runs: u64,
) -> Result<Exploration, Box<Failing>> {
    let mut sum = Exploration { programs: 1, ..Exploration::default() };
    let freedom = hold_back(program, bounds, &mut sum)?;
    free(program, bounds, &freedom)?;
    for number in 0..runs {
        let mut choices = Choices::drawn(seed.wrapping_mul(0x1_0001).wrapping_add(number));
        let done = attempt(program, bounds, &mut choices, None)?;
        count(&mut sum, &done);
    }
    Ok(sum)
}

/// Runs one schedule again, and writes everything that happens to standard error.
///
/// # Errors
/// What is wrong with it.
pub fn replay(
    program: &Program,
    bounds: &Bounds,
    choices: &mut Choices,
    slow: Option<usize>,
) -> Result<Run, (Failure, Run)> {
    run(program, bounds, choices, slow, true)
}

fn count(sum: &mut Exploration, done: &Run) {
    sum.steps += u64::from(done.steps);
    if done.pruned {
        sum.pruned += 1;
    } else {
        sum.runs += 1;
    }
}

/// One run; a panic is a failure as any other.
fn attempt(
    program: &Program,
    bounds: &Bounds,
    choices: &mut Choices,
    slow: Option<usize>,
) -> Result<Run, Box<Failing>> {
    let once = AssertUnwindSafe(|| run(program, bounds, choices, slow, false));
    let (failure, history) = match catch_unwind(once) {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err((failure, run))) => (failure, run.history.describe(program)),
        Err(panic) => (Failure::Contract(said(&*panic)), String::new()),
    };
    let (list, drawn) = (choices.list(), choices.is_drawn());
    Err(Box::new(Failing {
        program: program.clone(),
        bounds: *bounds,
        choices: list,
        drawn,
        slow,
        failure,
        history,
    }))
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("without words"))
}
