//! The links between nodes, and the ports of each that lead closer to a host.
//!
//! Nodes are hosts, from 0 on, and behind them switches. The ports of a node have consecutive
//! numbers, so the ports that lead to a destination equally well are a range that is computed.
//! There are no forwarding tables, and routing 8,192 hosts takes no more memory than routing 16.

mod clos;
mod direct;
mod error;
mod planes;
mod ways;

pub use clos::Clos;
pub use direct::{Direct, Wiring};
pub use error::TopologyError;
pub use planes::Planes;
pub(crate) use ways::{Way, ways};

use super::packets::NONE;

/// A link in one direction. It has the number of the port that sends onto it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Sending node.
    pub from: u32,
    /// Receiving node.
    pub to: u32,
    /// The port of the other direction.
    pub reverse: u32,
    /// Rate, in megabits per second.
    pub megabits: u64,
    /// Latency of the wire, in picoseconds.
    pub latency_ps: u64,
}

/// Ports that lead to a destination equally well, by their number among the node's own, from 0: a
/// range, or up to three arbitrary ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidates {
    count: u32,
    first: u32,
    /// The second and third port, if the ports are not a range.
    others: Option<[u32; 2]>,
}

impl Candidates {
    /// A single port.
    pub const fn one(port: u32) -> Candidates {
        Candidates { first: port, count: 1, others: None }
    }

    pub(crate) const fn range(first: u32, count: u32) -> Candidates {
        Candidates { first, count, others: None }
    }

    pub(crate) const fn none() -> Candidates {
        Candidates { first: 0, count: 0, others: Some([0; 2]) }
    }

    /// Adds a port to fewer than three.
    pub(crate) fn add(&mut self, port: u32) {
        match (self.count, &mut self.others) {
            (0, _) => self.first = port,
            (count, Some(others)) => others[count as usize - 1] = port,
            (_, None) => unreachable!("ranges are complete"),
        }
        self.count += 1;
    }

    /// Number of ports; at least 1.
    #[inline]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the port with this index, from 0.
    #[inline]
    pub fn get(&self, index: u32) -> u32 {
        match self.others {
            None => self.first + index,
            Some(_) if index == 0 => self.first,
            Some(others) => others[index as usize - 1],
        }
    }
}

/// Shape of a network, which determines the routes of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A fat tree of two or three tiers.
    Clos(Clos),
    /// A torus, HyperX or dragonfly.
    Direct(Direct),
    /// Fat trees side by side.
    Planes(Planes),
}

/// A network: its nodes, links and shape.
#[derive(Clone, Debug)]
pub struct Network {
    /// Number of hosts; the nodes below this number.
    pub hosts: u32,
    /// The shape.
    pub shape: Shape,
    /// The first port of each node, and behind the last node the number of ports.
    pub first_port: Vec<u32>,
    /// Links by port number.
    pub links: Vec<Link>,
}

/// Links while the network is built, in the order of each node's ports.
pub(crate) struct Builder {
    ports: Vec<Vec<(u32, u64, u64)>>,
}

impl Builder {
    pub(crate) fn new(nodes: u32) -> Builder {
        Builder { ports: vec![Vec::new(); nodes as usize] }
    }

    /// Adds a port to `from` that leads to `to`. The link back is added separately.
    pub(crate) fn link(&mut self, from: u32, to: u32, megabits: u64, latency_ps: u64) {
        self.ports[from as usize].push((to, megabits, latency_ps));
    }

    /// Returns the network. The k-th link from one node to another has the k-th one back as its
    /// reverse.
    pub(crate) fn finish(self, hosts: u32, shape: Shape) -> Network {
        let mut first_port = Vec::with_capacity(self.ports.len() + 1);
        let mut links = Vec::new();
        for (from, ports) in self.ports.iter().enumerate() {
            first_port.push(links.len() as u32);
            for &(to, megabits, latency_ps) in ports {
                let from = from as u32;
                links.push(Link { from, to, reverse: u32::MAX, megabits, latency_ps });
            }
        }
        first_port.push(links.len() as u32);
        for port in 0..links.len() {
            let (from, to) = (links[port].from, links[port].to);
            let own = &links[first_port[from as usize] as usize..port];
            let rank = own.iter().filter(|link| link.to == to).count();
            let range = first_port[to as usize]..first_port[to as usize + 1];
            let reverse = range.into_iter().filter(|&back| links[back as usize].to == from);
            links[port].reverse = reverse.into_iter().nth(rank).expect("every link has one back");
        }
        Network { hosts, shape, first_port, links }
    }
}

impl Network {
    /// Number of nodes: hosts and switches.
    pub fn nodes(&self) -> u32 {
        self.first_port.len() as u32 - 1
    }

