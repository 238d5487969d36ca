//! Checks that operations do not wait where no order is requested.
//!
//! Each run by itself shows whether an operation took effect too early. Only all runs together show
//! whether an operation waits without a reason: for every two operations that no rule orders, there
//! has to be a run in which the later takes effect before the earlier.

use super::history::{Event, History};
use super::program::{Operation, Program};
use super::spec::{Rule, Violation, orders};

/// Tracks which pairs of operations were seen in either order.
#[derive(Clone, Debug)]
pub struct Freedom {
    /// By earlier and later operation: true if the pair is unordered and has not been seen
    /// reversed.
    wanted: Vec<Vec<bool>>,
}

impl Freedom {
    /// Starts without observations. Only one-packet operations that are not refused are tracked.
    pub fn new(program: &Program) -> Self {
        let count = program.operations.len();
        let ordered = closure(program);
        let small = |op: usize| program.operations[op].packets() == 1 && !program.is_doomed(op);
        let wanted = |earlier: usize, later: usize| {
            earlier < later && !ordered[earlier][later] && small(earlier) && small(later)
        };
        let row = |earlier| (0..count).map(|later| wanted(earlier, later)).collect();
        Freedom { wanted: (0..count).map(row).collect() }
    }

    /// Tracks no pair.
    pub fn none() -> Self {
        Freedom { wanted: Vec::new() }
    }

    /// Evaluates one run.
    pub fn observe(&mut self, history: &History) {
        let effects = |op: usize| {
            let is_it = move |event: &&Event| event.what.op() == op && event.what.is_effect();
            history.events().iter().filter(is_it)
        };
        for (earlier, row) in self.wanted.iter_mut().enumerate() {
            for (later, wanted) in row.iter_mut().enumerate().filter(|(_, wanted)| **wanted) {
                let free = effects(later)
                    .any(|second| !effects(earlier).any(|first| first.is_before(second)));
                *wanted = !free;
            }
        }
    }

    /// Returns the pairs, earlier and later, that have not been seen reversed.
    pub fn missing(&self) -> Vec<(usize, usize)> {
        let pairs = |(earlier, row): (usize, &Vec<bool>)| {
            let is_wanted = |(later, wanted): (usize, &bool)| wanted.then_some((earlier, later));
            row.iter().enumerate().filter_map(is_wanted).collect::<Vec<_>>()
        };
        self.wanted.iter().enumerate().flat_map(pairs).collect()
    }

    /// Checks that every tracked pair was seen reversed.
    ///
    /// # Errors
    /// Names the first pair that was not.
    pub fn check(&self) -> Result<(), Violation> {
        match self.missing().first() {
            None => Ok(()),
            Some(&(first, second)) => {
                let why = String::from("the second waits for the first, and no rule says so");
                Err(Violation { rule: Rule::Freedom, first, second, why })
            }
        }
    }
}

/// Returns which operations must take effect before which, directly or by way of others.
fn closure(program: &Program) -> Vec<Vec<bool>> {
    let operations = &program.operations;
    let count = operations.len();
    let mut ordered = vec![vec![false; count]; count];
    for later in 0..count {
        for earlier in (0..later).rev() {
            let by_way = (earlier + 1..later)
                .any(|between| ordered[earlier][between] && ordered[between][later]);
            ordered[earlier][later] = by_way
                || orders(&operations[earlier], &operations[later])
                || (earlier + 1..later).any(|between| {
                    completes_between(&operations[earlier], &operations[between])
                        && fences(&operations[between], &operations[later])
                });
        }
    }
    ordered
}

/// True if `between` completes only after `earlier` has completed.
fn completes_between(earlier: &Operation, between: &Operation) -> bool {
    between.order.complete_in_order && between.jetty == earlier.jetty
}

/// True if `later` waits until `between` has completed.
fn fences(between: &Operation, later: &Operation) -> bool {
    later.order.fence && between.is_fetching() && between.jetty == later.jetty
}
