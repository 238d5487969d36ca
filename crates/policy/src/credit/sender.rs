//! The sender's half of receiver-driven congestion control: it sends what it has credit for.
//!
//! **Control law.**
//!
//! ```text
//! allowance = granted − spent + speculative
//! sending b bytes:   from credit, then from the speculative window
//! idle:              nothing waits, nothing is in flight: the speculative window is full again
//! demand  D = spent + backlog beyond the speculative window
//! RTS     when D has grown and the last announced D is granted, or D has grown by a quantum, or
//!         data was lost; and again if no credit came for
//!         max(min(max(timeout, 4 round trips) · 2^n, timeout · 2^6), 4 round trips),
//!         or at once if an acknowledgement ends a silence in which the request was repeated
//! ```
//!
//! The bytes in flight are also limited by a CUBIC window. It stays at its maximum until credited
//! packets are lost, a hundredth of them or more, while round trips show a queue: then other
//! traffic shares the path, and the receiver's credit for its whole line is more than this flow's
//! share. Beside flows that do not yield, the window counts as several flows, as every CUBIC window
//! does ([`Cubic`]). Losses within two round trips of a packet without credit, and losses found by
//! a time-out, do not start this reaction: they belong to the speculative window and to failed
//! paths. Marks never count, because they belong to single paths of the fabric.
//!
//! A flow starts with a speculative window: one bandwidth-delay product that it may send without
//! credit, so that short messages take no extra round trip. Losses of it are retransmitted on
//! credit. Because packets are whole, a flow may exceed its allowance; the excess is a debt that
//! the next credit pays.
//!
//! **Source:** EQDS (Olteanu et al., NSDI 2022) §3 and UCCL appendix B, which has time-out and RTS
//! in place of trimmed packets; Homa (Montazeri et al., SIGCOMM 2018) §3.2, unscheduled bytes. The
//! time-out is UCCL's (§6.3.2, 500 us).
//!
//! **Where this differs:**
//! * EQDS has a window of its own against congestion inside the fabric, controlled by marks and
//!   trimmed packets; this sender uses neither.
//! * Credit belongs to the channel and not to a message: messages that share a channel share its
//!   credit, in the order of the scheduler.
//! * SCR's senders keep sending at their rate until a credit changes it (§A.8), because its NIC has
//!   only rates; this sender stops when its credit is spent.

use fairway_wire::{Duration, Instant};

use super::{CreditRequest, Eqds, Homa, UnscheduledClasses};
use crate::chunk::{chunk_bytes, packet_bytes};
use crate::{AckSample, CongestionControl, Cubic, LossSample};

/// Minimum time before a request is repeated, in round trips.
const TIMEOUT_ROUND_TRIPS: u64 = 4;
/// A loss within this many round trips of a packet without credit may be of such a packet.
const GUESS_ROUND_TRIPS: u64 = 2;
/// Limit of the exponential back-off: the time-out grows at most `2^6`-fold.
const BACKOFF_MAX: u32 = 6;

/// Parameters of [`CreditSender`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditSenderParameters {
    /// Bytes that a flow may send without credit when it starts.
    pub speculative_bytes: u64,
    /// Most bytes in flight.
    pub max_bytes: u64,
    /// Growth of the demand, in bytes, that causes a request of its own; not zero.
    pub quantum_bytes: u64,
    /// Bytes of credit that the receiver grants without a request.
    pub ahead_bytes: u64,
    /// Time without credit after which a request is repeated.
    pub timeout: Duration,
    /// Classes of data that is sent without credit.
    pub classes: UnscheduledClasses,
}

