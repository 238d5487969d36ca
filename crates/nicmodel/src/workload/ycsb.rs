//! YCSB A to F (Cooper et al., SoCC 2010) on records of 64 bytes.
//!
//! A: half reads, half updates. B: 95 % reads. C: reads only. D: 95 % reads of recently inserted
//! records, 5 % inserts. E: scans of 1 to 100 records (95 %), inserts. F: half reads, half
//! read-modify-write. Keys are scrambled, so popular records are not adjacent. A record consists of
//! its key, a version, its writer, and a checksum of those. A read must return one whole record of
//! its key, never a mixture, and never an older version than the same actor has seen before.

use super::sweeps::instruction;
use super::{Answer, Budget, Next, Request, Workload};
use crate::config::{CachePolicy, Config, Verb};
use crate::error::Violation;
use crate::random::{Random, Zipf, mix};
use std::collections::BTreeMap;

pub(crate) struct Ycsb {
    letter: char,
    load: Verb,
    store: Verb,
    zipf: Zipf,
    keys: u64,
    /// Number of records that exist.
    inserted: u64,
    random: Random,
    budget: Budget,
    versions: u64,
    /// By key and actor: the newest version seen.
    seen: BTreeMap<(u64, usize), u64>,
    /// By key: the number of actors that update it. The order of concurrent updates cannot be
    /// checked.
    updating: BTreeMap<u64, u32>,
    /// By actor: the key of a read-modify-write whose update is still to be done.
    modify: Vec<Option<u64>>,
    pending: Vec<Option<u64>>,
    stale_is_legal: bool,
    reads: u64,
}

const RECORD: u64 = 64;

fn record(key: u64, version: u64, writer: u64) -> Vec<u8> {
    let check = mix(key ^ version.rotate_left(20) ^ writer.rotate_left(40));
    let words = [key, version, writer, check, check ^ 1, check ^ 2, check ^ 3, check ^ 4];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns the version of a record, or `None` if its bytes are not one record of this key.
fn version_of(key: u64, bytes: &[u8]) -> Option<u64> {
    let word = |index: usize| super::first_word(&bytes[index * 8..]);
    (bytes == record(key, word(1), word(2))).then(|| word(1))
}

impl Ycsb {
    pub(crate) fn new(config: &Config, actors: usize, letter: char) -> Ycsb {
        // D and E insert, so a tenth of the records does not exist at first.
        let inserts = matches!(letter, 'D' | 'E');
        let inserted = if inserts { config.keys - config.keys / 10 } else { config.keys };
        Ycsb {
            letter,
            load: instruction(config, Verb::Load),
            store: instruction(config, Verb::Store),
            zipf: Zipf::new(inserted.max(2), config.skew),
            keys: config.keys,
            inserted,
            random: Random::new(config.seed ^ 0xDEAD_BEEF),
            budget: Budget::new(config.ops),
            versions: 0,
            seen: BTreeMap::new(),
            updating: BTreeMap::new(),
            modify: vec![None; actors],
            pending: vec![None; actors],
            stale_is_legal: config.cache == CachePolicy::WriteBack && config.hosts > 2,
            reads: 0,
        }
    }

    fn key(&mut self) -> u64 {
        let rank = self.zipf.draw(&mut self.random);
        match self.letter {
            // The latest records are the most popular.
            'D' => self.inserted - 1 - rank.min(self.inserted - 1),
            _ => mix(rank) % self.inserted,
        }
    }

    fn update(&mut self, actor: usize, key: u64) -> Next {
        self.versions += 1;
        *self.updating.entry(key).or_default() += 1;
        self.pending[actor] = Some(key);
        let record = record(key, self.versions, actor as u64);
        let request = Request::write(self.store, key * RECORD, record);
        // Other actors may update the same record meanwhile.
        Next::Issue(Request { exclusive: false, ..request })
    }

    fn examine(&mut self, actor: usize, answer: &Answer<'_>) -> Result<(), Violation> {
        let first = answer.request.address / RECORD;
        for (index, bytes) in answer.bytes.chunks_exact(RECORD as usize).enumerate() {
            let key = first + index as u64;
            let Some(version) = version_of(key, bytes) else {
                return Err(Violation::WrongRecord(key));
            };
            self.reads += 1;
            let seen = self.seen.entry((key, actor)).or_default();
            let disputed = self.updating.contains_key(&key);
            if version < *seen && !disputed && !self.stale_is_legal {
                return Err(Violation::StaleRecord { key, version, seen: *seen });
            }
            *seen = version.max(*seen);
        }
        Ok(())
    }
}

impl Workload for Ycsb {
    fn fill(&mut self, _host: usize, memory: &mut [u8]) {
        for key in 0..self.keys {
            let at = (key * RECORD) as usize;
            memory[at..at + RECORD as usize].copy_from_slice(&record(key, 0, 0));
        }
    }

    fn next(
        &mut self,
        actor: usize,
        _now: u64,
        answer: Option<Answer<'_>>,
    ) -> Result<Next, Violation> {
        if let Some(key) = self.pending[actor].take()
            && let Some(count) = self.updating.get_mut(&key)
        {
            *count -= 1;
            if *count == 0 {
                self.updating.remove(&key);
                // The order of concurrent updates is unknown, so the newest version seen is
                // forgotten.
                let all = self.seen.range((key, 0)..=(key, usize::MAX));
                for at in all.map(|(&at, _)| at).collect::<Vec<_>>() {
                    self.seen.remove(&at);
                }
            }
        }
        if let Some(answer) = answer
            && answer.request.verb == self.load
        {
            self.examine(actor, &answer)?;
        }
        if let Some(key) = self.modify[actor].take() {
            return Ok(self.update(actor, key));
        }
        if !self.budget.take() {
            return Ok(Next::Stop);
        }
        let coin = self.random.below(100);
        let key = self.key();
        let read = |key: u64, count: u64| {
            Next::Issue(Request::read(self.load, key * RECORD, (count * RECORD) as u32))
        };
        Ok(match (self.letter, coin) {
            ('A', 50..) | ('B', 95..) => self.update(actor, key),
            ('D' | 'E', 95..) => {
                self.inserted = (self.inserted + 1).min(self.keys);
                let newest = self.inserted - 1;
                self.update(actor, newest)
            }
            ('E', _) => {
                let count = (1 + self.random.below(100)).min(self.inserted - key);
                Next::Issue(Request::read(self.load, key * RECORD, (count * RECORD) as u32))
            }
            ('F', 50..) => {
                self.modify[actor] = Some(key);
                read(key, 1)
            }
            _ => read(key, 1),
        })
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![("records_checked", self.reads as f64)]
    }
}
