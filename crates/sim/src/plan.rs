//! The part of a run that never changes: the part of each node, and the flows that begin when
//! another one ends.

use super::calendar::WINDOW_MAX;
use super::ranks::Neighbours;
use super::scenario::{Routing, Scenario};
use super::traffic::Flow;
use crate::stream::{Stream, Verb};

/// A flow's own piece of its destination's memory (and of its source's): as many bytes, so that the
/// upper bits of an offset name the flow.
pub(crate) const SLOT_BITS: u32 = 36;

/// A node that is in every part, each of which has the ports towards its own nodes: what comes to
/// it belongs to the part of the host it goes to.
pub(crate) const BETWEEN: u8 = u8::MAX;

/// Packets that may wait for one of a host's wires while another one is free: two chunks, since
/// those of one chunk take the same wire.
const WIRE_PACKETS: u32 = 16;

/// A run, prepared.
pub(crate) struct Plan {
    pub(crate) scenario: Scenario,
    /// In how many parts the network is cut.
    pub(crate) parts: u32,
    /// Which part a node belongs to, or [`BETWEEN`].
    pub(crate) part: Vec<u8>,
    /// Which part a port belongs to: its node's, or if that is between parts, its neighbour's.
    pub(crate) port_part: Vec<u8>,
    /// Wires of a host, and what may wait for one of several while another one is free, in bytes.
    pub(crate) wires: u32,
    pub(crate) wire_backlog: u32,
    /// The flows of each source, in the order in which they begin.
    pub(crate) outbound: Vec<Vec<u32>>,
    /// The flows of each destination; a flow's place here names its memory.
    pub(crate) inbound: Vec<Vec<u32>>,
    /// A flow's place in `inbound`.
    pub(crate) slot: Vec<u32>,
    /// Flows that wait for this one, and for what of it.
    pub(crate) dependents: Vec<Vec<(u32, bool)>>,
    /// How far parts may run ahead of each other, in picoseconds.
    pub(crate) window_ps: u64,
    /// Both ways of a flow's pair of hosts, each pair once: lower host first.
    pub(crate) pairs: Vec<(u32, u32)>,
    /// The streams of each source, and of each destination, where a stream's place names its
    /// memory.
    pub(crate) streams_out: Vec<Vec<u32>>,
    pub(crate) streams_in: Vec<Vec<u32>>,
    /// A stream's place in `streams_in`.
    pub(crate) stream_slot: Vec<u32>,
    /// The streams whose messages a host posts; a stream's place here names its Jetty.
    pub(crate) streams_posted: Vec<Vec<u32>>,
    /// A stream's place in `streams_posted`.
    pub(crate) stream_place: Vec<u32>,
    /// Some streams read: then what completes them is data.
    pub(crate) reads: bool,
    /// Of the program's ranks.
    pub(crate) neighbours: Option<Neighbours>,
}

/// Flows by host: the fields of [`Plan`] of the same names.
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
        let mut dependents = vec![Vec::new(); flows.len()];
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
    pub(crate) fn new(scenario: Scenario, parts: u32) -> Plan {
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
        let ends = scenario.streams.iter().map(|stream| (stream.source, stream.destination));
        pairs.extend(ends.map(|(from, to)| (from.min(to), from.max(to))));
        pairs.sort_unstable();
        pairs.dedup();
        let window_ps = network.lookahead_ps().min(WINDOW_MAX);
        Plan {
            wires: network.wires(),
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
            scenario,
        }
    }

    /// Bytes that are to be sent.
    pub(crate) fn bytes(&self) -> u64 {
        let flows = self.scenario.flows.iter().map(|flow| u64::from(flow.bytes));
        flows.sum::<u64>() + self.neighbours.as_ref().map_or(0, |neighbours| neighbours.bytes)
    }

    /// Is the news of a flow's end known at once at the source of the one that waits for it?
    pub(crate) fn is_local(&self, ended: u32, delivered: bool, waiting: u32) -> bool {
        let flow = &self.scenario.flows[ended as usize];
        let place = if delivered { flow.destination } else { flow.source };
        self.scenario.flows[waiting as usize].source == place
    }
}

/// The part of each node. A switch between parts is in all of them, if its ports have nothing in
/// common: half of the packets that would go from part to part, and back, then stay where they are.
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
