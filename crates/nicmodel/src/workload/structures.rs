//! Traversals of data structures in remote memory: a graph and a hash table.

use super::sweeps::instruction;
use super::{Answer, Budget, Next, Request, Workload, first_word};
use crate::config::{Config, Verb};
use crate::error::Violation;
use crate::random::{Random, mix};
use std::collections::VecDeque;

/// Bytes of a vertex, and of a bucket: a line.
const LINE: u64 = 64;
/// Neighbours of a vertex, stored behind its distance.
const DEGREE: usize = 7;
/// Distance of a vertex that has not been reached.
const FAR: u64 = u64::MAX;

/// Breadth-first search from vertex 0: vertices are read, and the distance of each is written when
/// it is found. Each level is divided among all actors.
pub(crate) struct Search {
    load: Verb,
    store: Verb,
    neighbours: Vec<[u64; DEGREE]>,
    /// Distances found so far.
    distance: Vec<u64>,
    level: VecDeque<u64>,
    next_level: Vec<u64>,
    /// Vertices that were found and whose distance has not been written yet.
    marks: VecDeque<u64>,
    depth: u64,
    under_way: u32,
    parked: Vec<usize>,
    woken: Vec<usize>,
    visited: u64,
    budget: Budget,
    is_over: bool,
}

impl Search {
    pub(crate) fn new(config: &Config) -> Search {
        let mut random = Random::new(config.seed ^ 0x1234_5678);
        let count = config.keys;
        let vertex = |_| std::array::from_fn(|_| random.below(count));
        let neighbours: Vec<[u64; DEGREE]> = (0..count).map(vertex).collect();
        let mut distance = vec![FAR; count as usize];
        distance[0] = 0;
        Search {
            load: instruction(config, Verb::Load),
            store: instruction(config, Verb::Store),
            neighbours,
            distance,
            level: VecDeque::from([0]),
            next_level: Vec::new(),
            marks: VecDeque::new(),
            depth: 0,
            under_way: 0,
            parked: Vec::new(),
            woken: Vec::new(),
            visited: 0,
            budget: Budget::new(config.ops),
            is_over: false,
        }
    }

    fn content(&self, vertex: u64, distance: u64) -> Vec<u8> {
        let words = [distance].into_iter().chain(self.neighbours[vertex as usize]);
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// Handles the vertex that an actor has read.
    fn take(&mut self, answer: &Answer<'_>) -> Result<(), Violation> {
        self.under_way -= 1;
        if answer.request.verb != self.load {
            return Ok(());
        }
        let vertex = answer.request.address / LINE;
        if answer.bytes != self.content(vertex, self.distance[vertex as usize]) {
            let (found, expected) = (first_word(answer.bytes), self.distance[vertex as usize]);
            return Err(Violation::WrongVertex { vertex, found, expected });
        }
        self.visited += 1;
        for neighbour in self.neighbours[vertex as usize] {
            let known = &mut self.distance[neighbour as usize];
            if *known == FAR {
                *known = self.depth + 1;
                self.next_level.push(neighbour);
                self.marks.push_back(neighbour);
            }
        }
        Ok(())
    }

    /// Begins the next level when all distances of this one are written.
    fn advance(&mut self) {
        let is_done = self.level.is_empty() && self.marks.is_empty() && self.under_way == 0;
        if is_done && !self.next_level.is_empty() {
            self.level.extend(self.next_level.drain(..));
            self.depth += 1;
        } else if is_done {
            self.is_over = true;
        }
        if is_done || !self.marks.is_empty() {
            self.woken.append(&mut self.parked);
        }
    }
}

impl Workload for Search {
    fn fill(&mut self, _host: usize, memory: &mut [u8]) {
        for vertex in 0..self.neighbours.len() as u64 {
            let at = (vertex * LINE) as usize;
            let distance = if vertex == 0 { 0 } else { FAR };
            memory[at..at + LINE as usize].copy_from_slice(&self.content(vertex, distance));
        }
    }

    fn next(
        &mut self,
        actor: usize,
        _: u64,
        answer: Option<Answer<'_>>,
    ) -> Result<Next, Violation> {
        if let Some(answer) = answer {
            self.take(&answer)?;
            self.advance();
        }
        // Found distances are always written, because the final check of the memory expects them.
        if let Some(vertex) = self.marks.pop_front() {
            self.under_way += 1;
            let distance = self.distance[vertex as usize].to_le_bytes().to_vec();
            return Ok(Next::Issue(Request::write(self.store, vertex * LINE, distance)));
        }
        if !self.level.is_empty() && !self.budget.take() {
            self.level.clear();
            self.next_level.clear();
            self.advance();
        }
        if let Some(vertex) = self.level.pop_front() {
            self.under_way += 1;
            return Ok(Next::Issue(Request::read(self.load, vertex * LINE, LINE as u32)));
        }
        if self.is_over {
            return Ok(Next::Stop);
        }
        self.parked.push(actor);
        Ok(Next::Park)
    }

