//! Seeds that were recorded for injected bugs.

use fairway_ub::InjectedBug;

/// Seeds that catch injected bugs which hardly any other seed catches. Like all seeds, they stand
/// for a world only as long as the draws stay the same. If a bug is missed after a change of the
/// draws, a long range of seeds with that bug injected finds another seed (`xtask storm --bug`). A
/// seed that is added keeps its draws only if [`is_older_than_signals`] leaves it out.
pub(crate) const RECORDED: [(InjectedBug, u64); 33] = [
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
    (InjectedBug::ForgetLate, 2_832),
    (InjectedBug::AnyCause, 72_073_876),
];

/// True if a seed was recorded before worlds drew signals of paths (`plan::policies::use_signals`).
/// Such a seed still stands for the world in which it was found.
pub(crate) fn is_older_than_signals(seed: u64) -> bool {
    RECORDED.iter().any(|(_, recorded)| *recorded == seed)
}
