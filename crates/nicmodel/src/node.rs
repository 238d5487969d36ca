//! One host: its engine, its memories, and its servers.

use crate::adapter::{Effect, ProtocolAdapter, bytes_at, memory_bytes};
use crate::caches::{ContextCache, LineCache};
use crate::config::{CachePolicy, Config, Stack};
use crate::constants::ps;
use crate::path::{CostModel, Resource, Step};
use crate::post_list::List;
use crate::server::{Server, Tally};
use crate::stages::{LDST_TX, ROCE_TX, UB_RX, UB_TX};
use fairway_ub::LocalRange;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One host of the model.
pub(crate) struct Node {
    pub(crate) adapter: Box<dyn ProtocolAdapter>,
    pub(crate) memory: Vec<Vec<u8>>,
    pub(crate) contexts: ContextCache,
    pub(crate) cpu: Option<CpuCache>,
    /// Operations that the protocol had no room for.
    pub(crate) backlog: VecDeque<u64>,
    /// Time at which the NIC may request the next packet from its engine.
    pub(crate) next_pull: u64,
    pub(crate) pull_planned: bool,
    /// Time at which the protocol's timers must be handled.
    pub(crate) alarm: Option<u64>,
    /// By stream: the number of packets that have begun, and of those that have passed their gather
    /// step.
    pub(crate) turns: BTreeMap<u32, (u64, u64)>,
    /// By core: the work requests that it is posting, if several may share a doorbell.
    pub(crate) lists: BTreeMap<u32, List>,
    servers: Servers,
    /// Contexts that are being fetched, and when each arrives.
    fetching: BTreeMap<u64, u64>,
    rows: Vec<Option<u64>>,
}

struct Servers {
    cores: Vec<Server>,
    bus: Server,
    to_host: Server,
    to_nic: Server,
    tags: Server,
    tx: Vec<Server>,
    load_tx: Vec<Server>,
    rx: Vec<Server>,
    egress: Server,
    /// The switch's port towards this host.
    port: Server,
    directory: Server,
    banks: Vec<Server>,
    psn: BTreeMap<u32, Server>,
}

/// A CPU's cache of remote memory.
pub(crate) struct CpuCache {
    pub(crate) l1: LineCache,
    pub(crate) l2: LineCache,
    /// Lines being returned: no longer in the caches, but their data is still at this host.
    pub(crate) returning: BTreeSet<u64>,
}

impl CpuCache {
    /// Executes a snoop: see [`Effect::Snoop`].
    fn snoop(&mut self, line: u64, keep: bool) -> u64 {
        let held = self.l2.holds(line);
        let changed = held == Some(true) || self.returning.contains(&line);
        if keep {
            self.l2.clean(line);
        } else {
            self.l1.drop_line(line);
            self.l2.drop_line(line);
        }
        u64::from(held.is_some()) | u64::from(changed) << 1
    }
}

impl Node {
    pub(crate) fn new(config: &Config, adapter: Box<dyn ProtocolAdapter>, cores: u32) -> Node {
        let constants = &config.constants;
        let servers = |count: usize| vec![Server::new(1); count];
        let banks = constants.dram_banks.max(1.0) as usize;
        let cached = config.cache != CachePolicy::Uncached || config.stack == Stack::Coherent;
        let lines = |count: f64| {
            let ways = if config.oracle { count } else { constants.cache_ways };
            LineCache::new(count as usize, ways as usize)
        };
        Node {
            adapter,
            memory: memory_bytes(config).iter().map(|&bytes| vec![0; bytes]).collect(),
            contexts: ContextCache::new(constants.cache_bytes as u64),
            cpu: cached.then(|| CpuCache {
                l1: lines(constants.l1_lines),
                l2: lines(constants.l2_lines),
                returning: BTreeSet::new(),
            }),
            backlog: VecDeque::new(),
            next_pull: 0,
            pull_planned: false,
            alarm: None,
            turns: BTreeMap::new(),
            lists: BTreeMap::new(),
            servers: Servers {
                cores: servers(cores as usize),
                bus: Server::new(1),
                to_host: Server::new(1),
                to_nic: Server::new(1),
                tags: Server::new(constants.pcie_tags.max(1.0) as usize),
                tx: servers(UB_TX.len().max(ROCE_TX.len())),
                load_tx: servers(LDST_TX.len()),
                rx: servers(UB_RX.len()),
                egress: Server::new(1),
                port: Server::new(1),
                directory: Server::new(1),
                banks: servers(banks),
                psn: BTreeMap::new(),
            },
            fetching: BTreeMap::new(),
            rows: vec![None; banks],
        }
    }

