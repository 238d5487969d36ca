//! Refusals of messages that have been acknowledged.
//!
//! In memory order a message that arrived early is set aside and acknowledged, so that it holds no
//! sequence number up. If its memory is missing when it becomes next in order, it has to be refused
//! although no packet of it is left to refuse. Two rules make that possible:
//!
//! * An initiator that requires completion in order reports such a message only after all that were
//!   posted before it.
//! * At the target, no acknowledgement leaves between the packet that makes the message next in
//!   order and the message's execution.
//!
//! So the refusal is attached to that packet, the **cause**: it is withheld from acknowledgements
//! until the initiator has confirmed the refusal by a void in its place that names the refused
//! message. The message to which the cause belongs is not refused by that, but does not end before
//! the cause is acknowledged. Messages behind the refused one continue to wait until then, so a
//! packet has at most one late refusal at a time.
//!
//! If there is no such packet on the channel (the message became next by the end of a message that
//! is answered, by an acknowledgement, by a call of the application, or by another channel of the
//! group), or no record to withhold it, the group falls silent and has to be closed
//! ([`Event::ExecutionLost`]): the initiator then reports as failed whatever it has not reported.

use super::Channel;
use super::ack_state::BlockReason;
use super::bypass::status_of;
use crate::api::Event;
use crate::arrival::Arrival;
use crate::deferred::{Cause, Deferred};
use crate::injected_bug::InjectedBug;
use crate::message::Message;
use crate::placement::{PlacementToken, Purpose, Verdict};
use crate::pool::Index;
use crate::send_window::VOID;
use crate::shared::{Arrivals, DeferredPackets, Shared};
use fairway_wire::{Instant, Msn, Nak, Psn, Refusal};

/// Most late refusals that are confirmed at the same time. The peer repeats those beyond.
const LATE_MAX: usize = 4;

/// Local packets that are void because the peer refused another message with them, and that
/// message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LateRefusals {
    entries: [Option<(Psn, Msn)>; LATE_MAX],
    /// Entries in use: usually none, so that an acknowledged packet costs one comparison.
    used: u32,
}

impl LateRefusals {
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The message that the void in place of a packet has to name, if it is not the packet's own.
    pub(super) fn message_of(&self, psn: Psn) -> Option<Msn> {
        let entry = self.entries.iter().flatten().find(|(other, _)| *other == psn)?;
        Some(entry.1)
    }

    /// Records that the void of a packet has to name this message. False if there is no room.
    pub(super) fn note(&mut self, psn: Psn, message: Msn) -> bool {
        self.confirmed(psn);
        let Some(free) = self.entries.iter_mut().find(|entry| entry.is_none()) else {
            return false;
        };
        *free = Some((psn, message));
        self.used += 1;
        true
    }

    /// Removes the entry of a packet that was acknowledged, or whose void is to name its own
    /// message.
    #[inline]
    pub(super) fn confirmed(&mut self, psn: Psn) {
        if self.used > 0 {
            self.remove(psn);
        }
    }

    fn remove(&mut self, psn: Psn) {
        let is_it = |entry: &&mut Option<(Psn, Msn)>| entry.is_some_and(|(at, _)| at == psn);
        if let Some(entry) = self.entries.iter_mut().find(is_it) {
            *entry = None;
            self.used -= 1;
        }
    }
}

impl Channel {
    // ---- the target ----

    /// Refuses a message all of which has arrived, and which could not be executed in its turn.
    pub(super) fn refuse_late(&mut self, shared: &mut Shared, arrival: &Arrival, reason: Refusal) {
        let has_room = self.acks.has_room_to_withhold();
        let cause =
            shared.deferred.cause().filter(|cause| cause.channel == self.index() && has_room);
        let Some(Cause { psn, .. }) = cause else {
            let is_cut_off = &mut shared.channels.get_mut(self.group()).is_cut_off;
            if !core::mem::replace(is_cut_off, true) {
                shared.events.push_back(Event::ExecutionLost { channel: self.leader });
            }
            return;
        };
        let why = BlockReason::Late {
            message: arrival.message,
            reason,
            nak_due: true,
            jetty: arrival.remote_jetty,
            order: arrival.order,
        };
        self.acks.block(psn, why);
        shared.counters.refused_late += 1;
        self.mark_urgent(&mut shared.schedule);
    }

