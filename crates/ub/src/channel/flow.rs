//! A channel's part in scheduling: which message of which flow stands in its queue.

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
    /// Flows that have had their turn in this round, and have more to send.
    spent: List<FlowIndex>,
    /// When the round began.
    began: Instant,
    /// The round before has ended, and another channel has not had its turn since.
    has_ended: bool,
}

impl Line {
    pub(super) fn new(now: Instant) -> Line {
        Line { sending: List::default(), spent: List::default(), began: now, has_ended: false }
    }

    /// The message whose turn it is.
    #[inline]
    pub(super) fn first(&self) -> Option<Index<Message>> {
        self.sending.head()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.sending.is_empty()
    }

    /// The message has had its turn: the others in line come before it.
    #[inline]
    pub(super) fn put_last(&mut self, messages: &mut Pool<Message>, index: Index<Message>) {
        if self.sending.head() != self.sending.tail() {
            self.sending.unlink(messages, index);
            self.sending.push_back(messages, index);
        }
    }

    /// Does a flow wait for the next round?
    pub(super) fn has_spent(&self) -> bool {
        !self.spent.is_empty()
    }

    /// Every flow has had its turn: it is another channel's.
    pub(super) fn end_round(&mut self) {
        self.has_ended = true;
    }

    /// The channel ends: no message is in line any more.
    pub(super) fn flush(&mut self) {
        (self.sending, self.spent) = (List::default(), List::default());
    }
}

impl Channel {
    /// True once, after a round has ended.
    pub(crate) fn take_round_end(&mut self) -> bool {
        core::mem::take(&mut self.line.has_ended)
    }

    /// A message that has something to send gets in line: in the channel's queue, or behind others
    /// of its flow.
    pub(crate) fn enlist(&mut self, shared: &mut Shared, index: Index<Message>) {
        self.note_listed(shared, index);
        let is_injected = shared.is_injected(InjectedBug::RefusedFirst);
        shared.flows.begins_spent = shared.is_injected(InjectedBug::BeginSpent);
        let message = &mut shared.messages[index];
        if message.has_payload() {
            message.flow = shared.flows.join(message);
            // What keeps memory order goes one after the other: early packets would have to be set
            // aside. A message that came too early and is the oldest now goes before the others of
            // its flow, because they wait for it. One that found no receive goes behind them: the
            // receive that is left may be kept for one of them.
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

    fn stand_in_line(&mut self, shared: &mut Shared, index: Index<Message>) {
        shared.messages[index].place = MessagePlace::Sending;
        self.line.sending.push_back(&mut shared.messages, index);
        self.mark_ready(&mut shared.schedule);
    }

    /// Takes a message out of the line (not that of those that wait for something else); its place
    /// is the caller's to say. The next one of its flow takes its turn.
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

    /// The next message of a flow takes its turn, if there is one.
    fn call_next(&mut self, shared: &mut Shared, flow: FlowIndex) {
        let record = shared.flows.get_mut(flow);
        if let Some(next) = record.waiting.pop_front(&mut shared.messages) {
            record.current = Some(next);
            self.stand_in_line(shared, next);
        }
    }

    /// Asks the gate of the flow whose message is at the head of the queue. If it is shut, the
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
        // One that had several messages in line before there was a scheduler may wait already.
        match (record.place, gate) {
            (FlowPlace::Open, Gate::Paced) => record.place = FlowPlace::Paced,
            (FlowPlace::Open, _) => {
                record.place = FlowPlace::Spent;
                self.line.spent.push_back(&mut shared.flows.spent(), flow);
            }
            _ => {}
        }
        false
    }

    /// Every flow that could has had its turn: the next round begins.
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

    /// The time of a flow that was paced may have come.
    pub(crate) fn wake_flow(&mut self, shared: &mut Shared, flow: FlowIndex, now: Instant) {
        if shared.flows.get(flow).queued == 0 {
            // It may have had its turn, and its messages were taken back: it ends in no list.
            self.release_flow(shared, flow);
        }
        if shared.flows.get(flow).place != FlowPlace::Paced {
            return self.expire_flow(&shared.config, &mut shared.flows, flow, now);
        }
        if shared.flows.gate(flow, now) != Gate::Paced {
            self.reopen(shared, flow);
            self.expire_flow(&shared.config, &mut shared.flows, flow, now);
        }
    }

    /// A flow ends if it has had no work for long enough, but not in a round in which it has sent
    /// something while others wait for the next one. If it ended, it would begin again with a whole
    /// turn. Two flows that do so by turns, each for a message that is refused again and again,
    /// would keep the others waiting for ever.
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

    /// The scheduler has changed: flows that waited because of the old one go on.
    pub(crate) fn release_flow(&mut self, shared: &mut Shared, flow: FlowIndex) {
        match shared.flows.get(flow).place {
            FlowPlace::Open => return,
            FlowPlace::Paced => {}
            FlowPlace::Spent => self.line.spent.unlink(&mut shared.flows.spent(), flow),
        }
        self.reopen(shared, flow);
    }

    /// All messages of a flow are in the channel's queue: there is no scheduler any more.
    pub(crate) fn unpark_all(&mut self, shared: &mut Shared, flow: FlowIndex) {
        self.release_flow(shared, flow);
        while let Some(next) = shared.flows.get_mut(flow).waiting.pop_front(&mut shared.messages) {
            self.stand_in_line(shared, next);
        }
        shared.flows.get_mut(flow).current = None;
    }

    /// Forgets the flows of a channel whose messages are all being flushed.
    pub(crate) fn forget_flows(&mut self, flows: &mut Flows) {
        self.line.flush();
        flows.forget_channel(self.index());
    }
}
