//! The flows that share a NIC, and their fair shares, for all schedulers.
//!
//! The flows of a tenant that has a weight form a group. Groups divide the line by the tenants'
//! weights, and flows divide the share of their group by their own weights. Flows without a
//! tenant's weight form one group with the sum of their weights, so that each of them counts by its
//! own.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::{FlowId, Share};
use crate::compact::FixedMap;

/// Key of the group of flows without a tenant's weight; no tenant has this number.
const COMMON: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    share: Share,
    group: u32,
    /// Its position among the active flows, if it is active.
    position: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    key: u64,
    tenant_weight: u16,
    flow_weights: u64,
    flows: u32,
}

impl Group {
    fn weight(&self) -> u64 {
        if self.key == COMMON { self.flow_weights } else { u64::from(self.tenant_weight) }
    }
}

/// The active flows and their groups.
#[derive(Debug)]
pub(super) struct Shares {
    members: Box<[Member]>,
    active: Vec<FlowId>,
    groups: Box<[Group]>,
    group_by_key: FixedMap<u32>,
    free_groups: Vec<u32>,
    total_weight: u64,
}

impl Shares {
    pub(super) fn new(flows: u32) -> Shares {
        Shares {
            members: vec![Member::default(); flows as usize].into_boxed_slice(),
            active: Vec::with_capacity(flows as usize),
            groups: vec![Group::default(); flows as usize].into_boxed_slice(),
            group_by_key: FixedMap::new(flows as usize),
            free_groups: (0..flows).rev().collect(),
            total_weight: 0,
        }
    }

    /// Makes a flow active. Returns false if it does not exist or is already active.
    pub(super) fn start(&mut self, flow: FlowId, share: Share) -> bool {
        let position = self.active.len() as u32;
        match self.members.get_mut(flow.index()) {
            Some(member) if member.position.is_none() => member.position = Some(position),
            _ => return false,
        }
        self.active.push(flow);
        self.join_group(flow, share);
        true
    }

    /// Makes a flow inactive. Returns false if it was not active.
    pub(super) fn end(&mut self, flow: FlowId) -> bool {
        let Some(member) = self.members.get_mut(flow.index()) else { return false };
        let Some(position) = member.position.take() else { return false };
        self.active.swap_remove(position as usize);
        if let Some(moved) = self.active.get(position as usize) {
            self.members[moved.index()].position = Some(position);
        }
        self.leave_group(flow);
        true
    }

    /// Changes the share of an active flow. Returns false if it is not active.
    pub(super) fn change(&mut self, flow: FlowId, share: Share) -> bool {
        if !self.is_active(flow) {
            return false;
        }
        self.leave_group(flow);
        self.join_group(flow, share);
        true
    }

    pub(super) fn is_active(&self, flow: FlowId) -> bool {
        self.members.get(flow.index()).is_some_and(|member| member.position.is_some())
    }

    /// The active flows, in arbitrary order.
    pub(super) fn active(&self) -> &[FlowId] {
        &self.active
    }

    /// The weight of a flow among those of its group.
    pub(super) fn weight(&self, flow: FlowId) -> u64 {
        u64::from(self.members[flow.index()].share.weight.max(1))
    }

    /// The group of an active flow, an index below the number of flows.
    pub(super) fn group(&self, flow: FlowId) -> usize {
        self.members[flow.index()].group as usize
    }

    /// The weight of a group among groups; zero if it has no flows.
    pub(super) fn group_weight(&self, group: usize) -> u64 {
        if self.groups[group].flows == 0 { 0 } else { self.groups[group].weight() }
    }

    /// The fair share of an active flow in `amount`, if all flows use their full shares.
    pub(super) fn due(&self, flow: FlowId, amount: u64) -> u64 {
        let group = &self.groups[self.group(flow)];
        let parts = u128::from(group.weight()) * u128::from(self.weight(flow));
        let whole = u128::from(self.total_weight) * u128::from(group.flow_weights);
        // The product has at most 64 + 48 + 16 bits.
        (u128::from(amount) * parts).checked_div(whole).unwrap_or(0) as u64
    }

    fn join_group(&mut self, flow: FlowId, share: Share) {
        let key = if share.tenant_weight == 0 { COMMON } else { u64::from(share.tenant) };
        let slot = match self.group_by_key.get(key) {
            Some(slot) => slot,
            None => {
                // There are as many groups as flows, and no group in use is empty.
                let slot = self.free_groups.pop().expect("a group for every flow");
                self.groups[slot as usize] = Group { key, ..Group::default() };
                self.group_by_key.insert(key, slot).expect("a place for every group");
                slot
            }
        };
        let member = &mut self.members[flow.index()];
        (member.share, member.group) = (share, slot);
        let group = &mut self.groups[slot as usize];
        let before = if group.flows == 0 { 0 } else { group.weight() };
        group.tenant_weight = share.tenant_weight;
        group.flow_weights += u64::from(share.weight.max(1));
        group.flows += 1;
        self.total_weight = self.total_weight - before + group.weight();
    }

    fn leave_group(&mut self, flow: FlowId) {
        let Member { share, group: slot, .. } = self.members[flow.index()];
        let group = &mut self.groups[slot as usize];
        let before = group.weight();
        group.flow_weights -= u64::from(share.weight.max(1));
        group.flows -= 1;
        let after = if group.flows == 0 { 0 } else { group.weight() };
        self.total_weight = self.total_weight - before + after;
        if group.flows == 0 {
            self.group_by_key.remove(group.key);
            self.free_groups.push(slot);
        }
    }
}

#[cfg(test)]
mod tests;
