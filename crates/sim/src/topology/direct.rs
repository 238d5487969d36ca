//! Networks in which every switch has hosts: torus, HyperX, dragonfly.
//!
//! A switch's ports lead to its hosts, then to its neighbours. In a torus the neighbours are,
//! dimension by dimension, the next switch up and the next one down (one port if there are only
//! two). In a HyperX they are, dimension by dimension, all other switches of the row, in order. In
//! a dragonfly they are the other switches of the group, in order, then the ends of the switch's
//! global links.

use super::error::TopologyError;
use super::{Builder, Candidates, Network, Shape};

/// Largest numbers of hosts, switches, and links in one direction, of a network. Its tables take
/// about 60 bytes for each link.
const HOSTS_MAX: u64 = 1 << 18;
const SWITCHES_MAX: u64 = 1 << 18;
const LINKS_MAX: u64 = 1 << 23;

/// A network in which every switch has hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// Hosts per switch.
    pub hosts_per_switch: u32,
    /// How switches are wired.
    pub wiring: Wiring,
}

/// How the switches of a [`Direct`] network are wired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// A ring in each dimension. Missing dimensions are 1.
    Torus([u32; 3]),
    /// A link to every other switch of the row, in each dimension. Missing dimensions are 1.
    HyperX([u32; 3]),
    /// Groups of switches that are all linked to each other, with global links between groups.
    Dragonfly {
        /// Switches per group.
        switches: u32,
        /// Global links per switch. A group has the same number of them to every other group.
        global: u32,
        /// Number of groups, at least 2.
        groups: u32,
    },
}

impl Direct {
    fn switches(&self) -> u32 {
        match self.wiring {
            Wiring::Torus(sizes) | Wiring::HyperX(sizes) => sizes.iter().product(),
            Wiring::Dragonfly { switches, groups, .. } => switches * groups,
        }
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.switches() * self.hosts_per_switch
    }

    /// Checks that the network can be built.
    ///
    /// # Errors
    /// Names what there is too much of, and the limit.
    pub fn check(&self) -> Result<(), TopologyError> {
        let wide = |sizes: &[u32]| {
            sizes.iter().fold(1, |product: u64, size| product.saturating_mul(u64::from(*size)))
        };
        let (switches, ports) = match &self.wiring {
            Wiring::Torus(sizes) => {
                (wide(sizes), sizes.iter().map(|size| u64::from(torus_ports(*size))).sum())
            }
            Wiring::HyperX(sizes) => {
                (wide(sizes), sizes.iter().map(|size| u64::from(row_ports(*size))).sum())
            }
            Wiring::Dragonfly { switches, global, groups } => {
                (wide(&[*switches, *groups]), u64::from(*switches - 1) + u64::from(*global))
            }
        };
        let hosts = switches.saturating_mul(u64::from(self.hosts_per_switch));
        if hosts < 2 {
            return Err(TopologyError::OneHost);
        }
        let links = hosts.saturating_mul(2).saturating_add(switches.saturating_mul(ports));
        let limits = [
            ("hosts", hosts, HOSTS_MAX),
            ("switches", switches, SWITCHES_MAX),
            ("links", links, LINKS_MAX),
        ];
        match limits.into_iter().find(|(_, count, most)| count > most) {
            Some((what, count, most)) => Err(TopologyError::Size { what, count, most }),
            None => Ok(()),
        }
    }

    /// Returns the switch of a host, and the host's port there.
    #[inline]
    pub(super) fn place(&self, host: u32) -> (u32, u32) {
        (self.hosts() + host / self.hosts_per_switch, host % self.hosts_per_switch)
    }

    /// Maps a drawn number to a switch.
    #[inline]
    pub(super) fn any_switch(&self, drawn: u32) -> u32 {
        self.hosts() + ((u64::from(drawn) * u64::from(self.switches())) >> 32) as u32
    }

