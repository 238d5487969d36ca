//! The links between nodes, and the ports of each that lead closer to a host.
//!
//! Nodes are hosts, from 0 on, and behind them switches. The ports of a node are numbered in a row,
//! so that the ports that lead to a place equally well are a range, found by arithmetic: there are
//! no forwarding tables, and routing 8,192 hosts takes no more memory than routing 16.

mod clos;
mod direct;
mod error;
mod planes;

pub use clos::Clos;
pub use direct::{Direct, Wiring};
pub use error::TopologyError;
pub use planes::Planes;

use super::packets::NONE;

/// A link in one direction, and the port that sends onto it. It has the port's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The node that sends.
    pub from: u32,
    /// The node that receives.
    pub to: u32,
    /// The port of the other direction.
    pub reverse: u32,
    /// In megabits per second.
    pub megabits: u64,
    /// Of the wire, in picoseconds.
    pub latency_ps: u64,
}

/// Ports that lead to a place equally well, by their number among the node's own, from 0: a range,
/// or up to three anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidates {
    count: u32,
    first: u32,
    /// The others, if they are not a range.
    others: Option<[u32; 2]>,
}

impl Candidates {
    /// Only this one.
    pub const fn one(port: u32) -> Candidates {
        Candidates { first: port, count: 1, others: None }
    }

    pub(crate) const fn range(first: u32, count: u32) -> Candidates {
        Candidates { first, count, others: None }
    }

    pub(crate) const fn none() -> Candidates {
        Candidates { first: 0, count: 0, others: Some([0; 2]) }
    }

    /// Adds one to fewer than three.
    pub(crate) fn add(&mut self, port: u32) {
        match (self.count, &mut self.others) {
            (0, _) => self.first = port,
            (count, Some(others)) => others[count as usize - 1] = port,
            (_, None) => unreachable!("ranges are complete"),
        }
        self.count += 1;
    }

    /// How many; at least 1.
    #[inline]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The one of this number, from 0.
    #[inline]
    pub fn get(&self, index: u32) -> u32 {
        match self.others {
            None => self.first + index,
            Some(_) if index == 0 => self.first,
            Some(others) => others[index as usize - 1],
        }
    }
}

/// The shape of a network, by which packets find their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A fat tree of two or three tiers.
    Clos(Clos),
    /// A torus, HyperX or dragonfly.
    Direct(Direct),
    /// Fat trees side by side.
    Planes(Planes),
}

/// A network: nodes, links, and the shape.
#[derive(Clone, Debug)]
pub struct Network {
    /// Hosts: the nodes below this number.
    pub hosts: u32,
    /// The shape.
    pub shape: Shape,
    /// The first port of each node, and behind the last node the number of ports.
    pub first_port: Vec<u32>,
    /// By port.
    pub links: Vec<Link>,
}

/// Links as they are laid, in the order of each node's ports.
pub(crate) struct Builder {
    ports: Vec<Vec<(u32, u64, u64)>>,
}

impl Builder {
    pub(crate) fn new(nodes: u32) -> Builder {
        Builder { ports: vec![Vec::new(); nodes as usize] }
    }

    /// The next port of `from` leads to `to`. The link back is laid separately.
    pub(crate) fn link(&mut self, from: u32, to: u32, megabits: u64, latency_ps: u64) {
        self.ports[from as usize].push((to, megabits, latency_ps));
    }

    /// The network. The k-th link from one node to another has the k-th one back as its reverse.
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
    /// Nodes: hosts and switches.
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

    /// The ports of a node.
    pub fn ports_of(&self, node: u32) -> std::ops::Range<u32> {
        self.first_port[node as usize]..self.first_port[node as usize + 1]
    }

    /// The ports of a switch that lead to a host on a shortest way: all of them, or with `any`
    /// false
    /// those of the first dimension only. `entropy` names one of the ways through a dragonfly.
    #[inline]
    pub fn toward(&self, switch: u32, host: u32, entropy: u32, any: bool) -> Candidates {
        self.by_way_of(NONE, switch, host, entropy, any)
    }

    /// As [`Self::toward`], but first to the switch `via`, unless this is it or there is none.
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

    /// A switch that is drawn, to go by way of, and how many links from switch to switch the short
    /// way and the long one have. `None` if there is no other way worth the name.
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

    /// By how much to divide the path for the choice made at this switch, when paths are source
    /// routes: see [`super::Routing::Source`].
    #[inline]
    pub(crate) fn stride(&self, switch: u32) -> u32 {
        match &self.shape {
            Shape::Clos(clos) => clos.stride(switch),
            // The lowest digit has chosen the plane.
            Shape::Planes(planes) => planes.count * planes.plane.stride(planes.within(switch)),
            Shape::Direct(_) => 1,
        }
    }

    /// Wires of each host, each into a plane of its own: 1 but for [`Planes`].
    pub fn wires(&self) -> u32 {
        match &self.shape {
            Shape::Planes(planes) => planes.count,
            Shape::Clos(_) | Shape::Direct(_) => 1,
        }
    }

    /// The plane that a link is in: 0 if there is only one.
    pub fn plane_of(&self, link: &Link) -> u32 {
        match &self.shape {
            Shape::Planes(planes) => planes.of(link.from.max(link.to)).unwrap_or(0),
            Shape::Clos(_) | Shape::Direct(_) => 0,
        }
    }

    /// Links of the longest shortest way between two hosts.
    pub fn diameter(&self) -> u32 {
        match &self.shape {
            Shape::Clos(clos) => clos.diameter(),
            Shape::Planes(planes) => planes.plane.diameter(),
            Shape::Direct(direct) => direct.diameter(),
        }
    }

    /// The shortest latency of any link: what happens at one node cannot touch another one sooner.
    pub fn lookahead_ps(&self) -> u64 {
        self.links.iter().map(|link| link.latency_ps).min().unwrap_or(1).max(1)
    }

    /// Is this a switch on the way from part to part, whose every port is of one of them? Then what
    /// comes to it leaves, whatever else there is, by the port towards the part of its destination.
    pub(crate) fn is_between(&self, node: u32) -> bool {
        match &self.shape {
            Shape::Clos(clos) => clos.is_top(node),
            Shape::Planes(planes) => planes.plane.is_top(planes.within(node)),
            Shape::Direct(_) => false,
        }
    }

    /// The part of the network, of `parts`, that a node belongs to: what is near stays together.
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
