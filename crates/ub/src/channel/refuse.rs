//! Refusals, on both sides.
//!
//! A refusal is final when it is made: the packet counts as arrived, so that no repeat of it can be
//! judged again, but it is withheld from acknowledgements until its sender has confirmed the
//! refusal by a [`Void`](fairway_wire::Void) in its place. So a message can never be reported as
//! done by an acknowledgement that overtook its refusal, and a refused SEND that is sent again
//! under a new number can never be delivered twice.

use super::ack_state::BlockReason;
use super::bypass::status_of;
use super::{Channel, Timer};
use crate::api::{DropReason, Event};
use crate::counters::Counters;
use crate::flow::Flows;
use crate::injected_bug::InjectedBug;
use crate::limits::Profile;
use crate::list::List;
use crate::message::{Message, MessagePlace, OvertakingPlan};
use crate::placement::Verdict;
use crate::pool::{Index, Pool};
use crate::send_window::{ACKNOWLEDGED, LOST, SendBlocks, UNCOUNTED, VOID};
use crate::shared::{Config, Schedule, Shared};
use fairway_wire::{Data, Duration, Instant, Nak, Operation, Psn, Refusal, Void};

/// Budget of wrong keys that the peer may use
/// ([`Profile::refused_keys`](crate::Profile::refused_keys)).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyBudget {
    spent: u32,
    /// When `spent` was last updated.
    at: Instant,
    /// Set once the caller has been notified.
    is_over: bool,
}

impl KeyBudget {
    /// True if the peer never used a wrong key.
    pub(super) fn is_untouched(&self) -> bool {
        self.spent == 0 && !self.is_over
    }

    /// Counts a wrong key. True, once, if that exceeds what the profile allows.
    pub(super) fn spend(&mut self, now: Instant, profile: &Profile) -> bool {
        let interval = profile.refused_key_interval;
        let earned = now.elapsed_since(self.at).as_ns() / interval.as_ns().max(1);
        let earned = u32::try_from(earned).unwrap_or(u32::MAX);
        if self.spent == 0 || earned >= self.spent {
            (self.spent, self.at) = (0, now);
        } else {
            self.spent -= earned;
            self.at = self.at + interval.times(u64::from(earned));
        }
        self.spent += 1;
        let exceeds = self.spent > profile.refused_keys && !self.is_over;
        self.is_over |= exceeds;
        exceeds
    }
}

/// Distance from the oldest operation of a Jetty up to which operations are tried again when the
/// oldest changes, if they were refused because they arrived before others. If receives are posted
/// one at a time, all but the next would be refused again, and each attempt takes a round trip of a
/// window of one packet; if many are posted at once, the distance soon grows again.
#[derive(Clone, Copy, Debug)]
struct RetryBurst(u32);

impl Default for RetryBurst {
    fn default() -> RetryBurst {
        RetryBurst(u32::MAX)
    }
}

impl RetryBurst {
    /// Lowers the limit to half of `distance`, because an operation was refused that was posted
    /// `distance` operations after the oldest.
    fn note_refusal(&mut self, distance: u32) {
        self.0 = self.0.min(distance / 2).max(1);
    }

    /// Doubles the limit when an operation that had been refused has ended.
    fn note_end(&mut self) {
        self.0 = self.0.saturating_mul(2);
    }

    fn has_place_for(self, distance: u32) -> bool {
        distance <= self.0
    }
}

/// Messages that were refused and are to be tried again.
#[derive(Debug, Default)]
pub(super) struct Retries {
    waiting: List<Index<Message>>,
    burst: RetryBurst,
}

impl Retries {
    /// True if no message waits, and none was refused that had overtaken others.
    pub(super) fn are_untouched(&self) -> bool {
        self.waiting.is_empty() && self.burst.0 == u32::MAX
    }

    /// Queues a message to be tried again. Returns the time of the next attempt.
    pub(super) fn wait(&mut self, messages: &mut Pool<Message>, index: Index<Message>) -> Instant {
        let message = &mut messages[index];
        message.place = MessagePlace::AwaitingReceiver;
        let at = message.attempts.retry_at();
        self.waiting.push_back(messages, index);
        at
    }

    /// Removes a message that is not to be tried again.
    pub(super) fn withdraw(&mut self, messages: &mut Pool<Message>, index: Index<Message>) {
        self.waiting.unlink(messages, index);
    }

    /// Notes that an operation that had been refused has ended.
    pub(super) fn note_end(&mut self) {
        self.burst.note_end();
    }

    /// Empties the list when the channel ends.
    pub(super) fn flush(&mut self) {
        self.waiting = List::default();
    }
}

