//! Workloads, which issue operations on real data and check their results.

mod contention;
mod fanout;
mod share;
mod structures;
mod sweeps;
mod ycsb;

use crate::config::{Config, Verb, WorkloadKind};
use crate::error::Violation;
use crate::random::mix;

/// An operation that an actor requests.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    /// First byte in the target's exposed memory.
    pub(crate) address: u64,
    pub(crate) length: u32,
    pub(crate) operand: u64,
    pub(crate) compare: u64,
    /// Bytes to be sent.
    pub(crate) data: Vec<u8>,
    /// True if no other operation writes there meanwhile, so that the target's memory can be
    /// compared on completion.
    pub(crate) exclusive: bool,
    /// True for a load that bypasses the caches, or a store that does not stay in them: the cost
    /// that applications bear where caches are not coherent.
    pub(crate) fresh: bool,
}

impl Request {
    pub(crate) fn read(verb: Verb, address: u64, length: u32) -> Request {
        let (data, exclusive, fresh) = (Vec::new(), false, false);
        Request { verb, address, length, operand: 0, compare: 0, data, exclusive, fresh }
    }

    pub(crate) fn write(verb: Verb, address: u64, data: Vec<u8>) -> Request {
        let length = data.len() as u32;
        let (exclusive, fresh) = (true, false);
        Request { verb, address, length, operand: 0, compare: 0, data, exclusive, fresh }
    }

    pub(crate) fn atomic(verb: Verb, address: u64, operand: u64, compare: u64) -> Request {
        let (data, exclusive, fresh) = (Vec::new(), false, false);
        Request { verb, address, length: 8, operand, compare, data, exclusive, fresh }
    }
}

/// An actor's next action.
#[derive(Debug)]
pub(crate) enum Next {
    Issue(Request),
    /// Waits for this many picoseconds.
    Wait(u64),
    /// Waits until the workload wakes the actor.
    Park,
    Stop,
}

/// The result of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) request: &'a Request,
    pub(crate) bytes: &'a [u8],
    /// The old value of an atomic.
    pub(crate) value: u64,
}

/// A workload: actors that each do one operation after the other.
pub(crate) trait Workload {
    /// Initializes the memory that a host exposes.
    fn fill(&mut self, host: usize, memory: &mut [u8]);
    /// Returns an actor's next action, given the response to its previous request.
    fn next(
        &mut self,
        actor: usize,
        now: u64,
        answer: Option<Answer<'_>>,
    ) -> Result<Next, Violation>;
    /// Handles a message that a member of a service has processed.
    fn handled(&mut self, _now: u64, _member: u32, _bytes: &[u8]) -> Result<(), Violation> {
        Ok(())
    }
    /// True if the workload has obtained all its results.
    fn is_over(&self) -> bool {
        true
    }
    /// Returns the actors that were parked and may continue.
    fn take_woken(&mut self) -> Vec<usize> {
        Vec::new()
    }
    /// Checks the target's memory at the end of the run.
    fn check(&self, _host: usize, _memory: &[u8]) -> Result<(), Violation> {
        Ok(())
    }
    /// Returns the figures specific to this workload, by name.
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// Makes the workload of a run with `actors` actors on all initiating hosts.
pub(crate) fn make(config: &Config, actors: usize) -> Box<dyn Workload> {
    match config.workload {
        WorkloadKind::Bulk | WorkloadKind::Incast => Box::new(sweeps::Bulk::new(config, actors)),
        WorkloadKind::Search => Box::new(structures::Search::new(config)),
        WorkloadKind::Probe => Box::new(structures::Probe::new(config, actors)),
        WorkloadKind::PointerChase => Box::new(sweeps::Chase::new(config, actors)),
        WorkloadKind::Zipf => Box::new(sweeps::ZipfRead::new(config, actors)),
        WorkloadKind::Scan { dirty } => Box::new(sweeps::Scan::new(config, actors, dirty)),
        WorkloadKind::Share { reads, fenced } => {
            Box::new(share::Share::new(config, actors, reads, fenced))
        }
        WorkloadKind::CasLock => Box::new(contention::Lock::new(config, actors)),
        WorkloadKind::Barrier => Box::new(contention::Barrier::new(config, actors)),
        WorkloadKind::Fanout { .. } => Box::new(fanout::Fanout::new(config)),
        WorkloadKind::Setup => unreachable!("set-up is no workload of operations"),
        WorkloadKind::Ycsb(letter) => Box::new(ycsb::Ycsb::new(config, actors, letter)),
    }
}

/// Returns the word at `address` of every host before the first write.
pub(crate) fn word(address: u64) -> u64 {
    mix(address / 8 + 1)
}

/// Fills memory with [`word`]s.
pub(crate) fn fill_words(memory: &mut [u8]) {
    for (index, chunk) in memory.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&word(index as u64 * 8).to_le_bytes());
    }
}

/// True if these are the bytes at `address` before the first write.
pub(crate) fn is_untouched(address: u64, bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(index, &byte)| {
        let at = address + index as u64;
        byte == word(at & !7).to_le_bytes()[(at % 8) as usize]
    })
}

/// Returns the first word of some bytes.
pub(crate) fn first_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let length = bytes.len().min(8);
    word[..length].copy_from_slice(&bytes[..length]);
    u64::from_le_bytes(word)
}

/// Number of operations still to be done.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
}

impl Budget {
    pub(crate) fn new(operations: u64) -> Budget {
        Budget { left: operations }
    }

    /// Takes one operation from the budget. Returns false if none was left.
    pub(crate) fn take(&mut self) -> bool {
        let some = self.left > 0;
        self.left -= u64::from(some);
        some
    }
}
