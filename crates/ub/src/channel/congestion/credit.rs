//! Sending on credit, as EQDS and Homa do: what a sender requests, what a receiver grants.
//!
//! Policies decide ([`fairway_policy::CongestionControl::credit_request`],
//! [`fairway_policy::CreditPolicy`]); this module keeps the running totals and builds the packets
//! that carry them. Both kinds of packet may be lost. A receiver whose policy has no credit scheme
//! grants every request in full.

use super::Congestion;
use crate::api::{DropReason, Transmit};
use crate::channel::paths::PathTurn;
use crate::channel::{Channel, Timer};
use crate::control::TraceEntry;
use crate::counters::Counters;
use crate::injected_bug::InjectedBug;
use crate::limits::HEADER_BYTES;
use crate::message::Message;
use crate::placement::Verdict;
use crate::pool::Index;
use crate::shared::{Config, Schedule, Shared};
use fairway_policy::{Credit as Grant, SourceId, UnscheduledClasses};
use fairway_wire::{CREDIT_MAX, Credit, CreditRequest, Instant, Packet, Priority};

/// Credit of a channel, in both directions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CreditState {
    /// Set if the policy spends credit.
    is_spent: bool,
    /// Bytes that queued messages still have to send, headers included.
    backlog: u64,
    /// A credit request that has not been sent.
    request: Option<CreditRequest>,
    /// Set if a grant has arrived since the last request was sent.
    is_answered: bool,
    /// The highest total requested, in bytes.
    requested: u64,
    /// The highest total that may be used: requested, or expected without a request.
    limit: u64,
    /// The highest total that the peer has granted, up to `limit`.
    received: u64,
    /// The class that the peer granted for data on credit, and the classes of other data.
    class: Priority,
    unscheduled: UnscheduledClasses,
    /// Total granted to the peer, in bytes, and the class of data on that credit.
    granted: u64,
    granted_class: Priority,
    /// Set while the latest grant has not been sent to the peer.
    is_due: bool,
}

impl CreditState {
    /// True if no credit was ever requested, granted or spent.
    pub(super) fn is_untouched(&self) -> bool {
        let totals = [self.requested, self.received, self.granted, self.backlog];
        !self.is_spent && totals == [0; 4] && self.request.is_none() && !self.is_due
    }

    pub(super) fn new(is_spent: bool, unscheduled: UnscheduledClasses) -> CreditState {
        CreditState { is_spent, unscheduled, ..CreditState::default() }
    }

    /// Queues a credit request.
    fn request(&mut self, request: CreditRequest) {
        self.requested = self.requested.max(request.total_bytes);
        self.request = Some(request);
    }

    /// Reduces the backlog when bytes of a queued message leave, or are not to be sent any more.
    #[inline]
    fn shorten(&mut self, bytes: u64) {
        self.backlog = self.backlog.saturating_sub(bytes);
    }

    /// Grants the peer the total that it requested.
    fn grant_total(&mut self, total_bytes: u64) {
        self.granted = self.granted.max(total_bytes);
        self.is_due = true;
    }

    /// Grants the peer more bytes, to be sent in a class; with 0 bytes, repeats the total.
    fn grant(&mut self, bytes: u32, class: Priority) {
        self.granted_class = class;
        let total = self.granted.saturating_add(u64::from(bytes));
        self.granted = total.min(CREDIT_MAX);
        self.is_due = true;
    }

    /// The next packet about credit, if one is due.
    #[inline]
    fn take_packet(&mut self) -> Option<Packet> {
        if let Some(credit_request) = self.request.take() {
            return Some(Packet::CreditRequest(credit_request));
        }
        let (total_bytes, class) = (self.granted, self.granted_class);
        let is_due = core::mem::take(&mut self.is_due);
        is_due.then_some(Packet::Credit(Credit { total_bytes, class }))
    }

    /// Accepts a grant of the peer, of which `ahead_bytes` may be used without a request.
    /// `is_trusting` injects a bug.
    fn accept(&mut self, total_bytes: u64, ahead_bytes: u64, is_trusting: bool) -> Accepted {
        self.is_answered = true;
        self.limit = self.limit.max(self.requested.saturating_add(ahead_bytes));
        let most = if is_trusting { u64::MAX } else { self.limit };
        let is_unrequested = total_bytes > most;
        if is_unrequested && most <= self.received {
            return Accepted { is_unrequested, bytes: None };
        }
        let grown = total_bytes.min(most).saturating_sub(self.received);
        // More than a policy can accept at once is passed on in parts: the next packet, which
        // carries the same total or more, brings the rest.
        let part = u32::try_from(grown).unwrap_or(u32::MAX);
        self.received += u64::from(part);
        Accepted { is_unrequested, bytes: Some(part) }
    }
}

/// Outcome of a grant by the peer.
struct Accepted {
    /// Set if the grant exceeds what was requested.
    is_unrequested: bool,
    /// Bytes to be passed on; `None` if all that may be used had been used before.
    bytes: Option<u32>,
}

impl Congestion {
    /// The class of the next data packet, which belongs to a message of this length.
    #[inline]
    pub(in crate::channel) fn class_of_data(&self, message_bytes: u64) -> Priority {
        let credit = &self.credit;
        if credit.class == Priority::DATA && credit.unscheduled == UnscheduledClasses::NONE {
            return Priority::DATA;
        }
        if self.controller.credit_bytes() > 0 {
            return credit.class;
        }
        Priority::of_data(credit.unscheduled.class(message_bytes))
    }