    /// Time for which a core is still busy.
    pub(crate) fn core_backlog(&self, now: u64, core: u32) -> u64 {
        self.servers.cores[core as usize].backlog(now)
    }

    /// Time until the switch's port to this host has sent everything that waits.
    pub(crate) fn port_backlog(&self, now: u64) -> u64 {
        self.servers.port.backlog(now)
    }

    /// Enters a step now. Returns how long it waits, and how long it takes then.
    pub(crate) fn enter(&mut self, now: u64, step: &Step, costs: &CostModel) -> (u64, u64) {
        let servers = &mut self.servers;
        let server = match step.resource {
            Resource::Nothing | Resource::Turn { .. } | Resource::Ring { .. } => {
                return (0, step.latency_ps);
            }
            Resource::Context { transport, jetty } => {
                return (0, self.context(now, transport, jetty, costs));
            }
            Resource::Dram { address, bytes } => {
                return self.dram(now, step, address, bytes, costs);
            }
            Resource::Core(core) => &mut servers.cores[core as usize],
            Resource::Bus => &mut servers.bus,
            Resource::ToHost => &mut servers.to_host,
            Resource::ToNic => &mut servers.to_nic,
            Resource::Tag => &mut servers.tags,
            Resource::Tx(stage) => &mut servers.tx[usize::from(stage)],
            Resource::LoadTx(stage) => &mut servers.load_tx[usize::from(stage)],
            Resource::Rx(stage) => &mut servers.rx[usize::from(stage)],
            Resource::Egress { .. } => &mut servers.egress,
            Resource::Port { .. } => &mut servers.port,
            Resource::Directory => &mut servers.directory,
            Resource::Psn(channel) => servers.psn.entry(channel).or_insert_with(|| Server::new(1)),
        };
        (server.enter(now, step.hold_ps), step.latency_ps)
    }

    /// Uses a context. Returns how long it takes until it is in the NIC.
    fn context(&mut self, now: u64, transport: u32, jetty: u32, costs: &CostModel) -> u64 {
        let config = &costs.config;
        let constants = &config.constants;
        let ub = config.stack.is_ub();
        let key = |kind: u64, number: u32| kind << 32 | u64::from(number);
        let mut records =
            vec![(key(1, transport), if ub { constants.tp_bytes } else { constants.qp_bytes })];
        if ub {
            records.push((key(2, jetty), constants.jetty_bytes));
        }
        if !config.oracle {
            records.push((key(3, 0), constants.segment_bytes));
        } else if ub {
            records.iter_mut().for_each(|record| record.1 = constants.ub_entry_bytes);
        }
        if config.oracle {
            self.others(config, &records);
        }
        let refetch = if costs.pcie { constants.roce_refetch_ns } else { constants.ub_refetch_ns };
        let mut ready = now;
        for (key, bytes) in records {
            if !self.contexts.touch(key, bytes as u64) {
                // Missing contexts are fetched at once, in parallel, independently of other
                // transfers.
                let wait = match (config.oracle, costs.pcie) {
                    (true, _) => 0,
                    (false, true) => {
                        let tag = self.servers.tags.enter(now, ps(refetch));
                        let serial = costs.tlp_ps(bytes as u32);
                        tag.max(self.servers.to_nic.enter(now, serial))
                    }
                    (false, false) => self.servers.bus.enter(now, costs.crossing_ps(bytes as u32)),
                };
                self.fetching.insert(key, now + wait + ps(refetch));
            }
            match self.fetching.get(&key) {
                Some(&until) if until > now => ready = ready.max(until),
                Some(_) => drop(self.fetching.remove(&key)),
                None => {}
            }
        }
        ready - now
    }

    /// In the oracle: uses the contexts of the other connections, which alternate with this one.
    fn others(&mut self, config: &Config, own: &[(u64, f64)]) {
        let [n, m, k] = [config.jetties, config.connections, config.remote_jetties].map(u64::from);
        let constants = &config.constants;
        let (all, bytes) = match config.stack.is_ub() {
            true => (n + m + k, constants.ub_entry_bytes),
            false => (n * m * k, constants.qp_bytes),
        };
        if self.contexts.hits + self.contexts.misses == 0 {
            for &(key, bytes) in own {
                self.contexts.insert(key, bytes as u64);
            }
        }
        self.contexts.others(all.saturating_sub(own.len() as u64), bytes as u64);
    }

