//! Sets up a run, each partition on its own core: the hosts, and a channel for every pair of hosts
//! with traffic.
//!
//! Each end of a channel needs the other's number to open it. So each partition first makes its
//! hosts and reserves their channels, and opens the channels when all partitions have done so, or
//! leaves that to the hosts ([`super::opening`]). A host does both in the order of its pairs, so
//! the result is the same for any number of partitions.

use super::chunked::Chunked;
use super::host::{Host, make_host};
use super::nic::HostNic;
use super::opening::OnUse;
use super::partition::Partition;
use super::plan::Plan;
use super::roce::{Offer, RoceNic};
use super::scenario::Stack;
use super::workers::each;
use crate::endpoint::address;
use crate::error::SimulationError;
use fairway_device::random::Random;
use fairway_sandbox::Policies;
use fairway_ub::policy::{PolicySet, ProbeSpec};
use fairway_ub::wire::{Instant, Msn, Psn};
use fairway_ub::{ChannelConfig, ChannelId, Limits, Profile};
use std::sync::Arc;

/// One end of a pair of hosts with traffic.
#[derive(Clone, Copy)]
pub(crate) struct End {
    pub(crate) peer: u32,
    /// The pair's index among those of the peer.
    there: u32,
}

/// Resources of a host that its peers need in order to connect.
enum Reserved {
    /// Channels, and the limits of the host's NIC.
    Channels(Vec<ChannelId>, Box<Limits>),
    QueuePairs(Offer),
}

/// The hosts of a partition, and what each has reserved.
type Made = (Vec<Option<Box<Host>>>, Vec<Reserved>);

/// Makes the partitions of a network with every host that has traffic, and opens a channel for
/// every pair.
///
/// # Errors
/// Names the limit of the protocol that is too small for the run.
pub(crate) fn make_partitions(plan: &Arc<Plan>) -> Result<Vec<Partition>, SimulationError> {
    let ends = ends(plan);
    let scenario = &plan.scenario;
    let profile = scenario.profile.unwrap_or_else(|| scenario.timing());
    let spec = scenario.policy.clone().unwrap_or_else(|| scenario.default_policy().into());
    let made = each(0..plan.parts as u8, |part| make_part(plan, part, &ends, &profile));
    let (mut hosts, mut reserved) = (Vec::new(), Vec::new());
    for part in made {
        let (own, channels) = part?;
        hosts.push(own);
        reserved.push(channels);
    }
    let on_use = plan.opens_on_use() && opens_on_use(plan, &spec);
    let wiring = Arc::new(Wiring { plan: Arc::clone(plan), ends, reserved, spec, on_use });
    let parts = hosts.into_iter().enumerate();
    let partitions = each(parts, |(part, mut hosts)| {
        Wiring::connect(&wiring, &mut hosts)?;
        Ok(Partition::new(plan, part as u8, hosts))
    });
    partitions.into_iter().collect()
}

/// Returns, for each host, its pairs.
fn ends(plan: &Plan) -> Vec<Vec<End>> {
    let mut ends = vec![Vec::new(); plan.scenario.network.hosts as usize];
    for &(a, b) in &plan.pairs {
        let (at_a, at_b) = (ends[a as usize].len() as u32, ends[b as usize].len() as u32);
        ends[a as usize].push(End { peer: b, there: at_b });
        ends[b as usize].push(End { peer: a, there: at_a });
    }
    ends
}

