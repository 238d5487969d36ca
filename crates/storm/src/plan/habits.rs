//! Habits of nodes that were added later: what they acknowledge, and how short the parts of their
//! operations are.

use fairway_device::random::Random;
use fairway_ub::Profile;

/// Part of the seed that draws what is acknowledged beside every so many packets.
const ACKNOWLEDGING: u64 = 8;

/// Part of the seed that draws how short the parts of operations are.
const PARTS: u64 = 18;

/// Draws the habits of all nodes.
pub(super) fn draw(seed: u64, profiles: &mut [Profile]) {
    draw_acknowledging(seed, profiles);
    draw_parts(seed, profiles);
}

/// Some nodes acknowledge every chunk, and some every packet with a congestion mark at once.
fn draw_acknowledging(seed: u64, profiles: &mut [Profile]) {
    let random = &mut Random::fork(seed, ACKNOWLEDGING);
    for profile in profiles {
        profile.acknowledge_chunks = random.chance(100);
        profile.acknowledge_marks = random.chance(300);
    }
}

/// Lets some worlds divide operations that are as short as those of the storm.
fn draw_parts(seed: u64, profiles: &mut [Profile]) {
    let random = &mut Random::fork(seed, PARTS);
    if random.chance(500) {
        for profile in profiles {
            profile.part_bytes = random.pick(&[0, 1, 700, 4_000]);
        }
    }
}