impl Channel {
    /// Counts a refused message of the peer that names existing memory or an existing Jetty with
    /// the wrong key, because it may be a guess. Messages that name nothing that exists are not
    /// counted, because operations that are under way when a segment or Jetty is removed are
    /// refused as well.
    pub(crate) fn note_refused_key(&mut self, shared: &mut Shared, operation: &Operation) {
        if !shared.has_wrong_key(operation) {
            return;
        }
        shared.counters.keys_refused += 1;
        if self.inbound.count_wrong_key(shared.flows.now, shared.config.profile()) {
            shared.events.push_back(Event::KeysRefused { channel: self.leader });
        }
    }

    pub(crate) fn refuse(
        &mut self,
        counters: &mut Counters,
        schedule: &mut Schedule,
        data: &Data,
        reason: Refusal,
    ) {
        if reason == Refusal::ReceiverNotReady {
            counters.not_ready += 1;
        }
        let why = BlockReason::Refused { message: data.message, reason, nak_due: true };
        self.acks.block(data.psn, why);
        self.mark_urgent(schedule);
    }

    /// Repeats the NAK of a refused packet that arrived again: the NAK was lost, or has crossed it.
    pub(crate) fn repeat_nak(&mut self, config: &Config, schedule: &mut Schedule, psn: Psn) {
        let revives = config.is_injected(InjectedBug::ReviveRefused);
        if revives && self.acks.revive_not_ready(psn) {
            return;
        }
        if self.acks.repeat_naks(psn) {
            self.mark_urgent(schedule);
        }
    }

    pub(crate) fn take_nak(&mut self, config: &Config, counters: &mut Counters) -> Option<Nak> {
        let (psn, message, reason) = self.acks.take_nak()?;
        counters.naks_sent += 1;
        let retry_after = config.profile().not_ready_delay.as_us().min(0xFFFF) as u16;
        let retry_after_us = if reason == Refusal::ReceiverNotReady { retry_after } else { 0 };
        Some(Nak { psn, message, reason, retry_after_us })
    }

    /// Processes the sender's confirmation that it received the refusal of a message by this
    /// packet; false if there was none.
    pub(crate) fn confirm_refusal(&mut self, shared: &mut Shared, void: &Void) -> bool {
        let Some(why) = self.acks.confirm_refusal(void) else { return false };
        if let BlockReason::Late { jetty, order, .. } = why {
            self.skip_numbers(shared, jetty, &order);
        }
        true
    }

    /// Handles the refusal of a local message.
    pub(crate) fn handle_nak(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        nak: &Nak,
        path: u8,
    ) -> Verdict {
        if !self.tp.is_in_window(nak.psn) {
            return shared.counters.drop(DropReason::BadAcknowledgement);
        }
        let sent = *self.send.record(nak.psn, &mut shared.send_blocks);
        let is_late = shared.messages[sent.message()].progress.number() != nak.message;
        if sent.is(ACKNOWLEDGED) || (is_late && !Self::may_be_late(nak.reason)) {
            return shared.counters.drop(DropReason::BadAcknowledgement);
        }
        self.path_answered(&mut shared.counters, &mut shared.events, &mut shared.schedule, path);
        if is_late {
            return self.handle_late_nak(shared, now, nak);
        }
        if let Refusal::Trimmed { retry } = nak.reason {
            self.resend_trimmed(shared, now, nak.psn, retry);
            return Verdict::Done;
        }
        if sent.is(VOID) && self.send.late_refusal(nak.psn).is_none() {
            return Verdict::Done;
        }
        self.send.end_late_refusal(nak.psn);
        self.send_void(&shared.flows, &mut shared.schedule, &mut shared.send_blocks, nak.psn);
        let profile = shared.config.profile();
        let wait = match nak.reason {
            // Many notices may be sent back at a time. If they came again at once, the channel
            // would always have something to send, and what they wait for would have no turn.
            Refusal::OutOfOrder if shared.messages[sent.message()].is_notice() => {
                profile.not_ready_delay.max(profile.timeout_min).max(self.recovery.smoothed())
            }
            Refusal::OutOfOrder => profile.not_ready_delay,
            _ => Duration::from_us(u64::from(nak.retry_after_us)),
        };
        self.give_up(shared, sent.message(), nak.reason, now + wait);
        self.mark_ready(&mut shared.schedule);
        Verdict::Done
    }