/// The congestion control of a sender that needs credit.
#[derive(Clone, Debug)]
pub struct CreditSender {
    name: &'static str,
    parameters: CreditSenderParameters,
    /// Running totals, in bytes: credit granted, credit spent, and demand announced.
    granted: u64,
    spent: u64,
    announced: u64,
    /// Bytes that may still be sent without credit.
    speculative: u64,
    /// Bytes that waited at the last call that reported it.
    backlog: u64,
    /// True if data was lost since the last request.
    resend: bool,
    /// Time of the last request or credit.
    last_exchange: Instant,
    backoff: u32,
    /// True if the receiver has acknowledged data after repeated requests had no answer.
    is_back: bool,
    smoothed_rtt: Duration,
    /// The CUBIC window, which losses of credited packets reduce.
    limit: Cubic,
    /// When something was last sent without credit.
    guessed_at: Option<Instant>,
}

impl CreditSender {
    /// Creates the sender of [`Eqds`].
    pub fn eqds(parameters: CreditSenderParameters, mtu_bytes: u32) -> CreditSender {
        CreditSender::new(Eqds::NAME, parameters, mtu_bytes)
    }

    /// Creates the sender of [`Homa`].
    pub fn homa(parameters: CreditSenderParameters, mtu_bytes: u32) -> CreditSender {
        CreditSender::new(Homa::NAME, parameters, mtu_bytes)
    }

    fn new(name: &'static str, parameters: CreditSenderParameters, mtu_bytes: u32) -> Self {
        let max_bytes = parameters.max_bytes.max(2 * packet_bytes(mtu_bytes));
        let quantum_bytes = parameters.quantum_bytes.max(1);
        CreditSender {
            name,
            parameters: CreditSenderParameters { max_bytes, quantum_bytes, ..parameters },
            granted: 0,
            spent: 0,
            announced: 0,
            speculative: parameters.speculative_bytes,
            backlog: 0,
            resend: false,
            last_exchange: Instant::ZERO,
            backoff: 0,
            is_back: false,
            smoothed_rtt: Duration::ZERO,
            limit: Cubic::wide(max_bytes, mtu_bytes),
            guessed_at: None,
        }
    }

    /// Credit that has not been spent, in bytes.
    fn balance(&self) -> u64 {
        self.granted.saturating_sub(self.spent)
    }

    /// Total bytes to be sent on credit, since the beginning.
    fn wanted(&self) -> u64 {
        self.spent + self.backlog.saturating_sub(self.speculative)
    }

    /// True if congestion has reduced the window.
    fn is_limited(&self) -> bool {
        self.window_bytes() < self.parameters.max_bytes
    }

    /// True if the lost packets may have been sent without credit.
    fn may_be_guess(&self, sample: &LossSample) -> bool {
        let doubt = sample.smoothed_rtt.times(GUESS_ROUND_TRIPS);
        self.guessed_at.is_some_and(|at| sample.now.elapsed_since(at) <= doubt)
    }

    /// True if the sender waits for credit: for requested credit, or for an amount so small that it
    /// was not requested separately.
    fn is_waiting(&self) -> bool {
        self.backlog > 0 && self.allowance_bytes() == 0
    }

    /// Time without credit after which the request is repeated. The doubling ends at `timeout ·
    /// 2^6`, and round trips count up to four times that: a pause of the receiver makes round trips
    /// look long, and its senders must not wait for many of those after one lost packet.
    fn timeout(&self) -> Duration {
        let timeout = self.parameters.timeout;
        let longest = timeout.times(1 << BACKOFF_MAX);
        let floor = self.smoothed_rtt.times(TIMEOUT_ROUND_TRIPS).min(longest.times(4));
        timeout.max(floor).times(1 << self.backoff).min(longest.max(floor))
    }
}

