//! Runs many seeds on several threads. Each world is single-threaded, and results are returned in
//! the order of the seeds, independently of the threads.

use crate::recorded::RECORDED;
use crate::storm::{Failure, Options, Report, run};
use fairway_ub::InjectedBug;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

/// The seeds in which an injected bug has to be caught: those recorded for it, and the first
/// `count`.
pub fn bug_seeds(bug: InjectedBug, count: u64) -> impl Iterator<Item = u64> {
    let recorded = RECORDED.into_iter().filter(move |(other, _)| *other == bug);
    recorded.map(|(_, seed)| seed).chain(0..count)
}

/// Number of seeds that a thread takes at a time.
const BATCH: u64 = 8;

/// Runs the storm of every seed of a range and passes each outcome to `each`, in order. Stops early
/// when `each` returns false.
pub fn sweep(
    seeds: Range<u64>,
    threads: usize,
    bug: Option<InjectedBug>,
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
                        let outcome = run(seed, Options { trace: None, bug });
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
                if !each(outcome) {
                    next.store(seeds.end, Ordering::Relaxed);
                    return;
                }
            }
        }
    });
}

/// Default number of threads: the host's cores.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