    /// The reason for which a packet whose payload is now in the staging memory is to be refused:
    /// its message was abandoned meanwhile, and its initiator has not been notified.
    pub(super) fn refusal_of_part(
        &self,
        arrivals: &mut Arrivals,
        deferred: &DeferredPackets,
        part: Index<Deferred>,
    ) -> Option<Refusal> {
        let deferred = deferred[part];
        let arrival = &mut arrivals[deferred.arrival.filter(|_| deferred.given_up)?];
        let is_it =
            arrival.channel == Some(self.index()) && arrival.message == deferred.data.message;
        if is_it { arrival.pending_refusal.take() } else { None }
    }

    // ---- the initiator ----

    /// True if a message that has been acknowledged can be refused for this reason.
    pub(super) fn may_be_late(reason: Refusal) -> bool {
        matches!(reason, Refusal::Access | Refusal::Operation | Refusal::NoJetty)
    }

    /// Processes a refusal of a message that the peer has acknowledged, sent with a packet of
    /// another message.
    pub(super) fn handle_late_nak(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        nak: &Nak,
    ) -> Verdict {
        let sent = *self.send.record(nak.psn, &mut shared.send_blocks);
        if self.send.late_refusal(nak.psn) == Some(nak.message) && sent.is(VOID) {
            return Verdict::Done;
        }
        if !self.send.note_late_refusal(nak.psn, nak.message) {
            return Verdict::Done;
        }
        self.fail_acknowledged(shared, now, nak);
        // A void under way that names another message has to be replaced, too.
        self.send_void(&shared.flows, &mut shared.schedule, &mut shared.send_blocks, nak.psn);
        self.mark_ready(&mut shared.schedule);
        Verdict::Done
    }

    /// Fails the local operation that may have been acknowledged already and that ends by an
    /// acknowledgement, unless it has been reported.
    fn fail_acknowledged(&mut self, shared: &mut Shared, now: Instant, nak: &Nak) {
        let own = self.index();
        let is_it = |index: &Index<Message>| {
            let message = &shared.messages[*index];
            let is_sent = message.progress.has_begun() && !message.bypasses();
            message.channel == Some(own)
                && message.progress.number() == nak.message
                && is_sent
                && !(message.is_answer() || message.awaits_answer() || message.report.is_reported())
        };
        let Some(index) = shared.messages.ever_taken().find(is_it) else { return };
        let message = &mut shared.messages[index];
        let was_unreported = message.report.fail_unreported(status_of(nak.reason));
        if !was_unreported && message.report.is_pending() && message.attempts.is_open() {
            self.give_up(shared, index, nak.reason, now);
            if !shared.messages[index].progress.has_outstanding() {
                self.retire(shared, index);
            }
        }
    }
}

impl Shared {
    /// The packet that is received with a placement.
    #[inline]
    pub(crate) fn cause_of(&self, token: &PlacementToken) -> Option<Cause> {
        let arrival = match token.purpose {
            Purpose::Deferred(deferred) => return self.deferred.get(deferred)?.cause,
            Purpose::Arrival(index) => index,
            Purpose::Staging(part) => self.deferred.get(part)?.arrival?,
            _ => return None,
        };
        let is_answered = self.arrivals.get(arrival)?.response.is_some()
            && !self.is_injected(InjectedBug::AnyCause);
        let channel = token.channel.record();
        (!is_answered).then_some(Cause { channel, psn: token.psn })
    }
}