    pub(super) fn diameter(&self) -> u32 {
        2 + match self.wiring {
            Wiring::Torus(sizes) => sizes.iter().map(|size| size / 2).sum(),
            Wiring::HyperX(sizes) => sizes.iter().filter(|size| **size > 1).count() as u32,
            Wiring::Dragonfly { switches: 1, .. } => 1,
            Wiring::Dragonfly { .. } => 3,
        }
    }

    /// Returns the ports of `switch` that lead to another switch, `target`, on a shortest way; in a
    /// dragonfly, on the one that `entropy` selects. With `any` false, only the first dimension
    /// counts.
    #[inline]
    pub(super) fn toward(&self, switch: u32, target: u32, entropy: u32, any: bool) -> Candidates {
        let (from, to) = (switch - self.hosts(), target - self.hosts());
        match self.wiring {
            Wiring::Torus(sizes) => self.along(sizes, from, to, any, torus_port, torus_ports),
            Wiring::HyperX(sizes) => self.along(sizes, from, to, any, row_port, row_ports),
            Wiring::Dragonfly { switches, global, groups } => {
                let fly = Fly { switches, global, groups };
                Candidates::one(self.hosts_per_switch + fly.port(from, to, entropy))
            }
        }
    }

    #[inline]
    fn along(
        &self,
        sizes: [u32; 3],
        mut from: u32,
        mut to: u32,
        any: bool,
        port: impl Fn(u32, u32, u32) -> u32,
        ports: impl Fn(u32) -> u32,
    ) -> Candidates {
        let mut first = self.hosts_per_switch;
        let mut candidates = Candidates::none();
        for size in sizes {
            let (here, there) = (from % size, to % size);
            if here != there {
                candidates.add(first + port(size, here, there));
                if !any {
                    return candidates;
                }
            }
            first += ports(size);
            (from, to) = (from / size, to / size);
        }
        candidates
    }

    /// Links between switches on a shortest way (in a dragonfly, on the one that `entropy`
    /// selects).
    #[inline]
    pub(super) fn distance(&self, switch: u32, target: u32, entropy: u32) -> u32 {
        let (mut from, mut to) = (switch - self.hosts(), target - self.hosts());
        match self.wiring {
            Wiring::Torus(sizes) | Wiring::HyperX(sizes) => {
                let ring = matches!(self.wiring, Wiring::Torus(_));
                let mut links = 0;
                for size in sizes {
                    let apart = (from % size).abs_diff(to % size);
                    links += if ring { apart.min(size - apart) } else { apart.min(1) };
                    (from, to) = (from / size, to / size);
                }
                links
            }
            Wiring::Dragonfly { switches, global, groups } => {
                Fly { switches, global, groups }.distance(from, to, entropy)
            }
        }
    }

    /// Returns the group of a node and the number of groups: rows (of the last dimension) and
    /// groups of a dragonfly stay together.
    pub(super) fn group(&self, node: u32) -> (u32, u32) {
        let hosts = self.hosts();
        let switch = if node < hosts { node / self.hosts_per_switch } else { node - hosts };
        match self.wiring {
            Wiring::Dragonfly { switches, groups, .. } => (switch / switches, groups),
            _ => (switch, self.switches()),
        }
    }

    /// Builds the network.
    ///
    /// # Panics
    /// If the global links of a dragonfly do not divide among the groups, or if the network is so
    /// large that [`Self::check`] fails.
    pub fn build(self, megabits: u64, latency_ps: u64) -> Network {
        assert_eq!(self.check(), Ok(()), "the sizes are within the limits");
        let hosts = self.hosts();
        let mut builder = Builder::new(hosts + self.switches());
        let mut link = |from, to| builder.link(from, to, megabits, latency_ps);
        for host in 0..hosts {
            link(host, self.place(host).0);
        }
        for switch in 0..self.switches() {
            let node = hosts + switch;
            let first = switch * self.hosts_per_switch;
            (first..first + self.hosts_per_switch).for_each(|host| link(node, host));
            self.neighbours(switch).into_iter().for_each(|other| link(node, hosts + other));
        }
        builder.finish(hosts, Shape::Direct(self))
    }

