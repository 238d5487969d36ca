//! Which settings each workload and each topology has. Settings without effect are refused.

use super::Settings;
use crate::error::SettingsError;
use crate::traffic::Collective;

/// Workloads of a setting, by name or by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Names(&'static [&'static str]),
    /// Collective operations, and some others.
    CollectivesAnd(&'static [&'static str]),
    /// All but these.
    AllBut(&'static [&'static str]),
}

/// Workloads with flows that arrive at random.
const POISSON: Of = Of::Names(&["websearch", "hadoop", "sizes"]);
const MOE: Of = Of::Names(&["moe"]);
const STREAMS: Of = Of::Names(&["streams"]);
const GRIDS: Of = Of::Names(&["sweep3d", "halo3d", "halo3d26"]);
const RANKS: Of = Of::CollectivesAnd(&["sweep3d", "halo3d", "halo3d26"]);

/// The workloads of each setting that not all workloads have.
const OF_WORKLOADS: [(&str, Of); 31] = [
    (
        "bytes",
        Of::AllBut(&[
            "websearch",
            "hadoop",
            "sizes",
            "matrix",
            "trace",
            "sweep3d",
            "halo3d",
            "halo3d26",
            "streams",
        ]),
    ),
    ("load", POISSON),
    ("flows", POISSON),
    ("senders", Of::Names(&["incast", "outcast", "incast-permutation"])),
    ("messages", Of::Names(&["incast-permutation"])),
    ("pieces", Of::Names(&["permutation"])),
    ("tokens", MOE),
    ("experts", MOE),
    ("skew", MOE),
    ("collectives", Of::CollectivesAnd(&["trace"])),
    ("placement", Of::CollectivesAnd(&[])),
    ("slot", Of::CollectivesAnd(&["trace"])),
    ("rounds", Of::CollectivesAnd(&[])),
    ("slots", Of::CollectivesAnd(&[])),
    ("direct-from", Of::CollectivesAnd(&[])),
    ("combine", Of::CollectivesAnd(&[])),
    ("ranks-per-node", RANKS),
    ("host-latency", RANKS),
    ("copy", RANKS),
    ("grid", GRIDS),
    ("cells", GRIDS),
    ("layers", Of::Names(&["sweep3d"])),
    ("iterations", GRIDS),
    ("compute", GRIDS),
    ("protocol", GRIDS),
    ("eager", GRIDS),
    ("depth", GRIDS),
    ("buffers", GRIDS),
    ("stream", STREAMS),
    ("measure", STREAMS),
    ("control", STREAMS),
];

/// The topologies of each setting that not all topologies have.
const OF_TOPOLOGIES: [(&str, &[&str]); 5] = [
    ("plane", &["dual-plane"]),
    ("sizes", &["torus", "hyperx"]),
    ("dragonfly", &["dragonfly"]),
    ("rails", &["rail"]),
    ("hosts-per-switch", &["torus", "hyperx", "dragonfly"]),
];

impl Of {
    fn contains(self, workload: &str) -> bool {
        match self {
            Of::Names(names) => names.contains(&workload),
            Of::CollectivesAnd(names) => {
                names.contains(&workload) || Collective::named(workload).is_some()
            }
            Of::AllBut(names) => !names.contains(&workload),
        }
    }

    /// The workloads as an error names them.
    fn describe(self) -> String {
        match self {
            Of::Names(names) => list(names),
            Of::CollectivesAnd(names) => list(&[&["collective operations"], names].concat()),
            Of::AllBut(names) => format!("workloads other than {}", list(names)),
        }
    }
}

/// Names with commas, and `and` before the last.
fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => String::from(*one),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

impl Settings {
    /// Checks that no setting was given that the workload or the topology does not have.
    pub(super) fn check_uses(&self) -> Result<(), SettingsError> {
        for (name, _) in &self.given {
            let of = OF_WORKLOADS.iter().find(|known| known.0 == *name).map(|known| known.1);
            if let Some(of) = of.filter(|of| !of.contains(&self.workload)) {
                return Err(SettingsError::Unused {
                    name,
                    of: of.describe(),
                    kind: "workload",
                    current: self.workload.clone(),
                });
            }
            let of = OF_TOPOLOGIES.iter().find(|known| known.0 == *name).map(|known| known.1);
            if let Some(of) = of.filter(|of| !of.contains(&self.topology.as_str())) {
                return Err(SettingsError::Unused {
                    name,
                    of: list(of),
                    kind: "topology",
                    current: self.topology.clone(),
                });
            }
        }
        self.check_ranks()
    }

    /// Checks the settings of ranks of collective operations, which not all runs have.
    fn check_ranks(&self) -> Result<(), SettingsError> {
        if self.workload == "trace" && self.collectives.are_flows == Some(false) {
            return Err(SettingsError::TraceOfRanks);
        }
        let is_collective = Collective::named(&self.workload).is_some();
        if !is_collective || !self.collectives_are_flows() {
            return Ok(());
        }
        let is_idle = |name: &str| ["ranks-per-node", "host-latency", "copy"].contains(&name);
        match self.given.iter().find(|(name, _)| is_idle(name)) {
            Some((name, value)) => Err(SettingsError::RanksOnly { name, value: value.clone() }),
            None => Ok(()),
        }
    }
}
