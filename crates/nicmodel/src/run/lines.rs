//! Loads and stores by instruction, and the lines that they access. While a line is in transit in
//! either direction, all other accesses to it wait, as in the miss registers of a CPU, because an
//! arriving line must not overwrite data that was stored meanwhile.

use super::access::Access;
use crate::adapter::{EXPOSED, LOCAL, Post};
use crate::config::CachePolicy;
use crate::world::World;
use std::collections::{BTreeSet, VecDeque};

/// An access and its actor.
#[derive(Clone, Debug)]
pub(super) struct Instruction {
    pub(super) host: usize,
    pub(super) post: Post,
    pub(super) actor: usize,
    /// The bytes to be stored.
    pub(super) data: Vec<u8>,
    /// True if the access bypasses the caches.
    pub(super) fresh: bool,
}

/// Lines in transit, and waiting accesses.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Lines of a host that are in transit.
    pub(super) on_their_way: BTreeSet<(usize, u64)>,
    /// Accesses that wait for those lines.
    awaited: Vec<Instruction>,
    /// Accesses that wait for a miss register.
    queued: VecDeque<Instruction>,
}

impl Lines {
    pub(super) fn is_idle(&self) -> bool {
        self.awaited.is_empty() && self.queued.is_empty()
    }
}

/// Returns the lines of an access.
pub(super) fn lines_of(post: &Post) -> std::ops::Range<u64> {
    post.remote / 64..(post.remote + u64::from(post.length.max(1))).div_ceil(64)
}

impl Access {
    /// Makes an access if that is possible now, and returns its operation number then.
    pub(super) fn attempt(&mut self, world: &mut World, access: Instruction) -> Option<u64> {
        let Instruction { host, post, fresh, .. } = access;
        let local = self.stays_local(post.verb);
        let prefetches = self.prefetches(post.verb) && !fresh;
        let mut lines = lines_of(&post).map(|line| (host, line));
        if local && lines.any(|key| self.lines.on_their_way.contains(&key)) {
            self.lines.awaited.push(access);
            if prefetches {
                self.prefetch(world, host, &post);
            }
            return None;
        }
        if post.verb.is_outgoing() {
            let at = post.local as usize;
            let copy = &mut world.nodes[host].memory[LOCAL][at..at + access.data.len()];
            copy.copy_from_slice(&access.data);
            world.ledger.forget(post.peer, EXPOSED, post.remote, post.length);
        }
        if fresh {
            self.flush(world, host, &post);
        } else if let Some(id) = self.look_up(world, host, &post) {
            if prefetches {
                self.prefetch(world, host, &post);
            }
            return Some(id);
        }
        if !local {
            world.ledger.forget(host, LOCAL, post.local, post.length);
        }
        let used = self.misses.entry((host, post.jetty)).or_default();
        if !self.config.oracle && *used >= self.config.constants.mshrs.max(1.0) as u64 {
            self.lines.queued.push_back(access);
            return None;
        }
        *used += 1;
        if local {
            self.lines.on_their_way.extend(lines_of(&post).map(|line| (host, line)));
        }
        let id = self.miss(world, host, post);
        if prefetches {
            self.prefetch(world, host, &post);
        }
        Some(id)
    }

    /// Releases the lines and the miss register of a finished access. Returns the accesses that
    /// have an operation number now.
    pub(super) fn release(
        &mut self,
        world: &mut World,
        host: usize,
        post: &Post,
    ) -> Vec<(usize, u64)> {
        for line in lines_of(post) {
            self.lines.on_their_way.remove(&(host, line));
        }
        let key = (host, post.jetty);
        if let Some(used) = self.misses.get_mut(&key) {
            *used = used.saturating_sub(1);
        }
        let mut begun = Vec::new();
        let mut again = |access: &mut Self, instruction: Instruction| {
            let actor = instruction.actor;
            begun.extend(access.attempt(world, instruction).map(|id| (actor, id)));
        };
        if self.config.cache != CachePolicy::Uncached {
            for waiting in std::mem::take(&mut self.lines.awaited) {
                again(self, waiting);
            }
        }
        // Each is tried once; those that still have to wait go to the end of the queue again.
        for _ in 0..self.lines.queued.len() {
            let free = |access: &Self, key| {
                let used = access.misses.get(&key).copied().unwrap_or(0);
                used < access.config.constants.mshrs.max(1.0) as u64
            };
            let Some(next) = self.lines.queued.pop_front() else { break };
            let own = (next.host, next.post.jetty) == key;
            match own && free(self, key) {
                true => again(self, next),
                false => self.lines.queued.push_back(next),
            }
        }
        begun
    }
}
