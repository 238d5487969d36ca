//! Worlds in which applications request one order for all their operations: also for those that
//! take no receive they request that it completes in order.

use super::Plan;
use fairway_device::random::Random;

/// Part of the seed that draws these worlds. It is chosen so that no seed recorded before they
/// existed (`seeds.txt`, `recorded.rs`) draws one.
const ONE_ORDER: u64 = 2_649;

/// Draws the share of operations without a receive that request receive order, in a fifteenth of
/// the worlds.
pub(super) fn draw(seed: u64, plan: &mut Plan) {
    let random = &mut Random::fork(seed, ONE_ORDER);
    // Where channels of groups die, order would end some groups.
    if !random.chance(66) || plan.retirement.agreed {
        return;
    }
    plan.extras.one_order = random.pick(&[200, 500, 1000]);
    plan.ordered = plan.ordered.max(300);
    plan.operations = plan.operations.max(20);
}
