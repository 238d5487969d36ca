//! Worlds in which applications post many ordered operations at once to Jetties that then fail.

use super::Plan;
use fairway_device::random::Random;

/// Part of the seed that draws these worlds. It is chosen so that no seed recorded before they
/// existed (`seeds.txt`, `recorded.rs`) draws one.
const BURSTS: u64 = 864;

/// Operations posted at once, and how often.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bursts {
    pub(crate) count: u64,
    /// Most operations of a burst: more than a target tracks beyond one that is missing.
    pub(crate) length: u64,
    /// Probability, in thousandths, that an application uses a tick for this.
    pub(crate) chance: u32,
    /// Share of operations in memory order, in thousandths.
    pub(crate) memory_order: u32,
}

impl Bursts {
    /// Most operations that the bursts have together.
    pub(crate) fn operations(&self) -> u64 {
        self.count * self.length
    }
}

/// Draws bursts in a fifteenth of the worlds.
pub(super) fn draw(seed: u64, plan: &mut Plan) {
    let random = &mut Random::fork(seed, BURSTS);
    if !random.chance(66) || plan.links.len() > 1 || plan.retirement.agreed {
        return;
    }
    plan.bursts = Bursts {
        count: random.range(1, 4),
        length: random.pick(&[140, 200, 300]),
        chance: random.pick(&[100, 300]),
        memory_order: random.pick(&[0, 1000]),
    };
    plan.operations = plan.operations.max(60);
    plan.ordered = plan.ordered.max(500);
    if plan.bursts.memory_order > 0 {
        plan.extras.memory_order = 1000;
    }
    plan.lazy_receives = plan.lazy_receives.max(300);
    plan.jetties = random.range(1, 2) as u32;
    plan.config.audit_every = 128;
    for limits in &mut plan.limits {
        limits.messages = limits.messages.max(1024);
        limits.order_records = limits.order_records.max(12);
    }
}
