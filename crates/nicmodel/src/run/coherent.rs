//! Loads, stores and atomics on the cached lines of a coherent fabric. The CPU serves hits; for a
//! miss, the fabric is requested to supply the line first.

use super::access::Access;
use crate::adapter::{EXPOSED, LOCAL, Post};
use crate::config::Verb;
use crate::constants::ps;
use crate::error::{ModelError, Violation};
use crate::path::{Phase, Resource};
use crate::world::{Operation, World};
use fairway_ub::wire::AtomicOperator;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An access and its actor.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    host: usize,
    post: Post,
    data: Vec<u8>,
    actor: usize,
}

/// Accesses and lines in flight.
#[derive(Debug, Default)]
pub(super) struct Coherence {
    /// By operation: the access to be made when its line has arrived.
    missing: BTreeMap<u64, Wanted>,
    /// Lines that have been requested, by host.
    requested: BTreeSet<(usize, u64)>,
    /// Lines that are being returned.
    returning: BTreeMap<u64, (usize, u64)>,
    /// Accesses that wait for a line to arrive or to be returned, or for a miss register.
    waiting: VecDeque<Wanted>,
    returned: u64,
    checked: u64,
}

impl Coherence {
    pub(super) fn is_idle(&self) -> bool {
        self.missing.is_empty() && self.returning.is_empty() && self.waiting.is_empty()
    }

    pub(super) fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("lines_returned", self.returned as f64),
            ("single_writer_checks", self.checked as f64),
        ]
    }
}

impl Access {
    /// Begins an access. Returns its operation number, if it has one yet.
    pub(super) fn begin_coherent(
        &mut self,
        world: &mut World,
        host: usize,
        post: Post,
        data: &[u8],
        actor: usize,
    ) -> Option<u64> {
        let wanted = Wanted { host, post, data: data.to_vec(), actor };
        let id = self.attempt_coherent(world, &wanted);
        if id.is_none() {
            self.coherence.waiting.push_back(wanted);
        }
        id
    }

    /// Serves a hit or requests the line; `None` if neither is possible yet.
    fn attempt_coherent(&mut self, world: &mut World, wanted: &Wanted) -> Option<u64> {
        let Wanted { host, post, .. } = *wanted;
        let line = post.remote / 64;
        let gone = self.coherence.returning.values().any(|&other| other == (host, line));
        if gone || self.coherence.requested.contains(&(host, line)) {
            return None;
        }
        let cpu = world.nodes[host].cpu.as_mut()?;
        let (near, held) = (cpu.l1.touch(line, false), cpu.l2.holds(line));
        let owned = held == Some(true);
        let hits = if post.verb.is_incoming() { held.is_some() } else { owned };
        let constants = &self.config.constants;
        if hits {
            cpu.l2.touch(line, false);
            cpu.l1.fill(line, false);
            self.hits[usize::from(!near)] += 1;
            let latency = ps(if near { constants.l1_ns } else { constants.l2_ns });
            let core = Resource::Core(post.jetty);
            let step = world.costs.step(Phase::CpuCache, host, core, latency, latency);
            let id = world.begin_local(host, vec![step], post);
            let value = self.change(world, wanted);
            if let Some(operation) = world.operations.get_mut(&id) {
                operation.value = value;
            }
            return Some(id);
        }
        let used = self.misses.entry((host, post.jetty)).or_default();
        if *used >= constants.mshrs.max(1.0) as u64 {
            return None;
        }
        *used += 1;
        self.hits[2] += 1;
        let (hold, latency) = (ps(constants.load_issue_ns), ps(constants.miss_ns));
        let core = Resource::Core(post.jetty);
        let first = vec![world.costs.step(Phase::CpuCache, host, core, hold, latency)];
        let whole = post.length == 64 && post.verb.is_outgoing();
        let line_request = Post {
            bypass: true,
            remote: line * 64,
            local: self.shadow + line * 64,
            length: 64,
            whole,
            ..post
        };
        let id = world.begin(host, post.jetty, first, line_request);
        self.coherence.requested.insert((host, line));
        self.coherence.missing.insert(id, wanted.clone());
        Some(id)
    }

