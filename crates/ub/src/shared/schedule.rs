//! The order in which the device serves its channels: rings of channels that have something to
//! send, and the deadlines of channels that wait for a time.

use crate::deadlines::Deadlines;
use crate::list::Ring;
use crate::message::Message;
use crate::names::ChannelIndex;
use crate::pool::Index;
use alloc::vec;
use alloc::vec::Vec;
use fairway_policy::MemoryVisitor;
use fairway_wire::Instant;

/// Channels that have something to send, and channels that wait for a time.
pub(crate) struct Schedule {
    /// By engine: channels that have data to send.
    ready: Vec<Ring<ChannelIndex>>,
    /// By engine: channels that have to send an acknowledgement, a refusal, a probe or a close.
    urgent: Vec<Ring<ChannelIndex>>,
    /// By engine: true if an acknowledgement covers as many packets as it is to cover at most.
    has_full_ack: Vec<bool>,
    /// Channels that could not send because a pool was exhausted.
    blocked_on_pool: Ring<ChannelIndex>,
    /// Channels that were blocked on a pool and may try again.
    unblocked: Ring<ChannelIndex>,
    deadlines: Deadlines,
    /// The unreliable message that was polled last, unless it is known to have been gathered.
    leaving: Option<Index<Message>>,
}

impl Schedule {
    pub(crate) fn new(engines: u32, channels: u32) -> Schedule {
        let ring = || Ring::new(channels);
        let rings = || (0..engines).map(|_| ring()).collect();
        Schedule {
            ready: rings(),
            urgent: rings(),
            has_full_ack: vec![false; engines as usize],
            blocked_on_pool: ring(),
            unblocked: ring(),
            deadlines: Deadlines::new(channels),
            leaving: None,
        }
    }

    /// Appends a channel to those of an engine that have data to send.
    #[inline]
    pub(crate) fn push_ready(&mut self, engine: u32, channel: ChannelIndex) {
        self.ready[engine as usize].push(channel);
    }

    /// Appends a channel to those of an engine that have control packets, which precede data.
    #[inline]
    pub(crate) fn push_urgent(&mut self, engine: u32, channel: ChannelIndex) {
        self.urgent[engine as usize].push(channel);
    }

    /// Takes the next channel of an engine that may have data to send.
    #[inline]
    pub(crate) fn pop_ready(&mut self, engine: usize) -> Option<ChannelIndex> {
        self.ready[engine].pop()
    }

    /// True if channels of an engine may have control packets.
    #[inline]
    pub(crate) fn has_urgent(&self, engine: usize) -> bool {
        !self.urgent[engine].is_empty()
    }

    /// Takes the next channel of an engine that has control packets, which precede data.
    #[inline]
    pub(crate) fn pop_urgent(&mut self, engine: usize) -> Option<ChannelIndex> {
        self.urgent[engine].pop()
    }

    /// Records that a channel of an engine has counted as many data packets as one acknowledgement
    /// is to cover at most.
    #[inline]
    pub(crate) fn note_full_ack(&mut self, engine: u32) {
        self.has_full_ack[engine as usize] = true;
    }

    /// True if that was recorded for an engine, and channels of it have control packets.
    #[inline]
    pub(crate) fn has_full_ack(&self, engine: usize) -> bool {
        self.has_full_ack[engine] && !self.urgent[engine].is_empty()
    }

    /// Records that no channel of an engine has control packets any more.
    #[inline]
    pub(crate) fn end_urgent(&mut self, engine: usize) {
        self.has_full_ack[engine] = false;
    }

    /// True if channels of an engine are ready or urgent.
    #[inline]
    pub(crate) fn has_work(&self, engine: usize) -> bool {
        !self.urgent[engine].is_empty() || !self.ready[engine].is_empty()
    }

    /// Appends a channel to those that lack a send-window block.
    pub(crate) fn push_blocked(&mut self, channel: ChannelIndex) {
        self.blocked_on_pool.push(channel);
    }

    /// Lets the channels that lack send-window blocks try again, in the order in which they have
    /// waited, after some were freed.
    #[inline]
    pub(crate) fn retry_blocked(&mut self) {
        while let Some(channel) = self.blocked_on_pool.pop() {
            self.unblocked.push(channel);
        }
    }

    /// Takes the next channel for which send-window blocks have been freed.
    #[inline]
    pub(crate) fn pop_unblocked(&mut self) -> Option<ChannelIndex> {
        self.unblocked.pop()
    }

    /// Makes [`Self::pop_due`] return a channel at `at` or earlier.
    #[inline]
    pub(crate) fn wake_by(&mut self, channel: ChannelIndex, at: Instant) {
        self.deadlines.wake_by(channel.number(), at);
    }

    /// Takes a channel whose deadline has passed.
    #[inline]
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<ChannelIndex> {
        self.deadlines.pop_due(now).map(ChannelIndex::of)
    }

    /// The earliest deadline of a channel.
    #[inline]
    pub(crate) fn earliest_deadline(&self) -> Option<Instant> {
        self.deadlines.earliest()
    }

    /// Removes a channel that has ended from all rings, and its deadline.
    pub(crate) fn remove(&mut self, channel: ChannelIndex) {
        let each = self.ready.iter_mut().chain(&mut self.urgent);
        for ring in each.chain([&mut self.blocked_on_pool, &mut self.unblocked]) {
            ring.purge(channel);
        }
        self.deadlines.remove(channel.number());
    }

    /// Records that an unreliable message has been returned to the caller to be gathered.
    #[inline]
    pub(crate) fn set_leaving(&mut self, message: Index<Message>) {
        self.leaving = Some(message);
    }

    /// True if an unreliable message has been returned to the caller and may not have been
    /// gathered.
    #[inline]
    pub(crate) fn has_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// Names the memory that the next packets touch.
    pub(crate) fn visit_memory(&self, visitor: &mut MemoryVisitor<'_>) {
        visitor.value(&*self.ready);
        visitor.value(&*self.urgent);
        visitor.value(self.deadlines.first());
    }

    /// Takes the unreliable message that was returned last.
    pub(crate) fn take_leaving(&mut self) -> Option<Index<Message>> {
        self.leaving.take()
    }
}
