//! Stages between an actor and its host: CPU caches and miss registers in front of loads and
//! stores, pages in front of swapped memory, and none in front of work requests.

use super::coherent::Coherence;
use super::lines::{Instruction, Lines};
use super::prefetch::Prefetcher;
use crate::adapter::{EXPOSED, LOCAL, Post, memory_bytes};
use crate::config::{CachePolicy, Config, Stack, Verb};
use crate::constants::ps;
use crate::error::ModelError;
use crate::path::{Phase, Resource};
use crate::swap::{Fault, Pager};
use crate::workload::Request;
use crate::world::{Operation, World};
use std::collections::{BTreeMap, BTreeSet};

/// An access to paged memory, which is served page by page, as the instructions of a program are:
/// the pages need not be resident together.
struct PagedAccess {
    post: Post,
    /// Bytes to be stored.
    data: Vec<u8>,
    /// First address that has not been served.
    at: u64,
    /// Pages that were served.
    pages: u64,
}

/// State of these stages for all hosts.
pub(crate) struct Access {
    pub(super) config: Config,
    /// Offset in local memory of the copy of the peer's memory.
    pub(super) shadow: u64,
    pager: Option<Pager>,
    /// By actor: accesses to pages that are in transit, or that wait for a page fault to begin.
    deferred: BTreeMap<usize, PagedAccess>,
    /// Page operations in flight: by operation, the pages being read or the page being written.
    reading: BTreeMap<u64, Vec<u64>>,
    writing: BTreeMap<u64, u64>,
    /// Write-backs of lines in flight.
    background: BTreeMap<u64, u64>,
    /// Lines that were modified and evicted again while they were being written back.
    again: BTreeSet<u64>,
    /// Number of loads and stores in flight, by host and core.
    pub(super) misses: BTreeMap<(usize, u32), u64>,
    pub(super) lines: Lines,
    pub(super) hits: [u64; 3],
    pub(super) coherence: Coherence,
    pub(super) prefetcher: Prefetcher,
    write_backs: u64,
}

