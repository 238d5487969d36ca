//! Settings of programs: the motifs and the protocol of their messages.

use super::{set, three};
use crate::error::SettingsError;
use crate::program::{Motif, Pattern, grid_of};
use crate::program::{Program, Protocol};
use crate::quantity::{bytes, count, rate, span};

/// Settings of a program. The defaults are those of the RVMA paper's own model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProgramSettings {
    grid: Option<[u32; 3]>,
    cells: [u32; 3],
    layers: u32,
    iterations: u32,
    compute_ps: u64,
    pub(super) ranks_per_node: u32,
    protocol: Protocol,
    pub(super) host_ps: u64,
    pub(super) copy_megabits: u64,
    eager_bytes: u32,
    buffers: u32,
    depth: u32,
}

impl Default for ProgramSettings {
    fn default() -> Self {
        ProgramSettings {
            grid: None,
            cells: [30; 3],
            layers: 10,
            iterations: 1,
            compute_ps: 1000,
            ranks_per_node: 1,
            protocol: Protocol::Mailbox,
            host_ps: 150_000,
            copy_megabits: 80_000,
            eager_bytes: 16_000,
            buffers: 8,
            depth: 1,
        }
    }
}

/// Names of the protocols.
const PROTOCOLS: [(&str, Protocol); 4] = [
    ("rvma", Protocol::Mailbox),
    ("rdma", Protocol::Write { ordered: false }),
    ("rdma-ordered", Protocol::Write { ordered: true }),
    ("rendezvous", Protocol::Rendezvous),
];

impl ProgramSettings {
    /// Returns `None` if the setting is of another kind, and `Some(None)` if the value is invalid.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Option<Option<()>> {
        Some(match name {
            "grid" => set(&mut self.grid, three(value, 'x').map(Some)),
            "cells" => set(&mut self.cells, three(value, 'x')),
            "layers" => set(&mut self.layers, count(value, 1, 1 << 16)),
            "iterations" => set(&mut self.iterations, count(value, 1, 1 << 16)),
            "compute" => set(&mut self.compute_ps, span(value)),
            "ranks-per-node" => set(&mut self.ranks_per_node, count(value, 1, 1024)),
            "protocol" => {
                let named = PROTOCOLS.iter().find(|(name, _)| *name == value);
                set(&mut self.protocol, named.map(|(_, protocol)| *protocol))
            }
            "host-latency" => set(&mut self.host_ps, span(value)),
            "copy" => set(&mut self.copy_megabits, rate(value)),
            "eager" => set(&mut self.eager_bytes, bytes(value)),
            "depth" => set(&mut self.depth, count(value, 1, 2)),
            "buffers" => set(&mut self.buffers, count(value, 1, 256)),
            _ => return None,
        })
    }

    /// Builds the program of a workload on `hosts` hosts; `None` if the workload is not a program.
    ///
    /// # Errors
    /// Names settings that cannot be combined.
    pub(super) fn build(
        &self,
        workload: &str,
        hosts: u32,
    ) -> Result<Option<Program>, SettingsError> {
        let (pattern, dimensions) = match workload {
            "sweep3d" => (Pattern::Sweep3d { layers: self.layers }, 2),
            "halo3d" => (Pattern::Halo3d, 3),
            "halo3d26" => (Pattern::Halo3d26, 3),
            _ => return Ok(None),
        };
        let all = hosts * self.ranks_per_node;
        let grid = self.grid.unwrap_or_else(|| grid_of(all, dimensions));
        if dimensions == 2 && (grid[2] > 1 || !self.cells[2].is_multiple_of(self.layers)) {
            return Err(SettingsError::SweepShape { cells: self.cells[2] });
        }
        let [x, y, z] = grid.map(u64::from);
        if x * y * z > u64::from(all) {
            return Err(SettingsError::TooManyRanks { ranks: x * y * z, room: all });
        }
        let face = |a: usize, b: usize| u64::from(self.cells[a]) * u64::from(self.cells[b]) * 64;
        if face(0, 1).max(face(1, 2)).max(face(0, 2)) >= 1 << 30 {
            return Err(SettingsError::FacesTooLong { cells: self.cells });
        }
        let motif = Motif {
            pattern,
            grid,
            cells: self.cells,
            iterations: self.iterations,
            compute_ps: self.compute_ps,
        };
        Ok(Some(Program {
            motif,
            ranks_per_host: self.ranks_per_node,
            protocol: self.protocol,
            host_ps: self.host_ps,
            copy_megabits: self.copy_megabits,
            eager_bytes: self.eager_bytes,
            buffers: self.buffers,
            depth: self.depth,
        }))
    }
}