/// Makes the hosts of a partition and reserves their channels.
fn make_part(
    plan: &Plan,
    part: u8,
    ends: &[Vec<End>],
    profile: &Profile,
) -> Result<Made, SimulationError> {
    let (mut hosts, mut reserved) = (Vec::with_capacity(ends.len()), Vec::new());
    for (number, ends) in ends.iter().enumerate() {
        let host = number as u32;
        let ranks = plan.ranks_on(host) > 0;
        let idle = ends.is_empty() && !ranks && plan.outbound[number].is_empty();
        if idle || plan.part[number] != part {
            hosts.push(None);
            reserved.push(Reserved::Channels(Vec::new(), Box::default()));
            continue;
        }
        let peers = ends.len() as u32;
        if plan.scenario.stack != Stack::Fairway && peers > 0 {
            let (nic, offer) = RoceNic::new(plan, host, peers)?;
            let queue = nic.queue();
            let nic = HostNic::Roce(Box::new(nic));
            hosts.push(Some(Box::new(Host::new(plan, host, nic, queue))));
            reserved.push(Reserved::QueuePairs(offer));
            continue;
        }
        let made = make_host(plan, host, peers, profile);
        let mut made = made.map_err(|error| SimulationError::Nic { host, error })?;
        let channels = peers * plan.scenario.split;
        let nic = made.nic.fairway();
        let channels: Result<_, _> = (0..channels).map(|_| nic.reserve_channel()).collect();
        let channels = channels.map_err(|error| SimulationError::Nic { host, error })?;
        reserved.push(Reserved::Channels(channels, Box::new(*nic.limits())));
        hosts.push(Some(Box::new(made)));
    }
    Ok((hosts, reserved))
}

/// True if a channel may be opened when it is first used: its policies do nothing of their own
/// accord before that, and none of them is a module that reports how it was made.
fn opens_on_use(plan: &Plan, spec: &Policies) -> bool {
    let is_built_in = plan.scenario.policy.as_ref().is_none_or(|spec| !spec.has_modules());
    is_built_in && !matches!(spec.build(plan.scenario.mtu).probe, ProbeSpec::Periodic { .. })
}

/// Data needed to open channels.
pub(crate) struct Wiring {
    plan: Arc<Plan>,
    /// By host: its pairs, in ascending order of the peers.
    pub(crate) ends: Vec<Vec<End>>,
    /// By partition and host: the reserved resources.
    reserved: Vec<Vec<Reserved>>,
    spec: Policies,
    /// True if hosts open a channel when they first use it.
    on_use: bool,
}

impl Wiring {
    /// Opens the channels of hosts, or lets them do so, and adds their ranks and streams.
    fn connect(self: &Arc<Self>, hosts: &mut [Option<Box<Host>>]) -> Result<(), SimulationError> {
        for (number, host) in hosts.iter_mut().enumerate() {
            let Some(host) = host else { continue };
            if self.on_use {
                host.on_use = Some(Box::new(OnUse::new(self, &self.plan, number as u32)));
                let peers = self.ends[number].len() as u32;
                host.nic.fairway().expect_channels(Instant::ZERO, peers);
                continue;
            }
            for place in 0..self.ends[number].len() {
                self.open(host, Instant::ZERO, (number as u32, place))?;
            }
            if let HostNic::Roce(nic) = &mut host.nic {
                nic.sort_peers();
                continue;
            }
            host.peers.sort_unstable();
            host.hosts_of_channels.sort_unstable();
            let number = number as u32;
            host.add_ranks(&self.plan, number)
                .and_then(|()| host.add_members(&self.plan, number))
                .map_err(|error| SimulationError::Ranks { host: number, error })?;
            host.add_streams(&self.plan, number)
                .map_err(|error| SimulationError::Streams { host: number, error })?;
        }
        Ok(())
    }

    /// Returns a channel of a host, given by the index of the pair among the host's own and the
    /// channel's number within the pair, and the limits of the host's NIC.
    pub(crate) fn channel(&self, host: u32, place: u32, member: u32) -> (ChannelId, &Limits) {
        let part = usize::from(self.plan.part[host as usize]);
        let at = place * self.plan.scenario.split + member;
        match &self.reserved[part][host as usize] {
            Reserved::Channels(channels, limits) => (channels[at as usize], limits),
            Reserved::QueuePairs(_) => unreachable!("all hosts of a run are of one kind"),
        }
    }

    /// Returns the configuration of a channel to the given one of a peer, whose NIC has these
    /// limits; the PSNs are the first here and the first there.
    fn config(
        &self,
        peer: u32,
        (channel, limits): (ChannelId, &Limits),
        [first_psn, remote_first_psn]: [Psn; 2],
        policy: PolicySet,
    ) -> ChannelConfig {
        ChannelConfig {
            leader: None,
            engine: 0,
            remote: address(peer),
            remote_tpn: channel.tpn(),
            first_psn,
            remote_first_psn,
            first_message: Msn::new(0),
            // Flows are WRITEs and need neither.
            unreliable: !self.on_use,
            bypass: !self.on_use,
            parts: true,
            retires: true,
            carried_acks: false,
            mtu: self.plan.scenario.mtu,
            paths: 1,
            remote_window: limits.receive_window(),
            remote_message_slots: limits.message_slots,
            remote_read_slots: limits.read_slots,
            policy,
        }
    }

