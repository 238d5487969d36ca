//! Routes through fat trees without divisions by the numbers of the tree: what a switch has to know
//! of the tree is computed once.

use super::{Candidates, Clos, Network, Shape};

/// The routes of one node of a fat tree: hosts below a switch are consecutive, and every port down
/// leads to as many of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    first_host: u32,
    hosts: u32,
    hosts_per_port: u32,
    /// First of the ports that lead up, and their number.
    up: u32,
    ups: u32,
}

impl Way {
    /// Returns the ports of the switch that lead to a host.
    #[inline]
    pub(crate) fn toward(&self, host: u32) -> Candidates {
        let below = host.wrapping_sub(self.first_host);
        if below < self.hosts {
            return Candidates::one(below / self.hosts_per_port);
        }
        Candidates::range(self.up, self.ups)
    }
}

/// Returns the routes of every node; none for networks that are not fat trees, or in which the
/// hosts of a leaf are not consecutive. Those of hosts are not used.
pub(crate) fn ways(network: &Network) -> Vec<Way> {
    let (clos, within): (&Clos, &dyn Fn(u32) -> u32) = match &network.shape {
        Shape::Clos(clos) => (clos, &|node| node),
        Shape::Planes(planes) => (&planes.plane, &|node| planes.within(node)),
        Shape::Direct(_) => return Vec::new(),
    };
    if clos.rails > 1 {
        return Vec::new();
    }
    (0..network.nodes()).map(|node| way(clos, within(node))).collect()
}

fn way(clos: &Clos, node: u32) -> Way {
    let Some(index) = node.checked_sub(clos.hosts()) else { return Way::default() };
    let (leaf, all) = (clos.hosts_per_leaf, clos.hosts());
    let pod = leaf * clos.leaves;
    let leaves = clos.pods * clos.leaves;
    let down = |first_host, hosts, hosts_per_port, (up, ups)| Way {
        first_host,
        hosts,
        hosts_per_port,
        up,
        ups,
    };
    if index < leaves {
        return down(index * leaf, leaf, 1, (leaf, clos.uplinks));
    }
    if clos.cores == 0 {
        return down(0, all, leaf, (0, 0));
    }
    let index = index - leaves;
    if index < clos.pods * clos.uplinks {
        return down(index / clos.uplinks * pod, pod, leaf, (clos.leaves, clos.cores));
    }
    down(0, all, pod, (0, 0))
}