    /// Replaces a local packet by a void, which confirms that its refusal was received.
    pub(super) fn send_void(
        &mut self,
        flows: &Flows,
        schedule: &mut Schedule,
        send_blocks: &mut SendBlocks,
        psn: Psn,
    ) {
        let record = self.send.record(psn, send_blocks);
        record.flags |= VOID;
        let sent = *record;
        if !sent.is(LOST) {
            self.take_from_path(flows, schedule, send_blocks, psn, &sent);
            // The packet was not declared lost, so an acknowledgement of it revokes no loss.
            self.send.record(psn, send_blocks).flags |= UNCOUNTED;
        }
    }

    /// Stops sending a refused message; its outcome is settled when nothing is in flight.
    pub(crate) fn give_up(
        &mut self,
        shared: &mut Shared,
        index: Index<Message>,
        reason: Refusal,
        retry_at: Instant,
    ) {
        let status = status_of(reason);
        let early = reason == Refusal::OutOfOrder;
        if early {
            // The peer may lack this side's acknowledgement of an answer.
            self.acknowledge_soon(&mut shared.schedule);
        }
        // A message that is received in order may be refused because it arrived before others,
        // ordered or not: the refusal counts only when none of those is left.
        let overtakes = shared.messages[index].order.request().receive_in_order
            && Self::overtakes(shared, index);
        let retries_at_once = shared.is_injected(InjectedBug::RetryAtOnce);
        let plan = Self::overtaking_plan(&shared.config);
        let message = &mut shared.messages[index];
        let own = shared.jetties.not_ready_retries(message.jetty);
        let limit = own.unwrap_or(shared.config.profile().not_ready_retries.into());
        if !message.attempts.is_open() {
            return;
        }
        let may_retry = limit == 7 || message.attempts.retries() < limit || overtakes;
        if early {
            message.attempts.refuse_early(retry_at);
        } else if reason == Refusal::ReceiverNotReady && may_retry {
            message.attempts.refuse_not_ready(retry_at);
            if !overtakes {
                message.attempts.count_retry();
            } else if !retries_at_once {
                let first = shared.initiator.first(message);
                message.attempts.note_overtaking(first, plan);
                let distance = Self::distance(shared, index, first);
                self.retries.burst.note_refusal(distance);
            }
        } else {
            message.attempts.fail(status);
        }
        if matches!(shared.messages[index].place, MessagePlace::Sending | MessagePlace::WithFlow) {
            self.delist(shared, index);
        }
    }

    fn overtaking_plan(config: &Config) -> OvertakingPlan {
        // Two other bugs were found while messages waited no longer than with `RetrySoon`.
        let soon = [InjectedBug::RetrySoon, InjectedBug::RefusedFirst, InjectedBug::BeginSpent];
        if soon.into_iter().any(|bug| config.is_injected(bug)) {
            OvertakingPlan::ForEachFirstSoon
        } else if config.is_injected(InjectedBug::RetryAll) {
            OvertakingPlan::ForEachFirst
        } else {
            OvertakingPlan::Patient
        }
    }

    /// Number of operations of its Jetty that were posted after `first`, up to and including this
    /// one.
    fn distance(shared: &Shared, index: Index<Message>, first: Option<Index<Message>>) -> u32 {
        first.map_or(0, |first| {
            shared.messages[index].order.posts_since(&shared.messages[first].order)
        })
    }

    /// True if an operation of the same Jetty that was posted before this one is left.
    fn overtakes(shared: &Shared, index: Index<Message>) -> bool {
        !match shared.is_injected(InjectedBug::CountOvertaking) {
            true => shared.initiator.is_oldest(&shared.messages, index),
            false => shared.initiator.is_first(&shared.messages, index),
        }
    }

    /// Puts refused messages back into the queue when their retry time has passed.
    pub(crate) fn not_ready_timer(&mut self, shared: &mut Shared, now: Instant) {
        let mut listed = self.retries.waiting.head();
        let mut earliest: Option<Instant> = None;
        let profile = shared.config.profile();
        let pass = self.recovery.smoothed().min(profile.timeout_min).max(profile.not_ready_delay);
        let begins_anew = Self::overtaking_plan(&shared.config) != OvertakingPlan::Patient;
        while let Some(at) = listed {
            let first = shared.initiator.first(&shared.messages[at]);
            let distance = Self::distance(shared, at, first);
            let message = &mut shared.messages[at];
            listed = message.links.next();
            let goes = begins_anew || self.retries.burst.has_place_for(distance);
            if let Some(due) = message.attempts.next_time(now, pass, first, goes) {
                earliest = Some(earliest.map_or(due, |other| other.min(due)));
            } else {
                self.retries.waiting.unlink(&mut shared.messages, at);
                self.enlist(shared, at);
            }
        }
        if let Some(due) = earliest {
            self.arm(&mut shared.schedule, Timer::NotReady, due);
        }
    }
}
