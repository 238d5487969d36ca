//! Worlds in which all paths of the link but one fail for good.

use super::Plan;
use fairway_device::random::Random;
use fairway_ub::policy::{FlowletParameters, PathSpec, PlbParameters};
use fairway_ub::wire::{Duration, Instant};

/// Part of the seed that draws these worlds. It is chosen so that no seed recorded before they
/// existed (`seeds.txt`, `recorded.rs`) draws one.
const LAST_PATH: u64 = 20_042;

/// Most paths of the link. As many keep-alive messages by turns reach the one that is left.
const PATHS_MAX: u64 = 8;

/// The path that is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastPath {
    path: u8,
    /// When the others fail.
    begin: Instant,
}

impl LastPath {
    /// True if packets of a path are lost.
    pub(crate) fn is_dead(&self, path: u8, now: Instant) -> bool {
        path != self.path && now.is_at_or_after(self.begin)
    }
}

/// Lets paths fail in a twelfth of the worlds with one link.
pub(super) fn draw(seed: u64, plan: &mut Plan) {
    let random = &mut Random::fork(seed, LAST_PATH);
    if !random.chance(80) || plan.links.len() > 1 || plan.retirement.agreed {
        return;
    }
    let link = &mut plan.links[0];
    link.paths = random.range(2, PATHS_MAX) as u32;
    let path = random.below(u64::from(link.paths)) as u8;
    let at = if random.chance(500) { 0 } else { random.below(plan.span.as_ps()) };
    plan.last_path = Some(LastPath { path, begin: Instant::from_ps(at) });
    // A receiver that is short of records drops packets, and each takes time-outs of several paths.
    for limits in &mut plan.limits {
        limits.bitmap_blocks = limits.bitmap_blocks.max(64);
        limits.withheld = limits.withheld.max(64);
    }
    for profile in &mut plan.profiles {
        profile.peer_dead = profile.keep_alive.times(random.range(20, 30));
    }
    for policies in &mut link.policies {
        policies.path = match random.below(4) {
            0 => PathSpec::LeastRoundTrip,
            1 => PathSpec::Flowlet(FlowletParameters { gap: Duration::from_us(200) }),
            2 => PathSpec::Plb(PlbParameters::default()),
            _ => continue,
        };
    }
}
