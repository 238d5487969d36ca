//! The traffic of a workload: ranks of a collective operation, or flows.

use super::Settings;
use super::names::RANKS_ONLY;
use crate::error::SettingsError;
use crate::group::Group;
use crate::scenario::Stack;
use crate::topology::Network;
use crate::traffic::{self, Collective, Flow, Sizes};

impl Settings {
    /// Returns the ranks of a collective operation, unless it runs as flows.
    pub(super) fn group(&self, hosts: u32, seed: u64) -> Result<Option<Group>, SettingsError> {
        let collective = Collective::named(&self.workload);
        let is_fairway = self.stack == Stack::Fairway;
        match collective.filter(|_| !self.collectives.are_flows.unwrap_or(!is_fairway)) {
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

    /// Returns the flows of a workload.
    pub(super) fn flows(&self, network: &Network, seed: u64) -> Result<Vec<Flow>, SettingsError> {
        let nodes = network.hosts;
        let bytes = self.message_bytes();
        let senders = self.senders.unwrap_or(nodes - 1);
        if senders >= nodes {
            return Err(SettingsError::Senders { senders, nodes });
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