    /// The kinds of node and the numbers of the nodes of each kind, in ascending order: `host`,
    /// then `leaf` and `spine`, or `leaf`, `aggregation` and `core`, or `switch`.
    pub fn kinds(&self) -> Vec<(&'static str, std::ops::Range<u32>)> {
        let switches = match &self.shape {
            Shape::Clos(clos) => clos.tiers(),
            Shape::Direct(_) | Shape::Planes(_) => vec![("switch", self.nodes() - self.hosts)],
        };
        let mut kinds = vec![("host", 0..self.hosts)];
        let mut first = self.hosts;
        for (kind, count) in switches {
            kinds.push((kind, first..first + count));
            first += count;
        }
        kinds
    }

    /// Returns the ports of a node.
    pub fn ports_of(&self, node: u32) -> std::ops::Range<u32> {
        self.first_port[node as usize]..self.first_port[node as usize + 1]
    }

    /// Returns the ports of a switch that lead to a host on a shortest way: all of them, or with
    /// `any` false those of the first dimension only. `entropy` selects one of the ways through a
    /// dragonfly.
    #[inline]
    pub fn toward(&self, switch: u32, host: u32, entropy: u32, any: bool) -> Candidates {
        self.by_way_of(NONE, switch, host, entropy, any)
    }

    /// As [`Self::toward`], but by way of the switch `via`, unless the packet is there or `via` is
    /// [`NONE`].
    #[inline]
    pub(crate) fn by_way_of(
        &self,
        via: u32,
        switch: u32,
        host: u32,
        entropy: u32,
        any: bool,
    ) -> Candidates {
        let direct = match &self.shape {
            Shape::Clos(clos) => return clos.toward(switch, host),
            Shape::Planes(planes) => return planes.plane.toward(planes.within(switch), host),
            Shape::Direct(direct) => direct,
        };
        let (home, port) = direct.place(host);
        let target = if via == NONE || via == switch { home } else { via };
        if target == switch {
            return Candidates::one(port);
        }
        direct.toward(switch, target, entropy, any)
    }

    /// Returns a drawn switch for a detour, and the number of links between switches on the short
    /// way and on the detour. `None` if the drawn switch makes no detour or the network has none.
    pub(crate) fn detour(
        &self,
        switch: u32,
        host: u32,
        entropy: u32,
        drawn: u32,
    ) -> Option<(u32, u32, u32)> {
        let Shape::Direct(direct) = &self.shape else { return None };
        let (home, via) = (direct.place(host).0, direct.any_switch(drawn));
        if home == switch || via == switch || via == home {
            return None;
        }
        let distance = |from, to| direct.distance(from, to, entropy);
        Some((via, distance(switch, home), distance(switch, via) + distance(via, home)))
    }

    /// Divisor of the path number for the choice at this switch, if paths are source routes: see
    /// [`super::Routing::Source`].
    #[inline]
    pub(crate) fn stride(&self, switch: u32) -> u32 {
        match &self.shape {
            Shape::Clos(clos) => clos.stride(switch),
            // The lowest digit of the path has selected the plane.
            Shape::Planes(planes) => planes.count * planes.plane.stride(planes.within(switch)),
            Shape::Direct(_) => 1,
        }
    }

    /// Wires of each host, each into a plane of its own: 1 except for [`Planes`].
    pub fn wires(&self) -> u32 {
        match &self.shape {
            Shape::Planes(planes) => planes.count,
            Shape::Clos(_) | Shape::Direct(_) => 1,
        }
    }

    /// Returns the plane of a link: 0 if there is only one.
    pub fn plane_of(&self, link: &Link) -> u32 {
        match &self.shape {
            Shape::Planes(planes) => planes.of(link.from.max(link.to)).unwrap_or(0),
            Shape::Clos(_) | Shape::Direct(_) => 0,
        }
    }

    /// Number of links of the longest shortest way between two hosts.
    pub fn diameter(&self) -> u32 {
        match &self.shape {
            Shape::Clos(clos) => clos.diameter(),
            Shape::Planes(planes) => planes.plane.diameter(),
            Shape::Direct(direct) => direct.diameter(),
        }
    }

    /// The shortest latency of any link: within this time, an event at one node cannot affect
    /// another.
    pub fn lookahead_ps(&self) -> u64 {
        self.links.iter().map(|link| link.latency_ps).min().unwrap_or(1).max(1)
    }

    /// True if this is a switch between partitions, each of whose ports belongs to one of them. A
    /// packet that reaches it leaves by the port towards its destination's partition, independently
    /// of other packets.
    pub(crate) fn is_between(&self, node: u32) -> bool {
        match &self.shape {
            Shape::Clos(clos) => clos.is_top(node),
            Shape::Planes(planes) => planes.plane.is_top(planes.within(node)),
            Shape::Direct(_) => false,
        }
    }

    /// Returns the partition of a node, of `parts`; nearby nodes share a partition.
    pub fn part_of(&self, node: u32, parts: u32) -> u32 {
        let (group, groups) = match &self.shape {
            Shape::Clos(clos) => clos.group(node),
            Shape::Planes(planes) => planes.plane.group(planes.within(node)),
            Shape::Direct(direct) => direct.group(node),
        };
        (u64::from(group) * u64::from(parts) / u64::from(groups)) as u32
    }
}

#[cfg(test)]
mod tests;
