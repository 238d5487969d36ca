//! Commands: operations and receives that the caller posts.

use super::{UbDevice, channel_at, request};
use crate::api::{LocalRange, OrderRequest, PostError, ReceiveRequest, Work, WorkRequest};
use crate::channel::Channel;
use crate::injected_bug::InjectedBug;
use crate::jetty::Receive;
use crate::message::Message;
use crate::names::ChannelIndex;
use crate::pool::Index;
use crate::shared::Shared;
use fairway_wire::{Instant, JettyId, ServiceMode};

impl UbDevice {
    /// Posts an operation.
    ///
    /// # Errors
    /// See [`PostError`]: the device's state has not changed then, and the same request may be
    /// tried again.
    pub fn post(
        &mut self,
        now: Instant,
        jetty: JettyId,
        request: &WorkRequest,
    ) -> Result<(), PostError> {
        self.shared.flows.now = now;
        if has_local_memory(&request.work) {
            self.shared.check_local(&request.local)?;
        }
        let kept = self.kept_for_answers();
        let chosen = self.choose_channel(request)?;
        let shared = &mut self.shared;
        let channel = channel_at(&mut self.entries, chosen).ok_or(PostError::NoChannel)?;
        check_channel(channel, request)?;
        let unnumbered = shared.without_receive(request);
        let request = unnumbered.as_ref().unwrap_or(request);
        let index = shared.take_on(channel, jetty, request, kept)?;
        let bugs = [InjectedBug::IgnoreFence, InjectedBug::ForgetStrict];
        let injected = bugs.into_iter().find(|bug| shared.is_injected(*bug));
        channel.note_used(now);
        let share = channel.share_per_jetty();
        if shared.initiator.post(&mut shared.messages, index, share, injected) {
            shared.counters.gated += 1;
            return Ok(());
        }
        if channel.is_retired() {
            // It is moved when no earlier load or store can be executed any more.
            shared.messages[index].strand();
        } else if shared.messages[index].bypasses() {
            channel.post_bypass(shared, index);
        } else if shared.is_dividable(index) {
            self.issue(index);
        } else {
            channel.enlist(shared, index);
        }
        Ok(())
    }

    /// The channel of the group that will carry an operation.
    fn choose_channel(&mut self, request: &WorkRequest) -> Result<ChannelIndex, PostError> {
        let leads = |channel: &Channel| channel.leader == request.channel;
        if !self.open_ref(request.channel).is_some_and(leads) {
            return Err(PostError::NoChannel);
        }
        let group = request.channel.record();
        if bypasses(&request.work) {
            return Ok(self.bypass_channel(group));
        }
        Ok(self.shared.channels.choose(group, u64::from(self.shared.config.profile().group_slack)))
    }

    /// The channel of the group that will carry a load or store: the first one that is not retired.
    /// While copies of those that a retired channel carried may still be executed, they wait there.
    fn bypass_channel(&self, group: ChannelIndex) -> ChannelIndex {
        let carries = |member: &ChannelIndex| {
            let channel = self.entry_channel(*member);
            channel.is_some_and(|channel| channel.is_open() || channel.holds_bypasses())
        };
        self.shared.channels.get(group).members().find(carries).unwrap_or(group)
    }

    /// Posts a receive to a Jetty.
    ///
    /// # Errors
    /// See [`PostError`].
    pub fn post_receive(
        &mut self,
        jetty: JettyId,
        request: &ReceiveRequest,
    ) -> Result<(), PostError> {
        let local = request.local;
        let shared = &mut self.shared;
        shared.check_local(&local)?;
        let queue = shared.jetties.receiving(jetty)?.receive_queue;
        if shared.jetties.shares_receives(jetty) {
            return Err(PostError::NotReady);
        }
        if shared.jetties.is_out_of_receives() {
            return Err(PostError::TooManyReceives);
        }
        if !shared.queues.of_jetty(queue).reserve() {
            return Err(PostError::CompletionQueueFull);
        }
        let receive = Receive {
            id: request.id,
            offset: local.offset,
            segment: local.segment.number(),
            length: local.length,
            next: None,
            sequence: 0,
        };
        if !shared.jetties.add_receive(jetty, receive) {
            return Err(PostError::TooManyReceives);
        }
        shared.segments.hold(local.segment.number());
        Ok(())
    }
}

