//! What of a run never changes: who belongs to which part, and what each flow's end sets off.

use super::calendar::WINDOW_MAX;
use super::ranks::Neighbours;
use super::scenario::Scenario;
use super::traffic::Flow;

/// A flow's own piece of its destination's memory (and of its source's): as many bytes, so that the
/// upper bits of an offset name the flow.
pub(crate) const SLOT_BITS: u32 = 36;

/// A run, prepared.
pub(crate) struct Plan {
    pub(crate) scenario: Scenario,
    /// In how many parts the network is cut.
    pub(crate) parts: u32,
    /// Which part a node belongs to.
    pub(crate) part: Vec<u8>,
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
    /// The streams of each source, and of each destination, where a stream's place names its memory.
    pub(crate) streams_out: Vec<Vec<u32>>,
    pub(crate) streams_in: Vec<Vec<u32>>,
    /// A stream's place in `streams_in`.
    pub(crate) stream_slot: Vec<u32>,
    /// Of the program's ranks.
    pub(crate) neighbours: Option<Neighbours>,
}

impl Plan {
    pub(crate) fn new(scenario: Scenario, parts: u32) -> Plan {
        let network = &scenario.network;
        let parts = parts.clamp(1, 255);
        let part = (0..network.nodes()).map(|node| network.part_of(node, parts) as u8).collect();
        let hosts = network.hosts as usize;
        let (mut outbound, mut inbound) = (vec![Vec::new(); hosts], vec![Vec::new(); hosts]);
        let mut slot = Vec::with_capacity(scenario.flows.len());
        let mut dependents = vec![Vec::new(); scenario.flows.len()];
        let mut pairs = Vec::with_capacity(scenario.flows.len());
        for (index, flow) in scenario.flows.iter().enumerate() {
            let Flow { source, destination, .. } = *flow;
            outbound[source as usize].push(index as u32);
            let into: &mut Vec<u32> = &mut inbound[destination as usize];
            slot.push(into.len() as u32);
            into.push(index as u32);
            for after in &flow.after {
                dependents[after.flow as usize].push((index as u32, after.delivered));
            }
            pairs.push((source.min(destination), source.max(destination)));
        }
        let neighbours = scenario.program.as_ref().map(Neighbours::new);
        if let (Some(program), Some(neighbours)) = (&scenario.program, &neighbours) {
            for rank in 0..program.motif.ranks() {
                let own = program.host(rank);
                let others = neighbours.of(rank).iter().map(|peer| program.host(*peer));
                pairs.extend(others.filter(|other| own < *other).map(|other| (own, other)));
            }
        }
        let (mut streams_out, mut streams_in) = (vec![Vec::new(); hosts], vec![Vec::new(); hosts]);
        let mut stream_slot = Vec::with_capacity(scenario.streams.len());
        for (number, stream) in scenario.streams.iter().enumerate() {
            let (source, destination) = (stream.source, stream.destination);
            streams_out[source as usize].push(number as u32);
            let into: &mut Vec<u32> = &mut streams_in[destination as usize];
            stream_slot.push(into.len() as u32);
            into.push(number as u32);
            pairs.push((source.min(destination), source.max(destination)));
        }
        pairs.sort_unstable();
        pairs.dedup();
        for flows in &mut outbound {
            flows.sort_by_key(|&flow| scenario.flows[flow as usize].start_ps);
        }
        let window_ps = network.lookahead_ps().min(WINDOW_MAX);
        Plan {
            parts,
            part,
            outbound,
            inbound,
            slot,
            dependents,
            window_ps,
            pairs,
            streams_out,
            streams_in,
            stream_slot,
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
