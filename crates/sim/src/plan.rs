//! The part of a run that never changes: the partition of each node, and the flows that wait for
//! each other.

use super::calendar::WINDOW_MAX;
use super::ranks::Neighbours;
use super::scenario::{Routing, Scenario, Stack};
use super::topology::{Way, ways};
use super::traffic::Flow;
use crate::group::GroupPlan;
use crate::stream::{Stream, Verb};
use fairway_sandbox::Policies;

/// Stands for a node that is in every partition. Each partition has the ports towards its own
/// nodes, so a packet that arrives at such a node belongs to the partition of its destination host.
pub(crate) const BETWEEN: u8 = u8::MAX;

/// Packets that may wait for one of a host's wires while another one is free. It is two chunks,
/// because the packets of one chunk take the same wire.
const WIRE_PACKETS: u32 = 16;

/// A scenario prepared for running.
pub(crate) struct Plan {
    pub(crate) scenario: Scenario,
    /// Number of partitions.
    pub(crate) parts: u32,
    /// The routes of each switch, if they are simple enough; otherwise empty.
    pub(crate) ways: Vec<Way>,
    /// Partition of each node, or [`BETWEEN`].
    pub(crate) part: Vec<u8>,
    /// Partition of each port: its node's, or its neighbour's if the node is [`BETWEEN`].
    pub(crate) port_part: Vec<u8>,
    /// Wires of a host, and the bytes that may wait for one of several while another one is free.
    pub(crate) wires: u32,
    pub(crate) wire_backlog: u32,
    /// The flows of each source, in the order in which they begin.
    pub(crate) outbound: Vec<Vec<u32>>,
    /// The flows of each destination; a flow's position here names its memory.
    pub(crate) inbound: Vec<Vec<u32>>,
    /// A flow's position in `inbound`.
    pub(crate) slot: Vec<u32>,
    /// For each flow, the flows that wait for it, and whether each waits for its delivery (true) or
    /// its completion. Empty if no flow waits.
    pub(crate) dependents: Vec<Vec<(u32, bool)>>,
    /// How far partitions may run ahead of each other, in picoseconds.
    pub(crate) window_ps: u64,
    /// Pairs of hosts that exchange messages, each pair once, with the lower host first.
    pub(crate) pairs: Vec<(u32, u32)>,
    /// The streams of each source, and those of each destination, where a stream's position names
    /// its memory.
    pub(crate) streams_out: Vec<Vec<u32>>,
    pub(crate) streams_in: Vec<Vec<u32>>,
    /// A stream's position in `streams_in`.
    pub(crate) stream_slot: Vec<u32>,
    /// The streams whose messages a host posts; a stream's position here names its Jetty.
    pub(crate) streams_posted: Vec<Vec<u32>>,
    /// A stream's position in `streams_posted`.
    pub(crate) stream_place: Vec<u32>,
    /// True if some streams READ, in which case data packets complete them.
    pub(crate) reads: bool,
    /// Neighbours of the program's ranks, if there is a program.
    pub(crate) neighbours: Option<Neighbours>,
    /// The calls of the group's ranks, if there is a group.
    pub(crate) group: Option<GroupPlan>,
}

/// Flows by host: the fields of [`Plan`] with the same names.
struct FlowIndex {
    outbound: Vec<Vec<u32>>,
    inbound: Vec<Vec<u32>>,
    slot: Vec<u32>,
    dependents: Vec<Vec<(u32, bool)>>,
    /// The two hosts of each flow, the lower one first.
    pairs: Vec<(u32, u32)>,
}

impl FlowIndex {
    fn new(flows: &[Flow], hosts: usize) -> FlowIndex {
        let (mut outbound, mut inbound) = (vec![Vec::new(); hosts], vec![Vec::new(); hosts]);
        let mut slot = Vec::with_capacity(flows.len());
        let any_waits = flows.iter().any(|flow| !flow.after.is_empty());
        let mut dependents = vec![Vec::new(); if any_waits { flows.len() } else { 0 }];
        let mut pairs = Vec::with_capacity(flows.len());
        for (index, flow) in flows.iter().enumerate() {
            let Flow { source, destination, .. } = *flow;
            outbound[source as usize].push(index as u32);
            let into: &mut Vec<u32> = &mut inbound[destination as usize];
            slot.push(into.len() as u32);
            if !flow.is_step() {
                into.push(index as u32);
                pairs.push((source.min(destination), source.max(destination)));
            }
            for after in &flow.after {
                dependents[after.flow as usize].push((index as u32, after.delivered));
            }
        }
        for own in &mut outbound {
            own.sort_by_key(|&flow: &u32| flows[flow as usize].start_ps);
        }
        FlowIndex { outbound, inbound, slot, dependents, pairs }
    }
}

/// Streams by host: the fields of [`Plan`] whose names begin with `stream`.
struct StreamIndex {
    out: Vec<Vec<u32>>,
    inbound: Vec<Vec<u32>>,
    slot: Vec<u32>,
    posted: Vec<Vec<u32>>,
    place: Vec<u32>,
}

impl StreamIndex {
    fn new(streams: &[Stream], hosts: usize) -> StreamIndex {
        let mut index = StreamIndex {
            out: vec![Vec::new(); hosts],
            inbound: vec![Vec::new(); hosts],
            slot: Vec::with_capacity(streams.len()),
            posted: vec![Vec::new(); hosts],
            place: Vec::with_capacity(streams.len()),
        };
        for (number, stream) in streams.iter().enumerate() {
            index.out[stream.source as usize].push(number as u32);
            let into = &mut index.inbound[stream.destination as usize];
            index.slot.push(into.len() as u32);
            into.push(number as u32);
            let posted = &mut index.posted[stream.poster() as usize];
            index.place.push(posted.len() as u32);
            posted.push(number as u32);
        }
        index
    }
}

