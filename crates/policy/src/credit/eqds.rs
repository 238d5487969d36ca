//! EQDS: the receiver paces its senders, in turn, at the rate of its line.
//!
//! **Control law.** A pacer grants one quantum at a time, and the next one after as long as the
//! last takes on the line, and a sixty-fourth more so that queues drain. Senders are in three
//! lists, the first that is not empty is served, from its front, and a sender that wants more goes
//! to the end:
//!
//! ```text
//! resend   something was lost, or it waits although it was granted everything: one quantum (or, to
//!          the second, the running total once more), then active
//! active   it wants more than it was granted
//! idle     it wants nothing: up to `ahead` bytes, for its next message
//! ```
//!
//! A sender that has not used credit of two windows, or of two round trips of the line if that is
//! more, is left out until data comes: its own line is busy, and the others can use the time. The
//! round trip is measured from the first credit of a flow to the data that it calls for. What
//! arrives without credit (from other senders' speculative windows, or from those that need none)
//! takes time of the line, too, so the pacer waits that long; but for the first window after an
//! idle time, while which the first credit and the data it calls for are on their way.
//!
//! **Source:** Olteanu et al., *An edge-queued datagram service for all datacenter traffic* (EQDS),
//! NSDI 2022, §3; the lists are UCCL's (appendix B). A window of 256 KiB is the bandwidth-delay
//! product of 100 Gb/s and 20 us; the quantum is UCCL's chunk.
//!
//! **Where this differs:**
//! * EQDS lets switches trim packets, and a trimmed packet puts its sender on the first list at
//!   once. Here, as in UCCL, a loss is found by the sender, which says so.
//! * EQDS counts what arrives without credit by letting its queues fill; here the pacer waits, so
//!   that a flow with credit takes what other traffic leaves of the line, as in SCR's Fig. 20.

use alloc::boxed::Box;
use alloc::vec;
use fairway_wire::{Duration, Instant};

use super::account::Account;
use super::lists::Lists;
use super::{Credit, CreditPolicy, CreditRequest, CreditSenderParameters, SourceId, time_of};
use crate::chunk::CHUNK_BYTES;

const RESEND: usize = 0;
const ACTIVE: usize = 1;
const IDLE: usize = 2;

/// A pacer that is asked late makes up for so much time.
const CATCH_UP: Duration = Duration::from_us(100);
/// One part in so many of the line is not granted, so that queues drain.
const DRAIN_PART: u64 = 64;
/// Credit that a sender may have without using it, in windows or round trips of the line.
const UNUSED_WINDOWS: u64 = 2;

/// What can be set about EQDS, at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EqdsParameters {
    /// The receiver's line in bits per second; not zero.
    pub line_bits: u64,
    /// What is granted at a time; not zero.
    pub quantum_bytes: u64,
    /// The bandwidth-delay product: what a flow may send without credit when it starts.
    pub window_bytes: u64,
    /// What a sender that wants nothing is granted.
    pub ahead_bytes: u64,
    /// The most that a sender has in flight.
    pub max_bytes: u64,
    /// Time without credit after which a sender asks again.
    pub timeout: Duration,
}

impl Default for EqdsParameters {
    fn default() -> Self {
        EqdsParameters {
            line_bits: 100_000_000_000,
            quantum_bytes: u64::from(CHUNK_BYTES),
            window_bytes: 256 * 1024,
            ahead_bytes: 0,
            max_bytes: 8 * 1024 * 1024,
            timeout: Duration::from_us(500),
        }
    }
}

impl EqdsParameters {
    /// Those of the sender.
    pub fn sender(&self) -> CreditSenderParameters {
        CreditSenderParameters {
            speculative_bytes: self.window_bytes,
            max_bytes: self.max_bytes,
            quantum_bytes: self.quantum_bytes,
            ahead_bytes: self.ahead_bytes,
            timeout: self.timeout,
        }
    }
}

/// The round trip from credit to the data that it calls for, measured once per flow.
#[derive(Clone, Copy, Debug, Default)]
struct CreditLoop {
    /// The flow has had no credit yet.
    is_new: bool,
    /// When the first whole quantum was granted, and how much of it has not been used.
    pending: Option<(Instant, u64)>,
    round_trip: Duration,
}

impl CreditLoop {
    fn granted(&mut self, now: Instant, bytes: u64, quantum_bytes: u64) {
        if bytes == quantum_bytes && core::mem::take(&mut self.is_new) {
            self.pending = Some((now, bytes));
        }
    }

    fn used(&mut self, now: Instant, bytes: u64) {
        if let Some((granted_at, left)) = &mut self.pending {
            *left = left.saturating_sub(bytes);
            if *left == 0 {
                self.round_trip = now.elapsed_since(*granted_at);
                self.pending = None;
            }
        }
    }
}

/// The pacer at the receiver.
#[derive(Debug)]
pub struct Eqds {
    parameters: EqdsParameters,
    accounts: Box<[Account]>,
    /// By sender, as `accounts`.
    loops: Box<[CreditLoop]>,
    lists: Lists<3>,
    /// When the line has time for the next quantum; `None` before the first.
    next_at: Option<Instant>,
    /// What may still arrive without credit before the pacer waits for it.
    overlap: u64,
}

impl Eqds {
    /// The name under which it is chosen.
    pub const NAME: &'static str = "eqds";

