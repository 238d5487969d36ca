//! Runs all schedules of a program, one after the other.

use super::bounds::Bounds;
use super::choices::Choices;
use super::freedom::Freedom;
use super::program::Program;
use super::run::{Failure, Run, run};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Extent of an exploration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exploration {
    /// Number of programs.
    pub programs: u64,
    /// Programs of which all schedules within the bounds were run.
    pub complete: u64,
    /// Schedules that were run to their end.
    pub runs: u64,
    /// Schedules that were abandoned because an equivalent one is run.
    pub pruned: u64,
    /// Steps of all runs.
    pub steps: u64,
}

impl Exploration {
    /// Adds another exploration.
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

/// A failed run, with what is needed to repeat it.
#[derive(Clone, Debug)]
pub struct Failing {
    /// The program.
    pub program: Program,
    /// The bounds.
    pub bounds: Bounds,
    /// The schedule; beyond its end, the first possibility of each choice.
    pub choices: Vec<u8>,
    /// True if the schedule was drawn, in which case no equivalent schedules were left out.
    pub drawn: bool,
    /// The operation whose request was delayed as long as possible.
    pub slow: Option<usize>,
    /// The failure.
    pub failure: Failure,
    /// Events of the run.
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
            "again: cargo run --release -p fairway-storm --example order_check -- \
             replay '{}' {} {list} {slow}{drawn}",
            self.program, self.bounds
        )
    }
}

/// Runs every schedule of `program` within `bounds`, and schedules that delay one operation as long
/// as anything else can happen. If there are more than `bounds.runs`, half of the schedules are
/// drawn.
///
/// # Errors
/// Returns the first run that failed.
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
            // The schedules run so far differ only near their ends, so the other half is drawn.
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

/// Delays each operation in turn as long as possible.
fn hold_back(
    program: &Program,
    bounds: &Bounds,
    sum: &mut Exploration,
) -> Result<Freedom, Box<Failing>> {
    let calm = bounds.calmed();
    // With few slots, a dead node or no receives, operations may wait for each other.
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
/// Returns the first run that failed.
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

/// Repeats one schedule, and writes every step to standard error.
///
/// # Errors
/// Returns the failure of the run.
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

/// Executes one run; a panic counts as a failure.
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
