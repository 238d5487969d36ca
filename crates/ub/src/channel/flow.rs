//! A channel's part in scheduling: which message of each flow is in the channel's queue.

use super::Channel;
use crate::flow::{FlowPlace, Flows, Gate};
use crate::injected_bug::InjectedBug;
use crate::list::List;
use crate::message::{Message, MessagePlace, Outcome};
use crate::names::FlowIndex;
use crate::pool::{Index, Pool};
use crate::shared::{Config, Shared};
use fairway_wire::{Instant, Tag};

/// The messages of a channel that have something to send, and the round in which each of their
/// flows has one turn.
#[derive(Debug)]
pub(super) struct Line {
    /// Messages with something to send, in turn.
    sending: List<Index<Message>>,
    /// Flows that have had their turn in this round and have more to send.
    spent: List<FlowIndex>,
    /// When the round began.
    began: Instant,
    /// Set if a round has ended and no other channel has had its turn since.
    has_ended: bool,
    /// Packets that have been sent in the current message's turn.
    turn_packets: u32,
}

impl Line {
    pub(super) fn new(now: Instant) -> Line {
        Line {
            sending: List::default(),
            spent: List::default(),
            began: now,
            has_ended: false,
            turn_packets: 0,
        }
    }

    /// The message whose turn it is.
    #[inline]
    pub(super) fn first(&self) -> Option<Index<Message>> {
        self.sending.head()
    }

    /// The message whose turn it is, if it is the only one.
    #[inline]
    pub(super) fn only(&self) -> Option<Index<Message>> {
        self.sending.head().filter(|head| self.sending.tail() == Some(*head))
    }

    /// The message whose turn is last.
    #[inline]
    pub(super) fn last(&self) -> Option<Index<Message>> {
        self.sending.tail()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.sending.is_empty()
    }

    /// True if no message is to be sent, and no turn or round is being ended.
    pub(super) fn is_at_rest(&self) -> bool {
        self.is_empty() && !self.has_spent() && !self.has_ended
    }

    /// Counts a packet of the current message's turn, which ends with the message.
    #[inline]
    pub(super) fn note_sent(&mut self, is_last: bool) {
        self.turn_packets = if is_last { 0 } else { self.turn_packets.saturating_add(1) };
    }

    /// Puts a message whose chunk has ended behind the others in the queue, if its turn of so many
    /// packets is over.
    #[inline]
    pub(super) fn end_turn(
        &mut self,
        messages: &mut Pool<Message>,
        index: Index<Message>,
        turn_packets: u32,
    ) {
        if self.turn_packets < turn_packets {
            return;
        }
        self.turn_packets = 0;
        if self.sending.head() != self.sending.tail() {
            self.sending.unlink(messages, index);
            self.sending.push_back(messages, index);
        }
    }

    /// True if a flow waits for the next round.
    pub(super) fn has_spent(&self) -> bool {
        !self.spent.is_empty()
    }

    /// Ends a round in which every flow has had its turn: the next channel has its turn.
    pub(super) fn end_round(&mut self) {
        self.has_ended = true;
    }

    /// Empties the lists when the channel ends.
    pub(super) fn flush(&mut self) {
        (self.sending, self.spent) = (List::default(), List::default());
    }
}

impl Channel {
    /// True once, after a round has ended.
    pub(crate) fn take_round_end(&mut self) -> bool {
        core::mem::take(&mut self.line.has_ended)
    }

    /// Queues a message that has something to send: in the channel's queue, or behind others of its
    /// flow.
    pub(crate) fn enlist(&mut self, shared: &mut Shared, index: Index<Message>) {
        self.note_listed(shared, index);
        let is_injected = shared.is_injected(InjectedBug::RefusedFirst);
        shared.flows.begins_spent = shared.is_injected(InjectedBug::BeginSpent);
        let message = &mut shared.messages[index];
        if message.has_payload() {
            message.flow = shared.flows.join(message);
            // Messages in memory order are sent one after the other, because early packets would
            // have to be set aside. A message that arrived too early and is the oldest now is sent
            // before the others of its flow, because they wait for it. A message that found no
            // receive is sent after them, because the receive that is left may be reserved for one
            // of them.
            let in_turn = message.order.tag() == Tag::Mo;
            let was_early = message.attempts.outcome() == Outcome::TooEarly || is_injected;
            if let Some(flow) = message.flow.filter(|_| in_turn || shared.flows.are_scheduled()) {
                let is_oldest =
                    in_turn && was_early && shared.initiator.is_oldest(&shared.messages, index);
                let message = &mut shared.messages[index];
                let flow = shared.flows.get_mut(flow);
                if flow.current.is_some() || flow.place != FlowPlace::Open {
                    message.place = MessagePlace::WithFlow;
                    return match is_oldest {
                        true => flow.waiting.push_front(&mut shared.messages, index),
                        false => flow.waiting.push_back(&mut shared.messages, index),
                    };
                }
                flow.current = Some(index);
            }
        }
        self.stand_in_line(shared, index);
    }

    #[inline]
    fn stand_in_line(&mut self, shared: &mut Shared, index: Index<Message>) {
        shared.messages[index].place = MessagePlace::Sending;
        self.line.sending.push_back(&mut shared.messages, index);
        self.mark_ready(&mut shared.schedule);
    }

