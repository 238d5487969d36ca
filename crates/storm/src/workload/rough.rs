//! Disruptive actions: resources that are in use are closed, deregistered and destroyed.

use super::Workload;
use crate::adversary::Fault;
use crate::finding::Finding;
use crate::node::{Late, Output};
use crate::oracles::Model;
use crate::plan::Plan;
use crate::world::World;
use fairway_device::drive::Access;
use fairway_ub::wire::JettyId;
use fairway_ub::{ChannelId, Event, SetupError};

impl Workload {
    /// Deregisters, closes or destroys a resource that is in use.
    pub(super) fn be_rough(
        &mut self,
        world: &mut World,
        model: &mut Model,
        plan: &Plan,
        node: usize,
    ) -> Result<(), Finding> {
        if self.random.chance(plan.deregister) {
            let segments = &self.applications[node].segments;
            let at = self.random.below(segments.len() as u64) as usize;
            self.deregister(world, plan, node, at)?;
        }
        if self.random.chance(plan.destroy) {
            let number = self.random.below(u64::from(plan.jetties)) as u32;
            self.destroy_or_create(world, model, plan, (node, number))?;
            let is_destroyed = !self.applications[node].jetties[number as usize].alive;
            // A program reads the events of the old Jetty before it gives a new one its number.
            let is_read = world.nodes[node].outputs.is_empty();
            if is_destroyed && is_read && plan.extras.untimely > 0 && self.random.chance(500) {
                self.create_jetty(world, plan, node, number);
            }
        }
        if plan.extras.groups > 0 && self.random.chance(plan.extras.regroup) {
            self.regroup(world, model, plan, node)?;
        }
        if self.random.chance(plan.close) {
            let index = self.random.below(plan.links.len() as u64) as usize;
            let side = plan.links[index].nodes.iter().position(|&end| end == node);
            if let Some(side) = side {
                world.adversary.count(Fault::Close);
                self.close(world, model, plan, (index, side))?;
            }
        }
        if plan.extras.untimely > 0 {
            self.close_untimely(world, model, plan, node)?;
        }
        Ok(())
    }

    /// Begins or ends a shortage of a host's resources, for what it receives or what it sends. A
    /// healed host has none.
    pub(super) fn change_pressure(
        &mut self,
        world: &mut World,
        plan: &Plan,
        node: usize,
        healed: bool,
    ) {
        if plan.extras.pressure == 0 {
            return;
        }
        let (receiving, sending) = match healed {
            true => (false, false),
            false if !self.random.chance(plan.extras.pressure) => return,
            false => (self.random.chance(500), self.random.chance(250)),
        };
        if let Some(nic) = world.nic(node) {
            nic.set_pressure(receiving);
            nic.set_transmit_pressure(sending);
        }
    }

    /// Closes a connection while payload that was set aside for it is being copied, or while
    /// receives wait to be reported in order.
    fn close_untimely(
        &mut self,
        world: &mut World,
        model: &mut Model,
        plan: &Plan,
        node: usize,
    ) -> Result<(), Finding> {
        let Some(nic) = world.nodes[node].nic() else { return Ok(()) };
        let copies = |late: &&Late| matches!(late.access, Access::Copy { .. });
        let is_copying = world.nodes[node].late.iter().any(|late| copies(&late));
        if !(is_copying || nic.usage().unreported > 1) || !self.random.chance(plan.extras.untimely)
        {
            return Ok(());
        }
        let is_end = |index: &usize| plan.links[*index].nodes.contains(&node);
        let links: Vec<_> = (0..plan.links.len()).filter(is_end).collect();
        let index = self.random.pick(&links);
        let side = usize::from(plan.links[index].nodes[1] == node);
        world.adversary.count(Fault::Close);
        self.close(world, model, plan, (index, side))
    }

