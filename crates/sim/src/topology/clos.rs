//! Fat trees: leaf and spine, or leaf, aggregation and core.
//!
//! A leaf's ports lead to its hosts, then up. An aggregation switch's ports lead to the leaves of
//! its pod, then to its cores. A spine's ports lead to all leaves. A core has one port for each
//! pod. Core `j·c + i` is wired to aggregation switch `j` of every pod, where `c` is the number of
//! cores of each aggregation switch.

use super::error::TopologyError;
use super::{Builder, Candidates, Network, Shape};

/// Largest number of ports of a switch that lead up, in a tree of three tiers.
const HALF_MAX: u32 = 128;

/// A fat tree. Any of the numbers may be smaller than in a full tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clos {
    /// Hosts per leaf.
    pub hosts_per_leaf: u32,
    /// Leaves per pod; with two tiers, all leaves.
    pub leaves: u32,
    /// Aggregation switches per pod; with two tiers, spines.
    pub uplinks: u32,
    /// Pods; with two tiers, 1.
    pub pods: u32,
    /// Cores per aggregation switch; with two tiers, 0.
    pub cores: u32,
    /// Rails: the number of leaves among which the hosts of a server are divided, one each. With 1,
    /// all hosts of a leaf have consecutive numbers.
    pub rails: u32,
}

impl Clos {
    /// Returns a three-tier fat tree for exactly `hosts`, made of switches with as few ports as
    /// possible (`k`, an even number), with `oversubscription` times as many ports down as up at
    /// the leaves. It has as many pods as it needs.
    ///
    /// # Errors
    /// Names the next smaller and larger numbers of hosts for which there is a tree. A pod is never
    /// partly filled.
    pub fn three_tiers(hosts: u32, oversubscription: u32) -> Result<Clos, TopologyError> {
        let shape = |half: u32| {
            let down = half * oversubscription;
            let pods = hosts / (half * down);
            let fits = pods >= 2 && pods <= 2 * half && pods * half * down == hosts;
            fits.then_some(Clos {
                hosts_per_leaf: down,
                leaves: half,
                uplinks: half,
                pods,
                cores: half,
                rails: 1,
            })
        };
        (1..=HALF_MAX).find_map(shape).ok_or_else(|| {
            let sizes = (1..=u64::from(HALF_MAX)).flat_map(|half| {
                let pod = half * half * u64::from(oversubscription);
                (2..=2 * half).map(move |pods| pods * pod)
            });
            let wanted = u64::from(hosts);
            let below = sizes.clone().filter(|size| *size < wanted).max();
            let above = sizes.filter(|size| *size > wanted).min();
            TopologyError::ThreeTiers { hosts, below, above }
        })
    }

    /// Returns leaves and spines for exactly `hosts`: as many spines as a leaf has hosts, divided
    /// by `oversubscription`. Without `hosts_per_leaf`, the tree with the fewest ports is chosen.
    ///
    /// # Errors
    /// If the leaves would not be full.
    pub fn two_tiers(
        hosts: u32,
        hosts_per_leaf: Option<u32>,
        oversubscription: u32,
    ) -> Result<Clos, TopologyError> {
        let fits =
            |down: &u32| hosts.is_multiple_of(*down) && down.is_multiple_of(oversubscription);
        let down = match hosts_per_leaf {
            Some(down) => Some(down).filter(|down| *down > 0 && fits(down)),
            None => (1..=hosts).filter(fits).find(|down| hosts / down <= 2 * down),
        };
        let down = down.ok_or(TopologyError::TwoTiers { hosts })?;
        Ok(Clos {
            hosts_per_leaf: down,
            leaves: hosts / down,
            uplinks: down / oversubscription,
            pods: 1,
            cores: 0,
            rails: 1,
        })
    }

    pub(super) fn hosts(&self) -> u32 {
        self.pods * self.leaves * self.hosts_per_leaf
    }

    pub(super) fn switches(&self) -> u32 {
        self.all_leaves() + self.pods * self.uplinks + self.uplinks * self.cores
    }

    /// Returns the kinds of switch, in the order of their numbers, and the number of switches of
    /// each.
    pub(super) fn tiers(&self) -> Vec<(&'static str, u32)> {
        let leaves = ("leaf", self.all_leaves());
        match self.cores {
            0 => vec![leaves, ("spine", self.pods * self.uplinks)],
            cores => vec![
                leaves,
                ("aggregation", self.pods * self.uplinks),
                ("core", self.uplinks * cores),
            ],
        }
    }

    fn all_leaves(&self) -> u32 {
        self.pods * self.leaves
    }

