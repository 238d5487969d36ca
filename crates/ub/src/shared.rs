//! State that all channels of a device share.
//!
//! Each field of [`Shared`] is an owner whose fields are private to its file. A function that needs
//! one owner receives that one; `impl Shared` joins owners where an operation or a receive
//! completes.

mod arrivals;
mod backpressure;
mod completion_queues;
mod config;
mod deferred_packets;
mod jetties;
mod schedule;

pub(crate) use arrivals::Arrivals;
pub(crate) use backpressure::Backpressure;
pub(crate) use completion_queues::CompletionQueues;
pub(crate) use config::Config;
pub(crate) use deferred_packets::DeferredPackets;
pub(crate) use jetties::{Jetties, MatchedReceive};
pub(crate) use schedule::Schedule;

use crate::answer::Answer;
use crate::api::{Completion, CompletionKind, Event, LocalRange, Rights, SegmentId, Status};
use crate::counters::Counters;
use crate::deferred::Deferred;
use crate::flow::Flows;
use crate::injected_bug::InjectedBug;
use crate::jetty::Receive;
use crate::mailbox::Mailboxes;
use crate::message::{Body, Message, MessagePlace, Unreported};
use crate::order::{Incomplete, Initiator, Key, Trackers};
use crate::pool::{Index, Pool};
use crate::put_streams::PutStreams;
use crate::random::Random;
use crate::segment::{Admission, Segments};
use crate::send_window::SendBlocks;
use crate::tpg::ChannelGroups;
use alloc::collections::VecDeque;
use fairway_policy::MemoryVisitor;
use fairway_wire::{Duration, Instant, JettyId, Operation, Part, Refusal, Tag, Target};

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) random: Random,
    pub(crate) counters: Counters,
    pub(crate) segments: Segments,
    pub(crate) jetties: Jetties,
    pub(crate) queues: CompletionQueues,
    pub(crate) messages: Pool<Message>,
    pub(crate) arrivals: Arrivals,
    /// Answers to loads and stores of peers.
    pub(crate) answers: Pool<Answer>,
    pub(crate) deferred: DeferredPackets,
    pub(crate) trackers: Trackers,
    pub(crate) initiator: Initiator,
    pub(crate) mailboxes: Mailboxes,
    /// Local puts, by channel, Jetty and mailbox.
    pub(crate) puts: PutStreams,
    pub(crate) send_blocks: SendBlocks,
    pub(crate) bitmap_blocks: Pool<u16>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) flows: Flows,
    pub(crate) backpressure: Backpressure,
    pub(crate) channels: ChannelGroups,
    pub(crate) schedule: Schedule,
    /// How long the packets that are being handled have been in this host; `None` if that is not
    /// known.
    pub(crate) host_wait: Option<Duration>,
}

impl Shared {
    /// Names the parts of this that every packet touches.
    pub(crate) fn visit_memory(&self, visitor: &mut MemoryVisitor<'_>) {
        visitor.value(&self.host_wait);
        visitor.value(&self.segments);
        visitor.value(&self.queues);
        visitor.value(&self.messages);
        visitor.value(&self.arrivals);
        visitor.value(&self.deferred);
        visitor.value(&self.send_blocks);
        visitor.value(&self.bitmap_blocks);
        visitor.value(&self.flows);
        visitor.value(&self.channels);
        visitor.value(&self.schedule);
        visitor.value(&self.backpressure);
        visitor.value(self.config.profile());
        visitor.value(&self.random);
        visitor.value(&self.counters.data_sent);
        visitor.value(&self.counters.data_received);
        visitor.value(&self.counters.acks_received);
    }

    /// Names the memory of the tables that every packet touches.
    pub(crate) fn visit_tables(&self, visitor: &mut MemoryVisitor<'_>) {
        self.schedule.visit_memory(visitor);
        visitor.value(self.messages.first(2));
        visitor.value(self.bitmap_blocks.first(32));
        self.arrivals.visit_memory(visitor);
        self.flows.visit_memory(visitor);
        self.channels.visit_memory(visitor);
        visitor.value(self.segments.first());
        self.queues.visit_memory(visitor);
    }

    /// When the packet that is being handled at `now` arrived at this host, as far as is known.
    #[inline]
    pub(crate) fn arrived_at(&self, now: Instant) -> Instant {
        now - self.host_wait.unwrap_or(Duration::ZERO)
    }

    /// Counts a packet that was just set aside until its turn.
    pub(crate) fn count_deferred(&mut self) {
        self.counters.deferred += 1;
        let waiting = u64::from(self.deferred.in_use());
        self.counters.deferred_max = self.counters.deferred_max.max(waiting);
    }