    /// Handles a NIC's request to close a connection over which it no longer sends.
    pub(crate) fn execution_lost(
        &mut self,
        world: &mut World,
        model: &mut Model,
        plan: &Plan,
        (node, channel): (usize, ChannelId),
    ) -> Result<(), Finding> {
        let is_it = |index: usize, side: usize| {
            plan.links[index].nodes[side] == node
                && self.connections[index].ends[side] == Some(channel)
        };
        let mut ends = (0..plan.links.len()).flat_map(|index| [(index, 0), (index, 1)]);
        match ends.find(|&(index, side)| is_it(index, side)) {
            Some(end) => self.close(world, model, plan, end),
            None => Ok(()),
        }
    }

    /// Closes one end of a connection.
    pub(crate) fn close(
        &mut self,
        world: &mut World,
        model: &mut Model,
        plan: &Plan,
        (index, side): (usize, usize),
    ) -> Result<(), Finding> {
        let node = plan.links[index].nodes[side];
        let Some(channel) = self.connections[index].ends[side] else { return Ok(()) };
        let now = world.now;
        let life = (node, world.nodes[node].incarnation);
        world.awaken(node, channel);
        let Some(nic) = world.nic(node) else { return Ok(()) };
        if !nic.is_open(channel) {
            return Ok(());
        }
        nic.close_channel(now, channel).map_err(|error| format!("close: {error:?}"))?;
        world.trace.line(now, node, || format!("closes {channel:?}"));
        model.closes(world, life, channel);
        world.look(node);
        world.schedule_poll(node);
        Ok(())
    }

    pub(crate) fn deregister(
        &mut self,
        world: &mut World,
        plan: &Plan,
        node: usize,
        at: usize,
    ) -> Result<(), Finding> {
        let segment = self.applications[node].segments.remove(at);
        world.adversary.count(Fault::Deregister);
        world.trace.line(world.now, node, || format!("deregisters {segment:?}"));
        let released = world.deregister(node, segment.id)?;
        world.memory.pieces[segment.key].deregistered = true;
        if released {
            // The application reads this after earlier outputs, because completions may still use
            // the segment.
            let event = Event::SegmentReleased { segment: segment.id };
            world.nodes[node].outputs.push_back(Output::Event(event));
        }
        self.applications[node].leaving.push(segment);
        self.register(world, plan, node, segment.role);
        Ok(())
    }

    fn destroy_or_create(
        &mut self,
        world: &mut World,
        model: &mut Model,
        plan: &Plan,
        (node, number): (usize, u32),
    ) -> Result<(), Finding> {
        if !self.applications[node].jetties[number as usize].alive {
            self.create_jetty(world, plan, node, number);
            return Ok(());
        }
        let id = JettyId::new(number);
        if self.applications[node].jetties[number as usize].fresh {
            return Ok(());
        }
        let Some(nic) = world.nic(node) else { return Ok(()) };
        match nic.destroy_jetty(id) {
            Ok(()) => {
                world.adversary.count(Fault::DestroyJetty);
                world.trace.line(world.now, node, || format!("destroys {id:?}"));
                // Completions that the NIC still holds count as unread.
                world.look(node);
                let jetty = &mut self.applications[node].jetties[number as usize];
                let (buffers, unread) = model.destroys(world, node, id);
                (jetty.alive, jetty.posted) = (false, unread);
                jetty.buffers.extend(buffers);
                self.leaves_all(world, model, node, id);
                Ok(())
            }
            Err(SetupError::Busy) => Ok(()),
            Err(error) => Err(format!("destroying {id:?}: {error:?}").into()),
        }
    }

    /// Destroys a Jetty that is no longer needed.
    pub(crate) fn destroy(
        &mut self,
        world: &mut World,
        model: &mut Model,
        plan: &Plan,
        (node, number): (usize, u32),
    ) -> Result<(), Finding> {
        self.applications[node].jetties[number as usize].fresh = false;
        if self.applications[node].jetties[number as usize].alive {
            self.destroy_or_create(world, model, plan, (node, number))?;
            if self.applications[node].jetties[number as usize].alive {
                return Err(format!("node {node}: Jetty {number} is still busy at the end").into());
            }
        }
        Ok(())
    }
}