    /// Returns the leaf of a host, and the host's port there.
    #[inline]
    fn place(&self, host: u32) -> (u32, u32) {
        if self.rails <= 1 {
            return (host / self.hosts_per_leaf, host % self.hosts_per_leaf);
        }
        // A block of servers shares `rails` leaves, one rail each.
        let (server, rail) = (host / self.rails, host % self.rails);
        let block = server / self.hosts_per_leaf;
        (block * self.rails + rail, server % self.hosts_per_leaf)
    }

    pub(super) fn diameter(&self) -> u32 {
        match (self.cores, self.all_leaves()) {
            (_, 1) => 2,
            (0, _) => 4,
            _ => 6,
        }
    }

    #[inline]
    pub(super) fn toward(&self, switch: u32, host: u32) -> Candidates {
        let (leaf, port) = self.place(host);
        let index = switch - self.hosts();
        let leaves = self.all_leaves();
        if index < leaves {
            if index == leaf {
                return Candidates::one(port);
            }
            return Candidates::range(self.hosts_per_leaf, self.uplinks);
        }
        if self.cores == 0 {
            return Candidates::one(leaf);
        }
        let pod = leaf / self.leaves;
        let index = index - leaves;
        if index >= self.pods * self.uplinks {
            return Candidates::one(pod);
        }
        if index / self.uplinks == pod {
            return Candidates::one(leaf % self.leaves);
        }
        Candidates::range(self.leaves, self.cores)
    }

    pub(super) fn stride(&self, switch: u32) -> u32 {
        if switch - self.hosts() < self.all_leaves() { 1 } else { self.uplinks }
    }

    /// Returns the group of a node and the number of groups: pods (or leaves, if there is one pod)
    /// stay together, and cores follow by number.
    pub(super) fn group(&self, node: u32) -> (u32, u32) {
        let (hosts, leaves) = (self.hosts(), self.all_leaves());
        let leaf = if node < hosts { self.place(node).0 } else { node - hosts };
        if self.cores == 0 {
            return if leaf < leaves || node < hosts {
                (leaf, leaves)
            } else {
                (leaf - leaves, self.uplinks)
            };
        }
        if node < hosts || leaf < leaves {
            return (leaf / self.leaves, self.pods);
        }
        let index = leaf - leaves;
        if index < self.pods * self.uplinks {
            return (index / self.uplinks, self.pods);
        }
        (index - self.pods * self.uplinks, self.uplinks * self.cores)
    }

    /// True for a core, or with two tiers a spine. It has one port for each pod, or leaf.
    pub(super) fn is_top(&self, node: u32) -> bool {
        let below = self.hosts() + self.all_leaves();
        let aggregation = if self.cores == 0 { 0 } else { self.pods * self.uplinks };
        node >= below + aggregation
    }

    /// Builds the network.
    pub fn build(self, megabits: u64, latency_ps: u64) -> Network {
        let mut builder = Builder::new(self.hosts() + self.switches());
        self.lay(0, &mut |from, to| builder.link(from, to, megabits, latency_ps));
        builder.finish(self.hosts(), Shape::Clos(self))
    }

    /// Adds the links, with `before` other switches between the hosts and the first switch of this
    /// tree.
    pub(super) fn lay(&self, before: u32, link: &mut impl FnMut(u32, u32)) {
        let (hosts, leaves) = (self.hosts(), self.all_leaves());
        let first_leaf = hosts + before;
        let aggregation = first_leaf + leaves;
        let mut below = vec![Vec::new(); leaves as usize];
        for host in 0..hosts {
            let (leaf, port) = self.place(host);
            below[leaf as usize].push((port, host));
            link(host, first_leaf + leaf);
        }
        for (leaf, ports) in below.iter_mut().enumerate() {
            ports.sort_unstable();
            let node = first_leaf + leaf as u32;
            ports.iter().for_each(|&(_, host)| link(node, host));
            let pod = leaf as u32 / self.leaves;
            (0..self.uplinks).for_each(|up| link(node, aggregation + pod * self.uplinks + up));
        }
        let cores = aggregation + self.pods * self.uplinks;
        for pod in 0..self.pods {
            for up in 0..self.uplinks {
                let node = aggregation + pod * self.uplinks + up;
                let first = first_leaf + pod * self.leaves;
                (first..first + self.leaves).for_each(|leaf| link(node, leaf));
                (0..self.cores).for_each(|core| link(node, cores + up * self.cores + core));
            }
        }
        for core in 0..self.uplinks * self.cores {
            let up = core / self.cores;
            let pods = 0..self.pods;
            pods.for_each(|pod| link(cores + core, aggregation + pod * self.uplinks + up));
        }
    }
}