impl Access {
    pub(crate) fn new(config: &Config) -> Access {
        let [set, local, ..] = memory_bytes(config);
        Access {
            shadow: (local - set) as u64,
            pager: config.stack.swaps().then(|| Pager::new(config)),
            deferred: BTreeMap::new(),
            reading: BTreeMap::new(),
            writing: BTreeMap::new(),
            background: BTreeMap::new(),
            again: BTreeSet::new(),
            misses: BTreeMap::new(),
            lines: Lines::default(),
            hits: [0; 3],
            coherence: Coherence::default(),
            prefetcher: Prefetcher::default(),
            write_backs: 0,
            config: config.clone(),
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.deferred.is_empty()
            && self.reading.is_empty()
            && self.writing.is_empty()
            && self.background.is_empty()
            && self.lines.is_idle()
            && self.coherence.is_idle()
            && self.prefetcher.is_idle()
    }

    /// True if an access of this kind is served from local memory.
    pub(crate) fn stays_local(&self, verb: Verb) -> bool {
        let by_instruction = matches!(verb, Verb::Load | Verb::Store);
        self.config.stack == Stack::Coherent
            || by_instruction
                && (self.pager.is_some() || self.config.cache != CachePolicy::Uncached)
    }

    /// True if the target's memory may lack stored data.
    pub(crate) fn keeps_dirty(&self) -> bool {
        let back = self.config.cache == CachePolicy::WriteBack;
        self.pager.is_some() || (back && !self.config.flushes())
    }

    /// True if a line is being written back.
    pub(super) fn writes_back(&self, line: u64) -> bool {
        self.background.values().any(|&other| other == line)
    }

    pub(crate) fn is_deferred(&self, actor: usize) -> bool {
        self.deferred.contains_key(&actor)
    }

    /// Begins an access. Returns its operation number, if it has one yet.
    pub(crate) fn begin(
        &mut self,
        world: &mut World,
        host: usize,
        mut post: Post,
        request: &Request,
        actor: usize,
    ) -> Result<(Option<u64>, u64), ModelError> {
        let data = &request.data[..];
        if self.stays_local(post.verb) {
            post.local = self.shadow + post.remote;
        }
        let local = post.local;
        if self.config.stack == Stack::Coherent {
            return Ok((self.begin_coherent(world, host, post, data, actor), local));
        }
        if self.pager.is_some() {
            let access = PagedAccess { post, data: data.to_vec(), at: post.remote, pages: 0 };
            return Ok((self.touch_pages(world, host, access, actor), local));
        }
        if !world.costs.by_instruction(post.verb) {
            if post.verb.is_outgoing() {
                let at = local as usize..local as usize + data.len();
                world.nodes[host].memory[LOCAL][at].copy_from_slice(data);
                world.ledger.forget(post.peer, EXPOSED, post.remote, post.length);
            }
            world.ledger.forget(host, LOCAL, local, post.length);
            return Ok((Some(world.begin(host, post.jetty, Vec::new(), post)), local));
        }
        post.bypass = post.length <= 64;
        let (data, fresh) = (data.to_vec(), request.fresh);
        let access = Instruction { host, post, actor, data, fresh };
        Ok((self.attempt(world, access), local))
    }

    pub(super) fn miss(&mut self, world: &mut World, host: usize, mut post: Post) -> u64 {
        let constants = &self.config.constants;
        let core = Resource::Core(post.jetty);
        let (hold, latency) = (ps(constants.load_issue_ns), ps(constants.miss_ns));
        let mut first = vec![world.costs.step(Phase::CpuCache, host, core, hold, latency)];
        if self.config.flushes() {
            let flush = ps(constants.flush_ns);
            first.push(world.costs.step(Phase::CpuCache, host, core, flush, flush));
        }
        if self.stays_local(post.verb) && post.verb == Verb::Load && !self.config.oracle {
            // A cache is filled with whole lines.
            let end = (post.remote + u64::from(post.length)).next_multiple_of(64);
            let start = post.remote / 64 * 64;
            (post.local, post.remote) = (self.shadow + start, start);
            post.length = (end - start) as u32;
            post.bypass = post.length <= 64;
        }
        world.begin(host, post.jetty, first, post)
    }

    /// Drops the lines of an access from the caches, because a load must return the newest data, or
    /// a store must become visible to others.
    pub(super) fn flush(&self, world: &mut World, host: usize, post: &Post) {
        let Some(cpu) = world.nodes[host].cpu.as_mut() else { return };
        let end = post.remote + u64::from(post.length.max(1));
        for line in post.remote / 64..end.div_ceil(64) {
            cpu.l1.drop_line(line);
            cpu.l2.drop_line(line);
        }
    }

    /// Serves an access that hits the CPU's caches; `None` if the NIC is needed.
    pub(super) fn look_up(&mut self, world: &mut World, host: usize, post: &Post) -> Option<u64> {
        let store = post.verb == Verb::Store;
        let cpu = world.nodes[host].cpu.as_mut()?;
        let end = post.remote + u64::from(post.length.max(1));
        let lines = post.remote / 64..end.div_ceil(64);
        let write_back = self.config.cache == CachePolicy::WriteBack;
        let mut level = 0;
        let under_way = |line| self.background.values().any(|&other| other == line);
        for line in lines {
            let dirty = store && write_back;
            let found = match (cpu.l1.touch(line, false), cpu.l2.touch(line, dirty)) {
                (true, true) => 0,
                (false, true) => 1,
                // The line is still in the write buffer.
                _ if under_way(line) => 1,
                _ => 2,
            };
            if found == 1 {
                cpu.l1.fill(line, false);
            }
            level = level.max(found);
        }
        self.hits[level] += 1;
        let constants = &self.config.constants;
        let latency = ps([constants.l1_ns, constants.l2_ns, constants.miss_ns][level]);
        // A store goes through to the target, modifies a line that is present, or replaces a whole
        // line, which then need not be fetched. (A store that misses and covers less than a line
        // goes through.)
        let whole = (post.remote | u64::from(post.length)).is_multiple_of(64);
        let allocates = store && write_back && whole && !self.config.oracle;
        if (level == 2 && !allocates) || (store && !write_back) {
            return None;
        }
        if store {
            self.fill(world, host, post, true);
        }
        let step =
            world.costs.step(Phase::CpuCache, host, Resource::Core(post.jetty), latency, latency);
        Some(world.begin_local(host, vec![step], *post))
    }

    /// Handles the end of an operation. Returns the accesses that have an operation number now,
    /// with their actors.
    pub(crate) fn finished(
        &mut self,
        world: &mut World,
        operation: &mut Operation,
        id: u64,
    ) -> Result<Vec<(usize, u64)>, ModelError> {
        if self.config.stack == Stack::Coherent {
            return self.finished_coherent(world, operation, id);
        }
        if let Some(pages) = self.reading.remove(&id) {
            return Ok(self.pages_came(world, operation.host, &pages));
        }
        if let Some(page) = self.writing.remove(&id) {
            if let Some(pager) = self.pager.as_mut() {
                pager.written(page);
            }
            return Ok(self.try_deferred(world, operation.host));
        }
        let post = operation.post;
        if let Some(begun) = self.prefetched(world, &post, id) {
            return Ok(begun);
        }
        if let Some(line) = self.background.remove(&id) {
            if self.again.remove(&line) {
                self.write_back(world, operation.host, line, &operation.post);
            }
            return Ok(Vec::new());
        }
        let went_out = operation.posted && operation.done;
        if went_out && world.costs.by_instruction(post.verb) {
            if self.config.cache != CachePolicy::Uncached && post.verb == Verb::Load {
                self.fill(world, operation.host, &post, false);
            }
            return Ok(self.release(world, operation.host, &post));
        }
        Ok(Vec::new())
    }

    /// Fills lines into the caches, and stores evicted modified lines to the target.
    pub(super) fn fill(&mut self, world: &mut World, host: usize, post: &Post, changed: bool) {
        let end = post.remote + u64::from(post.length.max(1));
        for line in post.remote / 64..end.div_ceil(64) {
            let Some(cpu) = world.nodes[host].cpu.as_mut() else { return };
            cpu.l1.fill(line, false);
            let Some((gone, dirty)) = cpu.l2.fill(line, changed) else { continue };
            cpu.l1.drop_line(gone);
            if dirty {
                self.write_back(world, host, gone, post);
            }
        }
    }

    fn write_back(&mut self, world: &mut World, host: usize, line: u64, like: &Post) {
        if self.background.values().any(|&under_way| under_way == line) {
            // Stores have no order among each other.
            self.again.insert(line);
            return;
        }
        self.write_backs += 1;
        let (remote, local) = (line * 64, self.shadow + line * 64);
        let back = Post { verb: Verb::Store, remote, local, length: 64, bypass: true, ..*like };
        let id = world.begin(host, like.jetty, Vec::new(), back);
        self.background.insert(id, line);
    }

    // ---- pages ----

    /// Serves an access as far as its pages are resident. Returns its operation number, if all are.
    fn touch_pages(
        &mut self,
        world: &mut World,
        host: usize,
        mut access: PagedAccess,
        actor: usize,
    ) -> Option<u64> {
        let pager = self.pager.as_mut()?;
        let post = access.post;
        let end = post.remote + u64::from(post.length);
        while access.at < end {
            let store = post.verb == Verb::Store;
            match pager.touch(access.at, store) {
                Fault::Resident => {}
                Fault::OnItsWay => {
                    self.deferred.insert(actor, access);
                    return None;
                }
                Fault::Read(pages) => {
                    self.deferred.insert(actor, access);
                    self.fetch(world, host, &post, pages);
                    return None;
                }
            }
            let upto = end.min(pager.page_end(access.at));
            if store {
                let [from, to] = [access.at, upto].map(|address| (address - post.remote) as usize);
                let at = post.local as usize;
                world.nodes[host].memory[LOCAL][at + from..at + to]
                    .copy_from_slice(&access.data[from..to]);
            }
            access.at = upto;
            access.pages += 1;
        }
        let latency = ps(self.config.constants.resident_ns) * access.pages;
        let core = Resource::Core(post.jetty);
        let step = world.costs.step(Phase::Resident, host, core, latency, latency);
        Some(world.begin_local(host, vec![step], post))
    }

    /// Begins a page fault, which reads adjacent pages.
    fn fetch(&mut self, world: &mut World, host: usize, post: &Post, pages: Vec<u64>) {
        let Some(pager) = self.pager.as_ref() else { return };
        let constants = &self.config.constants;
        let fault = match self.config.stack {
            Stack::Fastswap => constants.fast_page_fault_ns,
            _ => constants.page_fault_ns,
        };
        let core = Resource::Core(post.jetty);
        let step = world.costs.step(Phase::Fault, host, core, ps(fault), ps(fault));
        let (remote, end) = pager.range(pages[0], pages.len() as u64);
        let (local, length) = (self.shadow + remote, (end - remote) as u32);
        let read = Post { verb: Verb::Read, remote, local, length, bypass: false, ..*post };
        let id = world.begin(host, post.jetty, vec![step], read);
        self.reading.insert(id, pages);
    }

    fn pages_came(&mut self, world: &mut World, host: usize, pages: &[u64]) -> Vec<(usize, u64)> {
        let Some(pager) = self.pager.as_mut() else { return Vec::new() };
        for gone in pager.install(pages) {
            let (remote, end) = pager.range(gone, 1);
            let post = Post {
                id: 0,
                verb: Verb::Write,
                bypass: false,
                peer: 1,
                jetty: 0,
                connection: 0,
                remote_jetty: 0,
                remote,
                local: self.shadow + remote,
                length: (end - remote) as u32,
                order: crate::Ordering::None,
                operand: 0,
                compare: 0,
                hint: 0,
                returns: false,
                whole: false,
            };
            let id = world.begin(host, 0, Vec::new(), post);
            self.writing.insert(id, gone);
        }
        self.try_deferred(world, host)
    }

    fn try_deferred(&mut self, world: &mut World, host: usize) -> Vec<(usize, u64)> {
        let mut begun = Vec::new();
        for (actor, access) in std::mem::take(&mut self.deferred) {
            if let Some(id) = self.touch_pages(world, host, access, actor) {
                begun.push((actor, id));
            }
        }
        begun
    }

    pub(crate) fn metrics(&self) -> Vec<(&'static str, f64)> {
        let mut list = Vec::new();
        let coherent = self.config.stack == Stack::Coherent;
        if coherent {
            list.extend(self.coherence.metrics());
        }
        if coherent || self.config.cache != CachePolicy::Uncached {
            let [l1, l2, miss] = self.hits.map(|count| count as f64);
            list.extend([("l1_hits", l1), ("l2_hits", l2), ("cache_misses", miss)]);
            list.push(("write_backs", self.write_backs as f64));
            if self.prefetches(Verb::Load) {
                list.extend(self.prefetcher.metrics());
            }
        }
        if let Some(pager) = &self.pager {
            list.extend(pager.metrics());
        }
        list
    }
}
