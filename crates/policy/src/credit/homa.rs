//! Homa: the receiver grants first to the senders with the least data left to send.
//!
//! **Control law.** Of all senders that have requested more than they were granted, the
//! `overcommit` with the fewest bytes left may each have one window of unused credit. Data that
//! arrives uses credit, and so triggers the next grant: there is no pacer. One grant in twenty goes
//! to the sender that has waited longest, so that a long message is not delayed for ever.
//!
//! **Source:** Montazeri et al., *Homa: a receiver-driven low-latency transport protocol using
//! network priorities*, SIGCOMM 2018, §3.3–§3.5: RTTbytes unscheduled and granted, shortest
//! remaining first, overcommitment by the number of priority levels, of which Homa has eight. The
//! share of the oldest is that of its implementation for Linux (Ousterhout, USENIX ATC 2021). A
//! window of 256 KiB is the bandwidth-delay product of 100 Gb/s and 20 us.
//!
//! **Where this differs:**
//! * A sender is a channel, and its remaining bytes are all that wait on the channel, not one
//!   message.
//! * There are no network priorities, so short messages do not overtake others in the switches as
//!   they do in Homa.

use alloc::boxed::Box;
use alloc::vec;
use fairway_wire::{Duration, Instant};

use super::account::Account;
use super::lists::Lists;
use super::{Credit, CreditPolicy, CreditRequest, CreditSenderParameters, SourceId};

/// The list of senders that have requested more than they were granted.
const WANTING: usize = 0;
/// One grant in this many goes to the sender that has waited longest.
const GRANTS_PER_OLDEST: u32 = 20;
/// Largest value of `overcommit`.
const OVERCOMMIT_MAX: usize = 64;

/// Parameters of Homa, for both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HomaParameters {
    /// The bandwidth-delay product (RTTbytes): bytes that a flow may send without a grant when it
    /// starts, and that it is granted ahead of arriving data.
    pub window_bytes: u64,
    /// Most bytes granted at a time; not zero.
    pub quantum_bytes: u64,
    /// Senders that have grants at the same time, 1 to 64.
    pub overcommit: u64,
    /// Most bytes that a sender has in flight.
    pub max_bytes: u64,
    /// Time without a grant after which a sender repeats its request.
    pub timeout: Duration,
}

impl Default for HomaParameters {
    fn default() -> Self {
        HomaParameters {
            window_bytes: 256 * 1024,
            quantum_bytes: 16 * 1024,
            overcommit: 8,
            max_bytes: 8 * 1024 * 1024,
            timeout: Duration::from_us(500),
        }
    }
}

impl HomaParameters {
    /// Parameters of the sender's half.
    pub fn sender(&self) -> CreditSenderParameters {
        CreditSenderParameters {
            speculative_bytes: self.window_bytes,
            max_bytes: self.max_bytes,
            quantum_bytes: self.quantum_bytes,
            ahead_bytes: 0,
            timeout: self.timeout,
        }
    }
}

/// The Homa policy at the receiver.
#[derive(Debug)]
pub struct Homa {
    parameters: HomaParameters,
    accounts: Box<[Account]>,
    /// The senders that have requested more, in the order of waiting time, longest first.
    lists: Lists<1>,
    /// True if something has happened since no grant was possible.
    changed: bool,
    grants: u32,
}

impl Homa {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "homa";

    /// Creates the policy for `sources` senders.
    pub fn new(parameters: HomaParameters, sources: u32) -> Homa {
        let quantum_bytes = parameters.quantum_bytes.clamp(1, u64::from(u32::MAX));
        Homa {
            parameters: HomaParameters {
                quantum_bytes,
                window_bytes: parameters.window_bytes.max(quantum_bytes),
                overcommit: parameters.overcommit.clamp(1, OVERCOMMIT_MAX as u64),
                ..parameters
            },
            accounts: vec![Account::default(); sources as usize].into_boxed_slice(),
            lists: Lists::new(sources),
            changed: false,
            grants: 0,
        }
    }

    fn sort(&mut self, source: SourceId) {
        let account = &self.accounts[source.index()];
        let wants = account.owed() > 0 || account.has_missed();
        self.lists.place(source, wants.then_some(WANTING));
        self.changed = true;
    }

    /// Bytes that a sender may be granted now; `None` if it has enough credit.
    fn grantable(&self, source: SourceId) -> Option<u32> {
        let account = &self.accounts[source.index()];
        let bytes = account.owed().min(self.parameters.quantum_bytes);
        let fits = account.outstanding() + bytes <= self.parameters.window_bytes;
        (account.has_missed() || bytes > 0 && fits).then_some(bytes as u32)
    }

    /// Of the senders with the least left, the first that can be granted something.
    fn shortest(&self) -> Option<SourceId> {
        let mut least = [(u64::MAX, SourceId(u32::MAX)); OVERCOMMIT_MAX];
        let least = &mut least[..self.parameters.overcommit as usize];
        for source in self.lists.iter(WANTING) {
            let entry = (self.accounts[source.index()].remaining(), source);
            // Senders with equal amounts keep the order in which they requested.
            let at = least.partition_point(|other| other.0 <= entry.0);
            if at < least.len() {
                least[at..].rotate_right(1);
                least[at] = entry;
            }
        }
        let found = least.iter().filter(|(left, _)| *left < u64::MAX).map(|(_, source)| *source);
        let mut found = found.filter(|source| self.grantable(*source).is_some());
        found.next()
    }
}

impl CreditPolicy for Homa {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn announced(&mut self, _now: Instant, source: SourceId, credit_request: &CreditRequest) {
        if let Some(account) = self.accounts.get_mut(source.index()) {
            account.announced(credit_request, self.parameters.window_bytes);
            self.sort(source);
        }
    }

    fn on_data(&mut self, _now: Instant, source: SourceId, bytes: u32) {
        if let Some(account) = self.accounts.get_mut(source.index()) {
            account.arrived(bytes);
            // The remaining bytes have changed, and perhaps the sender with the least.
            self.changed = true;
        }
    }

    fn source_gone(&mut self, _now: Instant, source: SourceId) {
        if let Some(account) = self.accounts.get_mut(source.index()) {
            *account = Account::default();
            self.sort(source);
        }
    }

    fn poll_credit(&mut self, _now: Instant) -> Option<Credit> {
        if !self.changed {
            return None;
        }
        let oldest = self.lists.first(WANTING).filter(|_| self.grants == 0);
        let oldest = oldest.filter(|source| self.grantable(*source).is_some());
        let Some(source) = oldest.or_else(|| self.shortest()) else {
            self.changed = false;
            return None;
        };
        let bytes = self.grantable(source)?;
        self.accounts[source.index()].grant(bytes);
        self.grants = (self.grants + 1) % GRANTS_PER_OLDEST;
        self.sort(source);
        Some(Credit { source, bytes })
    }

    /// Only arriving data and requests trigger grants.
    fn poll_at(&self) -> Option<Instant> {
        None
    }
}

#[cfg(test)]
mod tests;