    /// Applies a store or an atomic to the host's copy. Returns the old value of a word.
    fn change(&self, world: &mut World, wanted: &Wanted) -> u64 {
        let Wanted { host, post, ref data, .. } = *wanted;
        let at = (self.shadow + post.remote) as usize;
        let operator = match post.verb {
            Verb::FetchAdd => AtomicOperator::Add,
            Verb::CompareSwap => AtomicOperator::CompareSwap,
            verb => {
                if verb.is_outgoing() {
                    let copy = &mut world.nodes[host].memory[LOCAL][at..at + data.len()];
                    copy.copy_from_slice(data);
                }
                return 0;
            }
        };
        let word = &mut world.nodes[host].memory[LOCAL][at..at + 8];
        let old = u64::from_le_bytes(word.try_into().unwrap_or_default());
        word.copy_from_slice(&operator.apply(old, post.operand, post.compare).to_le_bytes());
        old
    }

    /// Handles a line that has arrived or was returned. Returns the accesses that have an operation
    /// number now.
    pub(super) fn finished_coherent(
        &mut self,
        world: &mut World,
        operation: &mut Operation,
        id: u64,
    ) -> Result<Vec<(usize, u64)>, ModelError> {
        let host = operation.host;
        if let Some((host, line)) = self.coherence.returning.remove(&id) {
            if let Some(cpu) = world.nodes[host].cpu.as_mut() {
                cpu.returning.remove(&line);
            }
        } else if let Some(wanted) = self.coherence.missing.remove(&id) {
            let line = wanted.post.remote / 64;
            self.coherence.requested.remove(&(host, line));
            if let Some(used) = self.misses.get_mut(&(host, wanted.post.jetty)) {
                *used = used.saturating_sub(1);
            }
            let owned = !wanted.post.verb.is_incoming();
            self.come(world, &wanted, line, owned);
            self.check(world, host, line, owned)?;
            operation.value = self.change(world, &wanted);
        } else {
            return Ok(Vec::new());
        }
        Ok(self.retry(world, host))
    }

    /// Puts a line into the caches, and returns an evicted modified line to the home.
    fn come(&mut self, world: &mut World, wanted: &Wanted, line: u64, owned: bool) {
        let host = wanted.host;
        let Some(cpu) = world.nodes[host].cpu.as_mut() else { return };
        cpu.l1.fill(line, false);
        if owned {
            cpu.l2.touch(line, true);
        }
        let Some((gone, changed)) = cpu.l2.fill(line, owned) else { return };
        cpu.l1.drop_line(gone);
        if !changed {
            return;
        }
        cpu.returning.insert(gone);
        self.coherence.returned += 1;
        let back = Post {
            verb: Verb::Store,
            remote: gone * 64,
            local: self.shadow + gone * 64,
            length: 64,
            bypass: true,
            returns: true,
            ..wanted.post
        };
        let id = world.begin(host, wanted.post.jetty, Vec::new(), back);
        self.coherence.returning.insert(id, (host, gone));
    }

    /// Checks that no other host holds an owned line, and that a shared line has no owner.
    fn check(
        &mut self,
        world: &mut World,
        host: usize,
        line: u64,
        owned: bool,
    ) -> Result<(), ModelError> {
        self.coherence.checked += 1;
        for (other, node) in world.nodes.iter_mut().enumerate() {
            let held = node.cpu.as_mut().and_then(|cpu| cpu.l2.holds(line));
            if other != host && held.is_some_and(|dirty| dirty || owned) {
                return Err(Violation::SharedLine { line, owner: host, other }.into());
            }
        }
        Ok(())
    }

    fn retry(&mut self, world: &mut World, host: usize) -> Vec<(usize, u64)> {
        let mut begun = Vec::new();
        for wanted in std::mem::take(&mut self.coherence.waiting) {
            let id = if wanted.host == host { self.attempt_coherent(world, &wanted) } else { None };
            match id {
                Some(id) => begun.push((wanted.actor, id)),
                None => self.coherence.waiting.push_back(wanted),
            }
        }
        begun
    }

    /// Copies all modified lines from the caches to the home at once. This happens after the run,
    /// before the home's memory is checked.
    pub(crate) fn bring_home(&self, world: &mut World) {
        for host in 0..world.nodes.len() {
            let cpu = world.nodes[host].cpu.as_ref();
            for line in cpu.map_or(Vec::new(), |cpu| cpu.l2.dirty_lines()) {
                let from = (self.shadow + line * 64) as usize;
                let bytes = world.nodes[host].memory[LOCAL][from..from + 64].to_vec();
                let to = (line * 64) as usize;
                world.nodes[1].memory[EXPOSED][to..to + 64].copy_from_slice(&bytes);
            }
        }
    }
}
