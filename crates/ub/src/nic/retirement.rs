//! A group that goes on when one of its channels dies
//! ([`Channel::may_retire`](crate::channel::Channel::may_retire) has the rules).

use super::{EntryState, UbDevice, channel_at};
use crate::api::{ChannelId, DropReason, Event};
use crate::channel::{Channel, NoticeKind};
use crate::injected_bug::InjectedBug;
use crate::message::{Message, MessagePlace, Outcome};
use crate::names::ChannelIndex;
use crate::placement::Verdict;
use crate::pool::Index;
use fairway_policy::SourceId;
use fairway_wire::{Duration, Instant, Retire};

impl UbDevice {
    /// Attends to channels of groups that are silent or retired, for which the others of their
    /// groups are needed.
    pub(super) fn attend(&mut self, now: Instant) {
        while let Some(index) = self.shared.channels.pop_attention() {
            let Some(channel) = channel_at(&mut self.entries, index) else { continue };
            if channel.is_retired() {
                self.advance_retirement(now, index);
            } else if channel.is_open() {
                self.judge_silence(now, index);
            }
        }
        if self.shared.channels.has_ended() {
            self.end_groups(now);
        }
    }

    /// Decides what becomes of a channel that has been silent for too long. A peer is dead only
    /// when all channels of its group are silent.
    fn judge_silence(&mut self, now: Instant, index: ChannelIndex) {
        let profile = *self.shared.config.profile();
        let shortest = self.shortest_silence_of_others(now, index);
        let Some(channel) = channel_at(&mut self.entries, index) else { return };
        let heard = shortest.is_some_and(|silence| silence < profile.peer_dead.divided_by(2));
        let unclear = shortest.is_some_and(|silence| silence < profile.peer_dead);
        // A peer that was stopped for a while is not heard on all channels at the same instant.
        if heard && channel.take_last_chance() || unclear && !heard {
            return channel.probe_again(&mut self.shared, now);
        }
        if !heard || !self.retire_if_possible(now, index) {
            let Some(channel) = channel_at(&mut self.entries, index) else { return };
            channel.peer_is_dead(&mut self.shared, now);
        }
    }

    /// How long that other open channel of a channel's group has been silent which was heard last.
    fn shortest_silence_of_others(&self, now: Instant, index: ChannelIndex) -> Option<Duration> {
        let leader = self.entry_channel(index)?.leader;
        let members = self.shared.channels.get(leader.record()).open_members();
        let others = members.filter(|member| *member != index);
        let silences = others.filter_map(|member| {
            let channel = self.entry_channel(member)?;
            let is_other = channel.leader == leader && channel.is_open();
            is_other.then(|| channel.silence_at(now))
        });
        silences.min()
    }

    /// The channel with an index, if it is open or retired.
    pub(super) fn entry_channel(&self, index: ChannelIndex) -> Option<&Channel> {
        match &self.entries[index.number() as usize].state {
            EntryState::Open(channel) => Some(channel),
            _ => None,
        }
    }

    /// Retires a channel if what is under way on it allows that.
    fn retire_if_possible(&mut self, now: Instant, index: ChannelIndex) -> bool {
        self.finish_datagram();
        let Some(channel) = channel_at(&mut self.entries, index) else { return false };
        if !channel.is_dispensable() || !channel.may_retire(&self.shared) {
            return false;
        }
        channel.retire_channel(&mut self.shared);
        let (id, leader) = (channel.id, channel.leader);
        self.shared.channels.retire(leader.record(), index);
        self.shared.schedule.remove(index);
        for turn in &mut self.turns {
            if turn.channel == Some(index) {
                turn.channel = None;
            }
        }
        if let Some(policy) = self.shared.backpressure.credit_mut() {
            policy.source_gone(now, SourceId(index.number()));
        }
        self.shared.counters.channels_retired += 1;
        self.shared.events.push_back(Event::ChannelRetired { channel: leader, retired: id });
        self.advance_retirement(now, index);
        true
    }

