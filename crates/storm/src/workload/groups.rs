//! Jetty groups, which are created, joined, left and destroyed while messages are in flight to
//! them.

use super::Workload;
use crate::adversary::Fault;
use crate::application::Group;
use crate::finding::Finding;
use crate::operation::{Kind, Operation};
use crate::oracles::Model;
use crate::plan::Plan;
use crate::world::World;
use fairway_ub::wire::JettyId;
use fairway_ub::{Dispatch, GroupConfig, SetupError};

/// Number of a node's first group, beyond its Jetties.
const FIRST: u32 = 8;

impl Workload {
    /// Sometimes directs an operation to a group instead. Returns whether it did.
    pub(super) fn draw_group(&mut self, plan: &Plan, operation: &mut Operation) -> bool {
        let extras = &plan.extras;
        let targeted =
            matches!(operation.kind, Kind::Send | Kind::SendImmediate | Kind::WriteImmediate);
        if extras.groups == 0 || !targeted || !self.random.chance(extras.to_groups) {
            return false;
        }
        let number = FIRST + self.random.below(u64::from(extras.groups)) as u32;
        operation.target_jetty = JettyId::new(number);
        operation.hint = self.random.number() as u8;
        true
    }

    /// Creates a group of all existing Jetties.
    pub(super) fn make_group(
        &mut self,
        world: &mut World,
        model: &mut Model,
        node: usize,
        number: u32,
    ) {
        let dispatch =
            self.random.pick(&[Dispatch::Hint, Dispatch::RoundRobin, Dispatch::LeastDepth]);
        let number = Some(FIRST + number);
        let Some(nic) = world.nic(node) else { return };
        let config = GroupConfig { number, dispatch, ..GroupConfig::default() };
        let id = nic.create_group(&config).expect("a free number for a group");
        let jetties = &self.applications[node].jetties;
        let alive = (0..).zip(jetties).filter(|(_, jetty)| jetty.alive);
        let members: Vec<JettyId> = alive.map(|(number, _)| JettyId::new(number)).collect();
        for &member in &members {
            nic.join_group(id, member).expect("a Jetty that is there");
        }
        let group = Group { id, alive: true, dispatch, members };
        model.regrouped((node, world.nodes[node].incarnation), &group);
        let groups = &mut self.applications[node].groups;
        match groups.iter_mut().find(|known| known.id == id) {
            Some(known) => *known = group,
            None => groups.push(group),
        }
    }

    /// Makes a Jetty join or leave a group, or destroys a group.
    pub(super) fn regroup(
        &mut self,
        world: &mut World,
        model: &mut Model,
        plan: &Plan,
        node: usize,
    ) -> Result<(), Finding> {
        let at = self.random.below(u64::from(plan.extras.groups)) as usize;
        let jetty = self.random.below(u64::from(plan.jetties)) as u32;
        if !self.applications[node].groups[at].alive {
            self.make_group(world, model, node, at as u32);
            return Ok(());
        }
        if self.random.chance(50) {
            return self.destroy_group(world, model, node, at);
        }
        if self.random.chance(500) {
            self.join(world, model, (node, at), JettyId::new(jetty))
        } else {
            self.leave(world, model, (node, at), JettyId::new(jetty))
        }
    }

    fn join(
        &mut self,
        world: &mut World,
        model: &mut Model,
        (node, at): (usize, usize),
        member: JettyId,
    ) -> Result<(), Finding> {
        let alive = self.applications[node].jetties[member.value() as usize].alive;
        let group = &mut self.applications[node].groups[at];
        let Some(nic) = world.nic(node) else { return Ok(()) };
        let outcome = nic.join_group(group.id, member);
        let expected = match group.members.contains(&member) {
            _ if !alive => Err(SetupError::Missing),
            true => Err(SetupError::Number),
            false => Ok(()),
        };
        if outcome != expected {
            return Err(format!("node {node}: {member:?} joins {group:?}: {outcome:?}").into());
        }
        if outcome.is_ok() {
            group.members.push(member);
            model.regrouped((node, world.nodes[node].incarnation), group);
        }
        Ok(())
    }

    fn leave(
        &mut self,
        world: &mut World,
        model: &mut Model,
        (node, at): (usize, usize),
        member: JettyId,
    ) -> Result<(), Finding> {
        let group = &mut self.applications[node].groups[at];
        let Some(nic) = world.nic(node) else { return Ok(()) };
        let outcome = nic.leave_group(group.id, member);
        if outcome.is_ok() != group.members.contains(&member) {
            return Err(format!("node {node}: {member:?} leaves {group:?}: {outcome:?}").into());
        }
        if outcome.is_ok() {
            world.adversary.count(Fault::LeaveGroup);
            group.members.retain(|&other| other != member);
            model.regrouped((node, world.nodes[node].incarnation), group);
        }
        Ok(())
    }

    /// Removes a destroyed Jetty from all its groups.
    pub(super) fn leaves_all(
        &mut self,
        world: &World,
        model: &mut Model,
        node: usize,
        member: JettyId,
    ) {
        for group in &mut self.applications[node].groups {
            if group.members.contains(&member) {
                group.members.retain(|&other| other != member);
                model.regrouped((node, world.nodes[node].incarnation), group);
            }
        }
    }

    pub(crate) fn destroy_group(
        &mut self,
        world: &mut World,
        model: &mut Model,
        node: usize,
        at: usize,
    ) -> Result<(), Finding> {
        let group = &mut self.applications[node].groups[at];
        if !group.alive {
            return Ok(());
        }
        let Some(nic) = world.nic(node) else { return Ok(()) };
        let outcome = nic.destroy_group(group.id);
        outcome.map_err(|error| format!("node {node}: {error:?} for {group:?}"))?;
        world.adversary.count(Fault::DestroyGroup);
        group.alive = false;
        group.members.clear();
        model.regrouped((node, world.nodes[node].incarnation), group);
        Ok(())
    }

    /// Repairs groups after the healing: a group without members would keep its senders waiting
    /// forever.
    pub(super) fn mend_groups(
        &mut self,
        world: &mut World,
        model: &mut Model,
        node: usize,
    ) -> Result<(), Finding> {
        for at in 0..self.applications[node].groups.len() {
            if !self.applications[node].groups[at].members.is_empty() {
                continue;
            }
            self.destroy_group(world, model, node, at)?;
        }
        Ok(())
    }
}
