//! Sets a run up, every part on a core of its own: hosts, and a channel for every pair that talks.
//!
//! The ends of a channel have to know each other's number before they open it. So each part makes
//! its hosts and reserves their channels first, and opens them when all have. A host does both in
//! the order of its pairs, and so comes out the same however many parts there are.

use super::chunked::Chunked;
use super::domain::Domain;
use super::host::{Host, address, make_host};
use super::plan::Plan;
use super::workers::each;
use crate::random::Random;
use fairway_engine::policy::PolicySet;
use fairway_engine::wire::{Instant, Psn};
use fairway_engine::{ChannelConfig, ChannelId, Profile, SetupError};
use fairway_sandbox::Policies;
use std::sync::Arc;

/// A host's end of a pair that talks.
#[derive(Clone, Copy)]
struct End {
    peer: u32,
    /// The pair's place among those of the peer.
    there: u32,
}

/// The hosts of a part, and by host the channels that they have reserved.
type Made = (Vec<Option<Box<Host>>>, Vec<Vec<ChannelId>>);

/// Makes the parts of a network, with every host that takes part, and opens a channel for every pair
/// that talks.
///
/// # Errors
/// Says which of the engine's limits does not fit the run.
pub(crate) fn make_domains(plan: &Arc<Plan>) -> Result<Vec<Domain>, String> {
    let ends = ends(plan);
    let scenario = &plan.scenario;
    let profile = scenario.profile.unwrap_or_else(|| scenario.timing());
    let spec = scenario.policy.clone().unwrap_or_else(|| scenario.swift().into());
    let made = each(0..plan.parts as u8, |part| make_part(plan, part, &ends, &profile));
    let (mut hosts, mut reserved) = (Vec::new(), Vec::new());
    for part in made {
        let (own, channels) = part?;
        hosts.push(own);
        reserved.push(channels);
    }
    let wiring = Wiring { plan, ends: &ends, reserved: &reserved, spec: &spec };
    let parts = hosts.into_iter().enumerate();
    let domains = each(parts, |(part, mut hosts)| {
        wiring.connect(&mut hosts)?;
        Ok(Domain::new(plan, part as u8, hosts))
    });
    domains.into_iter().collect()
}

/// By host, the pairs it is one of.
fn ends(plan: &Plan) -> Vec<Vec<End>> {
    let mut ends = vec![Vec::new(); plan.scenario.network.hosts as usize];
    for &(a, b) in &plan.pairs {
        let (at_a, at_b) = (ends[a as usize].len() as u32, ends[b as usize].len() as u32);
        ends[a as usize].push(End { peer: b, there: at_b });
        ends[b as usize].push(End { peer: a, there: at_a });
    }
    ends
}

/// The hosts of a part, which have reserved their channels.
fn make_part(plan: &Plan, part: u8, ends: &[Vec<End>], profile: &Profile) -> Result<Made, String> {
    let (mut hosts, mut reserved) = (Vec::with_capacity(ends.len()), Vec::new());
    for (number, ends) in ends.iter().enumerate() {
        let host = number as u32;
        let ranks = plan.scenario.program.is_some_and(|p| !p.ranks_of(host).is_empty());
        let idle = ends.is_empty() && !ranks && plan.outbound[number].is_empty();
        if idle || plan.part[number] != part {
            hosts.push(None);
            reserved.push(Vec::new());
            continue;
        }
        let made = make_host(plan, host, ends.len() as u32, profile);
        let mut made = made.map_err(|error| format!("a NIC cannot be made: {error:?}"))?;
        let channels = ends.len() * plan.scenario.split as usize;
        let channels: Result<_, _> = (0..channels).map(|_| made.nic.reserve_channel()).collect();
        reserved.push(channels.map_err(|error| format!("host {number}: {error:?}"))?);
        hosts.push(Some(Box::new(made)));
    }
    Ok((hosts, reserved))
}

/// What is known when channels are opened.
struct Wiring<'a> {
    plan: &'a Plan,
    ends: &'a [Vec<End>],
    /// By part and host: the channels that hosts have reserved.
    reserved: &'a [Vec<Vec<ChannelId>>],
    spec: &'a Policies,
}

impl Wiring<'_> {
    /// Opens the channels of hosts, and adds what goes by them.
    fn connect(&self, hosts: &mut [Option<Box<Host>>]) -> Result<(), String> {
        for (number, host) in hosts.iter_mut().enumerate() {
            let Some(host) = host else { continue };
            for place in 0..self.ends[number].len() {
                let peer = self.ends[number][place].peer;
                self.open(host, number as u32, place).map_err(|error| {
                    format!("{number} and {peer} cannot be connected: {error:?}")
                })?;
            }
            host.peers.sort_unstable();
            host.add_ranks(self.plan, number as u32)
                .map_err(|error| format!("host {number} has no room for its ranks: {error:?}"))?;
            host.add_streams(self.plan, number as u32)
                .map_err(|error| format!("host {number} has no room for its streams: {error:?}"))?;
        }
        Ok(())
    }

    /// The channel of a host, by the place of the pair among its own, of this number.
    fn channel(&self, host: u32, place: u32, member: u32) -> ChannelId {
        let part = usize::from(self.plan.part[host as usize]);
        let at = place * self.plan.scenario.split + member;
        self.reserved[part][host as usize][at as usize]
    }

    /// Opens a host's channels of one of its pairs.
    fn open(&self, host: &mut Host, number: u32, place: usize) -> Result<(), SetupError> {
        let (plan, scenario) = (self.plan, &self.plan.scenario);
        let End { peer, there } = self.ends[number as usize][place];
        let ends = [number.min(peer), number.max(peer)];
        let own = ends.map(|end| &plan.streams_out[end as usize]).into_iter().flatten();
        let own = own.map(|number| &scenario.streams[*number as usize]);
        let mut own = own.filter(|stream| ends.contains(&stream.destination));
        let spec = own.clone().find_map(|stream| stream.policy.as_ref()).unwrap_or(self.spec);
        let paths = own.find_map(|stream| stream.paths).unwrap_or(scenario.paths_each());
        let mut random = Random::fork(scenario.seed, u64::from(ends[0]) << 32 | u64::from(ends[1]));
        let limits = *host.nic.limits();
        let mut leader = None;
        for member in 0..scenario.split {
            // Both ends draw the same, and each takes its own.
            let psns = [0, 1].map(|_| Psn::new(random.number() as u32 & 0xFF_FFFF));
            let own = usize::from(number == ends[1]);
            let channel = self.channel(number, place as u32, member);
            let config = ChannelConfig {
                leader,
                engine: 0,
                remote: address(peer),
                remote_tpn: self.channel(peer, there, member).tpn(),
                first_psn: psns[own],
                remote_first_psn: psns[1 - own],
                mtu: scenario.mtu,
                paths,
                remote_window: limits.receive_window(),
                remote_message_slots: limits.message_slots,
                remote_read_slots: limits.read_slots,
                policy: policies(plan, spec),
            };
            host.nic.open_channel(Instant::ZERO, channel, config)?;
            if leader.is_none() {
                leader = Some(channel);
                host.peers.push((peer, channel));
            }
        }
        Ok(())
    }
}

fn policies(plan: &Plan, spec: &Policies) -> PolicySet {
    let mut policies = spec.build(plan.scenario.mtu);
    if let Some(bytes) = plan.scenario.chunk {
        policies.congestion = Box::new(Chunked::new(policies.congestion, bytes));
    }
    policies
}
