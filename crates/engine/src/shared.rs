//! What all channels of a NIC share: pools, Jetties, segments, queues.

use crate::answer::Answer;
use crate::api::{
    Completion, CompletionKind, DropReason, Event, ExceptionMode, JettyState, LocalRange,
    PostError, SegmentId, Status,
};
use crate::arrival::{Arrival, Parked};
use crate::canary::Canary;
use crate::completion::CompletionQueue;
use crate::counters::Counters;
use crate::deadlines::Deadlines;
use crate::flow::Flows;
use crate::group::Group;
use crate::held::{Cause, DueQueue, Held, HeldPool, HeldState};
use crate::in_sequence::Sequencing;
use crate::jetty::{Jetty, Receive, ReceiveSource};
use crate::limits::{Limits, Profile};
use crate::list::Ring;
use crate::mailbox::Mailboxes;
use crate::message::{Body, Message};
use crate::names::ChannelIndex;
use crate::order::{Incomplete, Initiator, Key, Keyed, Tracker};
use crate::placement::Verdict;
use crate::pool::{Index, Pool};
use crate::puts::Puts;
use crate::random::Random;
use crate::segment::Segments;
use crate::send_window::SendBlocks;
use crate::tpg::ChannelGroups;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use fairway_policy::CreditPolicy;
use fairway_wire::{Cna, JettyId, Operation, Refusal, Tag, Target};

pub(crate) struct Shared {
    pub(crate) cna: Cna,
    pub(crate) limits: Limits,
    pub(crate) profile: Profile,
    pub(crate) random: Random,
    pub(crate) counters: Counters,
    pub(crate) segments: Segments,
    pub(crate) jetties: Vec<Jetty>,
    /// By Jetty: receives that were taken by messages and have not been replaced.
    pub(crate) taken: Vec<u32>,
    /// By Jetty: where its receives come from.
    pub(crate) sources: Vec<ReceiveSource>,
    /// Receives that are matched by sequence.
    pub(crate) sequencing: Sequencing,
    /// By Jetty: how often an operation that finds no receive is tried again, if it has a say.
    pub(crate) patience: Vec<Option<u8>>,
    pub(crate) groups: Pool<Group>,
    /// Jetties that have gone to the error state and are to be flushed.
    pub(crate) failing: Vec<JettyId>,
    pub(crate) receives: Pool<Receive>,
    pub(crate) queues: Vec<Option<CompletionQueue<Completion>>>,
    pub(crate) messages: Pool<Message>,
    pub(crate) arrivals: Pool<Arrival>,
    /// Of those, the ones in memory order that had to wait for their turn.
    pub(crate) arrivals_waiting: u32,
    /// Message slots of all open channels: so many arrivals may be needed for messages that do not
    /// wait.
    pub(crate) slots_open: u32,
    /// Receives that are complete and wait for earlier ones: as many as there are receives.
    pub(crate) parked: Pool<Parked>,
    /// Answers to loads and stores of peers.
    pub(crate) answers: Pool<Answer>,
    pub(crate) held: HeldPool,
    /// Messages in memory order that were given up by their initiator before their turn came.
    pub(crate) given_up: Vec<Index<Arrival>>,
    /// Groups whose channels waited for packets that had been set aside, and need not now.
    pub(crate) drained: Vec<ChannelIndex>,
    /// Held packets whose turn has come.
    pub(crate) due: DueQueue,
    /// What is being taken in, if it is a packet with a number of its own.
    pub(crate) cause: Option<Cause>,
    /// The unreliable message that was polled last, unless it is known to have been gathered.
    pub(crate) leaving: Option<Index<Message>>,
    /// Where the caller puts the payload of held packets, and how much each may have.
    pub(crate) stash: Option<SegmentId>,
    pub(crate) stash_packet: u32,
    pub(crate) trackers: Keyed<Tracker>,
    pub(crate) initiator: Initiator,
    pub(crate) mailboxes: Mailboxes,
    /// Our own puts, by channel, Jetty and mailbox.
    pub(crate) puts: Puts,
    pub(crate) send_blocks: SendBlocks,
    pub(crate) bitmap_blocks: Pool<u16>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) deadlines: Deadlines,
    pub(crate) flows: Flows,
    /// The policy that grants credit to senders.
    pub(crate) credit: Option<Box<dyn CreditPolicy>>,
    /// Peers are to slow down.
    pub(crate) pressure: bool,
    /// What is sent here is to slow down.
    pub(crate) transmit_pressure: bool,
    pub(crate) channels: ChannelGroups,
    /// By engine: channels that have data to send.
    pub(crate) ready: Vec<Ring<ChannelIndex>>,
    /// By engine: channels that owe an acknowledgement, a refusal, a probe or a close.
    pub(crate) urgent: Vec<Ring<ChannelIndex>>,
    /// Channels that could not send because a pool was exhausted.
    pub(crate) starved: Ring<ChannelIndex>,
    /// Channels that were starved and may try again.
    pub(crate) fed: Ring<ChannelIndex>,
    /// No peer may be called dead now.
    pub(crate) ends_held: bool,
    /// One would have been.
    pub(crate) end_wanted: bool,
    pub(crate) canary: Option<Canary>,
}