impl CongestionControl for CreditSender {
    fn name(&self) -> &'static str {
        self.name
    }

    fn window_bytes(&self) -> u64 {
        self.limit.window_bytes()
    }

    fn allowance_bytes(&self) -> u64 {
        // A debt also reduces the bytes that may be sent without credit.
        (self.granted + self.speculative).saturating_sub(self.spent)
    }

    fn on_sent(&mut self, now: Instant, bytes: u32, backlog_bytes: u64) {
        let bytes = u64::from(bytes);
        let beyond_credit = bytes - bytes.min(self.balance());
        let speculative = beyond_credit.min(self.speculative);
        if speculative > 0 {
            self.guessed_at = Some(now);
        }
        self.speculative -= speculative;
        self.spent += bytes - speculative;
        self.backlog = backlog_bytes;
    }

    fn on_credit(&mut self, now: Instant, bytes: u32) {
        self.granted += u64::from(bytes);
        self.last_exchange = now;
        self.backoff = 0;
        self.is_back = false;
    }

    fn credit_ahead_bytes(&self) -> u64 {
        self.parameters.ahead_bytes
    }

    fn credit_bytes(&self) -> u64 {
        self.balance()
    }

    fn unscheduled_classes(&self) -> UnscheduledClasses {
        self.parameters.classes
    }

    fn on_ack(&mut self, sample: &AckSample) {
        self.smoothed_rtt = sample.smoothed_rtt;
        self.limit.on_ack(&AckSample { marked_packets: 0, pressure: false, ..*sample });
        if sample.acked_packets > 0 && self.backoff > 0 {
            self.backoff = 0;
            self.is_back = true;
        }
        if sample.bytes_in_flight == 0 && self.backlog == 0 {
            self.speculative = self.parameters.speculative_bytes;
        }
    }

    fn on_loss(&mut self, sample: &LossSample) {
        self.smoothed_rtt = sample.smoothed_rtt;
        self.resend = true;
        if self.is_limited() || !(sample.by_timeout || self.may_be_guess(sample)) {
            self.limit.on_loss(sample);
        }
        // Data lost from the speculative window is not sent speculatively again.
        self.speculative = 0;
    }

    fn on_spurious(&mut self, now: Instant, packets: u32) {
        self.limit.on_spurious(now, packets);
    }

    fn credit_request(&mut self, now: Instant, backlog_bytes: u64) -> Option<CreditRequest> {
        self.backlog = backlog_bytes;
        let total_bytes = self.wanted();
        let grown = total_bytes.saturating_sub(self.announced);
        let is_news = grown > 0
            && (self.resend
                || self.granted >= self.announced
                || grown >= self.parameters.quantum_bytes);
        let is_late = now.elapsed_since(self.last_exchange) >= self.timeout();
        let is_again = self.is_waiting() && (is_late || self.is_back);
        if !is_news && !is_again {
            return None;
        }
        let was_back = core::mem::take(&mut self.is_back);
        let is_first = is_news || was_back;
        self.backoff = if is_first { 0 } else { (self.backoff + 1).min(BACKOFF_MAX) };
        // The total may be lower than in the last request, if packets thought lost have arrived.
        // Credit for the difference is not worth waiting for: the receiver may never have received
        // that request.
        self.announced = total_bytes;
        self.last_exchange = now;
        let resend = core::mem::take(&mut self.resend);
        Some(CreditRequest { total_bytes, resend, blocked: self.allowance_bytes() == 0 })
    }

    fn credit_request_at(&self) -> Option<Instant> {
        self.is_waiting().then(|| self.last_exchange + self.timeout())
    }

    fn pacing_bytes_per_second(&self) -> Option<u64> {
        // Credit sets the pace, unless the window allows less than the credit.
        self.limit.pacing_bytes_per_second().filter(|_| self.is_limited())
    }

    fn pacing_burst_bytes(&self) -> u32 {
        self.pacing_bytes_per_second().map_or(0, |_| self.limit.pacing_burst_bytes())
    }

    fn paces_within_window(&self) -> bool {
        self.limit.paces_within_window()
    }

    fn permit_retransmit(&mut self, _now: Instant, _bytes: u32) -> bool {
        self.allowance_bytes() > 0
    }

    fn chunk_bytes(&self, remaining: u64) -> u32 {
        chunk_bytes(self.window_bytes(), remaining)
    }
}

#[cfg(test)]
mod tests;
