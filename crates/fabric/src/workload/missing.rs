//! Memory that is taken away while it is registered and used: for a while, or for good.
//!
//! Of the segments of the applications any may lose a part, or all: what is sent from, written to,
//! read, and received into. The staging memory is the NIC's own, and the mailboxes' memory stays
//! because the mail's oracle has no rule for puts that are lost that way.

use super::Workload;
use crate::memory::Gone;
use crate::plan::Plan;
use crate::world::World;
use fairway_engine::wire::Duration;

impl Workload {
    /// Takes a part of the memory of `node` away, now and then.
    pub(super) fn take_away(&mut self, world: &mut World, plan: &Plan, node: usize) {
        let random = &mut self.absences;
        if plan.extras.missing == 0 || !random.chance(plan.extras.missing) {
            return;
        }
        let segment = random.pick(&self.applications[node].segments);
        let start = random.below(segment.length);
        let (start, end) = match random.below(4) {
            0 => (0, segment.length),
            1 => (start, segment.length),
            _ => (start, (start + random.magnitude(segment.length)).min(segment.length)),
        };
        let span = Duration::from_ps(random.below(plan.span.as_ps() / 4) + 1);
        let until = random.chance(700).then(|| world.now + span);
        let gone = Gone { start: start as usize, end: end as usize, until };
        world.trace.line(world.now, node, || format!("takes {gone:?} of {segment:?} away"));
        world.memory.pieces[segment.key].gone.push(gone);
    }
}