    /// For so many senders.
    pub fn new(parameters: EqdsParameters, sources: u32) -> Eqds {
        Eqds {
            parameters: EqdsParameters {
                line_bits: parameters.line_bits.max(8),
                quantum_bytes: parameters.quantum_bytes.clamp(1, u64::from(u32::MAX)),
                ..parameters
            },
            accounts: vec![Account::default(); sources as usize].into_boxed_slice(),
            loops: vec![CreditLoop::default(); sources as usize].into_boxed_slice(),
            lists: Lists::new(sources),
            next_at: None,
            overlap: parameters.window_bytes,
        }
    }

    /// No sender is on a list.
    fn is_empty(&self) -> bool {
        (RESEND..=IDLE).all(|list| self.lists.first(list).is_none())
    }

    /// Puts a sender on the list where it belongs; in the first of them it stays until it is
    /// served.
    fn sort(&mut self, source: SourceId, resend: bool) {
        let account = &self.accounts[source.index()];
        let quantum = account.owed().min(self.parameters.quantum_bytes);
        let product = self.product_bytes(self.loops[source.index()].round_trip);
        let window = self.parameters.window_bytes.max(product.min(self.parameters.max_bytes));
        let most = (UNUSED_WINDOWS * window).max(quantum);
        let list = if account.has_missed() {
            Some(RESEND)
        } else if account.owed() > 0 && account.outstanding() + quantum > most {
            None
        } else if account.owed() > 0 {
            let first = resend || self.lists.list_of(source) == Some(RESEND);
            Some(if first { RESEND } else { ACTIVE })
        } else {
            (account.ahead() < self.parameters.ahead_bytes).then_some(IDLE)
        };
        self.lists.place(source, list);
    }

    /// What the line carries in `time`.
    fn product_bytes(&self, time: Duration) -> u64 {
        let bits = u128::from(time.as_ps()) * u128::from(self.parameters.line_bits);
        u64::try_from(bits / 8 / 1_000_000_000_000).unwrap_or(u64::MAX)
    }

    /// When the line is free, if time is made up for since `earliest`.
    fn free_at(&self, earliest: Instant) -> Instant {
        self.next_at.map_or(earliest, |at| at.max(earliest))
    }

    /// The line is busy for as long as `bytes` take, from `start` on.
    fn occupy(&mut self, start: Instant, bytes: u64) {
        let drain = bytes / DRAIN_PART;
        self.next_at = Some(start + time_of(bytes + drain, self.parameters.line_bits));
    }
}

impl CreditPolicy for Eqds {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn announced(&mut self, now: Instant, source: SourceId, credit_request: &CreditRequest) {
        let was_empty = self.is_empty();
        let Some(account) = self.accounts.get_mut(source.index()) else { return };
        let had_none = account.remaining() == 0;
        account.announced(credit_request, self.parameters.window_bytes);
        self.loops[source.index()].is_new |= had_none && account.remaining() > 0;
        self.sort(source, credit_request.resend);
        if was_empty {
            // No time is made up for in which no sender wanted credit.
            self.next_at = Some(self.free_at(now));
        }
    }

    fn on_data(&mut self, now: Instant, source: SourceId, bytes: u32) {
        let uncalled = match self.accounts.get_mut(source.index()) {
            Some(account) => {
                let before = account.outstanding();
                let uncalled = account.arrived(bytes);
                self.loops[source.index()].used(now, before - account.outstanding());
                uncalled
            }
            None => u64::from(bytes),
        };
        let overlap = uncalled.min(self.overlap);
        self.overlap -= overlap;
        if uncalled > overlap {
            let earliest = if self.is_empty() { now } else { now - CATCH_UP };
            self.occupy(self.free_at(earliest), uncalled - overlap);
        }
        if source.index() < self.accounts.len() && self.lists.list_of(source).is_none() {
            self.sort(source, false);
        }
    }

    fn source_gone(&mut self, _now: Instant, source: SourceId) {
        if let Some(account) = self.accounts.get_mut(source.index()) {
            *account = Account::default();
            self.loops[source.index()] = CreditLoop::default();
            self.lists.place(source, None);
        }
    }

    fn poll_credit(&mut self, now: Instant) -> Option<Credit> {
        if self.next_at.is_some_and(|at| now.is_before(at)) {
            return None;
        }
        let Some(list) = (RESEND..=IDLE).find(|list| self.lists.first(*list).is_some()) else {
            self.overlap = self.parameters.window_bytes;
            return None;
        };
        let source = self.lists.first(list)?;
        let account = &mut self.accounts[source.index()];
        let most = match list {
            IDLE => self.parameters.ahead_bytes - account.ahead(),
            _ => account.owed(),
        };
        let bytes = most.min(self.parameters.quantum_bytes) as u32;
        account.grant(bytes);
        let quantum_bytes = self.parameters.quantum_bytes;
        self.loops[source.index()].granted(now, u64::from(bytes), quantum_bytes);
        self.occupy(self.free_at(now - CATCH_UP), u64::from(bytes));
        // To the end of its list, or of another: from the first one to the second at least.
        self.lists.place(source, (list != RESEND).then_some(list));
        self.lists.send_back(source);
        self.sort(source, false);
        Some(Credit { source, bytes })
    }

    fn poll_at(&self) -> Option<Instant> {
        self.next_at.filter(|_| !self.is_empty())
    }
}

#[cfg(test)]
mod tests;
