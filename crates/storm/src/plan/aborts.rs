//! Worlds in which applications abort Jetties: everything that is under way there ends at once.

use super::Plan;
use fairway_device::random::Random;

/// Part of the seed that draws these worlds. It is chosen so that no seed recorded before they
/// existed (`seeds.txt`, `recorded.rs`) draws one.
const ABORTS: u64 = 2_466;

/// Draws the share of an application's ticks that abort a Jetty, in a fifteenth of the worlds.
pub(super) fn draw(seed: u64, plan: &mut Plan) {
    let random = &mut Random::fork(seed, ABORTS);
    if !random.chance(66) || plan.retirement.agreed {
        return;
    }
    plan.extras.aborts = random.pick(&[10, 50, 200]);
    plan.operations = plan.operations.max(40);
    // The oracles of these do not know operations that ended before their effect.
    plan.mail.puts = 0;
    plan.extras.bypasses = 0;
    plan.extras.to_boards = 0;
    plan.extras.groups = 0;
    // What a caller has begun to place when it aborts a Jetty is its own affair.
    plan.config.late_placement = 0;
}
