//! Worlds in which channels rest while they are not used.

use super::Plan;
use fairway_device::random::Random;

/// Part of the seed that draws these worlds. It is chosen so that no seed recorded before they
/// existed (`seeds.txt`, `recorded.rs`) draws one.
pub(super) const RESTING: u64 = 10_954;

/// Worlds in which channels rest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resting {
    /// Ticks of an application at which it lets its idle channels rest, in thousandths.
    pub(crate) chance: u32,
    /// By link: the side whose application posts no operations, if there is one. Its channel may
    /// rest although it has sent answers.
    pub(crate) passive: Vec<Option<usize>>,
}

/// Lets channels rest in an eighth of the worlds.
pub(super) fn draw(seed: u64, plan: &mut Plan) {
    let random = &mut Random::fork(seed, RESTING);
    plan.resting.passive = vec![None; plan.links.len()];
    if !random.chance(125) {
        return;
    }
    plan.resting.chance = random.pick(&[100, 500, 1000]);
    if random.chance(700) {
        for passive in &mut plan.resting.passive {
            *passive = random.pick(&[None, Some(0), Some(1), Some(1)]);
        }
        plan.mail.puts = 0;
    }
}