    /// Removes a message from the queue (not from that of messages that wait for something else);
    /// the caller sets its new place. The next message of its flow has its turn.
    #[inline]
    pub(crate) fn delist(&mut self, shared: &mut Shared, index: Index<Message>) {
        self.note_delisted(shared, index);
        let message = &mut shared.messages[index];
        let flow = message.flow.take();
        let waiting = message.place == MessagePlace::WithFlow;
        message.place = MessagePlace::Unlisted;
        match flow.filter(|_| waiting) {
            Some(flow) => shared.flows.get_mut(flow).waiting.unlink(&mut shared.messages, index),
            None => self.line.sending.unlink(&mut shared.messages, index),
        }
        let Some(flow) = flow else { return };
        let record = shared.flows.get_mut(flow);
        record.queued -= 1;
        let drained = record.queued == 0;
        if record.current == Some(index) {
            record.current = None;
            self.call_next(shared, flow);
        }
        if drained {
            shared.flows.drained(flow);
        }
    }

    /// Queues the next message of a flow, if there is one.
    fn call_next(&mut self, shared: &mut Shared, flow: FlowIndex) {
        let record = shared.flows.get_mut(flow);
        if let Some(next) = record.waiting.pop_front(&mut shared.messages) {
            record.current = Some(next);
            self.stand_in_line(shared, next);
        }
    }

    /// Checks the gate of the flow whose message is at the head of the queue. If it is closed, the
    /// message goes back to its flow.
    pub(crate) fn passes_gate(
        &mut self,
        shared: &mut Shared,
        index: Index<Message>,
        now: Instant,
    ) -> bool {
        let Some(flow) = shared.messages[index].flow else { return true };
        let gate = shared.flows.gate(flow, now);
        if gate == Gate::Open {
            return true;
        }
        self.line.sending.unlink(&mut shared.messages, index);
        shared.messages[index].place = MessagePlace::WithFlow;
        let record = shared.flows.get_mut(flow);
        record.waiting.push_front(&mut shared.messages, index);
        if record.current == Some(index) {
            record.current = None;
        }
        // A flow that had several messages queued before there was a scheduler may wait already.
        match (record.place, gate) {
            (FlowPlace::Open, Gate::Paced(_)) => record.place = FlowPlace::Paced,
            (FlowPlace::Open, _) => {
                record.place = FlowPlace::Spent;
                self.line.spent.push_back(&mut shared.flows.spent(), flow);
            }
            _ => {}
        }
        false
    }

    /// Begins the next round, after every flow that could has had its turn.
    pub(crate) fn begin_round(&mut self, shared: &mut Shared, now: Instant) {
        self.line.began = now;
        let mut spent = core::mem::take(&mut self.line.spent);
        while let Some(flow) = spent.pop_front(&mut shared.flows.spent()) {
            if shared.is_injected(InjectedBug::ForgetSpent) && !spent.is_empty() {
                continue;
            }
            shared.flows.refill(flow);
            self.reopen(shared, flow);
        }
    }

    /// Reopens a paced flow if its time has come.
    pub(crate) fn wake_flow(&mut self, shared: &mut Shared, flow: FlowIndex, now: Instant) {
        if shared.flows.get(flow).queued == 0 {
            // The flow may have had its turn before its messages were withdrawn: it must end in no
            // list.
            self.release_flow(shared, flow);
        }
        if shared.flows.get(flow).place != FlowPlace::Paced {
            return self.expire_flow(&shared.config, &mut shared.flows, flow, now);
        }
        if !matches!(shared.flows.gate(flow, now), Gate::Paced(_)) {
            self.reopen(shared, flow);
            self.expire_flow(&shared.config, &mut shared.flows, flow, now);
        }
    }

    /// Ends a flow that has had no work for long enough, but not in a round in which it has sent
    /// something while others wait for the next one. If it ended then, it would begin again with a
    /// whole turn: two flows that alternate in this way, each with a message that is refused
    /// repeatedly, would keep the others waiting for ever.
    fn expire_flow(&mut self, config: &Config, flows: &mut Flows, flow: FlowIndex, now: Instant) {
        // Another bug was found while flows could end in every round.
        let bugs = [InjectedBug::EndInRound, InjectedBug::BeginSpent];
        let may_end = self.line.spent.is_empty()
            || flows.get(flow).last_sent.is_before(self.line.began)
            || bugs.into_iter().any(|bug| config.is_injected(bug));
        flows.expire(flow, now, may_end);
    }

    fn reopen(&mut self, shared: &mut Shared, flow: FlowIndex) {
        shared.flows.get_mut(flow).place = FlowPlace::Open;
        self.call_next(shared, flow);
    }

    /// Releases a flow that waited because of a scheduler that has been replaced.
    pub(crate) fn release_flow(&mut self, shared: &mut Shared, flow: FlowIndex) {
        match shared.flows.get(flow).place {
            FlowPlace::Open => return,
            FlowPlace::Paced => {}
            FlowPlace::Spent => self.line.spent.unlink(&mut shared.flows.spent(), flow),
        }
        self.reopen(shared, flow);
    }

    /// Moves all messages of a flow to the channel's queue when there is no scheduler any more.
    pub(crate) fn unpark_all(&mut self, shared: &mut Shared, flow: FlowIndex) {
        self.release_flow(shared, flow);
        while let Some(next) = shared.flows.get_mut(flow).waiting.pop_front(&mut shared.messages) {
            self.stand_in_line(shared, next);
        }
        shared.flows.get_mut(flow).current = None;
    }

    /// Removes the flows of a channel whose messages are all being flushed.
    pub(crate) fn forget_flows(&mut self, flows: &mut Flows) {
        self.line.flush();
        flows.forget_channel(self.index());
    }
}
