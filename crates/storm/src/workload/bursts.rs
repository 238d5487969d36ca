//! Many ordered operations at once, to Jetties that then fail and are made ready again.

use super::*;

impl Workload {
    /// Sometimes posts many operations to a Jetty, takes a Jetty to the error state, or makes one
    /// ready again.
    pub(super) fn burst(
        &mut self,
        world: &mut World,
        model: &mut Model,
        plan: &Plan,
        node: usize,
    ) -> Result<(), Finding> {
        if plan.bursts.count == 0 || !self.random.chance(plan.bursts.chance) {
            return Ok(());
        }
        let number = self.random.below(u64::from(plan.jetties)) as u32;
        let jetty = &self.applications[node].jetties[number as usize];
        if !jetty.alive {
            return Ok(());
        }
        match jetty.state {
            JettyState::Ready if self.bursts_left > 0 => {
                self.bursts_left -= 1;
                for _ in 0..self.random.range(130, plan.bursts.length) {
                    self.post_one_of_burst(world, model, plan, (node, number))?;
                }
                match self.random.chance(500) {
                    true => self.change_state(world, model, (node, number), JettyState::Error),
                    false => Ok(()),
                }
            }
            JettyState::Ready if self.random.chance(300) => {
                self.change_state(world, model, (node, number), JettyState::Error)
            }
            // It is not known yet whether one that has just failed is drained.
            JettyState::Error if !jetty.fresh => {
                self.change_state(world, model, (node, number), JettyState::Ready)
            }
            _ => Ok(()),
        }
    }

    fn post_one_of_burst(
        &mut self,
        world: &mut World,
        model: &mut Model,
        plan: &Plan,
        (node, number): (usize, u32),
    ) -> Result<(), Finding> {
        let link = &plan.links[0];
        let Some(side) = link.nodes.iter().position(|&end| end == node) else { return Ok(()) };
        let Some(channel) = self.connections[0].ends[side] else { return Ok(()) };
        let kind = self.random.pick(&[Kind::Send, Kind::Send, Kind::SendImmediate, Kind::Write]);
        let in_memory_order = self.random.chance(plan.bursts.memory_order);
        let order = OrderRequest {
            mode: match in_memory_order {
                true => ServiceMode::Rol,
                false => self.random.pick(&[ServiceMode::Rol, ServiceMode::Rot]),
            },
            tag: match in_memory_order {
                true => Tag::Mo,
                false => self.random.pick(&[Tag::Ro, Tag::So]),
            },
            fence: false,
            receive_in_order: kind != Kind::Write && self.random.chance(500),
            complete_in_order: in_memory_order,
        };
        let draft = Draft {
            kind,
            length: self.random.below(9).min(u64::from(link.mtu)) as u32,
            life: (node, world.nodes[node].incarnation),
            peer: link.nodes[1 - side],
            channel,
            jetty: JettyId::new(number),
            signaled: !self.random.chance(plan.unsignaled),
            order,
        };
        match self.compose(world, model, plan, draft) {
            Some((operation, request)) => self.post(world, model, operation, request),
            None => Ok(()),
        }
    }
}
