//! The registers through which a scheduler sets what flows may send.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::FlowId;

/// Flows for which one word holds a bit each.
const WORD: usize = 64;

/// The dequeue rates of all flows, in bytes per second, and their quanta. The protocol reads them
/// before it sends; another thread may write them.
#[derive(Debug)]
pub struct RateRegisters {
    rates: Box<[AtomicU64]>,
    quanta: Box<[AtomicU32]>,
    /// A bit for each flow whose rate was raised.
    raised: Box<[AtomicU64]>,
    /// Bit `n` is set if one of the words `n`, `n + 64`, `n + 128` and so on of `raised` may not be
    /// zero.
    raised_words: AtomicU64,
}

impl RateRegisters {
    /// The rate that stands for no limit.
    pub const UNLIMITED: u64 = u64::MAX;

    /// Creates registers for `flows` flows, all without limit.
    pub fn new(flows: u32) -> RateRegisters {
        let words = (flows as usize).div_ceil(WORD);
        RateRegisters {
            rates: (0..flows).map(|_| AtomicU64::new(Self::UNLIMITED)).collect(),
            quanta: (0..flows).map(|_| AtomicU32::new(0)).collect(),
            raised: (0..words).map(|_| AtomicU64::new(0)).collect(),
            raised_words: AtomicU64::new(0),
        }
    }

    /// The rate of a flow; [`Self::UNLIMITED`] for a flow that does not exist.
    pub fn get(&self, flow: FlowId) -> u64 {
        self.rates.get(flow.index()).map_or(Self::UNLIMITED, |rate| rate.load(Ordering::Relaxed))
    }

    /// Sets the rate of a flow. Zero is taken as one byte per second, so that no flow stops for
    /// ever. A higher rate than before is announced ([`Self::pop_raised`]).
    pub fn set(&self, flow: FlowId, bytes_per_second: u64) {
        let Some(rate) = self.rates.get(flow.index()) else { return };
        let new = bytes_per_second.max(1);
        let old = rate.load(Ordering::Relaxed);
        rate.store(new, Ordering::Relaxed);
        if new > old {
            let word = flow.index() / WORD;
            self.raised[word].fetch_or(1 << (flow.index() % WORD), Ordering::Release);
            self.raised_words.fetch_or(1 << (word % WORD), Ordering::Release);
        }
    }

    /// True if [`Self::pop_raised`] may return a flow.
    #[inline]
    pub fn has_raised(&self) -> bool {
        self.raised_words.load(Ordering::Relaxed) != 0
    }

    /// Returns a flow whose rate was raised since this last returned it. The protocol, which is the
    /// only caller, lets it send as soon as the new rate permits.
    #[inline]
    pub fn pop_raised(&self) -> Option<FlowId> {
        if self.has_raised() { self.find_raised() } else { None }
    }

    fn find_raised(&self) -> Option<FlowId> {
        loop {
            let words = self.raised_words.load(Ordering::Relaxed);
            if words == 0 {
                return None;
            }
            let first = words.trailing_zeros() as usize;
            // Cleared before the words are read, so that what is raised from now on is announced.
            self.raised_words.fetch_and(!(1 << first), Ordering::Acquire);
            for word in (first..self.raised.len()).step_by(WORD) {
                let bits = self.raised[word].load(Ordering::Acquire);
                if bits == 0 {
                    continue;
                }
                let bit = bits.trailing_zeros();
                self.raised[word].fetch_and(!(1 << bit), Ordering::Acquire);
                // There may be more in this word, and in those after it.
                self.raised_words.fetch_or(1 << first, Ordering::Relaxed);
                return Some(FlowId((word * WORD) as u32 + bit));
            }
        }
    }

    /// The quantum of a flow in bytes, if there are quanta
    /// ([`Scheduler::quantum_bytes`](super::Scheduler::quantum_bytes)).
    pub fn quantum(&self, flow: FlowId) -> Option<u32> {
        let quantum = self.quanta.get(flow.index())?.load(Ordering::Relaxed);
        (quantum > 0).then_some(quantum)
    }

    /// Sets the quantum of a flow. Called by the code that runs a scheduler, when a flow has
    /// started or its share was changed.
    pub fn set_quantum(&self, flow: FlowId, bytes: Option<u32>) {
        if let Some(quantum) = self.quanta.get(flow.index()) {
            quantum.store(bytes.map_or(0, |bytes| bytes.max(1)), Ordering::Relaxed);
        }
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        self.rates.len()
    }

    /// True if there are no flows.
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty()
    }
}

#[cfg(test)]
mod tests;