impl Shared {
    #[inline]
    pub(crate) fn is_planted(&self, canary: Canary) -> bool {
        cfg!(feature = "canary") && self.canary == Some(canary)
    }

    pub(crate) fn drop(&mut self, reason: DropReason) -> Verdict {
        self.counters.drops[reason as usize] += 1;
        Verdict::Drop(reason)
    }

    /// The Jetty of this number, in whatever state, if it is one.
    pub(crate) fn jetty(&mut self, id: JettyId) -> Option<&mut Jetty> {
        let is_one =
            |jetty: &&mut Jetty| !matches!(jetty.state, JettyState::Reset | JettyState::Group);
        self.jetties.get_mut(id.value() as usize).filter(is_one)
    }

    /// The Jetty, if an operation may be posted to it.
    pub(crate) fn posting_jetty(&mut self, id: JettyId) -> Result<&mut Jetty, PostError> {
        let jetty = self.jetty(id).ok_or(PostError::NoJetty)?;
        if jetty.state == JettyState::Ready { Ok(jetty) } else { Err(PostError::NotReady) }
    }

    /// The Jetty, if a receive may be posted to it.
    pub(crate) fn receiving_jetty(&mut self, id: JettyId) -> Result<&mut Jetty, PostError> {
        let jetty = self.jetty(id).ok_or(PostError::NoJetty)?;
        if jetty.state == JettyState::Error { Err(PostError::NotReady) } else { Ok(jetty) }
    }

    /// A Jetty goes to the error state.
    pub(crate) fn fail(&mut self, id: JettyId) {
        self.jetties[id.value() as usize].state = JettyState::Error;
        if !self.failing.contains(&id) {
            self.failing.push(id);
        }
    }

    pub(crate) fn has_failed(&self, id: JettyId) -> bool {
        self.jetties.get(id.value() as usize).is_some_and(|jetty| jetty.state == JettyState::Error)
    }

    /// An operation of a Jetty has failed: its exception mode says what becomes of it.
    fn take_fault(&mut self, id: JettyId, status: Status) {
        let gone = matches!(status, Status::PeerDead | Status::PeerClosed | Status::Flushed);
        let jetty = self.jetties[id.value() as usize];
        if gone || jetty.state != JettyState::Ready {
            return;
        }
        let state = match jetty.exception {
            ExceptionMode::Continue => return,
            ExceptionMode::Suspend => {
                self.jetties[id.value() as usize].state = JettyState::Suspended;
                JettyState::Suspended
            }
            ExceptionMode::Error => {
                self.fail(id);
                JettyState::Error
            }
        };
        self.events.push_back(Event::JettyFault { jetty: id, status, state });
    }

    /// Says so if nothing of a Jetty that takes no more is under way.
    pub(crate) fn note_drained(&mut self, id: JettyId) {
        let jetty = &self.jetties[id.value() as usize];
        let stopped = matches!(jetty.state, JettyState::Suspended | JettyState::Error);
        let idle = jetty.outstanding == 0 || self.is_planted(Canary::DrainedEarly);
        if stopped && idle && !self.failing.contains(&id) {
            self.events.push_back(Event::JettyDrained { jetty: id });
        }
    }

