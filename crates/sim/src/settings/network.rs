//! The network of a topology.

use super::Settings;
use crate::error::SettingsError;
use crate::topology::{Clos, Direct, Network, Planes, Shape, TopologyError, Wiring};

/// Most hosts of a leaf, as for the setting `hosts-per-leaf`.
pub(super) const HOSTS_PER_LEAF_MAX: u32 = 1024;

impl Settings {
    /// Builds the network of the topology.
    pub(super) fn network(&self, nodes: u32) -> Result<Network, SettingsError> {
        let [switches, global, groups] = self.dragonfly;
        let wiring = match self.topology.as_str() {
            "torus" => Some(Wiring::Torus(self.sizes)),
            "hyperx" => Some(Wiring::HyperX(self.sizes)),
            "dragonfly" => Some(Wiring::Dragonfly { switches, global, groups }),
            _ => None,
        };
        if let Some(wiring) = wiring {
            let direct = Direct { hosts_per_switch: self.hosts_per_switch, wiring };
            direct.check()?;
            if let Some(nodes) = self.nodes.filter(|nodes| *nodes != direct.hosts()) {
                let (topology, hosts) = (self.topology.clone(), direct.hosts());
                return Err(SettingsError::Nodes { nodes, topology, hosts });
            }
            return Ok(direct.build(self.link_megabits, self.latency_ps));
        }
        let planes = self.topology == "dual-plane";
        let clos = match if planes { self.plane.as_str() } else { self.topology.as_str() } {
            "leaf-spine" => Clos::two_tiers(nodes, self.hosts_per_leaf, self.oversubscription)?,
            "rail" => {
                let clos = Clos::two_tiers(nodes, self.hosts_per_leaf, self.oversubscription)?;
                if !clos.leaves.is_multiple_of(self.rails) {
                    let (leaves, rails) = (clos.leaves, self.rails);
                    return Err(TopologyError::Rails { leaves, rails }.into());
                }
                Clos { rails: self.rails, ..clos }
            }
            "fat-tree" if !planes && !self.given.iter().any(|(name, _)| *name == "topology") => {
                self.usual_tree(nodes)?
            }
            _ => Clos::three_tiers(nodes, self.oversubscription)?,
        };
        if planes {
            return Ok(Planes { plane: clos, count: 2 }.build(self.link_megabits, self.latency_ps));
        }
        Ok(clos.build(self.link_megabits, self.latency_ps))
    }

    /// Name of the topology that was built: not the default for a number of hosts without fat tree.
    pub(super) fn built_topology(&self, network: &Network) -> &str {
        match &network.shape {
            Shape::Clos(clos) if self.topology == "fat-tree" && clos.cores == 0 => "leaf-spine",
            _ => &self.topology,
        }
    }

    /// The tree where no topology was given: a fat tree, or leaves and spines if no fat tree has
    /// this number of hosts, which a trace or a matrix may determine.
    fn usual_tree(&self, nodes: u32) -> Result<Clos, TopologyError> {
        let fat = Clos::three_tiers(nodes, self.oversubscription);
        let fits = |clos: &Clos| clos.hosts_per_leaf <= HOSTS_PER_LEAF_MAX;
        let two_tiers = || Clos::two_tiers(nodes, None, self.oversubscription).ok().filter(fits);
        fat.or_else(|error| two_tiers().ok_or(error))
    }
}