    /// Returns the neighbours of a switch, in the order of its ports.
    fn neighbours(&self, switch: u32) -> Vec<u32> {
        let mut neighbours = Vec::new();
        match self.wiring {
            Wiring::Torus(sizes) | Wiring::HyperX(sizes) => {
                let ring = matches!(self.wiring, Wiring::Torus(_));
                let mut step = 1;
                for size in sizes {
                    let here = switch / step % size;
                    let at = |place: u32| switch - here * step + place * step;
                    match (ring, size) {
                        (true, 1) => {}
                        (true, 2) => neighbours.push(at(1 - here)),
                        (true, _) => {
                            neighbours
                                .extend([at((here + 1) % size), at((here + size - 1) % size)]);
                        }
                        (false, _) => {
                            neighbours.extend((0..size).filter(|place| *place != here).map(at));
                        }
                    }
                    step *= size;
                }
            }
            Wiring::Dragonfly { switches, global, groups } => {
                let fly = Fly { switches, global, groups };
                let (group, here) = (switch / switches, switch % switches);
                let others = (0..switches).filter(|other| *other != here);
                neighbours.extend(others.map(|other| group * switches + other));
                neighbours.extend((0..global).map(|port| fly.far_end(group, here * global + port)));
            }
        }
        neighbours
    }
}

/// Returns the port of the shorter way around a ring: up, if both are equally short.
fn torus_port(size: u32, here: u32, there: u32) -> u32 {
    let up = (there + size - here) % size;
    u32::from(size > 2 && up > size - up)
}

fn torus_ports(size: u32) -> u32 {
    (size - 1).min(2)
}

fn row_port(_: u32, here: u32, there: u32) -> u32 {
    there - u32::from(there > here)
}

fn row_ports(size: u32) -> u32 {
    size - 1
}

/// A dragonfly. The global links of group `g` are numbered, switch by switch; number `s` leads to
/// group `g + 1 + s mod (groups − 1)`, and is the `s / (groups − 1)`-th link to that group.
#[derive(Clone, Copy)]
struct Fly {
    switches: u32,
    global: u32,
    groups: u32,
}

impl Fly {
    fn copies(&self) -> u32 {
        let links = self.switches * self.global;
        assert!(links.is_multiple_of(self.groups - 1), "global links divide among the groups");
        links / (self.groups - 1)
    }

    /// Returns the number, in group `from`, of the link to group `to` that `entropy` selects.
    #[inline]
    fn slot(&self, from: u32, to: u32, entropy: u32) -> u32 {
        let others = self.groups - 1;
        let copies = self.switches * self.global / others;
        let copy = ((u64::from(entropy) * u64::from(copies)) >> 32) as u32;
        copy * others + (to + self.groups - from - 1) % self.groups
    }

    /// Returns the switch at the other end of a global link.
    fn far_end(&self, group: u32, slot: u32) -> u32 {
        let others = self.groups - 1;
        assert!(slot / others < self.copies(), "a global link that leads nowhere");
        let to = (group + 1 + slot % others) % self.groups;
        let back = slot / others * others + (group + self.groups - to - 1) % self.groups;
        to * self.switches + back / self.global
    }

    #[inline]
    fn port(&self, from: u32, to: u32, entropy: u32) -> u32 {
        let (group, here) = (from / self.switches, from % self.switches);
        let local = |there: u32| there - u32::from(there > here);
        if group == to / self.switches {
            return local(to % self.switches);
        }
        let slot = self.slot(group, to / self.switches, entropy);
        if slot / self.global == here {
            return self.switches - 1 + slot % self.global;
        }
        local(slot / self.global)
    }

    fn distance(&self, from: u32, to: u32, entropy: u32) -> u32 {
        let (group, other) = (from / self.switches, to / self.switches);
        if group == other {
            return u32::from(from != to);
        }
        let slot = self.slot(group, other, entropy);
        let leaves = group * self.switches + slot / self.global;
        u32::from(leaves != from) + 1 + u32::from(self.far_end(group, slot) != to)
    }
}
