//! Channels that are retired: dead, while other channels of their group still hear from the peer.
//!
//! A retired channel keeps its record and its number until its group ends, so that every packet of
//! it that is still in the network is recognised and dropped. What it had under way moves to the
//! other channels, as soon as nothing can be placed twice:
//!
//! | message | moves |
//! |---|---|
//! | of which nothing has been sent, with any order | at once |
//! | READ | when no part of its answer is being placed here |
//! | WRITE that the target does not number | when the peer has ended its side ([`Retire`]) |
//! | load, store that has not been sent | likewise, because copies of earlier ones may be late |
//!
//! Anything else that has begun may have been executed, and so ends the group as if its last
//! channel had died ([`Channel::may_retire`]).

use super::paths::PathTurn;
use super::{Channel, Timer};
use crate::api::{Status, Transmit, is_numbered};
use crate::arrival::{Arrival, ArrivalKind, Turn};
use crate::injected_bug::InjectedBug;
use crate::message::{Message, MessagePlace, Outcome, OwnAnswer, Reply};
use crate::pool::Index;
use crate::shared::{Schedule, Shared};
use fairway_wire::{Duration, Instant, Packet, Retire};

/// Longest time between two notices to the peer that a channel is retired.
const NOTICE_INTERVAL: Duration = Duration::from_ms(20);

/// How far the retirement of a channel has progressed, on both sides.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retirement {
    /// Payloads of the channel that are being placed here.
    placing: u32,
    /// The peer has ended its side.
    peer_has_ended: bool,
    /// The peer waits for an answer to its notice.
    owes_answer: bool,
    /// A notice is to be sent.
    is_notice_due: bool,
}

/// Reason to send a [`Retire`] by another channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    /// To notify the peer, which has to answer.
    Notice,
    /// To answer the peer's notice.
    Answer,
}

impl Channel {
    /// True if the channel is retired, and its group has not ended.
    #[inline]
    pub(crate) fn is_retired(&self) -> bool {
        self.life.retirement().is_some()
    }

    /// True if both sides agreed at set-up that a group goes on without a channel that is dead.
    pub(crate) fn is_dispensable(&self) -> bool {
        self.is_dispensable
    }

    /// Acts as if that had not been agreed.
    #[cfg(test)]
    pub(crate) fn keep_indispensable(&mut self) {
        self.is_dispensable = false;
    }

    /// True if everything that the channel has under way may be repeated on another channel, or
    /// dropped, without a risk that anything is executed or placed twice.
    pub(crate) fn may_retire(&self, shared: &Shared) -> bool {
        let own = Some(self.index());
        let is_held = |index| shared.deferred.get(index).is_some_and(|held| held.channel == own);
        // Also for a store that is being placed.
        let is_bypassed = |index| shared.answers[index].channel == own;
        let may_move = |index: Index<Message>| {
            let message = &shared.messages[index];
            message.channel != own || self.may_move(shared, message, index)
        };
        let may_drop = |index: Index<Arrival>| {
            let arrival = &shared.arrivals[index];
            arrival.channel != own || may_be_dropped(arrival)
        };
        self.send.has_no_late_refusal()
            && !self.acks.withholds_late_refusal()
            && !shared.deferred.ever_taken().any(is_held)
            && !shared.answers.ever_taken().any(is_bypassed)
            && shared.messages.ever_taken().all(may_move)
            && shared.arrivals.ever_taken().all(may_drop)
    }

    fn may_move(&self, shared: &Shared, message: &Message, index: Index<Message>) -> bool {
        if message.report.is_released() || message.place == MessagePlace::Divided {
            return true;
        }
        if let Some(answer) = message.reply() {
            return self.may_drop_answer(shared, answer, message, index);
        }
        let has_begun = message.progress.has_begun();
        if message.is_notice() {
            return !has_begun && message.progress.needs_number();
        }
        let is_numbered = is_numbered(message.order.mode(), message.order.tag());
        let may_repeat = (message.is_plain_read() || message.is_plain_write()) && !is_numbered;
        !has_begun || may_repeat || message.attempts.outcome() == Outcome::Reported
    }

    /// True if the peer repeats the operation of an answer that is dropped, or ends the group.
    fn may_drop_answer(
        &self,
        shared: &Shared,
        answer: &OwnAnswer,
        message: &Message,
        index: Index<Message>,
    ) -> bool {
        if message.is_answer_awaited() {
            return false;
        }
        match answer.reply {
            Reply::Bytes { .. } | Reply::Done(_) => true,
            Reply::Old(_) => false,
            // The answer of a WRITE that is being received, and not of an atomic.
            Reply::Pending => shared.arrivals.ever_taken().any(|at| {
                let arrival = &shared.arrivals[at];
                arrival.channel == Some(self.index()) && arrival.response == Some(index)
            }),
        }
    }

    /// Retires the channel: nothing is sent on it or accepted from it any more. Its messages are
    /// stranded ([`MessagePlace::Stranded`]), unless they wait for others, and have to be moved.
    pub(crate) fn retire_channel(&mut self, shared: &mut Shared) {
        let placing = match shared.is_injected(InjectedBug::ForgetPlacing) {
            true => 0,
            false => self.acks.count_placing(),
        };
        self.life.retire(Retirement { placing, is_notice_due: true, ..Retirement::default() });
        self.release_transport(shared);
        self.forget_all_arrivals(shared);
        self.flush_bypass(shared);
        for index in shared.messages.ever_taken() {
            let message = &mut shared.messages[index];
            let is_waiting = matches!(
                message.place,
                MessagePlace::Gated
                    | MessagePlace::Opened
                    | MessagePlace::AwaitingTurn
                    | MessagePlace::Divided
            );
            if message.channel != Some(self.index()) || message.report.is_released() || is_waiting {
                continue;
            }
            message.flow = None;
            message.progress.forget_outstanding();
            // The slots were those of this channel.
            message.slots.release_request();
            message.slots.release();
            if message.is_answer() {
                message.place = MessagePlace::Unlisted;
                self.end(shared, index, Status::PeerDead);
            } else {
                message.strand();
            }
        }
        shared.schedule.retry_blocked();
    }