impl Plan {
    /// Prepares a scenario whose hosts are simulated.
    pub(crate) fn new(mut scenario: Scenario, parts: u32) -> Plan {
        let names_classes =
            |policies: &Policies| policies.built_in().congestion.names_classes_of_data();
        let streams = scenario.streams.iter().filter_map(|stream| stream.policy.as_ref());
        if !scenario.policy.iter().chain(streams).any(names_classes) {
            // All data is of one class, so the result is the same with one queue for it.
            scenario.queue.classes = 2;
        }
        Plan::of_any(scenario, parts)
    }

    /// Prepares a scenario whose hosts may send data of any class.
    pub(crate) fn of_any(scenario: Scenario, parts: u32) -> Plan {
        let network = &scenario.network;
        let parts = parts.clamp(1, u32::from(BETWEEN));
        let part = parts_of(&scenario, parts);
        let port_part = network.links.iter().map(|link| match part[link.from as usize] {
            BETWEEN => part[link.to as usize],
            part => part,
        });
        let port_part = port_part.collect();
        let hosts = network.hosts as usize;
        let flows = FlowIndex::new(&scenario.flows, hosts);
        let streams = StreamIndex::new(&scenario.streams, hosts);
        let neighbours = scenario.program.as_ref().map(Neighbours::new);
        let mut pairs = flows.pairs;
        if let (Some(program), Some(neighbours)) = (&scenario.program, &neighbours) {
            for rank in 0..program.motif.ranks() {
                let own = program.host(rank);
                let others = neighbours.of(rank).iter().map(|peer| program.host(*peer));
                pairs.extend(others.filter(|other| own < *other).map(|other| (own, other)));
            }
        }
        let group = scenario.group.as_ref().map(|group| GroupPlan::new(group, network.hosts));
        if let Some(group) = &group {
            for rank in 0..group.group.ranks() {
                let own = group.host(rank);
                pairs.extend(group.hosts_of_peers(rank).map(|host| (own.min(host), own.max(host))));
            }
        }
        let ends = scenario.streams.iter().map(|stream| (stream.source, stream.destination));
        pairs.extend(ends.map(|(from, to)| (from.min(to), from.max(to))));
        pairs.sort_unstable();
        pairs.dedup();
        let window_ps = network.lookahead_ps().min(WINDOW_MAX);
        Plan {
            wires: network.wires(),
            ways: ways(network),
            wire_backlog: WIRE_PACKETS * scenario.mtu.max(scenario.chunk.unwrap_or(0) / 8),
            parts,
            part,
            port_part,
            outbound: flows.outbound,
            inbound: flows.inbound,
            slot: flows.slot,
            dependents: flows.dependents,
            window_ps,
            pairs,
            streams_out: streams.out,
            streams_in: streams.inbound,
            stream_slot: streams.slot,
            streams_posted: streams.posted,
            stream_place: streams.place,
            reads: scenario.streams.iter().any(|stream| stream.verb == Verb::Read),
            neighbours,
            group,
            scenario,
        }
    }

    /// True if hosts may open channels when they first use them: those of flows over Fairway.
    pub(crate) fn opens_on_use(&self) -> bool {
        let scenario = &self.scenario;
        scenario.stack == Stack::Fairway
            && scenario.split == 1
            && scenario.streams.is_empty()
            && !self.has_ranks()
    }

    /// Bytes that flows, the program and the group send.
    pub(crate) fn bytes(&self) -> u64 {
        let flows = self.scenario.flows.iter().map(|flow| u64::from(flow.bytes));
        let program = self.neighbours.as_ref().map_or(0, |neighbours| neighbours.bytes);
        flows.sum::<u64>() + program + self.group.as_ref().map_or(0, GroupPlan::bytes)
    }

    /// True if hosts have ranks, of a program or of a group.
    pub(crate) fn has_ranks(&self) -> bool {
        self.neighbours.is_some() || self.group.is_some()
    }

    /// Number of ranks on a host.
    pub(crate) fn ranks_on(&self, host: u32) -> usize {
        let program = self.scenario.program.map_or(0, |program| program.ranks_of(host).len());
        program + self.group.as_ref().map_or(0, |group| group.on_host(host).len())
    }

    /// True if the source of a waiting flow learns of the other flow's end at once, because that
    /// end is at the same host.
    pub(crate) fn is_local(&self, ended: u32, delivered: bool, waiting: u32) -> bool {
        let flow = &self.scenario.flows[ended as usize];
        let place = if delivered { flow.destination } else { flow.source };
        self.scenario.flows[waiting as usize].source == place
    }
}

/// Returns the partition of each node. A switch between partitions is in all of them if its ports
/// are independent of each other. Half of the packets that would cross to another partition and
/// back then stay where they are.
fn parts_of(scenario: &Scenario, parts: u32) -> Vec<u8> {
    let network = &scenario.network;
    let queue = &scenario.queue;
    let apart = parts > 1
        && queue.shared.is_none()
        && queue.pfc.is_none()
        && !matches!(scenario.routing, Routing::Valiant | Routing::Ugal);
    let part = |node| match apart && network.is_between(node) {
        true => BETWEEN,
        false => network.part_of(node, parts) as u8,
    };
    (0..network.nodes()).map(part).collect()
}