    fn take_woken(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.woken)
    }

    fn check(&self, host: usize, memory: &[u8]) -> Result<(), Violation> {
        if host != 1 {
            return Ok(());
        }
        for (vertex, &distance) in self.distance.iter().enumerate() {
            let at = vertex * LINE as usize;
            let found = first_word(&memory[at..at + 8]);
            if found != distance {
                let (vertex, expected) = (vertex as u64, distance);
                return Err(Violation::WrongVertex { vertex, found, expected });
            }
        }
        Ok(())
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![("vertices_visited", self.visited as f64), ("levels", self.depth as f64 + 1.0)]
    }
}

/// Entries (key and value) of a bucket.
const ENTRIES: usize = 4;

/// A hash table with open addressing, three quarters full. Keys are looked up, nine in ten of which
/// exist. If a bucket is full and does not contain the key, the lookup continues in the next
/// bucket.
pub(crate) struct Probe {
    load: Verb,
    buckets: Vec<[(u64, u64); ENTRIES]>,
    keys: u64,
    random: Random,
    /// By actor: the key that it looks up.
    wanted: Vec<u64>,
    lookups: u64,
    found: u64,
    probes: u64,
    budget: Budget,
}

impl Probe {
    pub(crate) fn new(config: &Config, actors: usize) -> Probe {
        let count = config.keys as usize;
        let keys = config.keys * 3;
        let mut buckets = vec![[(0, 0); ENTRIES]; count];
        for key in 1..=keys {
            let mut at = (mix(key) % count as u64) as usize;
            // A quarter of the entries is free, so the search ends.
            let free = loop {
                match buckets[at].iter().position(|entry| entry.0 == 0) {
                    Some(free) => break free,
                    None => at = (at + 1) % count,
                }
            };
            buckets[at][free] = (key, value(key));
        }
        Probe {
            load: instruction(config, Verb::Load),
            buckets,
            keys,
            random: Random::new(config.seed ^ 0x4A5B),
            wanted: vec![0; actors],
            lookups: 0,
            found: 0,
            probes: 0,
            budget: Budget::new(config.ops),
        }
    }

    /// Returns the next bucket to read; `None` if the lookup is over.
    fn look(&mut self, actor: usize, answer: &Answer<'_>) -> Result<Option<u64>, Violation> {
        let wanted = self.wanted[actor];
        let words: Vec<u64> = answer.bytes.chunks_exact(8).map(first_word).collect();
        let mut entries = words.chunks_exact(2);
        let bucket = answer.request.address / LINE;
        let there = (1..=self.keys).contains(&wanted);
        if let Some(entry) = entries.clone().find(|entry| entry[0] == wanted) {
            self.found += 1;
            let right = there && entry[1] == value(wanted);
            return right
                .then_some(None)
                .ok_or(Violation::WrongKey { key: wanted, found: entry[1] });
        }
        if entries.any(|entry| entry[0] == 0) {
            return (!there).then_some(None).ok_or(Violation::MissingKey(wanted));
        }
        Ok(Some((bucket + 1) % self.buckets.len() as u64))
    }
}

fn value(key: u64) -> u64 {
    mix(key ^ 0x5EED)
}

impl Workload for Probe {
    fn fill(&mut self, _host: usize, memory: &mut [u8]) {
        for (bucket, at) in self.buckets.iter().zip(memory.chunks_exact_mut(LINE as usize)) {
            for (entry, place) in bucket.iter().zip(at.chunks_exact_mut(16)) {
                place[..8].copy_from_slice(&entry.0.to_le_bytes());
                place[8..].copy_from_slice(&entry.1.to_le_bytes());
            }
        }
    }

    fn next(
        &mut self,
        actor: usize,
        _: u64,
        answer: Option<Answer<'_>>,
    ) -> Result<Next, Violation> {
        let mut bucket = None;
        if let Some(answer) = answer {
            bucket = self.look(actor, &answer)?;
        }
        if !self.budget.take() {
            return Ok(Next::Stop);
        }
        let bucket = bucket.unwrap_or_else(|| {
            self.lookups += 1;
            // Absent keys are above the last existing one.
            let absent = self.random.below(10) == 0;
            let key = 1 + self.random.below(self.keys) + if absent { self.keys } else { 0 };
            self.wanted[actor] = key;
            mix(key) % self.buckets.len() as u64
        });
        self.probes += 1;
        Ok(Next::Issue(Request::read(self.load, bucket * LINE, LINE as u32)))
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        let lookups = self.lookups.max(1) as f64;
        vec![
            ("lookups", self.lookups as f64),
            ("found", self.found as f64),
            ("probes_per_lookup", self.probes as f64 / lookups),
        ]
    }
}
