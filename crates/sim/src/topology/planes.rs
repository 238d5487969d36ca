//! Several networks side by side: every host has a wire into each, and every switch belongs to one.
//!
//! Ports of a host: one for each plane, in order. The switches of plane 0 come first, then those of
//! plane 1, each numbered as in a network of its own.

use super::{Builder, Clos, Network, Shape};

/// Equal fat trees side by side, with the same hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planes {
    /// The fat tree of each plane.
    pub plane: Clos,
    /// Number of planes: 2 in a dual-plane network.
    pub count: u32,
}

impl Planes {
    /// Returns the number that a switch would have if its plane were the only one. A host keeps its
    /// own.
    #[inline]
    pub(super) fn within(&self, node: u32) -> u32 {
        let hosts = self.plane.hosts();
        if node < hosts { node } else { hosts + (node - hosts) % self.plane.switches() }
    }

    /// Returns the plane of a switch; `None` for hosts.
    pub(super) fn of(&self, node: u32) -> Option<u32> {
        Some(node.checked_sub(self.plane.hosts())? / self.plane.switches())
    }

    /// Builds the network. Every wire of a host has the full rate.
    pub fn build(self, megabits: u64, latency_ps: u64) -> Network {
        let (hosts, switches) = (self.plane.hosts(), self.plane.switches());
        let mut builder = Builder::new(hosts + self.count * switches);
        for plane in 0..self.count {
            let mut link = |from, to| builder.link(from, to, megabits, latency_ps);
            self.plane.lay(plane * switches, &mut link);
        }
        builder.finish(hosts, Shape::Planes(self))
    }
}
