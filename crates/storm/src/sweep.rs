//! Runs many seeds on several threads. Each world is single-threaded, and results are returned in
//! the order of the seeds, independently of the threads.

use crate::storm::{Failure, Options, Report, run};
use fairway_ub::InjectedBug;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

/// Seeds that catch injected bugs which hardly any other seed catches. Like all seeds, they stand
/// for a world only as long as the draws stay the same. If a bug is missed after a change of the
/// draws, a long range of seeds with that bug injected finds another seed (`xtask storm --bug`).
const RECORDED: [(InjectedBug, u64); 33] = [
    (InjectedBug::TakeLast, 7_533_577),
    (InjectedBug::CountOvertaking, 7_495_720),
    (InjectedBug::RetryAtOnce, 7_483_350),
    (InjectedBug::ReadLate, 5_214),
    (InjectedBug::CloseApart, 32_000_100),
    (InjectedBug::TakeAhead, 34_023_169),
    (InjectedBug::RefusedFirst, 36_027_456),
    (InjectedBug::ForgetStrict, 36_189_751),
    (InjectedBug::OldestLast, 37_053_251),
    (InjectedBug::ForgetBarring, 56_131_451),
    (InjectedBug::WaitForFlowless, 38_164_764),
    (InjectedBug::BlameReceives, 38_609_325),
    (InjectedBug::KeepRoom, 38_402_695),
    (InjectedBug::ForgetNoted, 39_068_073),
    (InjectedBug::TrustNewPath, 43_020_852),
    (InjectedBug::BeginSpent, 44_046_087),
    (InjectedBug::IgnoreEarlyRefusal, 46_536_027),
    (InjectedBug::HastyCopies, 53_313_515),
    (InjectedBug::NeverMeasured, 48_621_208),
    (InjectedBug::RetrySoon, 50_713_329),
    (InjectedBug::StoreLate, 347),
    (InjectedBug::ForgetUnplaced, 605),
    (InjectedBug::KeepCutShort, 733),
    (InjectedBug::AnswerOneProbe, 60_224_619),
    (InjectedBug::KeepSkipped, 63_441_185),
    (InjectedBug::RetryAll, 63_256_325),
    (InjectedBug::SkipParked, 64_234_769),
    (InjectedBug::EndUnplaced, 64_171_711),
    (InjectedBug::PaceIdle, 64_397_380),
    (InjectedBug::WaitForRecord, 65_054_274),
    (InjectedBug::EndInRound, 67_180_553),
    (InjectedBug::ForgetLate, 2_808),
    (InjectedBug::AnyCause, 72_073_876),
];

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
