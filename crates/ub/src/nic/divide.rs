//! Large operations without order, which go by several channels of a group at the same time.

use super::{UbDevice, channel_of};
use crate::injected_bug::InjectedBug;
use crate::message::{Division, Message, MessagePlace};
use crate::pool::Index;
use crate::shared::Shared;
use crate::tpg::MEMBERS_MAX;
use alloc::vec::Vec;

/// An operation is divided into this many parts at most: one for each channel of its group.
const PARTS_MAX: u32 = MEMBERS_MAX as u32;

impl Shared {
    /// True if an operation is divided where its group has several channels: it is long enough, and
    /// nothing depends on its being one message.
    #[inline(always)]
    pub(super) fn is_dividable(&self, index: Index<Message>) -> bool {
        let least = self.config.profile().part_bytes;
        let whole = &self.messages[index];
        least > 0 && whole.local.length / 2 >= least && whole.is_divisible()
    }
}

impl UbDevice {
    /// Sends an operation that waits for nothing: in parts, where that is worth while, or as it is.
    pub(super) fn issue(&mut self, index: Index<Message>) {
        if self.divide(index) {
            return;
        }
        let shared = &mut self.shared;
        if let Some(channel) = channel_of(&mut self.entries, shared.messages[index].channel) {
            channel.enlist(shared, index);
        }
    }

    /// Divides an operation into parts of equal length, and queues each at the channel of the group
    /// that has least to do. False if the operation is too short or must not be divided, if its
    /// group has one channel, or if no records are left for the parts.
    fn divide(&mut self, index: Index<Message>) -> bool {
        if !self.shared.is_dividable(index) {
            return false;
        }
        let kept = self.kept_for_answers();
        let shared = &mut self.shared;
        let least = shared.config.profile().part_bytes;
        let whole = &shared.messages[index];
        let length = whole.local.length;
        let group = whole.group();
        let members = shared.channels.get(group).open_members().count() as u32;
        let Some(first) = channel_of(&mut self.entries, whole.channel) else { return false };
        if !first.may_send_parts {
            return false;
        }
        let mtu = first.mtu;
        // Every part but the last is whole packets.
        let parts = (length / least).min(members).min(PARTS_MAX);
        if parts < 2 {
            return false;
        }
        // That is far below 2^32 bytes, because there are two parts at least.
        let each = length.div_ceil(parts).next_multiple_of(mtu);
        let parts = length.div_ceil(each);
        let free = shared.messages.capacity() - shared.messages.in_use();
        if parts < 2 || free < kept + parts {
            return false;
        }
        let whole = &mut shared.messages[index];
        if let Some(channel) = whole.channel {
            shared.channels.take(channel, length);
        }
        // The number of the group's first channel is not reused before the group has ended.
        whole.channel = Some(group);
        whole.place = MessagePlace::Divided;
        whole.division = Division::Whole { parts: parts as u8, open: parts as u8, failure: None };
        let whole = *whole;
        shared.counters.divided += 1;
        for offset in (0..length).step_by(each as usize) {
            let range = (offset, each.min(length - offset));
            let chosen = shared.channels.least(group);
            let mut part = whole.part(index, range, chosen, mtu);
            if !shared.is_injected(InjectedBug::ShareTransaction) {
                // A part may end while packets of its answer are under way. They must not count as
                // an answer to the part that has its slot then.
                part.transaction = shared.jetties.take_transaction(whole.jetty);
            }
            let part = shared.messages.add(part);
            let part = part.expect("records were left");
            shared.channels.give(chosen, range.1);
            let channel = channel_of(&mut self.entries, Some(chosen));
            channel.expect("a channel of an open group").enlist(shared, part);
        }
        true
    }

    /// The operations of `list`, in its order, each behind its parts.
    pub(super) fn with_parts(&self, list: Option<Index<Message>>) -> Vec<Index<Message>> {
        let mut all = Vec::new();
        let mut next = list;
        while let Some(at) = next {
            if self.shared.messages[at].division.is_whole() {
                all.extend(self.parts_of(at));
            }
            all.push(at);
            next = self.shared.messages[at].order.next_incomplete();
        }
        all
    }

    /// The same, without those of which something has been sent, and their parts: an operation is
    /// flushed as a whole, or runs to its end.
    pub(super) fn with_unsent_parts(&self, list: Option<Index<Message>>) -> Vec<Index<Message>> {
        let messages = &self.shared.messages;
        let has_begun = |whole: Index<Message>| {
            messages[whole].division.has_ended_part()
                || self.parts_of(whole).any(|part| messages[part].progress.may_have_arrived())
        };
        let mut all = self.with_parts(list);
        all.retain(|at| {
            !messages[*at].division.whole().is_some_and(has_begun)
                && !messages[*at].progress.may_have_arrived()
        });
        all
    }

    fn parts_of(&self, whole: Index<Message>) -> impl Iterator<Item = Index<Message>> + '_ {
        let messages = &self.shared.messages;
        messages.ever_taken().filter(move |part| {
            let message = &messages[*part];
            message.channel.is_some() && message.division.whole() == Some(whole)
        })
    }
}