    /// Moves what may be moved from a retired channel, and notifies the peer.
    fn advance_retirement(&mut self, now: Instant, index: ChannelIndex) {
        let Some(channel) = channel_at(&mut self.entries, index) else { return };
        let (is_placing, has_ended) = (channel.is_placing_late(), channel.has_peer_ended());
        let kind = channel.take_notice(&mut self.shared, now);
        let notice = kind.map(|kind| channel.notice(kind));
        let group = channel.group();
        let unconfirmed = self.shared.is_injected(InjectedBug::RepeatUnconfirmed);
        for at in self.shared.messages.ever_taken() {
            let message = &self.shared.messages[at];
            let is_left = message.channel == Some(index)
                && !message.report.is_released()
                && message.place != MessagePlace::Divided;
            if !is_left {
                continue;
            }
            let needs_end = message.bypasses()
                || (message.progress.has_begun() && message.is_plain_write() && !unconfirmed);
            let needs_placement = message.progress.has_begun() && message.requests_bytes();
            if needs_end && (is_placing || !has_ended) || needs_placement && is_placing {
                continue;
            }
            self.move_message(index, group, at);
        }
        if let Some(notice) = notice {
            let by = self.shared.channels.next_notifier(group);
            if let Some(channel) = by.and_then(|by| channel_at(&mut self.entries, by)) {
                channel.send_retire(&mut self.shared.schedule, notice);
            }
        }
    }

    /// Moves a message of a retired channel to the one of its group that has least to do, or ends
    /// it, if only its packets were outstanding.
    fn move_message(&mut self, from: ChannelIndex, group: ChannelIndex, at: Index<Message>) {
        let shared = &mut self.shared;
        let message = &mut shared.messages[at];
        let is_over = matches!(message.attempts.outcome(), Outcome::Reported | Outcome::Failed(_));
        if is_over && message.progress.has_begun() {
            let Some(channel) = channel_at(&mut self.entries, from) else { return };
            message.place = MessagePlace::Unlisted;
            return channel.retire(shared, at);
        }
        let to = match message.bypasses() {
            true => shared.channels.first_open(group),
            false => Some(shared.channels.least(group)),
        };
        let Some((to, channel)) = to.and_then(|to| Some((to, channel_at(&mut self.entries, to)?)))
        else {
            return;
        };
        if message.report.is_pending() {
            let length = message.local.length;
            shared.channels.take(from, length);
            shared.channels.give(to, length);
        }
        shared.counters.messages_moved += 1;
        channel.adopt(shared, at);
    }

    /// Handles the peer's notice, which came by channel `by`, that it has ended its side of another
    /// channel of the group.
    pub(super) fn handle_retire(
        &mut self,
        now: Instant,
        by: ChannelId,
        retire: &Retire,
    ) -> Verdict {
        let id = ChannelId(retire.channel.value());
        let may = |channel: &&Channel| {
            channel.is_dispensable() && (channel.is_open() || channel.is_retired())
        };
        let leader = self.open_ref(by).filter(may).map(|channel| channel.leader);
        let named = self.open_ref(id).filter(may).map(|channel| channel.leader);
        if leader.is_none() || named != leader || id == by {
            return self.shared.counters.drop(DropReason::BadRetire);
        }
        if self.shared.is_injected(InjectedBug::AnswerUnretired) && !retire.answer {
            let notice = self.open_ref(id).map(|channel| channel.notice(NoticeKind::Answer));
            if let (Some(notice), Some((shared, channel))) = (notice, self.open(by)) {
                channel.send_retire(&mut shared.schedule, notice);
            }
            return Verdict::Done;
        }
        let is_open = self.open_ref(id).is_some_and(|channel| channel.is_open());
        if is_open && !self.retire_if_possible(now, id.record()) {
            if let Some((shared, channel)) = self.open(id) {
                channel.peer_is_dead(shared, now);
            }
            self.end_groups(now);
            return Verdict::Done;
        }
        if let Some((_, channel)) = self.open(id) {
            channel.note_peer_ended(retire.answer);
        }
        self.advance_retirement(now, id.record());
        Verdict::Done
    }
}
