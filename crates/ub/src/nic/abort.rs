//! The abrupt end of a Jetty, after which none of its operations touches memory.

use super::{UbDevice, channel_of};
use crate::api::{JettyState, SetupError, Status};
use crate::injected_bug::InjectedBug;
use crate::message::Message;
use crate::pool::Index;
use fairway_wire::JettyId;

impl UbDevice {
    /// Ends everything that is in progress at a Jetty, at once: its operations, its receives and
    /// those that messages have consumed complete as flushed, in the order in which they were
    /// posted; an operation that had failed completes with its failure. What is still in the
    /// network has no effect: a packet that would have to be resent carries nothing, an answer that
    /// arrives is ignored, and what a peer is sending to the Jetty counts as arrived. Packets that
    /// were returned before and not sent yet must be dropped by the caller, and so must payload
    /// that it was asked to place and has not placed yet.
    ///
    /// The Jetty's state does not change, whatever its exception mode is.
    ///
    /// # Errors
    /// `Missing` if there is no such Jetty.
    pub fn abort_jetty(&mut self, id: JettyId) -> Result<(), SetupError> {
        self.shared.jetties.get(id).ok_or(SetupError::Missing)?;
        self.finish_datagram();
        // Ending operations changes the list, so it is read first.
        let mut all = self.with_parts(self.shared.initiator.incomplete[id.value() as usize].head());
        // None is reported as a success because those before it have ended, and none waits for
        // them.
        for &index in &all {
            let message = &mut self.shared.messages[index];
            message.order.complete_at_once();
            message.report.fail_unreported(Status::Flushed);
        }
        // The first one first: completions are in the order of posting, and a target tracks a
        // limited number of operations beyond one that is missing. An operation that is released
        // because an earlier one has ended is not sent before it is ended as well.
        if self.shared.is_injected(InjectedBug::AbortBackwards) {
            all.reverse();
        }
        if !self.shared.is_injected(InjectedBug::FaultWhileAborting) {
            self.shared.jetties.set_aborting(Some(id));
        }
        for index in all {
            if self.shared.report_at_once(index) {
                continue;
            }
            let channel = self.shared.messages[index].channel;
            if let Some(channel) = channel_of(&mut self.entries, channel) {
                channel.cancel_unsent(&mut self.shared, index);
                channel.cancel_sent(&mut self.shared, index);
            }
        }
        self.shared.flush_unreported(id);
        self.shared.jetties.set_aborting(None);
        for index in self.shared.arrivals.ever_taken() {
            let arrival = &self.shared.arrivals[index];
            if arrival.channel.is_none() || arrival.receive.is_none() || arrival.jetty != id {
                continue;
            }
            if let Some(channel) = channel_of(&mut self.entries, arrival.channel) {
                channel.evict_arrival(&mut self.shared, index);
            }
        }
        self.shared.flush_receives(id);
        Ok(())
    }

    /// Changes the secret that peers must present to send to a Jetty.
    ///
    /// # Errors
    /// `Missing` if there is no such Jetty.
    pub fn set_jetty_token(&mut self, id: JettyId, token_value: u32) -> Result<(), SetupError> {
        self.shared.jetties.set_token(id, token_value)
    }

    /// Sets how often an operation of this Jetty that finds no receive is retried; 7 means forever,
    /// and `None` the profile's value.
    ///
    /// # Errors
    /// `Missing` if there is no such Jetty.
    pub fn set_jetty_not_ready_retries(
        &mut self,
        id: JettyId,
        retries: Option<u16>,
    ) -> Result<(), SetupError> {
        self.shared.jetties.set_not_ready_retries(id, retries)
    }

    /// Changes the secret of a segment.
    pub fn set_segment_token(&mut self, id: crate::SegmentId, token_value: u32) {
        self.shared.segments.set_token(id.number(), token_value);
    }

    /// Number of operations, answers and receives that still need a segment's memory.
    pub fn segment_references(&self, id: crate::SegmentId) -> u32 {
        self.shared.segments.get(id.number()).map_or(0, |segment| segment.references())
    }

    /// True if the number is that of a Jetty, and not free or that of a group.
    pub fn has_jetty(&self, id: JettyId) -> bool {
        !matches!(self.jetty_state(id), JettyState::Reset | JettyState::Group)
    }
}

impl crate::channel::Channel {
    /// Ends an operation that has been sent in part or completely.
    pub(crate) fn cancel_sent(
        &mut self,
        shared: &mut crate::shared::Shared,
        index: Index<Message>,
    ) {
        use crate::message::MessagePlace;
        let message = shared.messages[index];
        let ended = !message.report.is_pending() || message.channel.is_none();
        if ended || !message.progress.has_begun() || message.bypasses() {
            return;
        }
        if matches!(message.place, MessagePlace::Sending | MessagePlace::WithFlow) {
            self.delist(shared, index);
        }
        if matches!(message.place, MessagePlace::Stranded { .. }) {
            shared.messages[index].place = MessagePlace::Unlisted;
        }
        if !shared.is_injected(InjectedBug::PlaceAborted) {
            shared.messages[index].attempts.fail(Status::Flushed);
        }
        shared.complete_message(index, Status::Flushed);
        if !shared.messages[index].progress.has_outstanding() {
            self.retire(shared, index);
        }
    }
}
