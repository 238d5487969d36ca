//! A stride prefetcher in front of the miss registers (`--set prefetch_lines=N`, off by default):
//! when a core has loaded three lines at equal distances, the next ones are fetched in advance.

use super::access::Access;
use crate::adapter::{EXPOSED, Post, memory_bytes};
use crate::config::{CachePolicy, Stack, Verb};
use crate::world::World;
use std::collections::BTreeMap;

/// The detected streams, and the prefetches in flight.
#[derive(Debug, Default)]
pub(super) struct Prefetcher {
    /// By host and core: the last line, its distance from the one before, and whether that distance
    /// occurred twice.
    streams: BTreeMap<(usize, u32), (u64, i64, bool)>,
    /// By operation: the host for which a line was requested.
    coming: BTreeMap<u64, usize>,
    issued: u64,
}

impl Prefetcher {
    pub(super) fn is_idle(&self) -> bool {
        self.coming.is_empty()
    }

    pub(super) fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![("prefetched", self.issued as f64)]
    }

    /// Records an access. Returns the distance to the next one, if it is established.
    fn train(&mut self, host: usize, core: u32, line: u64) -> Option<i64> {
        let fresh = (line, 0, false);
        let (last, stride, _) = self.streams.insert((host, core), fresh).unwrap_or(fresh);
        let distance = line.wrapping_sub(last) as i64;
        let again = distance == stride && distance != 0;
        self.streams.insert((host, core), (line, distance, again));
        again.then_some(distance)
    }
}

impl Access {
    /// True if instructions of this kind are prefetched.
    pub(super) fn prefetches(&self, verb: Verb) -> bool {
        let cached =
            self.config.stack == Stack::UbLdst && self.config.cache != CachePolicy::Uncached;
        cached
            && matches!(verb, Verb::Load | Verb::Store)
            && self.config.constants.prefetch_lines >= 1.0
    }

    /// Requests the next lines, as far as miss registers are free.
    pub(super) fn prefetch(&mut self, world: &mut World, host: usize, post: &Post) {
        let line = post.remote / 64;
        let Some(stride) = self.prefetcher.train(host, post.jetty, line) else { return };
        let lines = memory_bytes(&self.config)[EXPOSED] as u64 / 64;
        for step in 1..=self.config.constants.prefetch_lines as i64 {
            let next = line.wrapping_add((stride * step) as u64);
            let key = (host, next);
            let Some(cpu) = world.nodes[host].cpu.as_mut() else { return };
            let known = next >= lines || cpu.l2.holds(next).is_some();
            if known || self.lines.on_their_way.contains(&key) || self.writes_back(next) {
                continue;
            }
            let used = self.misses.entry((host, post.jetty)).or_default();
            if *used >= self.config.constants.mshrs.max(1.0) as u64 {
                return;
            }
            *used += 1;
            let (remote, local, verb) = (next * 64, self.shadow + next * 64, Verb::Load);
            let prefetch = Post { verb, remote, local, length: 64, bypass: true, ..*post };
            let id = world.begin(host, post.jetty, Vec::new(), prefetch);
            self.prefetcher.coming.insert(id, host);
            self.lines.on_their_way.insert(key);
            self.prefetcher.issued += 1;
        }
    }

    /// Handles a prefetched line that has arrived. Returns the accesses that waited for it; `None`
    /// if `id` is no prefetch.
    pub(super) fn prefetched(
        &mut self,
        world: &mut World,
        post: &Post,
        id: u64,
    ) -> Option<Vec<(usize, u64)>> {
        let host = self.prefetcher.coming.remove(&id)?;
        self.fill(world, host, post, false);
        Some(self.release(world, host, post))
    }
}