    fn dram(
        &mut self,
        now: u64,
        step: &Step,
        address: u64,
        bytes: u32,
        costs: &CostModel,
    ) -> (u64, u64) {
        let constants = &costs.config.constants;
        let row = address / constants.row_bytes as u64;
        let bank = (row % self.rows.len() as u64) as usize;
        if costs.config.oracle {
            return (0, step.latency_ps);
        }
        let hit = self.rows[bank].replace(row) == Some(row);
        let lines = f64::from(bytes).max(1.0) / 64.0;
        let burst = ps(lines.ceil() * constants.dram_line_ns);
        let hold = if hit { burst } else { burst.max(ps(constants.row_cycle_ns)) };
        let more = burst.saturating_sub(ps(constants.dram_line_ns));
        let latency = step.latency_ps + more + if hit { 0 } else { ps(constants.row_miss_ns) };
        (self.servers.banks[bank].enter(now, hold), latency)
    }

    /// Carries out an effect. Returns the old value of a word.
    pub(crate) fn apply(&mut self, effect: &Effect) -> u64 {
        match effect {
            Effect::Bytes { ranges, bytes } => {
                let mut rest = &bytes[..];
                for range in ranges {
                    let (now, later) = rest.split_at(range.length as usize);
                    self.memory[range.segment.index()][bytes_at(range)].copy_from_slice(now);
                    rest = later;
                }
                0
            }
            Effect::Word { range, operator, operand, compare } => {
                let word = &mut self.memory[range.segment.index()][bytes_at(range)];
                let mut bytes = [0; 8];
                bytes[..word.len()].copy_from_slice(word);
                let old = u64::from_le_bytes(bytes);
                let new = operator.apply(old, *operand, *compare).to_le_bytes();
                let length = word.len();
                word.copy_from_slice(&new[..length]);
                old
            }
            Effect::Snoop { line, keep } => {
                self.cpu.as_mut().map_or(0, |cpu| cpu.snoop(*line, *keep))
            }
            Effect::Copy { from, to } => {
                let bytes = self.bytes(from).to_vec();
                self.memory[to.segment.index()][bytes_at(to)].copy_from_slice(&bytes);
                0
            }
        }
    }

    pub(crate) fn bytes(&self, range: &LocalRange) -> &[u8] {
        &self.memory[range.segment.index()][bytes_at(range)]
    }

    /// Returns every server by name, with its number of units and its counters of a run that ends
    /// at `end`.
    pub(crate) fn tallies(&self, end: u64) -> Vec<(String, usize, Tally)> {
        let servers = &self.servers;
        let mut list = Vec::new();
        let mut add = |name: &str, group: &[Server]| {
            let mut sum = Tally::default();
            let mut units = 0;
            for server in group {
                let tally = server.tally_until(end);
                sum.jobs += tally.jobs;
                sum.held_ps += tally.held_ps;
                sum.waited_ps += tally.waited_ps;
                units += server.units();
            }
            list.push((name.to_owned(), units, sum));
        };
        add("cores", &servers.cores);
        add("bus", std::slice::from_ref(&servers.bus));
        add("pcie to host", std::slice::from_ref(&servers.to_host));
        add("pcie to nic", std::slice::from_ref(&servers.to_nic));
        add("dma read tags", std::slice::from_ref(&servers.tags));
        for (index, server) in servers.tx.iter().enumerate() {
            add(&format!("tx stage {index}"), std::slice::from_ref(server));
        }
        for (index, server) in servers.load_tx.iter().enumerate() {
            add(&format!("load tx stage {index}"), std::slice::from_ref(server));
        }
        for (index, server) in servers.rx.iter().enumerate() {
            add(&format!("rx stage {index}"), std::slice::from_ref(server));
        }
        add("egress", std::slice::from_ref(&servers.egress));
        add("switch port", std::slice::from_ref(&servers.port));
        add("directory", std::slice::from_ref(&servers.directory));
        add("dram banks", &servers.banks);
        for server in servers.psn.values() {
            add("psn", std::slice::from_ref(server));
        }
        list
    }
}