impl Shared {
    /// Checks that a request names memory that is registered here.
    fn check_local(&self, local: &LocalRange) -> Result<(), PostError> {
        match self.segments.holds(local.segment.number(), local.offset, local.length) {
            None => Err(PostError::NoSegment),
            Some(false) => Err(PostError::OutOfBounds),
            Some(true) => Ok(()),
        }
    }

    /// The request without the order of its receive, if it requests one and takes no receive: the
    /// target would wait for a receive of that number. Callers may request one order for all their
    /// operations.
    #[inline]
    fn without_receive(&self, request: &WorkRequest) -> Option<WorkRequest> {
        let is_needless = request.order.receive_in_order && !takes_receive(&request.work);
        if !is_needless || self.is_injected(InjectedBug::NumberFetches) {
            return None;
        }
        let order = OrderRequest { receive_in_order: false, ..request.order };
        Some(WorkRequest { order, ..*request })
    }

    /// Creates a message for a request, with all records that it will need until it has completed.
    /// `kept`: records of messages that are reserved for answers to peers.
    #[inline]
    fn take_on(
        &mut self,
        channel: &Channel,
        jetty: JettyId,
        request: &WorkRequest,
        kept: u32,
    ) -> Result<Index<Message>, PostError> {
        let endpoint = *self.jetties.posting(jetty)?;
        if self.messages.capacity() - self.messages.in_use() <= kept {
            return Err(PostError::TooManyMessages);
        }
        let (order, group) = (&request.order, request.channel.record());
        self.initiator.prepare(&mut self.messages, jetty, group, order)?;
        if !self.queues.of_jetty(endpoint.send_queue).reserve() {
            return Err(PostError::CompletionQueueFull);
        }
        let (chosen, mtu) = (channel.index(), channel.mtu);
        let message = || Message::of(request, chosen, jetty, endpoint.transaction, mtu);
        let is_put = matches!(request.work, Work::Put { .. });
        if is_put && !self.prepare_put(message) {
            self.queues.of_jetty(endpoint.send_queue).unreserve();
            return Err(PostError::TooManyPuts);
        }
        let index = self.messages.add(message()).ok_or(PostError::TooManyMessages)?;
        self.jetties.begin_operation(jetty);
        self.channels.give(chosen, self.messages[index].local.length);
        if has_local_memory(&request.work) {
            self.segments.hold(request.local.segment.number());
        }
        if is_put {
            self.puts.number(&mut self.messages, index);
        }
        Ok(index)
    }

    /// Ensures that there is a record of a put's stream; false if there is none left.
    #[inline(never)]
    fn prepare_put(&mut self, put: impl Fn() -> Message) -> bool {
        let bugs = [InjectedBug::NumberAfresh, InjectedBug::IssueAnew];
        let injected = bugs.into_iter().find(|bug| self.is_injected(*bug));
        self.puts.prepare(&self.messages, &put(), injected)
    }
}

/// True if the local range of a request is memory. An atomic has none.
fn has_local_memory(work: &Work) -> bool {
    !matches!(work, Work::Atomic { .. })
}

/// True if an operation takes a receive at its target.
fn takes_receive(work: &Work) -> bool {
    matches!(work, Work::Send { .. } | Work::SendImmediate { .. } | Work::WriteImmediate { .. })
}

/// True for a load or a store, which bypasses the transport.
fn bypasses(work: &Work) -> bool {
    matches!(work, Work::Load { .. } | Work::Store { .. })
}

/// Checks that a channel may carry the request.
#[inline]
fn check_channel(channel: &Channel, request: &WorkRequest) -> Result<(), PostError> {
    let holds = bypasses(&request.work) && channel.is_retired();
    if !channel.is_open() && !holds {
        return Err(PostError::NoChannel);
    }
    request::check(request, channel.mtu)?;
    let is_agreed = match bypasses(&request.work) {
        true => channel.may_bypass(),
        false => channel.may_send_datagrams() || request.order.mode != ServiceMode::Uno,
    };
    if is_agreed { Ok(()) } else { Err(PostError::NotAgreed) }
}
