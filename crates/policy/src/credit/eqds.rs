//! EQDS: the receiver grants credit to its senders in turn, paced at the rate of its line.
//!
//! **Control law.** A pacer grants one quantum at a time. The next grant follows after the time
//! that the quantum takes on the line and a sixty-fourth of it more, so that queues drain. Senders
//! are in three lists. The first sender of the first list that is not empty is served, and goes to
//! the end if it needs more:
//!
//! ```text
//! resend   data was lost, or the sender waits although everything was granted: one quantum (or, in
//!          the second case, the running total once more), then active
//! active   the sender has requested more than it was granted
//! idle     the sender has requested nothing: up to `ahead` bytes, for its next message
//! ```
//!
//! A sender that has not used credit of two windows, or of two round trips of the line if that is
//! more, is left out until data arrives: its own line is busy, and the others can use the time. The
//! round trip is measured from the first credit of a flow to the data that it triggers. Data that
//! arrives without credit (from the speculative windows of other senders, or from senders that use
//! no credit) also takes time of the line, so the pacer waits that long. The exception is the first
//! window after an idle time, because the first credit and the data that it triggers are then still
//! under way.
//!
//! **Source:** Olteanu et al., *An edge-queued datagram service for all datacenter traffic* (EQDS),
//! NSDI 2022, §3; the lists are UCCL's (appendix B). A window of 256 KiB is the bandwidth-delay
//! product of 100 Gb/s and 20 us; the quantum is UCCL's chunk.
//!
//! **Where this differs:**
//! * In EQDS, switches trim packets, and a trimmed packet puts its sender on the first list at
//!   once. Here, as in UCCL, the sender detects a loss and reports it.
//! * EQDS accounts for data that arrives without credit by letting its queues fill. Here the pacer
//!   waits, so that a flow with credit takes what other traffic leaves of the line, as in SCR's
//!   Fig. 20.

use alloc::boxed::Box;
use alloc::vec;
use fairway_wire::{Duration, Instant};

use super::account::Account;
use super::lists::Lists;
use super::{
    Credit, CreditPolicy, CreditRequest, CreditSenderParameters, SourceId, UnscheduledClasses,
    time_of,
};
use crate::chunk::CHUNK_BYTES;

const RESEND: usize = 0;
const ACTIVE: usize = 1;
const IDLE: usize = 2;

/// Most time that a pacer which is polled late makes up for.
const CATCH_UP: Duration = Duration::from_us(100);
/// One part in this many of the line is not granted, so that queues drain.
const DRAIN_PART: u64 = 64;
/// Unused credit that a sender may have, in windows or round trips of the line.
const UNUSED_WINDOWS: u64 = 2;

/// Parameters of EQDS, for both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EqdsParameters {
    /// The receiver's line in bits per second; not zero.
    pub line_bits: u64,
    /// Bytes granted at a time; not zero.
    pub quantum_bytes: u64,
    /// The bandwidth-delay product: bytes that a flow may send without credit when it starts.
    pub window_bytes: u64,
    /// Bytes granted to a sender that has requested nothing.
    pub ahead_bytes: u64,
    /// Most bytes that a sender has in flight.
    pub max_bytes: u64,
    /// Time without credit after which a sender repeats its request.
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
    /// Parameters of the sender's half.
    pub fn sender(&self) -> CreditSenderParameters {
        CreditSenderParameters {
            speculative_bytes: self.window_bytes,
            max_bytes: self.max_bytes,
            quantum_bytes: self.quantum_bytes,
            ahead_bytes: self.ahead_bytes,
            timeout: self.timeout,
            classes: UnscheduledClasses::NONE,
        }
    }
}

/// The round trip from credit to the data that it triggers, measured once per flow.
#[derive(Clone, Copy, Debug, Default)]
struct CreditLoop {
    /// True if the flow has had no credit yet.
    is_new: bool,
    /// When the first whole quantum was granted, and how many bytes of it have not been used.
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
    /// Credit loops by sender, in the order of `accounts`.
    loops: Box<[CreditLoop]>,
    lists: Lists<3>,
    /// When the line is free for the next quantum; `None` before the first.
    next_at: Option<Instant>,
    /// Bytes that may still arrive without credit before the pacer waits for them.
    overlap: u64,
}

impl Eqds {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "eqds";

    /// Creates the policy for `sources` senders.
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

    /// True if no sender is on a list.
    fn is_empty(&self) -> bool {
        (RESEND..=IDLE).all(|list| self.lists.first(list).is_none())
    }

    /// Puts a sender on the list where it belongs. A sender on the first list stays there until it
    /// is served.
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

    /// Bytes that the line carries in `time`.
    fn product_bytes(&self, time: Duration) -> u64 {
        let bits = u128::from(time.as_ps()) * u128::from(self.parameters.line_bits);
        u64::try_from(bits / 8 / 1_000_000_000_000).unwrap_or(u64::MAX)
    }

    /// When the line is free, if time since `earliest` is made up for.
    fn free_at(&self, earliest: Instant) -> Instant {
        self.next_at.map_or(earliest, |at| at.max(earliest))
    }

    /// Occupies the line for the time that `bytes` take, from `start` on.
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
            // Time in which no sender had requested credit is not made up for.
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
        // The sender goes to the end of its list or, after a repetition, to that of a later list.
        self.lists.place(source, (list != RESEND).then_some(list));
        self.lists.send_back(source);
        self.sort(source, false);
        Some(Credit { source, bytes, class: 0 })
    }

    fn poll_at(&self) -> Option<Instant> {
        self.next_at.filter(|_| !self.is_empty())
    }
}

#[cfg(test)]
mod tests;
