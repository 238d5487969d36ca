//! Memory that becomes inaccessible while it is registered and used, temporarily or for good.
//!
//! Any application segment may lose a part or all of its memory: sources of sends, targets of
//! WRITEs and READs, and receive buffers. The staging memory belongs to the NIC and stays, and the
//! mailboxes' memory stays because the mail oracle has no rule for puts that are lost that way.

use super::Workload;
use crate::memory::Gone;
use crate::plan::Plan;
use crate::world::World;
use fairway_ub::wire::Duration;

impl Workload {
    /// Sometimes makes a part of the memory of `node` inaccessible.
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
