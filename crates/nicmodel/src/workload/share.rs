//! One writer and many readers of the same lines: the cost of reading the newest version.
//!
//! In each round, the writer changes the next line, and when its store is done every reader reads
//! that line a fixed number of times. The workload itself separates the rounds, at no cost, so that
//! at every change all readers have read the line. An actor that reads an older version than was
//! published has read a stale line; where every access reaches the newest version, that ends the
//! run.

use super::sweeps::instruction;
use super::{Answer, Next, Request, Workload, first_word, word};
use crate::config::{CachePolicy, Config, Stack, Verb};
use crate::error::Violation;

pub(crate) struct Share {
    load: Verb,
    store: Verb,
    lines: u64,
    rounds: u64,
    reads: u32,
    fenced: bool,
    /// True if every read has to return the newest version.
    newest: bool,
    round: u64,
    /// Version of each line that was published last.
    versions: Vec<u64>,
    /// By actor: its remaining reads in this round, and when its operation began. The first actor
    /// writes.
    left: Vec<u32>,
    began: Vec<u64>,
    reading: usize,
    is_writing: bool,
    woken: Vec<usize>,
    write_ps: Vec<u64>,
    first_ps: Vec<u64>,
    again_ps: Vec<u64>,
    stale: u64,
    round_began: u64,
    round_ps: u64,
}

impl Share {
    pub(crate) fn new(config: &Config, actors: usize, reads: u32, fenced: bool) -> Share {
        let caches = config.stack == Stack::UbLdst && config.cache != CachePolicy::Uncached;
        Share {
            load: instruction(config, Verb::Load),
            store: instruction(config, Verb::Store),
            lines: config.keys,
            rounds: config.ops.div_ceil(1 + u64::from(reads) * (actors as u64 - 1)).max(1),
            reads,
            fenced,
            newest: fenced || !caches,
            round: 0,
            versions: vec![0; config.keys as usize],
            left: vec![0; actors],
            began: vec![0; actors],
            reading: 0,
            is_writing: false,
            woken: Vec::new(),
            write_ps: Vec::new(),
            first_ps: Vec::new(),
            again_ps: Vec::new(),
            stale: 0,
            round_began: 0,
            round_ps: 0,
        }
    }

    fn line(&self) -> u64 {
        self.round % self.lines
    }

    fn content(line: u64, version: u64) -> Vec<u8> {
        let words = [version, word(version << 8 | line), !version];
        (0..8).flat_map(|index| words[index % 3].to_le_bytes()).collect()
    }

    fn write(&mut self, now: u64) -> Next {
        if self.round == self.rounds {
            self.woken.extend(1..self.left.len());
            return Next::Stop;
        }
        if self.round == 0 {
            self.round_began = now;
        }
        self.is_writing = true;
        self.began[0] = now;
        let line = self.line();
        let content = Share::content(line, self.versions[line as usize] + 1);
        let request = Request::write(self.store, line * 64, content);
        Next::Issue(Request { fresh: self.fenced, ..request })
    }

    fn published(&mut self, now: u64) -> Next {
        self.is_writing = false;
        self.write_ps.push(now - self.began[0]);
        let line = self.line() as usize;
        self.versions[line] += 1;
        self.reading = self.left.len() - 1;
        self.left[1..].fill(self.reads);
        self.woken.extend(1..self.left.len());
        Next::Park
    }

    fn read(&mut self, actor: usize, now: u64) -> Next {
        if self.round == self.rounds {
            return Next::Stop;
        }
        if self.left[actor] == 0 {
            return Next::Park;
        }
        self.began[actor] = now;
        let request = Request::read(self.load, self.line() * 64, 64);
        Next::Issue(Request { fresh: self.fenced, ..request })
    }

    fn examine(&mut self, actor: usize, now: u64, bytes: &[u8]) -> Result<(), Violation> {
        let line = self.line();
        let (version, newest) = (first_word(bytes), self.versions[line as usize]);
        if version > newest || bytes != Share::content(line, version) {
            return Err(Violation::UnknownVersion(line));
        }
        if version < newest {
            self.stale += 1;
            if self.newest {
                return Err(Violation::StaleLine { actor, version, line, newest });
            }
        }
        let first = self.left[actor] == self.reads;
        let spans = if first { &mut self.first_ps } else { &mut self.again_ps };
        spans.push(now - self.began[actor]);
        self.left[actor] -= 1;
        if self.left[actor] == 0 {
            self.reading -= 1;
            if self.reading == 0 {
                self.round += 1;
                self.round_ps = now - self.round_began;
                self.woken.push(0);
            }
        }
        Ok(())
    }
}

impl Workload for Share {
    fn fill(&mut self, _host: usize, memory: &mut [u8]) {
        for line in 0..self.lines {
            let at = line as usize * 64;
            memory[at..at + 64].copy_from_slice(&Share::content(line, 0));
        }
    }

    fn next(
        &mut self,
        actor: usize,
        now: u64,
        answer: Option<Answer<'_>>,
    ) -> Result<Next, Violation> {
        match (actor, answer) {
            (0, Some(_)) => Ok(self.published(now)),
            (0, None) => Ok(self.write(now)),
            (_, Some(answer)) => {
                self.examine(actor, now, answer.bytes)?;
                Ok(self.read(actor, now))
            }
            (_, None) => Ok(self.read(actor, now)),
        }
    }

    fn take_woken(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.woken)
    }

    fn check(&self, host: usize, memory: &[u8]) -> Result<(), Violation> {
        for (line, &version) in self.versions.iter().enumerate().filter(|_| host == 1) {
            if memory[line * 64..line * 64 + 64] != Share::content(line as u64, version) {
                return Err(Violation::WrongLine(line as u64));
            }
        }
        Ok(())
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        let mean =
            |spans: &[u64]| spans.iter().sum::<u64>() as f64 / spans.len().max(1) as f64 / 1000.0;
        let rounds = self.round.max(1) as f64;
        vec![
            ("rounds", self.round as f64),
            ("round_mean_ns", self.round_ps as f64 / rounds / 1000.0),
            ("write_mean_ns", mean(&self.write_ps)),
            ("first_read_mean_ns", mean(&self.first_ps)),
            ("read_again_mean_ns", mean(&self.again_ps)),
            ("stale_reads", self.stale as f64),
        ]
    }
}