    /// True if the policy spends credit.
    #[inline]
    pub(in crate::channel) fn is_on_credit(&self) -> bool {
        self.credit.is_spent
    }

    /// True if more credit has been received than may be used.
    pub(in crate::channel) fn is_overdrawn(&self) -> bool {
        self.credit.received > self.credit.limit
    }

    /// Clears the backlog when the channel ends.
    pub(in crate::channel) fn flush(&mut self) {
        self.credit.backlog = 0;
    }
}

impl Channel {
    /// Requests credit as the policy would.
    #[cfg(test)]
    pub(crate) fn request_credit(&mut self, request: CreditRequest) {
        self.congestion.credit.request(request);
    }

    /// Bytes that a message still has to send, headers included.
    fn cost(&self, message: &Message) -> u64 {
        let packets = u64::from(message.progress.packets_unsent());
        message.progress.bytes_unsent(self.mtu) + packets * u64::from(HEADER_BYTES)
    }

    pub(crate) fn note_listed(&mut self, shared: &mut Shared, index: Index<Message>) {
        self.congestion.credit.backlog += self.cost(&shared.messages[index]);
        self.queue_credit_request(&mut shared.schedule, shared.flows.now);
    }

    pub(crate) fn note_delisted(&mut self, shared: &Shared, index: Index<Message>) {
        let cost = self.cost(&shared.messages[index]);
        self.congestion.credit.shorten(cost);
    }

    /// Accounts for a packet that leaves; `fresh` if for the first time.
    pub(crate) fn spend(&mut self, schedule: &mut Schedule, now: Instant, bytes: u32, fresh: bool) {
        if fresh {
            self.congestion.credit.shorten(u64::from(bytes));
        }
        if self.congestion.credit.is_spent {
            let waiting = self.waiting_bytes();
            self.congestion.controller_mut().on_sent(now, bytes, waiting);
            self.queue_credit_request(schedule, now);
        }
    }

    fn waiting_bytes(&self) -> u64 {
        self.congestion.credit.backlog + self.send.lost_bytes()
    }

    /// Queues a credit request if the policy requires more credit.
    pub(crate) fn queue_credit_request(&mut self, schedule: &mut Schedule, now: Instant) {
        if !self.congestion.credit.is_spent {
            return;
        }
        let waiting = self.waiting_bytes();
        if let Some(request) = self.congestion.controller_mut().credit_request(now, waiting) {
            self.congestion.credit.request(request);
            self.mark_urgent(schedule);
        }
        match self.congestion.controller().credit_request_at() {
            Some(at) => self.arm(schedule, Timer::CreditRequest, at),
            None => self.timers.disarm(Timer::CreditRequest),
        }
    }

    /// The next packet about credit, if one is due.
    pub(crate) fn next_credit(&mut self, config: &Config) -> Option<Transmit> {
        let packet = self.congestion.credit.take_packet()?;
        // A path that has failed takes away whatever is sent on it, and nothing but credit tells a
        // sender without credit that its request has arrived: each request takes another path than
        // one that was not answered.
        let path = match packet {
            Packet::CreditRequest(_) => {
                let stays = core::mem::take(&mut self.congestion.credit.is_answered);
                self.paths.take_turn_unless(stays, PathTurn::CreditRequest)
            }
            _ => self.acks.path(),
        };
        Some(self.bare(config, path, packet))
    }

    pub(crate) fn handle_credit_request(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        credit_request: &CreditRequest,
        path: u8,
    ) -> Verdict {
        self.acks.reply_by(path);
        shared.counters.credit_requests_received += 1;
        match shared.backpressure.credit_mut() {
            Some(policy) => policy.announced(now, SourceId(self.index().number()), credit_request),
            None => {
                self.congestion.credit.grant_total(credit_request.total_bytes);
                self.mark_urgent(&mut shared.schedule);
            }
        }
        Verdict::Done
    }

    /// Sends a grant of the receiver's policy: more credit, or the present total again.
    pub(crate) fn grant(
        &mut self,
        counters: &mut Counters,
        schedule: &mut Schedule,
        grant: &Grant,
    ) {
        self.congestion.credit.grant(grant.bytes, Priority::of_data(grant.class));
        counters.credits_sent += 1;
        self.mark_urgent(schedule);
    }

    /// Processes a grant of the peer. The part that exceeds the requests has no effect and is
    /// counted: otherwise a receiver whose policy grants in advance would stop a sender that
    /// expects less.
    pub(crate) fn handle_credit(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        credit: &Credit,
    ) -> Verdict {
        let ahead_bytes = self.congestion.controller().credit_ahead_bytes();
        let is_trusting = shared.is_injected(InjectedBug::TrustCredits);
        let accepted = self.congestion.credit.accept(credit.total_bytes, ahead_bytes, is_trusting);
        shared.counters.credits_unrequested += u64::from(accepted.is_unrequested);
        let Some(part) = accepted.bytes else { return shared.counters.drop(DropReason::BadCredit) };
        if self.congestion.is_on_credit() {
            self.congestion.credit.class = credit.class;
        }
        self.congestion.controller_mut().on_credit(now, part);
        if part > 0 {
            self.trace(&mut shared.flows, now, || TraceEntry::Credit { bytes: part });
        }
        self.queue_credit_request(&mut shared.schedule, now);
        self.mark_ready(&mut shared.schedule);
        Verdict::Done
    }
}
