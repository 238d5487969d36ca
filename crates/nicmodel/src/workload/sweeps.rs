//! Workloads that traverse memory: in order, by pointers, by popularity.

use super::{Answer, Budget, Next, Request, Workload, fill_words, first_word, is_untouched, word};
use crate::adapter::{EXPOSED, memory_bytes};
use crate::config::{Config, Verb};
use crate::error::Violation;
use crate::random::{Random, Zipf, mix};

/// Consecutive addresses; every actor has memory of its own.
pub(crate) struct Bulk {
    verb: Verb,
    payload: u64,
    /// Bytes of each actor's memory.
    share: u64,
    position: Vec<u64>,
    count: u64,
    budget: Budget,
}

impl Bulk {
    pub(crate) fn new(config: &Config, actors: usize) -> Bulk {
        let set = memory_bytes(config)[EXPOSED] as u64;
        let payload = u64::from(config.payload);
        let share = (set / actors as u64 / payload).max(1) * payload;
        Bulk {
            verb: config.verb,
            payload,
            share: share.min(set / payload * payload),
            position: vec![0; actors],
            count: 0,
            budget: Budget::new(config.ops),
        }
    }
}

/// Returns the bytes of write number `count`.
fn written(count: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    for (index, chunk) in bytes.chunks_mut(8).enumerate() {
        let word = mix(count << 20 | index as u64).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    bytes
}

impl Workload for Bulk {
    fn fill(&mut self, _host: usize, memory: &mut [u8]) {
        if !self.verb.is_atomic() {
            fill_words(memory);
        }
    }

    fn next(
        &mut self,
        actor: usize,
        _now: u64,
        answer: Option<Answer<'_>>,
    ) -> Result<Next, Violation> {
        if let Some(answer) = answer
            && self.verb.is_incoming()
            && !is_untouched(answer.request.address, answer.bytes)
        {
            return Err(Violation::WrongRead(answer.request.address));
        }
        if !self.budget.take() {
            return Ok(Next::Stop);
        }
        self.count += 1;
        if self.verb.is_atomic() {
            // All atomics access one word, as in the paper's barrier and lock generators.
            let request = Request::atomic(self.verb, 0x2000, 1, 0);
            return Ok(Next::Issue(request));
        }
        let address = actor as u64 * self.share + self.position[actor];
        self.position[actor] = (self.position[actor] + self.payload) % self.share;
        Ok(Next::Issue(if self.verb.is_outgoing() {
            Request::write(self.verb, address, written(self.count, self.payload))
        } else {
            Request::read(self.verb, address, self.payload as u32)
        }))
    }

    fn check(&self, host: usize, memory: &[u8]) -> Result<(), Violation> {
        if self.verb == Verb::FetchAdd && host == 1 && self.position.len() == 1 {
            let sum = first_word(&memory[0x2000..0x2008]);
            if sum != self.count {
                let (of, expected, counted) = ("additions", self.count, sum);
                return Err(Violation::Count { of, expected, counted });
            }
        }
        Ok(())
    }
}

/// A chain of nodes, one per page as in the paper; each node contains the address of the next.
pub(crate) struct Chase {
    verb: Verb,
    length: u32,
    locality: u64,
    /// Addresses that each actor visits: the order of its chain, drawn once.
    chains: Vec<Vec<u64>>,
    at: Vec<usize>,
    budget: Budget,
}

impl Chase {
    pub(crate) fn new(config: &Config, actors: usize) -> Chase {
        let verb = if config.verb.is_incoming() { config.verb } else { Verb::Read };
        let length = config.payload.max(8);
        let end = memory_bytes(config)[EXPOSED] as u64 - u64::from(length);
        Chase {
            verb,
            length,
            locality: u64::from(config.locality),
            chains: draw_chains(config, actors as u64, end),
            at: vec![0; actors],
            budget: Budget::new(config.ops),
        }
    }
}

/// Draws the chain of every actor. No node begins behind `end`.
fn draw_chains(config: &Config, actors: u64, end: u64) -> Vec<Vec<u64>> {
    let mut random = Random::new(config.seed ^ 0xABCDEF);
    let hot = 4096u64;
    let hops = config.ops.div_ceil(actors) + 1;
    let nodes = hops * actors + 2;
    let stride = (end / nodes / 64 * 64).clamp(64, 4096);
    let mut node = |number: u64| {
        // By construction, no line of one chain is a line of another.
        let line = random.below(stride / 64) * 64;
        let page = (number + 1) * stride;
        let local = random.below(100) < u64::from(config.locality);
        if local { hot + random.below(32) * 64 } else { (page + line).min(end / 64 * 64) }
    };
    (0..actors).map(|actor| (0..hops).map(|hop| node(actor * hops + hop)).collect()).collect()
}

impl Workload for Chase {
    /// Writes the same nodes into the memory of every host, because the chains are drawn once.
    fn fill(&mut self, _host: usize, memory: &mut [u8]) {
        // Hot nodes are part of many chains, so they contain their own word, and only `chains`
        // holds the order.
        for chain in &self.chains {
            for pair in chain.windows(2) {
                let from = pair[0] as usize;
                let next = if self.locality > 0 { word(pair[0]) } else { pair[1] };
                memory[from..from + 8].copy_from_slice(&next.to_le_bytes());
            }
        }
    }

    fn next(
        &mut self,
        actor: usize,
        _now: u64,
        answer: Option<Answer<'_>>,
    ) -> Result<Next, Violation> {
        let mut address = self.chains[actor][self.at[actor]];
        if let Some(answer) = answer {
            let says = first_word(answer.bytes);
            let next = self.chains[actor][self.at[actor] + 1];
            let expected = if self.locality > 0 { word(address) } else { next };
            if says != expected {
                return Err(Violation::WrongNode { address, found: says, expected });
            }
            // The response contains the next address; with hot nodes it only identifies the node.
            address = if self.locality > 0 { next } else { says };
            self.at[actor] += 1;
        }
        if self.at[actor] + 1 >= self.chains[actor].len() || !self.budget.take() {
            return Ok(Next::Stop);
        }
        Ok(Next::Issue(Request::read(self.verb, address, self.length)))
    }
}

/// Reads of lines with Zipf popularity.
pub(crate) struct ZipfRead {
    verb: Verb,
    zipf: Zipf,
    keys: u64,
    random: Random,
    budget: Budget,
}

impl ZipfRead {
    pub(crate) fn new(config: &Config, _actors: usize) -> ZipfRead {
        ZipfRead {
            verb: instruction(config, Verb::Load),
            zipf: Zipf::new(config.keys, config.skew),
            keys: config.keys,
            random: Random::new(config.seed ^ 0xC0FF_EE99),
            budget: Budget::new(config.ops),
        }
    }
}

/// A load or store if the stack has such instructions, otherwise READ or WRITE.
pub(crate) fn instruction(config: &Config, verb: Verb) -> Verb {
    match (config.stack.has_instructions(), verb) {
        (false, Verb::Load) => Verb::Read,
        (false, Verb::Store) => Verb::Write,
        (_, verb) => verb,
    }
}

impl Workload for ZipfRead {
    fn fill(&mut self, _host: usize, memory: &mut [u8]) {
        fill_words(memory);
    }

    fn next(
        &mut self,
        _actor: usize,
        _now: u64,
        answer: Option<Answer<'_>>,
    ) -> Result<Next, Violation> {
        if let Some(answer) = answer
            && !is_untouched(answer.request.address, answer.bytes)
        {
            return Err(Violation::WrongRead(answer.request.address));
        }
        if !self.budget.take() {
            return Ok(Next::Stop);
        }
        // Keys are scrambled, so that popular ones are not adjacent.
        let key = mix(self.zipf.draw(&mut self.random)) % self.keys;
        Ok(Next::Issue(Request::read(self.verb, key * 64, 64)))
    }
}

/// Accesses every line in turn; in a dirty scan every tenth line is stored to, and read again
/// later.
pub(crate) struct Scan {
    load: Verb,
    store: Verb,
    keys: u64,
    dirty: bool,
    position: Vec<u64>,
    share: u64,
    /// By line: number of stores.
    versions: Vec<u32>,
    budget: Budget,
}

impl Scan {
    pub(crate) fn new(config: &Config, actors: usize, dirty: bool) -> Scan {
        Scan {
            load: instruction(config, Verb::Load),
            store: instruction(config, Verb::Store),
            keys: config.keys,
            dirty,
            position: vec![0; actors],
            share: (config.keys / actors as u64).max(1),
            versions: vec![0; config.keys as usize],
            budget: Budget::new(config.ops),
        }
    }

    fn content(line: u64, version: u32) -> Vec<u8> {
        let start = line * 64;
        (0..8)
            .flat_map(|index| word(start + index * 8).wrapping_add(version.into()).to_le_bytes())
            .collect()
    }
}

impl Workload for Scan {
    fn fill(&mut self, _host: usize, memory: &mut [u8]) {
        fill_words(memory);
    }

    fn next(
        &mut self,
        actor: usize,
        _now: u64,
        answer: Option<Answer<'_>>,
    ) -> Result<Next, Violation> {
        if let Some(answer) = answer
            && answer.request.verb == self.load
        {
            let line = answer.request.address / 64;
            if answer.bytes != Scan::content(line, self.versions[line as usize]) {
                return Err(Violation::WrongLine(line));
            }
        }
        if !self.budget.take() {
            return Ok(Next::Stop);
        }
        let at = self.position[actor];
        self.position[actor] += 1;
        let line = (actor as u64 * self.share + at % self.share) % self.keys;
        if self.dirty && at % 10 == 9 {
            let version = &mut self.versions[line as usize];
            *version += 1;
            let content = Scan::content(line, *version);
            return Ok(Next::Issue(Request::write(self.store, line * 64, content)));
        }
        Ok(Next::Issue(Request::read(self.load, line * 64, 64)))
    }
}
