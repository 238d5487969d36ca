//! Counts of a switch beyond its queues: the use of its shared buffer and, for PFC, the bytes
//! waiting from each link.

use super::packets::PacketMeta;
use super::scenario::{QueueSpec, Scenario};

/// Bytes of data that wait, by switch and by the link on which they arrived.
pub(crate) struct Buffers {
    /// By node; empty if there is neither a shared buffer nor PFC.
    used: Vec<u32>,
    came: Vec<u32>,
    /// By link: true if its sender has been paused.
    pausing: Vec<bool>,
}

impl Buffers {
    pub(crate) fn new(scenario: &Scenario) -> Buffers {
        let network = &scenario.network;
        let counted = scenario.queue.shared.is_some() || scenario.queue.pfc.is_some();
        let (nodes, links) =
            if counted { (network.nodes() as usize, network.links.len()) } else { (0, 0) };
        Buffers { used: vec![0; nodes], came: vec![0; links], pausing: vec![false; links] }
    }

    #[inline]
    pub(crate) fn is_counted(&self) -> bool {
        !self.used.is_empty()
    }

    /// Bytes that a data queue of a switch may hold now.
    #[inline]
    pub(crate) fn room(&self, spec: &QueueSpec, node: u32) -> u32 {
        let Some(shared) = spec.shared else { return spec.bytes };
        let free = u64::from(shared.bytes.saturating_sub(self.used[node as usize]));
        (free * u64::from(shared.permille) / 1000).min(u64::from(u32::MAX)) as u32
    }

    /// Counts a queued packet. Returns true if the sender of its link must now be paused.
    pub(crate) fn add(&mut self, spec: &QueueSpec, node: u32, meta: &PacketMeta) -> bool {
        self.used[node as usize] += meta.bytes;
        let link = meta.arrived as usize;
        self.came[link] += meta.bytes;
        let Some(pfc) = spec.pfc else { return false };
        let changes = self.came[link] > pfc.pause_bytes && !self.pausing[link];
        self.pausing[link] |= changes;
        changes
    }

    /// Removes a packet from the counts. Returns true if the paused sender of its link may now
    /// resume.
    pub(crate) fn remove(&mut self, spec: &QueueSpec, node: u32, meta: &PacketMeta) -> bool {
        self.used[node as usize] -= meta.bytes;
        let link = meta.arrived as usize;
        self.came[link] -= meta.bytes;
        let Some(pfc) = spec.pfc else { return false };
        let changes = self.came[link] < pfc.resume_bytes && self.pausing[link];
        self.pausing[link] &= !changes;
        changes
    }
}
