//! Homa: the receiver grants first to the senders with the least data left to send.
//!
//! **Control law.** Of all senders that have requested more than they were granted, the
//! `overcommit` with the fewest bytes left may each have one window of unused credit. Data that
//! arrives uses credit, and so triggers the next grant: there is no pacer. One grant in twenty goes
//! to the sender that has waited longest, so that a long message is not delayed for ever.
//!
//! **Classes.** Of the seven classes of data, the highest are for unscheduled bytes: a message of
//! at most `cut1` bytes has class 6, one of at most `cut2` the next, and so on; a longer one has
//! the class below those. The classes that are left are for granted data. The `n` senders with the
//! fewest bytes left have the lowest `n` of them, the shortest the highest of these, so that a
//! shorter message which comes next finds a higher class unused. Senders beyond the number of
//! classes, and grants to the one that has waited longest, have class 0.
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
//! * The cut-offs are parameters. Homa's receivers derive them, and the number of unscheduled
//!   classes, from the sizes of the messages that they have received (§3.4): each class carries as
//!   many unscheduled bytes as the others. The defaults are those of the simulator's workload
//!   `hadoop` with a window of 256 KiB, rounded.
//! * Acknowledgements and grants have a class above all data. Homa's control packets share the
//!   highest class with the shortest messages.
//! * A sender does not order its own packets by the bytes left of their messages.

use alloc::boxed::Box;
use alloc::vec;
use fairway_wire::{Duration, Instant};

use super::account::Account;
use super::lists::Lists;
use super::{
    Credit, CreditPolicy, CreditRequest, CreditSenderParameters, DATA_CLASSES, SourceId,
    UnscheduledClasses,
};

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
    /// Senders that have grants at the same time, 1 to 64; 0 for as many as there are classes for
    /// granted data.
    pub overcommit: u64,
    /// Largest messages, in bytes, whose unscheduled bytes have class 6, 5 and 4, ascending; 0 for
    /// one class less.
    pub cutoffs: [u64; 3],
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
            overcommit: 0,
            cutoffs: [64 * 1024, 512 * 1024, 0],
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
            classes: UnscheduledClasses::new(self.cutoffs),
        }
    }

    /// Number of classes for granted data: the lowest ones.
    fn scheduled_classes(&self) -> u8 {
        DATA_CLASSES - UnscheduledClasses::new(self.cutoffs).count()
    }
}

/// The Homa policy at the receiver.
#[derive(Debug)]
pub struct Homa {
    parameters: HomaParameters,
    /// Number of classes for granted data.
    classes: u8,
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
        let classes = parameters.scheduled_classes();
        let overcommit = match parameters.overcommit {
            0 => u64::from(classes),
            number => number.min(OVERCOMMIT_MAX as u64),
        };
        Homa {
            classes,
            parameters: HomaParameters {
                quantum_bytes,
                window_bytes: parameters.window_bytes.max(quantum_bytes),
                overcommit,
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

    /// Of the senders with the least left, the first that can be granted something, and the class
    /// of its data.
    fn shortest(&self) -> Option<(SourceId, u8)> {
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
        let count = least.partition_point(|(left, _)| *left < u64::MAX);
        let ranked = least[..count].iter().map(|(_, source)| *source).enumerate();
        let mut found = ranked.filter(|(_, source)| self.grantable(*source).is_some());
        found.next().map(|(rank, source)| (source, self.class(rank, count)))
    }

    /// The class of the data of the sender with this rank among `count` senders; the shortest has
    /// rank 0.
    fn class(&self, rank: usize, count: usize) -> u8 {
        let used = count.min(usize::from(self.classes));
        used.saturating_sub(1 + rank) as u8
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
        let oldest = oldest.map(|source| (source, 0));
        let Some((source, class)) = oldest.or_else(|| self.shortest()) else {
            self.changed = false;
            return None;
        };
        let bytes = self.grantable(source)?;
        self.accounts[source.index()].grant(bytes);
        self.grants = (self.grants + 1) % GRANTS_PER_OLDEST;
        self.sort(source);
        Some(Credit { source, bytes, class })
    }

    /// Only arriving data and requests trigger grants.
    fn poll_at(&self) -> Option<Instant> {
        None
    }
}

#[cfg(test)]
mod tests;
