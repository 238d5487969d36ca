//! Many seeds on several threads: each world is single-threaded, and results come in the order of
//! the seeds whatever the threads do.

use crate::storm::{Failure, Options, Report, run};
use fairway_engine::Canary;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

/// Seeds that catch canaries which hardly any other seed catches. As all seeds, they stand for a
/// world only as long as the draws stay as they are: where a canary is missed after a change of
/// them, a long range of seeds with the canary planted finds another (`xtask storm --canary`).
const RECORDED: [(Canary, u64); 33] = [
    (Canary::TakeLast, 7_533_577),
    (Canary::CountOvertaking, 7_495_720),
    (Canary::RetryAtOnce, 7_483_350),
    (Canary::ReadLate, 5_214),
    (Canary::CloseApart, 32_000_100),
    (Canary::TakeAhead, 34_023_169),
    (Canary::RefusedFirst, 36_027_456),
    (Canary::ForgetStrict, 36_189_751),
    (Canary::OldestLast, 37_053_251),
    (Canary::ForgetBarring, 56_131_451),
    (Canary::WaitForFlowless, 38_164_764),
    (Canary::BlameReceives, 38_609_325),
    (Canary::KeepRoom, 38_402_695),
    (Canary::ForgetNoted, 39_068_073),
    (Canary::TrustNewPath, 43_020_852),
    (Canary::BeginSpent, 44_046_087),
    (Canary::IgnoreEarlyRefusal, 46_536_027),
    (Canary::HastyCopies, 53_313_515),
    (Canary::NeverMeasured, 48_621_208),
    (Canary::RetrySoon, 50_713_329),
    (Canary::StoreLate, 347),
    (Canary::ForgetUnplaced, 605),
    (Canary::KeepCutShort, 733),
    (Canary::AnswerOneProbe, 60_224_619),
    (Canary::KeepSkipped, 63_441_185),
    (Canary::RetryAll, 63_256_325),
    (Canary::SkipParked, 64_234_769),
    (Canary::EndUnplaced, 64_171_711),
    (Canary::PaceIdle, 64_397_380),
    (Canary::WaitForRecord, 65_054_274),
    (Canary::EndInRound, 67_180_553),
    (Canary::ForgetLate, 2_808),
    (Canary::AnyCause, 72_073_876),
];

/// The seeds in which a canary has to be caught: those recorded for it, and the first `count`.
pub fn canary_seeds(canary: Canary, count: u64) -> impl Iterator<Item = u64> {
    let recorded = RECORDED.into_iter().filter(move |(other, _)| *other == canary);
    recorded.map(|(_, seed)| seed).chain(0..count)
}

/// Seeds a thread takes at a time.
const BATCH: u64 = 8;

/// Runs the storm of every seed of a range and hands each outcome to `each`, in order. Stops early
/// when `each` gives false.
pub fn sweep(
    seeds: Range<u64>,
    threads: usize,
    canary: Option<Canary>,
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
                        let outcome = run(seed, Options { trace: None, canary });
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
