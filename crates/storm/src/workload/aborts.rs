//! Jetties whose operations and receives end at once.

use super::*;
use crate::adversary::Fault;

impl Workload {
    /// Sometimes aborts a Jetty.
    pub(super) fn abort(&mut self, world: &mut World, model: &mut Model, plan: &Plan, node: usize) {
        if plan.extras.aborts == 0 || !self.random.chance(plan.extras.aborts) {
            return;
        }
        let number = self.random.below(u64::from(plan.jetties)) as u32;
        if !self.applications[node].jetties[number as usize].alive {
            return;
        }
        let id = JettyId::new(number);
        let Some(nic) = world.nic(node) else { return };
        nic.abort_jetty(id).expect("a Jetty that is alive");
        world.adversary.count(Fault::AbortJetty);
        world.trace.line(world.now, node, || format!("aborts {id:?}"));
        model.aborts(world, (node, world.nodes[node].incarnation), id);
    }
}
