//! Runs many seeds on several threads. Each world is single-threaded, and results are returned in
//! the order of the seeds, independently of the threads.

use crate::plan::{Condition, Plan};
use crate::recorded::RECORDED;
use crate::storm::{Failure, Options, Report, run};
use fairway_ub::InjectedBug;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

/// What distinguishes a run from the ordinary one of its seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variation {
    /// Bug to inject into every NIC. Requires the feature `injected-bugs`.
    pub bug: Option<InjectedBug>,
    /// Seed of the plan, if it is not that of the run ([`Options::plan_of`]).
    pub plan_of: Option<u64>,
}

impl Variation {
    /// Options of such a run without a trace.
    pub fn options(self) -> Options {
        Options { trace: None, bug: self.bug, plan_of: self.plan_of }
    }
}

/// The runs in which an injected bug has to be caught, each with its seed: those recorded for it,
/// the first `count` seeds, and then `count` runs of each plan that was recorded for it. A change
/// of the protocol alters what happens in a recorded run, but seldom what its plan can show.
pub fn bug_runs(bug: InjectedBug, count: u64) -> impl Iterator<Item = (u64, Variation)> {
    let recorded = move || RECORDED.iter().filter(move |recorded| recorded.bug == bug);
    let with_plan = move |seed, plan_of| (seed, Variation { bug: Some(bug), plan_of });
    let exact = recorded().map(move |known| with_plan(known.seed, known.plan_of));
    let similar = recorded().flat_map(move |known| {
        let plan_of = Some(known.plan());
        (0..count).map(move |seed| with_plan(seed, plan_of))
    });
    exact.chain((0..count).map(move |seed| with_plan(seed, None))).chain(similar)
}

/// Number of seeds that a thread takes at a time.
const BATCH: u64 = 8;

/// Runs the storm of every seed of a range whose plan meets all of `conditions`, and passes each
/// outcome to `each`, in order. Skips the other seeds. Stops early when `each` returns false.
pub fn sweep(
    seeds: Range<u64>,
    threads: usize,
    variation: Variation,
    conditions: &[Condition],
    mut each: impl FnMut(Result<Report, Failure>) -> bool,
) {
    let next = AtomicU64::new(seeds.start);
    let next = &next;
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(1024);
        for _ in 0..threads.max(1) {
            let (sender, end) = (sender.clone(), seeds.end);
            scope.spawn(move || {
                loop {
                    let first = next.fetch_add(BATCH, Ordering::Relaxed);
                    if first >= end {
                        return;
                    }
                    for seed in first..(first + BATCH).min(end) {
                        let outcome = run_if(seed, variation, conditions);
                        if sender.send((seed, outcome)).is_err() {
                            return;
                        }
                    }
                }
            });
        }
        drop(sender);
        let mut early = std::collections::BTreeMap::new();
        let mut due = seeds.start;
        for (seed, outcome) in receiver {
            early.insert(seed, outcome);
            while let Some(outcome) = early.remove(&due) {
                due += 1;
                if outcome.is_some_and(|outcome| !each(outcome)) {
                    next.store(seeds.end, Ordering::Relaxed);
                    return;
                }
            }
        }
    });
}

fn run_if(
    seed: u64,
    variation: Variation,
    conditions: &[Condition],
) -> Option<Result<Report, Failure>> {
    if !conditions.is_empty() {
        let plan = Plan::draw(variation.plan_of.unwrap_or(seed));
        if !conditions.iter().all(|condition| condition.is_met(&plan)) {
            return None;
        }
    }
    Some(run(seed, variation.options()))
}

/// The seeds of a range whose plans meet all of `conditions`.
pub fn matching(seeds: Range<u64>, conditions: &[Condition]) -> impl Iterator<Item = u64> {
    seeds.filter(move |&seed| {
        let plan = Plan::draw(seed);
        conditions.iter().all(|condition| condition.is_met(&plan))
    })
}

/// Default number of threads: the host's cores.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
