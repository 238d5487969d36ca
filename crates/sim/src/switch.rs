//! What a switch counts beyond its queues: a buffer that its ports share, and what came by which
//! link, for pauses.

use super::packets::PacketMeta;
use super::scenario::{QueueSpec, Scenario};

/// Bytes of data that wait, by switch, and by the link they came by.
pub(crate) struct Buffers {
    /// By node; empty without a shared buffer and without pauses.
    used: Vec<u32>,
    came: Vec<u32>,
    /// The sender of the link has been told to wait.
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

    /// What a queue of data at a switch may hold now.
    #[inline]
    pub(crate) fn room(&self, spec: &QueueSpec, node: u32) -> u32 {
        let Some(shared) = spec.shared else { return spec.bytes };
        let free = u64::from(shared.bytes.saturating_sub(self.used[node as usize]));
        (free * u64::from(shared.permille) / 1000).min(u64::from(u32::MAX)) as u32
    }

    /// A packet waits; true if the sender of its link is to wait, and has not been told.
    pub(crate) fn add(&mut self, spec: &QueueSpec, node: u32, meta: &PacketMeta) -> bool {
        self.used[node as usize] += meta.bytes;
        let link = meta.arrived as usize;
        self.came[link] += meta.bytes;
        let Some(pfc) = spec.pfc else { return false };
        let tell = self.came[link] > pfc.pause_bytes && !self.pausing[link];
        self.pausing[link] |= tell;
        tell
    }

    /// A packet waits no more; true if the sender of its link need not either, and has been told
    /// to.
    pub(crate) fn remove(&mut self, spec: &QueueSpec, node: u32, meta: &PacketMeta) -> bool {
        self.used[node as usize] -= meta.bytes;
        let link = meta.arrived as usize;
        self.came[link] -= meta.bytes;
        let Some(pfc) = spec.pfc else { return false };
        let tell = self.came[link] < pfc.resume_bytes && self.pausing[link];
        self.pausing[link] &= !tell;
        tell
    }
}