    /// Ends a retired channel with its group.
    pub(crate) fn end_retired(&mut self, shared: &mut Shared, status: Status) {
        self.life.gone();
        self.flush(shared, status);
    }

    /// Counts the end of a placement that was under way when the channel was retired, if it is.
    /// After the last one the retirement goes on with the next timer.
    pub(super) fn placed_late(&mut self, schedule: &mut Schedule, now: Instant) {
        let Some(retirement) = self.life.retirement_mut() else { return };
        let was_placing = retirement.placing > 0;
        retirement.placing = retirement.placing.saturating_sub(1);
        if was_placing && retirement.placing == 0 {
            self.arm(schedule, Timer::Close, now);
        }
    }

    /// True while a payload that belongs to the retired channel is being placed here.
    pub(crate) fn is_placing_late(&self) -> bool {
        self.life.retirement().is_some_and(|retirement| retirement.placing > 0)
    }

    /// True while loads and stores have to wait because copies of those that this retired channel
    /// carried may still be executed.
    pub(crate) fn holds_bypasses(&self) -> bool {
        self.is_retired() && (self.is_placing_late() || !self.has_peer_ended())
    }

    /// True if the peer has ended its side of this retired channel.
    pub(crate) fn has_peer_ended(&self) -> bool {
        self.life.retirement().is_some_and(|retirement| retirement.peer_has_ended)
    }

    /// Notes that the peer has ended its side of this retired channel. True if it had not before.
    pub(crate) fn note_peer_ended(&mut self, is_answer: bool) -> bool {
        let Some(retirement) = self.life.retirement_mut() else { return false };
        retirement.owes_answer |= !is_answer;
        retirement.is_notice_due = false;
        !core::mem::replace(&mut retirement.peer_has_ended, true)
    }

    /// Makes the next notice due, unless the peer has ended its side.
    pub(super) fn repeat_notice(&mut self) {
        if let Some(retirement) = self.life.retirement_mut() {
            retirement.is_notice_due = !retirement.peer_has_ended;
        }
    }

    /// What is to be sent about this retired channel now, if anything. Not before everything of it
    /// is in place, because that is what it says.
    pub(crate) fn take_notice(&mut self, shared: &mut Shared, now: Instant) -> Option<NoticeKind> {
        let retirement = self.life.retirement_mut().filter(|retirement| retirement.placing == 0)?;
        if core::mem::take(&mut retirement.owes_answer) {
            return Some(NoticeKind::Answer);
        }
        if !core::mem::take(&mut retirement.is_notice_due) {
            return None;
        }
        let interval = shared.config.profile().timeout_max.min(NOTICE_INTERVAL);
        self.arm(&mut shared.schedule, Timer::Close, now + interval);
        Some(NoticeKind::Notice)
    }

    /// The peer's number of this channel.
    pub(crate) fn notice(&self, kind: NoticeKind) -> Retire {
        Retire { channel: self.tp.remote_tpn(), answer: kind == NoticeKind::Answer }
    }

    /// Sends a notice about another channel of the group. One that has not been sent yet is
    /// replaced: notices are repeated.
    pub(crate) fn send_retire(&mut self, schedule: &mut Schedule, retire: Retire) {
        self.life.set_retire_due(retire);
        self.mark_urgent(schedule);
    }

    /// The notice about another channel of the group that is to be sent now.
    pub(super) fn next_retire(&mut self, shared: &mut Shared) -> Option<Transmit> {
        let retire = self.life.take_retire_due()?;
        shared.counters.retirement_notices_sent += 1;
        let path = self.paths.take_turn(PathTurn::Retire);
        Some(self.bare(&shared.config, path, Packet::Retire(retire)))
    }

    /// Takes over a message of a retired channel that waits for others, or of which nothing is
    /// under way any more.
    pub(crate) fn adopt(&mut self, shared: &mut Shared, index: Index<Message>) {
        let message = &mut shared.messages[index];
        message.channel = Some(self.index());
        let MessagePlace::Stranded { retries } = message.place else { return };
        message.place = MessagePlace::Unlisted;
        if message.bypasses() {
            return self.post_bypass(shared, index);
        }
        let waits = retries || message.attempts.outcome().is_refused();
        message.repeat_elsewhere();
        if !waits {
            return self.enlist(shared, index);
        }
        let at = self.retries.wait(&mut shared.messages, index);
        let at = self.timers.deadline(Timer::NotReady).map_or(at, |armed| at.min(armed));
        self.arm(&mut shared.schedule, Timer::NotReady, at);
    }
}

/// True if the peer repeats a message that was received in part.
fn may_be_dropped(arrival: &Arrival) -> bool {
    let Arrival { kind, turn, order, .. } = arrival;
    let is_plain = *kind == ArrivalKind::Write
        && *turn == Turn::Any
        && !order.in_order
        && !is_numbered(order.mode, order.tag);
    arrival.refused || arrival.is_datagram || is_plain
}
