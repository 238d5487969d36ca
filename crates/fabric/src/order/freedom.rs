//! Where no order is asked for, no operation waits.
//!
//! That nothing comes too early is seen in each run; that nothing waits without a reason is seen
//! only in all of them together: for every two operations between which no rule demands an order,
//! there has to be one in which the later takes effect while the earlier has not.

use super::history::{Event, History};
use super::program::{Operation, Program};
use super::spec::{Rule, Violation, orders};

/// Which operations were seen to be free of each other.
#[derive(Clone, Debug)]
pub struct Freedom {
    /// By earlier and later operation: is it demanded, and not seen yet?
    wanted: Vec<Vec<bool>>,
}

impl Freedom {
    /// Nothing was seen yet. Operations of one packet that are not refused are looked at.
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

    /// Nothing is wanted.
    pub fn none() -> Self {
        Freedom { wanted: Vec::new() }
    }

    /// Looks at one run.
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

    /// The pairs, earlier and later, that were not seen to be free of each other.
    pub fn missing(&self) -> Vec<(usize, usize)> {
        let pairs = |(earlier, row): (usize, &Vec<bool>)| {
            let is_wanted = |(later, wanted): (usize, &bool)| wanted.then_some((earlier, later));
            row.iter().enumerate().filter_map(is_wanted).collect::<Vec<_>>()
        };
        self.wanted.iter().enumerate().flat_map(pairs).collect()
    }

    /// The first pair that was never seen to be free of each other.
    ///
    /// # Errors
    /// If there is one.
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

/// Which operations have to take effect before which, directly or by way of others.
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

/// Does `between` complete only after `earlier` has?
fn completes_between(earlier: &Operation, between: &Operation) -> bool {
    between.order.complete_in_order && between.jetty == earlier.jetty
}

/// Does `later` wait until `between` has completed?
fn fences(between: &Operation, later: &Operation) -> bool {
    later.order.fence && between.is_fetching() && between.jetty == later.jetty
}