    /// Opens a host's channels to the peer of one of its pairs.
    pub(crate) fn open(
        &self,
        host: &mut Host,
        now: Instant,
        (number, place): (u32, usize),
    ) -> Result<(), SimulationError> {
        let (plan, scenario) = (&self.plan, &self.plan.scenario);
        let End { peer, there } = self.ends[number as usize][place];
        let ends = [number.min(peer), number.max(peer)];
        let mut random = Random::fork(scenario.seed, u64::from(ends[0]) << 32 | u64::from(ends[1]));
        // Both ends draw the same numbers, and each end takes its own PSN first.
        let mut psns = || {
            let drawn = [0, 1].map(|_| Psn::new(random.number() as u32 & 0xFF_FFFF));
            let own = usize::from(number == ends[1]);
            [drawn[own], drawn[1 - own]]
        };
        let nic = match &mut host.nic {
            HostNic::Fairway(driver) => driver.device_mut(),
            HostNic::Roce(nic) => {
                let part = usize::from(plan.part[peer as usize]);
                let Reserved::QueuePairs(offer) = &self.reserved[part][peer as usize] else {
                    unreachable!("all hosts of a run are of one kind");
                };
                return nic.connect(scenario, (place as u32, peer, there), offer, psns);
            }
        };
        let own = ends.map(|end| &plan.streams_out[end as usize]).into_iter().flatten();
        let own = own.map(|number| &scenario.streams[*number as usize]);
        let mut own = own.filter(|stream| ends.contains(&stream.destination));
        let spec = own.clone().find_map(|stream| stream.policy.as_ref()).unwrap_or(&self.spec);
        let paths = own.find_map(|stream| stream.paths).unwrap_or(scenario.paths_each());
        let mut leader = None;
        for member in 0..scenario.split {
            let (channel, _) = self.channel(number, place as u32, member);
            let remote = self.channel(peer, there, member);
            let config = ChannelConfig {
                leader,
                paths,
                ..self.config(peer, remote, psns(), policies(plan, spec))
            };
            let opened = match nic.is_resting(channel) {
                true => nic.resume_channel(now, channel, config),
                false => nic.open_channel(now, channel, config),
            };
            opened.map_err(|error| SimulationError::Channel { host: number, peer, error })?;
            if self.on_use {
                return Ok(());
            }
            host.hosts_of_channels.push((channel, peer));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    /// A host may use no more of a peer's resources than the peer has, which may be less than its
    /// own.
    #[test]
    fn channels_know_the_limits_of_the_peer() {
        let mut settings = Settings::default();
        let lines = "workload halo3d\ngrid 16x4x4\nranks-per-node 4\nnodes 64\npaths 4";
        settings.read(lines).expect("settings");
        let plan = Arc::new(Plan::new(settings.build(1).expect("a scenario"), 1));
        let (ends, profile) = (ends(&plan), plan.scenario.timing());
        let (hosts, reserved) = make_part(&plan, 0, &ends, &profile).expect("hosts");
        let spec: Policies = plan.scenario.default_policy().into();
        let wiring =
            Wiring { plan: Arc::clone(&plan), ends, reserved: vec![reserved], spec, on_use: false };
        let slots = |host: u32| {
            let host = hosts[host as usize].as_deref().expect("a host that takes part");
            host.nic.as_fairway().expect("Fairway").limits().message_slots
        };
        let mut differ = 0;
        for (number, ends) in wiring.ends.iter().enumerate() {
            for &End { peer, there } in ends {
                let psns = [0, 0].map(Psn::new);
                let remote = wiring.channel(peer, there, 0);
                let config = wiring.config(peer, remote, psns, policies(&plan, &wiring.spec));
                assert_eq!(config.remote_message_slots, slots(peer));
                differ += u32::from(slots(peer) != slots(number as u32));
            }
        }
        assert!(differ > 0, "all hosts have the same limits");
    }
}