    #[inline]
    pub(crate) fn is_injected(&self, bug: InjectedBug) -> bool {
        self.config.is_injected(bug)
    }

    /// Reports that nothing of a Jetty is under way any more, if it takes no more operations.
    pub(crate) fn note_drained(&mut self, id: JettyId) {
        if self.jetties.is_drained(id, self.is_injected(InjectedBug::DrainedEarly)) {
            self.events.push_back(Event::JettyDrained { jetty: id });
        }
    }

    /// Completes the posted receives of a Jetty as flushed.
    pub(crate) fn flush_receives(&mut self, id: JettyId) {
        self.jetties.return_reserved_of(&mut self.trackers, id);
        let queue = self.jetties.receive_queue(id);
        while let Some(receive) = self.jetties.drain_receive(id) {
            self.queues.of_jetty(queue).push(Completion {
                id: receive.id,
                jetty: id,
                status: Status::Flushed,
                kind: CompletionKind::Receive,
                bytes: 0,
                immediate: None,
                value: 0,
                channel: crate::ChannelId::UNKNOWN,
                remote_jetty: JettyId::default(),
            });
            self.release(receive.segment);
        }
    }

    /// Reports a receive and frees it.
    pub(crate) fn complete_receive(&mut self, index: Index<Receive>, completion: Completion) {
        let receive = self.jetties.remove_receive(index);
        let queue = self.jetties.receive_queue(completion.jetty);
        self.queues.of_jetty(queue).push(Completion { id: receive.id, ..completion });
        self.release(receive.segment);
    }

    /// Completes a local operation that is done, or never will be. It is reported now or in order.
    /// A part of an operation is not reported; the last one that ends completes the operation.
    pub(crate) fn complete_message(&mut self, index: Index<Message>, status: Status) {
        let message = &mut self.messages[index];
        if let Some(whole) = message.division.whole() {
            return self.complete_part(index, whole, status);
        }
        let bars = status != Status::Success && message.order.tag() == Tag::Mo;
        message.report.set_bars_later(bars);
        if message.order.tag() != Tag::No {
            match bars {
                true => self.initiator.failed(&mut self.messages, index),
                false => self.initiator.done(&mut self.messages, index),
            }
        }
        let message = &self.messages[index];
        if let Some(channel) = message.channel
            && !message.division.is_whole()
        {
            self.channels.take(channel, message.local.length);
        }
        if message.order.request().complete_in_order
            && !self.initiator.is_first(&self.messages, index)
            && !self.is_injected(InjectedBug::CompleteAtOnce)
        {
            self.messages[index].report.add_unreported(status);
            self.counters.completions_awaiting_order += 1;
            return;
        }
        let jetty = message.jetty.value() as usize;
        self.report_message(index, status);
        self.report_next(jetty);
    }

    /// Ends a part of an operation. The record of the operation is not needed after its last part.
    fn complete_part(&mut self, index: Index<Message>, whole: Index<Message>, status: Status) {
        let part = &mut self.messages[index];
        part.report.note_reported();
        if let Some(channel) = part.channel {
            self.channels.take(channel, part.local.length);
        }
        let bugs = [InjectedBug::CompleteFirstPart, InjectedBug::ForgetFailedPart];
        let bug = bugs.into_iter().find(|bug| self.is_injected(*bug));
        let ended = self.messages[whole].division.end_part(status, bug);
        if bug == Some(InjectedBug::CompleteFirstPart) && self.messages[whole].report.is_pending() {
            self.complete_message(whole, status);
        }
        let Some(status) = ended else { return };
        self.messages[whole].place = MessagePlace::Unlisted;
        if self.messages[whole].report.is_pending() {
            self.complete_message(whole, status);
        }
        if self.messages[whole].report.release() {
            self.free_message(whole);
        }
    }

    /// Reports an operation that waits for those before it. False if it does not.
    pub(crate) fn report_at_once(&mut self, index: Index<Message>) -> bool {
        let Some(waiting) = self.messages[index].report.take_unreported_next() else {
            return false;
        };
        self.report_waiting(index, waiting);
        true
    }

    #[inline(never)]
    fn report_waiting(&mut self, index: Index<Message>, waiting: Unreported) {
        self.report_message(index, waiting.status);
        if waiting.is_released {
            self.free_message(index);
        }
    }

    /// Reports the operations of a Jetty that had to wait for one before them.
    #[inline(always)]
    fn report_next(&mut self, jetty: usize) {
        // A reported operation is still listed if it bars later ones.
        while let Some(next) = self.initiator.incomplete[jetty].head()
            && let Some(waiting) = self.messages[next].report.take_unreported_next()
        {
            self.report_waiting(next, waiting);
        }
    }

