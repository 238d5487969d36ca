//! Seeds that were recorded for injected bugs.

use fairway_ub::InjectedBug;

/// A run that catches an injected bug.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded {
    pub(crate) bug: InjectedBug,
    pub(crate) seed: u64,
    /// Seed of the plan, if it is not that of the run.
    pub(crate) plan_of: Option<u64>,
    /// True if the plan was found before worlds drew signals of paths.
    is_older_than_signals: bool,
}

impl Recorded {
    const fn seed(bug: InjectedBug, seed: u64) -> Recorded {
        Recorded { bug, seed, plan_of: None, is_older_than_signals: true }
    }

    /// A run whose plan is that of another seed, which is older than signals.
    const fn run(bug: InjectedBug, plan_of: u64, seed: u64) -> Recorded {
        Recorded { plan_of: Some(plan_of), ..Recorded::seed(bug, seed) }
    }

    /// A run that was found since worlds draw signals of paths.
    const fn new(bug: InjectedBug, plan_of: u64, seed: u64) -> Recorded {
        Recorded { is_older_than_signals: false, ..Recorded::run(bug, plan_of, seed) }
    }

    /// Seed of the plan.
    pub(crate) const fn plan(&self) -> u64 {
        match self.plan_of {
            Some(plan_of) => plan_of,
            None => self.seed,
        }
    }
}

/// Runs that catch injected bugs which hardly any other seed catches. Like all seeds, they stand
/// for a world only as long as the draws stay the same. If a bug is missed after a change of the
/// protocol, other runs with the plan that was recorded for it find another one within minutes
/// (`xtask storm --bug NAME --plan-of SEED`).
pub(crate) const RECORDED: [Recorded; 54] = [
    Recorded::new(InjectedBug::JoinAnyJetty, 230_007_969, 230_007_969),
    Recorded::new(InjectedBug::FaultWhileAborting, 250_026_477, 250_026_477),
    Recorded::new(InjectedBug::TakeFreedBlock, 240_010_970, 240_010_970),
    Recorded::new(InjectedBug::NumberAfresh, 510, 510),
    Recorded::new(InjectedBug::IssueAnew, 112_800, 112_800),
    Recorded::seed(InjectedBug::TakeLast, 7_533_577),
    Recorded::run(InjectedBug::CountOvertaking, 7_495_720, 1_358),
    Recorded::seed(InjectedBug::RetryAtOnce, 7_483_350),
    Recorded::seed(InjectedBug::ReadLate, 5_214),
    Recorded::new(InjectedBug::CloseApart, 79_048_388, 9),
    Recorded::new(InjectedBug::CheckPartAlone, 86_000_428, 86_000_428),
    Recorded::new(InjectedBug::CompleteFirstPart, 86_000_032, 86_000_032),
    Recorded::new(InjectedBug::ForgetFailedPart, 86_000_139, 86_000_139),
    Recorded::seed(InjectedBug::TakeAhead, 34_023_169),
    Recorded::run(InjectedBug::RefusedFirst, 36_027_456, 2_707),
    Recorded::new(InjectedBug::ForgetStrict, 88_214_828, 235),
    Recorded::seed(InjectedBug::OldestLast, 37_053_251),
    Recorded::run(InjectedBug::ForgetBarring, 56_131_451, 556),
    Recorded::run(InjectedBug::WaitForFlowless, 38_164_764, 45),
    Recorded::seed(InjectedBug::BlameReceives, 38_609_325),
    Recorded::new(InjectedBug::KeepRoom, 85_272_111, 12),
    Recorded::run(InjectedBug::ForgetNoted, 39_068_073, 346),
    Recorded::run(InjectedBug::TrustNewPath, 43_020_852, 3),
    Recorded::seed(InjectedBug::BeginSpent, 44_046_087),
    Recorded::seed(InjectedBug::IgnoreEarlyRefusal, 46_536_027),
    Recorded::seed(InjectedBug::HastyCopies, 53_313_515),
    Recorded::run(InjectedBug::NeverMeasured, 48_621_208, 285),
    Recorded::seed(InjectedBug::RetrySoon, 50_713_329),
    Recorded::seed(InjectedBug::StoreLate, 347),
    Recorded::seed(InjectedBug::ForgetUnplaced, 605),
    Recorded::seed(InjectedBug::KeepCutShort, 733),
    Recorded::seed(InjectedBug::AnswerOneProbe, 60_224_619),
    Recorded::new(InjectedBug::KeepSkipped, 79_175_716, 324),
    Recorded::seed(InjectedBug::RetryAll, 63_256_325),
    Recorded::run(InjectedBug::SkipParked, 64_234_769, 1_828),
    Recorded::seed(InjectedBug::EndUnplaced, 64_171_711),
    Recorded::run(InjectedBug::PaceIdle, 64_397_380, 4),
    Recorded::seed(InjectedBug::WaitForRecord, 65_054_274),
    Recorded::seed(InjectedBug::EndInRound, 67_180_553),
    Recorded::seed(InjectedBug::ForgetLate, 2_832),
    Recorded::run(InjectedBug::AnyCause, 72_073_876, 0),
    Recorded::new(InjectedBug::KeepPast, 79_289_242, 1_076),
    Recorded::new(InjectedBug::RepeatUnconfirmed, 2_301, 2_301),
    Recorded::new(InjectedBug::AnswerUnretired, 2_464, 649),
    Recorded::new(InjectedBug::ForgetPlacing, 4_136, 4_136),
    Recorded::new(InjectedBug::RestBehind, 968, 968),
    Recorded::new(InjectedBug::CarryBeforePlacement, 1_611, 1_611),
    Recorded::new(InjectedBug::ShareTransaction, 106_247_513, 106_247_513),
    Recorded::new(InjectedBug::AcknowledgeAside, 330, 330),
    Recorded::new(InjectedBug::RepeatDatagrams, 373, 373),
    Recorded::new(InjectedBug::ResendAnyTrimmed, 550, 550),
    Recorded::new(InjectedBug::LeaveInFlight, 615, 615),
    Recorded::new(InjectedBug::LoseAbandoned, 5_826, 5_826),
    Recorded::new(InjectedBug::StayWithPath, 757, 757),
];

/// True if a seed was recorded before worlds drew signals of paths (`plan::policies::use_signals`).
/// Such a seed still stands for the plan with which it was found.
pub(crate) fn is_older_than_signals(seed: u64) -> bool {
    RECORDED.iter().any(|recorded| recorded.is_older_than_signals && recorded.plan() == seed)
}