    /// Completes the posted receives of a Jetty as flushed.
    pub(crate) fn flush_receives(&mut self, id: JettyId) {
        self.return_reserved_of(id);
        if self.shares_receives(id) {
            return;
        }
        while let Some(index) = self.take_receive(id) {
            let receive = self.receives[index];
            self.receives.remove(index);
            let queue = self.jetties[id.value() as usize].receive_queue;
            self.queue(queue).push(Completion {
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
            self.let_go(receive.segment);
        }
    }

    /// Does it take receives that are another's?
    pub(crate) fn shares_receives(&self, id: JettyId) -> bool {
        self.sources[id.value() as usize] != ReceiveSource::Jetty(id)
    }

    /// The next posted receive of a Jetty.
    pub(crate) fn next_receive(&self, id: JettyId) -> Option<Index<Receive>> {
        self.receives[self.last_receive(id)?].next
    }

    /// Of the receives that a Jetty takes, which are a ring, the one posted last.
    fn last_receive(&self, id: JettyId) -> Option<Index<Receive>> {
        self.jetties[self.receive_source(id)?].last_receive
    }

    fn set_last_receive(&mut self, id: JettyId, receive: Option<Index<Receive>>) {
        if let Some(source) = self.receive_source(id) {
            self.jetties[source].last_receive = receive;
        }
    }

    /// The number of the Jetty whose receives a Jetty takes. A group has none of its own.
    fn receive_source(&self, id: JettyId) -> Option<usize> {
        match self.sources[id.value() as usize] {
            ReceiveSource::Jetty(source) => Some(source.value() as usize),
            ReceiveSource::Group(_) => None,
        }
    }

    /// Appends a receive to those of a Jetty.
    pub(crate) fn add_receive(&mut self, id: JettyId, receive: Index<Receive>) {
        self.return_receive(id, receive);
        self.set_last_receive(id, Some(receive));
    }

    /// Takes the next posted receive of a Jetty.
    pub(crate) fn take_receive(&mut self, id: JettyId) -> Option<Index<Receive>> {
        let last = self.last_receive(id)?;
        let receive = self.receives[last].next?;
        if receive == last {
            self.set_last_receive(id, None);
        } else {
            self.receives[last].next = self.receives[receive].next;
        }
        self.taken[id.value() as usize] += 1;
        Some(receive)
    }

    /// Puts a receive that was taken but not used back in front.
    pub(crate) fn return_receive(&mut self, id: JettyId, receive: Index<Receive>) {
        let taken = &mut self.taken[id.value() as usize];
        *taken = taken.saturating_sub(1);
        match self.last_receive(id) {
            None => {
                self.set_last_receive(id, Some(receive));
                self.receives[receive].next = Some(receive);
            }
            Some(last) => {
                self.receives[receive].next = self.receives[last].next.replace(receive);
            }
        }
    }

    /// Reports a receive and frees it.
    pub(crate) fn complete_receive(&mut self, index: Index<Receive>, completion: Completion) {
        let receive = self.receives[index];
        self.receives.remove(index);
        let queue = self.jetties[completion.jetty.value() as usize].receive_queue;
        self.queue(queue).push(Completion { id: receive.id, ..completion });
        self.let_go(receive.segment);
    }

    /// An operation of ours is done, or never will be. It is reported, now or in its turn.
    pub(crate) fn complete_message(&mut self, index: Index<Message>, status: Status) {
        let message = &mut self.messages[index];
        let bars = status != Status::Success && message.order.tag() == Tag::Mo;
        message.report.set_bars_later(bars);
        match bars {
            true => self.initiator.failed(&mut self.messages, index),
            false => self.initiator.done(&mut self.messages, index),
        }
        let message = &self.messages[index];
        if let Some(channel) = message.channel {
            self.channels.take(channel, message.local.length);
        }
        if message.order.request().complete_in_order
            && !self.initiator.is_first(&self.messages, index)
            && !self.is_planted(Canary::CompleteAtOnce)
        {
            self.messages[index].report.park(status);
            self.counters.completions_parked += 1;
            return;
        }
        let jetty = message.jetty.value() as usize;
        self.report_message(index, status);
        self.report_parked(jetty);
    }

    /// An operation is aborted: it no longer waits for those before it, which are aborted as well.
    /// True if only that was left of it.
    pub(crate) fn abort_parked(&mut self, index: Index<Message>) -> bool {
        let message = &mut self.messages[index];
        message.order.complete_at_once();
        let Some(parked) = message.report.unpark() else { return false };
        self.report_message(index, Status::Flushed);
        if parked.is_released {
            self.free_message(index);
        }
        true
    }

    /// Reports the operations of a Jetty that had to wait for one before them.
    fn report_parked(&mut self, jetty: usize) {
        loop {
            let Some(next) = self.initiator.incomplete[jetty].head() else { return };
            // One that has been reported is there because it bars.
            if self.messages[next].report.is_reported() {
                return;
            }
            let Some(parked) = self.messages[next].report.unpark() else { return };
            self.report_message(next, parked.status);
            if parked.is_released {
                self.free_message(next);
            }
        }
    }

    /// Called when the target has acknowledged that it does not wait for a failed operation in
    /// memory order. Operations that were posted after it continue and are reported.
    pub(crate) fn lift_bar(&mut self, index: Index<Message>) {
        if !self.messages[index].report.lift_bar() {
            return;
        }
        self.initiator.done(&mut self.messages, index);
        if self.messages[index].report.is_reported() {
            let jetty = self.messages[index].jetty.value() as usize;
            let mut incomplete = self.initiator.incomplete[jetty];
            incomplete.unlink(&mut Incomplete(&mut self.messages), index);
            self.initiator.incomplete[jetty] = incomplete;
            self.report_parked(jetty);
        }
    }

    /// Reports an operation of ours and drops its hold on its Jetty and memory.
    fn report_message(&mut self, index: Index<Message>, status: Status) {
        self.initiator.completed(&mut self.messages, index);
        let message = &mut self.messages[index];
        message.report.note_reported();
        let success = status == Status::Success;
        let has_memory = !matches!(message.body, Body::Atomic(_));
        let (id, segment, silent) =
            (message.jetty, message.local.segment.number(), !message.report.is_signaled());
        let completion = message.completion(status);
        let jetty = &mut self.jetties[id.value() as usize];
        jetty.outstanding -= 1;
        let queue = jetty.send_queue;
        if success && silent {
            self.queue(queue).unreserve();
        } else {
            self.queue(queue).push(completion);
        }
        if has_memory {
            self.let_go(segment);
        }
        if !success {
            self.take_fault(id, status);
        }
        self.note_drained(id);
    }

    /// Frees a message's record, which is not needed any more.
    pub(crate) fn free_message(&mut self, index: Index<Message>) {
        self.messages[index].channel = None;
        self.messages.remove(index);
    }

    pub(crate) fn free_arrival(&mut self, index: Index<Arrival>) {
        if self.arrivals[index].has_waited {
            self.arrivals_waiting -= 1;
            self.given_up.retain(|at| *at != index);
        }
        self.arrivals[index].channel = None;
        self.arrivals.remove(index);
    }

    // ---- held packets ----

    /// Where the payload of a held packet is set aside; the length is the most it may have.
    pub(crate) fn stash_place(&self, index: Index<Held>) -> LocalRange {
        LocalRange {
            segment: self.stash.unwrap_or_default(),
            offset: u64::from(index.number()) * u64::from(self.stash_packet),
            length: self.stash_packet,
        }
    }

    pub(crate) fn make_due(&mut self, index: Index<Held>) {
        self.held[index].cause = self.cause;
        self.due.push(&mut self.held, index);
    }

    pub(crate) fn pop_due(&mut self) -> Option<Index<Held>> {
        self.due.pop(&self.held)
    }

    pub(crate) fn free_held(&mut self, index: Index<Held>) {
        let held = self.held[index];
        if held.is_part && matches!(held.state, HeldState::Due | HeldState::Executing) {
            let group = self.channels.get_mut(held.leader);
            group.draining -= 1;
            if group.draining == 0 && core::mem::take(&mut group.waits_for_drain) {
                self.drained.push(held.leader);
            }
        }
        self.held[index].channel = None;
        self.held.remove(index);
    }

    /// Drops a held packet whose channel has ended; its tracker goes as well.
    pub(crate) fn withdraw_held(&mut self, index: Index<Held>) {
        if self.held[index].state == HeldState::Due {
            self.due.remove(&mut self.held, index);
        }
        self.unlink_held(index);
        self.free_held(index);
    }

    /// Takes a packet that waits for its turn out of the list of its tracker, if it is in there: as
    /// long as its channel ends, other packets of the list may be called.
    fn unlink_held(&mut self, index: Index<Held>) {
        let held = self.held[index];
        let key = Key::of(held.leader, held.data.jetty);
        let Some(tracker) = self.trackers.find(&key).filter(|_| !held.is_part) else { return };
        let mut at = self.trackers[tracker].held;
        if at == Some(index) {
            self.trackers[tracker].held = held.next;
            return;
        }
        while let Some(before) = at {
            at = self.held[before].next;
            if at == Some(index) {
                self.held[before].next = held.next;
                return;
            }
        }
    }

    /// The Jetty that is to take a message for `target`, and its next receive. One whose receive
    /// would have to wait for an earlier one may not have the last: that one needs it.
    pub(crate) fn receiver(
        &mut self,
        target: &Target,
        early: bool,
    ) -> Result<(JettyId, Index<Receive>), Refusal> {
        self.addressed(target)?;
        let member = match self.sources[target.jetty.value() as usize] {
            ReceiveSource::Group(record) => {
                let mut group = self.groups[record];
                let depth = |member: JettyId| {
                    let number = member.value() as usize;
                    let ready = self.jetties[number].state == JettyState::Ready;
                    let can = ready && self.receive_for(member, early).is_some();
                    can.then_some(self.taken[number])
                };
                let chosen = group.dispatch(target.hint, depth);
                self.groups[record] = group;
                chosen.ok_or(Refusal::ReceiverNotReady)?
            }
            ReceiveSource::Jetty(_) => target.jetty,
        };
        let receive = self.receive_for(member, early).ok_or(Refusal::ReceiverNotReady)?;
        Ok((member, receive))
    }

    /// The Jetty, or group, that a message is for, if it takes messages and its secret is known.
    pub(crate) fn addressed(&self, target: &Target) -> Result<&Jetty, Refusal> {
        let jetty = self.jetties.get(target.jetty.value() as usize).ok_or(Refusal::NoJetty)?;
        // A Jetty that is suspended may be about to agree on another secret.
        if jetty.state != JettyState::Suspended && jetty.token_value != target.token_value {
            return Err(Refusal::NoJetty);
        }
        match jetty.state {
            JettyState::Reset | JettyState::Error => Err(Refusal::NoJetty),
            JettyState::Suspended => Err(Refusal::ReceiverNotReady),
            JettyState::Ready | JettyState::Group => Ok(jetty),
        }
    }

    /// Does a request name a segment, Jetty or mailbox that is there, with another key than it has?
    pub(crate) fn has_wrong_key(&self, operation: &Operation) -> bool {
        let jetty = |target: &Target| {
            let jetty = self.jetties.get(target.jetty.value() as usize);
            jetty.is_some_and(|jetty| {
                matches!(jetty.state, JettyState::Ready | JettyState::Group)
                    && jetty.token_value != target.token_value
            })
        };
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
            Operation::Put(put) => self.mailboxes.has_other_key(put.mailbox, put.key),
            Operation::Get(get) => self.mailboxes.has_other_key(get.mailbox, get.key),
            _ => false,
        }
    }

    pub(crate) fn receive_for(&self, jetty: JettyId, early: bool) -> Option<Index<Receive>> {
        let last = self.last_receive(jetty)?;
        let receive = self.receives[last].next?;
        (!early || receive != last).then_some(receive)
    }

    /// Drops a reference to a segment, and says so if that released it.
    pub(crate) fn let_go(&mut self, segment: u32) {
        if self.segments.let_go(segment) {
            self.events.push_back(Event::SegmentReleased { segment: SegmentId::new(segment) });
        }
    }

    pub(crate) fn queue(&mut self, index: u16) -> &mut CompletionQueue<Completion> {
        // Jetties hold their queues: a queue cannot be destroyed before them.
        self.queues[usize::from(index)].as_mut().expect("a Jetty's completion queue exists")
    }
}