    /// Called when the target has acknowledged that it does not wait for a failed operation in
    /// memory order. Operations that were posted after it continue and are reported.
    #[inline]
    pub(crate) fn lift_bar(&mut self, index: Index<Message>) {
        if self.messages[index].report.lift_bar() {
            self.continue_after(index);
        }
    }

    /// Continues the operations that were posted after one that no operation waits for any more.
    fn continue_after(&mut self, index: Index<Message>) {
        self.initiator.done(&mut self.messages, index);
        if self.messages[index].report.is_reported() {
            let jetty = self.messages[index].jetty.value() as usize;
            let mut incomplete = self.initiator.incomplete[jetty];
            incomplete.unlink(&mut Incomplete(&mut self.messages), index);
            self.initiator.incomplete[jetty] = incomplete;
            self.report_next(jetty);
        }
    }

    /// Reports a local operation and drops its references to its Jetty and memory.
    #[inline(always)]
    fn report_message(&mut self, index: Index<Message>, status: Status) {
        self.initiator.completed(&mut self.messages, index);
        let message = &mut self.messages[index];
        message.report.note_reported();
        let success = status == Status::Success;
        let has_memory = !matches!(message.body, Body::Atomic(_));
        let (id, segment, silent) =
            (message.jetty, message.local.segment.number(), !message.report.is_signaled());
        let completion = message.completion(status);
        let queue = self.queues.of_jetty(self.jetties.end_operation(id));
        if success && silent {
            queue.unreserve();
        } else {
            queue.push(completion);
        }
        if has_memory {
            self.release(segment);
        }
        if !success && let Some(state) = self.jetties.take_fault(id, status) {
            self.events.push_back(Event::JettyFault { jetty: id, status, state });
        }
        self.note_drained(id);
    }

    /// Frees a message's record, which is not needed any more.
    #[inline]
    pub(crate) fn free_message(&mut self, index: Index<Message>) {
        self.messages[index].channel = None;
        self.messages.remove(index);
    }

    // ---- deferred packets ----

    /// Drops a deferred packet whose channel has ended; its tracker is removed as well.
    pub(crate) fn withdraw_deferred(&mut self, index: Index<Deferred>) {
        self.deferred.revoke_due(index);
        self.unlink_deferred(index);
        self.deferred.free(index, &mut self.channels);
    }

    /// Removes a packet that waits for its turn from the list of its tracker, if it is in the list:
    /// while its channel ends, other packets of the list may become due.
    fn unlink_deferred(&mut self, index: Index<Deferred>) {
        let deferred = self.deferred[index];
        let key = Key::of(deferred.leader, deferred.data.jetty);
        if let Some(tracker) = self.trackers.find(&key).filter(|_| !deferred.is_part) {
            self.deferred.unlink(&mut self.trackers[tracker].deferred, index);
        }
    }

    /// True if a request names an existing segment, Jetty or mailbox with a wrong key.
    pub(crate) fn has_wrong_key(&self, operation: &Operation) -> bool {
        let jetty = |target: &Target| self.jetties.has_other_token(target);
        match operation {
            Operation::Write { access }
            | Operation::Read { access }
            | Operation::Atomic { access, .. } => self.segments.has_other_secret(access),
            Operation::WriteImmediate { access, target, .. } => {
                self.segments.has_other_secret(access) || jetty(target)
            }
            Operation::Send { target, .. } | Operation::SendImmediate { target, .. } => {
                jetty(target)
            }
            Operation::WritePart(part) | Operation::ReadPart(part) => {
                self.segments.has_other_secret(&part.access)
            }
            Operation::Put(put) => self.mailboxes.has_other_key(put.mailbox, put.key),
            Operation::Get(get) => self.mailboxes.has_other_key(get.mailbox, get.key),
            _ => false,
        }
    }

    /// Checks an access to the memory of a whole operation, and returns that of a part of it.
    pub(crate) fn check_part(
        &self,
        part: &Part,
        right: Rights,
    ) -> Result<(Admission, LocalRange), Refusal> {
        let whole = part.whole().ok_or(Refusal::Access)?;
        let alone = self.is_injected(InjectedBug::CheckPartAlone);
        let checked = if alone { part.access } else { whole };
        let (admission, local) = self.segments.check(&checked, right)?;
        let before = if alone { 0 } else { u64::from(part.before) };
        let offset = local.offset + before;
        Ok((admission, LocalRange { offset, length: part.access.length, ..local }))
    }

    /// Drops a reference to a segment, and reports an event if that released the segment.
    #[inline]
    pub(crate) fn release(&mut self, segment: u32) {
        if self.segments.release(segment) {
            self.events.push_back(Event::SegmentReleased { segment: SegmentId::new(segment) });
        }
    }
}
