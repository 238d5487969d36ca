//! The traffic of a workload: ranks of a collective operation, or flows.

use super::Settings;
use super::names::RANKS_ONLY;
use crate::error::SettingsError;
use crate::group::Group;
use crate::scenario::Stack;
use crate::topology::Network;
use crate::traffic::{self, Collective, Flow, Sizes};

/// Maximum number of flows of a workload: those of an all-reduce of 4,096 hosts by a ring.
pub(crate) const FLOWS_MAX: u64 = 1 << 25;

impl Settings {
    /// Number of flows of the workload, at least. Only what may exceed [`FLOWS_MAX`] is counted.
    pub(super) fn flow_count(&self, nodes: u32, senders: u32) -> u64 {
        let (hosts, senders) = (u64::from(nodes), u64::from(senders));
        if let Some(kind) = Collective::named(&self.workload) {
            let slot_bytes = self.collectives.slot_bytes;
            return kind.flows(nodes as usize, self.message_bytes(), slot_bytes) as u64;
        }
        match self.workload.as_str() {
            "all-to-all" => hosts * (hosts - 1),
            "incast-permutation" => (hosts + senders) * u64::from(self.messages),
            "permutation" => hosts * u64::from(self.pieces.min(self.message_bytes())),
            _ => 0,
        }
    }

    /// Returns the ranks of a collective operation, unless it runs as flows.
    pub(super) fn group(&self, hosts: u32, seed: u64) -> Result<Option<Group>, SettingsError> {
        let collective = Collective::named(&self.workload);
        let is_fairway = self.stack == Stack::Fairway;
        match collective.filter(|_| !self.collectives_are_flows()) {
            Some(_) if !is_fairway => Err(SettingsError::RanksOnRoce),
            Some(collective) => {
                let operation = (collective, self.message_bytes());
                self.collectives.group(operation, &self.program, (hosts, seed)).map(Some)
            }
            None => match self.given.iter().find(|(name, _)| RANKS_ONLY.contains(name)) {
                Some((name, value)) => Err(SettingsError::RanksOnly { name, value: value.clone() }),
                None => Ok(None),
            },
        }
    }

    /// True if collective operations run as flows.
    pub(super) fn collectives_are_flows(&self) -> bool {
        self.collectives.are_flows.unwrap_or(self.stack != Stack::Fairway)
    }

    /// Returns the flows of a workload.
    pub(super) fn flows(&self, network: &Network, seed: u64) -> Result<Vec<Flow>, SettingsError> {
        let nodes = network.hosts;
        let bytes = self.message_bytes();
        let senders = self.senders.unwrap_or(nodes - 1);
        if senders >= nodes {
            return Err(SettingsError::Senders { senders, nodes });
        }
        let count = self.flow_count(nodes, senders);
        if count > FLOWS_MAX {
            let workload = self.workload.clone();
            return Err(SettingsError::TooManyFlows { workload, flows: count });
        }
        if let Some(kind) = Collective::named(&self.workload) {
            let flows = traffic::collective(kind, nodes, bytes, self.collectives.slot_bytes);
            let hosts = self.collectives.hosts(nodes, 1, seed);
            let placed = |flow: Flow| {
                let [source, destination] =
                    [flow.source, flow.destination].map(|rank| hosts[rank as usize]);
                Flow { source, destination, ..flow }
            };
            return Ok(flows.into_iter().map(placed).collect());
        }
        Ok(match self.workload.as_str() {
            "incast" => traffic::incast(nodes, senders, bytes, seed),
            "outcast" => traffic::outcast(nodes, senders, bytes, seed),
            "all-to-all" => traffic::all_to_all(nodes, bytes),
            "incast-permutation" => {
                traffic::incast_and_permutation(nodes, senders, bytes, self.messages, seed)
            }
            name @ ("websearch" | "hadoop" | "sizes") => {
                let sizes = Sizes::named(name).or_else(|| self.distribution.clone());
                let sizes = sizes.ok_or(SettingsError::NoFile {
                    workload: "sizes",
                    remedy: "--distribution FILE",
                })?;
                let load = self.load_percent;
                let rate = self.link_megabits * u64::from(network.wires());
                traffic::poisson(nodes, self.flows, &sizes, load, rate, seed)
            }
            "moe" => self.collectives.moe.flows(nodes, bytes, seed)?,
            _ => traffic::in_pieces(&traffic::permutation(nodes, bytes, seed), self.pieces),
        })
    }
}
