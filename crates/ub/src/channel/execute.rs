//! The target's part in ordering: an operation that arrives before one it has to follow is held
//! until it is the next in order (UB §7.3, mode ROT), or sent back (mode ROL).

use super::Channel;
use super::receive::Judgement;
use super::respond::is_fetch;
use crate::api::{ChannelId, Completion, DropReason, LocalRange, Rights, Status, is_numbered};
use crate::arrival::{Arrival, UnreportedReceive};
use crate::deferred::{Deferred, DeferredState};
use crate::injected_bug::InjectedBug;
use crate::jetty::Receive;
use crate::order::{Key, KeyedIndex, SequenceStatus, Tracker, Trackers};
use crate::placement::{AtomicExecution, Execution, PlacementToken, Purpose};
use crate::pool::Index;
use crate::shared::{Config, Shared};
use crate::tpg::ChannelGroups;
use fairway_wire::{Data, JettyId, Operation, Order, Refusal, ServiceMode, Tag};

impl Channel {
    /// The tracker of a Jetty of the peer, created if necessary. After one could not be created, no
    /// more are created, because a new tracker would lack the numbers refused in the meantime.
    fn tracker(
        &mut self,
        config: &Config,
        channels: &mut ChannelGroups,
        trackers: &mut Trackers,
        jetty: JettyId,
    ) -> Option<KeyedIndex<Tracker>> {
        let apart = config.is_injected(InjectedBug::TrackPerChannel);
        let key = Key::of(if apart { self.index() } else { self.group() }, jetty);
        let group = channels.get_mut(self.group());
        if group.orders_denied {
            return trackers.find(&key);
        }
        let tracker = trackers.find_or_make(&key);
        group.orders_denied = tracker.is_none();
        tracker
    }

    /// Lets a transaction pass (`None`), or returns what becomes of it instead.
    pub(crate) fn gate(
        &mut self,
        shared: &mut Shared,
        data: &Data,
        payload: u32,
    ) -> Option<Judgement> {
        let order = &data.order;
        let numbered = is_numbered(order.mode, order.tag);
        if !numbered && !order.in_order {
            return None;
        }
        shared.counters.gates_passed += 1;
        let Some(tracker) =
            self.tracker(&shared.config, &mut shared.channels, &mut shared.trackers, data.jetty)
        else {
            return Some(Judgement::Refuse(Refusal::Resources));
        };
        if order.in_order {
            let skips =
                is_fetch(&data.operation) && !shared.is_injected(InjectedBug::NumberFetches);
            match shared.trackers[tracker].receive_status(order.receive_sequence) {
                // Some peers number READs and atomics, which take no receive.
                SequenceStatus::Next | SequenceStatus::Early if skips => {
                    self.skip_receive(shared, tracker, order.receive_sequence);
                }
                SequenceStatus::Past if skips => {}
                SequenceStatus::Next | SequenceStatus::Early => {}
                SequenceStatus::Past => return Some(Judgement::Refuse(Refusal::Operation)),
                SequenceStatus::Beyond => return Some(Judgement::Refuse(Refusal::OutOfOrder)),
            }
        }
        if !numbered {
            return None;
        }
        match shared.trackers[tracker].status(order.sequence) {
            SequenceStatus::Next => self.hold_while_read(shared, tracker, data, payload),
            SequenceStatus::Early if order.tag == Tag::Ro => None,
            // Messages with payload are admitted now, and placed when they are next in order.
            SequenceStatus::Early if order.tag == Tag::Mo && !is_fetch(&data.operation) => None,
            SequenceStatus::Early if shared.is_injected(InjectedBug::StrictOvertakes) => None,
            SequenceStatus::Early => Some(self.hold(shared, tracker, data, payload)),
            SequenceStatus::Past => Some(Judgement::Refuse(Refusal::Operation)),
            SequenceStatus::Beyond => Some(Judgement::Refuse(Refusal::OutOfOrder)),
        }
    }

    /// Holds an atomic in memory order while its word is being read.
    fn hold_while_read(
        &mut self,
        shared: &mut Shared,
        tracker: KeyedIndex<Tracker>,
        data: &Data,
        payload: u32,
    ) -> Option<Judgement> {
        let waits = shared.changes_what_is_read(tracker, data);
        waits.then(|| self.hold(shared, tracker, data, payload))
    }

    fn hold(
        &mut self,
        shared: &mut Shared,
        tracker: KeyedIndex<Tracker>,
        data: &Data,
        payload: u32,
    ) -> Judgement {
        let single = data.index == 0 && data.last;
        if data.order.mode != ServiceMode::Rot || !single || !shared.deferred.has_room_for(payload)
        {
            shared.counters.sent_back += 1;
            return Judgement::Refuse(Refusal::OutOfOrder);
        }
        let Some(response) = self.reserve_answer(shared, data) else {
            return Judgement::Drop(DropReason::MessagePool);
        };
        let deferred = Deferred {
            data: *data,
            payload,
            channel: Some(self.index()),
            leader: self.group(),
            response: Some(response),
            arrival: None,
            is_part: false,
            next: shared.trackers[tracker].deferred,
            given_up: false,
            cause: None,
            state: if payload > 0 { DeferredState::Arriving } else { DeferredState::Waiting },
        };
        let Some(index) = shared.deferred.add(deferred) else {
            return Judgement::Drop(DropReason::ArrivalPool);
        };
        shared.trackers[tracker].deferred = Some(index);
        shared.count_deferred();
        if payload == 0 {
            return Judgement::Accept { purpose: Purpose::Plain };
        }
        let target = shared.deferred.place(index, payload);
        Judgement::Place { target, purpose: Purpose::Staging(index) }
    }

    /// Notes that the payload of a deferred packet is in the staging memory.
    pub(crate) fn staged(&mut self, shared: &mut Shared, index: Index<Deferred>) {
        if shared.deferred[index].is_part {
            return self.part_staged(shared, index);
        }
        shared.deferred[index].state = DeferredState::Waiting;
        let key = Key::of(self.group(), shared.deferred[index].data.jetty);
        if let Some(tracker) = shared.trackers.find(&key) {
            shared.release_deferred(tracker);
        }
    }

    /// Marks a numbered transaction of the peer that was executed, or never will be.
    pub(crate) fn mark_executed(&mut self, shared: &mut Shared, jetty: JettyId, sequence: u16) {
        let Some(tracker) =
            self.tracker(&shared.config, &mut shared.channels, &mut shared.trackers, jetty)
        else {
            return;
        };
        if shared.trackers[tracker].mark(sequence) {
            shared.release_deferred(tracker);
            shared.release_waiting(tracker, self.mtu);
            shared.take_unreported_next(tracker);
        }
    }

    /// Executes a held transaction that is now next in order, as far as possible without the
    /// caller.
    pub(crate) fn execute_deferred(
        &mut self,
        shared: &mut Shared,
        index: Index<Deferred>,
    ) -> Option<Execution> {
        if shared.deferred[index].is_part {
            return self.execute_part(shared, index);
        }
        let deferred = shared.deferred[index];
        let (Deferred { data, payload, given_up, .. }, response) = (deferred, deferred.answer());
        if given_up {
            self.unreserve_answer(shared, response);
            shared.deferred.free(index, &mut shared.channels);
            return None;
        }
        shared.deferred[index].state = DeferredState::Executing;
        match self.judge_request(shared, &data, payload, Some(response)) {
            Judgement::Place { target, purpose } => {
                if let Purpose::Arrival(arrival) = purpose {
                    shared.deferred[index].arrival = Some(arrival);
                }
                let from = shared.deferred.place(index, payload);
                let token = self.deferred(&data, payload, index);
                Some(Execution::Copy { from, to: target, token })
            }
            Judgement::Atomic { target, answer: _ } => {
                let token = self.deferred(&data, payload, index);
                Some(Execution::Atomic(atomic_execution(&data, target, token)))
            }
            Judgement::Accept { purpose: Purpose::Arrival(arrival) } => {
                shared.deferred.free(index, &mut shared.channels);
                self.finish_arrival(shared, arrival);
                None
            }
            Judgement::Accept { .. } => {
                shared.deferred.free(index, &mut shared.channels);
                None
            }
            Judgement::Refuse(refusal) => {
                shared.deferred.free(index, &mut shared.channels);
                self.answer_refused(shared, response, &data, refusal);
                None
            }
            Judgement::Drop(reason) => {
                shared.deferred.free(index, &mut shared.channels);
                // The initiator does not repeat an acknowledged request by itself, so the refusal
                // requests it again, as often as necessary. The shortage is not one of receives.
                let refusal = match reason {
                    DropReason::Malformed => Refusal::Operation,
                    _ if shared.is_injected(InjectedBug::BlameReceives) => {
                        Refusal::ReceiverNotReady
                    }
                    _ => Refusal::OutOfOrder,
                };
                self.answer_refused(shared, response, &data, refusal);
                None
            }
        }
    }

    pub(crate) fn deferred(
        &self,
        data: &Data,
        payload: u32,
        index: Index<Deferred>,
    ) -> PlacementToken {
        PlacementToken {
            channel: self.id,
            psn: data.psn,
            message: data.message,
            purpose: Purpose::Deferred(index),
            bytes: payload,
            ack_request: false,
            retry: false,
        }
    }

    /// Finishes a held operation that the caller has executed.
    pub(crate) fn executed(
        &mut self,
        shared: &mut Shared,
        index: Index<Deferred>,
        token: &PlacementToken,
        old: u64,
    ) {
        let Some(&deferred) = shared.deferred.get(index) else { return };
        if deferred.channel != Some(self.index())
            || deferred.state != DeferredState::Executing
            || deferred.data.psn != token.psn
        {
            return;
        }
        if deferred.is_part {
            return self.part_executed(shared, index, token.bytes);
        }
        shared.deferred.free(index, &mut shared.channels);
        if deferred.given_up {
            return;
        }
        if let Some(arrival) = deferred.arrival {
            self.count_placed(shared, arrival, token.bytes);
        } else {
            self.answer_atomic(shared, deferred.answer(), old);
        }
    }

    /// Processes an abandoned transaction: no message has to wait for its numbers, nor for the rest
    /// of it. If a number is too far ahead to be tracked, the notice is sent back.
    pub(crate) fn judge_abandon(&mut self, shared: &mut Shared, data: &Data) -> Judgement {
        if data.index != 0 || !data.last {
            return Judgement::Drop(DropReason::Malformed);
        }
        if self.is_beyond(shared, data.jetty, &data.order)
            && !shared.is_injected(InjectedBug::LoseAbandoned)
        {
            // The notice is not repeated once it is acknowledged, so it has to come again.
            return Judgement::Refuse(Refusal::OutOfOrder);
        }
        if !shared.is_injected(InjectedBug::KeepCutShort) {
            self.forget_cut_short(shared, data.message);
        }
        self.skip_numbers(shared, data.jetty, &data.order);
        if let Operation::AbandonPut { mailbox, sequence } = data.operation {
            shared.mailboxes.abandon(self.sender(data.jetty), mailbox, sequence);
        }
        Judgement::Accept { purpose: Purpose::Plain }
    }

    /// True if a number of a transaction is too far ahead to be tracked.
    fn is_beyond(&mut self, shared: &mut Shared, jetty: JettyId, order: &Order) -> bool {
        let numbered = is_numbered(order.mode, order.tag);
        if !numbered && !order.in_order {
            return false;
        }
        let tracker =
            self.tracker(&shared.config, &mut shared.channels, &mut shared.trackers, jetty);
        let Some(tracker) = tracker.map(|tracker| &shared.trackers[tracker]) else { return false };
        (numbered && tracker.status(order.sequence) == SequenceStatus::Beyond)
            || (order.in_order
                && tracker.receive_status(order.receive_sequence) == SequenceStatus::Beyond)
    }

    /// Skips the numbers of a transaction that was refused for good, so that no message waits for
    /// them.
    pub(crate) fn skip_numbers(&mut self, shared: &mut Shared, jetty: JettyId, order: &Order) {
        if is_numbered(order.mode, order.tag) {
            self.mark_executed(shared, jetty, order.sequence);
        }
        if order.in_order {
            let Some(tracker) =
                self.tracker(&shared.config, &mut shared.channels, &mut shared.trackers, jetty)
            else {
                return;
            };
            self.skip_receive(shared, tracker, order.receive_sequence);
        }
    }

    /// Notes that no message with this number will arrive, unless it has arrived already and waits
    /// to be reported: a sender that gives up does not always know that it has arrived.
    pub(crate) fn skip_receive(
        &mut self,
        shared: &mut Shared,
        tracker: KeyedIndex<Tracker>,
        sequence: u16,
    ) {
        if shared.trackers.is_unreported(tracker, sequence)
            && !shared.is_injected(InjectedBug::SkipParked)
        {
            return;
        }
        shared.trackers[tracker].skip_receive(sequence);
        shared.take_unreported_next(tracker);
    }

    /// Reports a receive, in order if its message requires that.
    pub(crate) fn complete_in_turn(
        &mut self,
        shared: &mut Shared,
        arrival: &Arrival,
        receive: Index<Receive>,
    ) {
        let completion = self.receive_completion(arrival);
        let key = Key::of(self.group(), arrival.remote_jetty);
        let tracker = match arrival.order.in_order {
            true if !shared.is_injected(InjectedBug::ReceivesAtOnce) => shared.trackers.find(&key),
            _ => None,
        };
        let Some(tracker) = tracker else {
            return shared.complete_receive(receive, completion);
        };
        let sequence = arrival.order.receive_sequence;
        let numbered = is_numbered(arrival.order.mode, arrival.order.tag)
            && shared.jetties.is_in_sequence(arrival.jetty)
            && !shared.is_injected(InjectedBug::ReceiveBeforeExecuted);
        let after = numbered.then_some(arrival.order.sequence);
        if shared.trackers[tracker].may_receive(sequence, after) {
            shared.trackers[tracker].receive_done();
            shared.complete_receive(receive, completion);
            return shared.take_unreported_next(tracker);
        }
        let has_passed = shared.trackers[tracker].has_passed_receive(sequence);
        if has_passed && !shared.is_injected(InjectedBug::KeepPast) {
            // The sender gave the message up while its payload was being placed, so receives after
            // it may have been reported.
            return shared.jetties.return_receive(arrival.jetty, receive);
        }
        let unreported = UnreportedReceive { completion, receive, sequence, after, next: None };
        if shared.trackers.add_unreported(tracker, unreported) {
            shared.counters.receives_awaiting_order += 1;
        }
    }

    /// The completion of a receive that a message has taken.
    pub(crate) fn receive_completion(&self, arrival: &Arrival) -> Completion {
        let (kind, immediate) = arrival.completion();
        Completion {
            id: 0,
            jetty: arrival.jetty,
            status: Status::Success,
            kind,
            bytes: arrival.length,
            immediate,
            value: 0,
            channel: self.leader,
            remote_jetty: arrival.remote_jetty,
        }
    }
}

impl Shared {
    /// Makes the held operation of a tracker that is next in order due now; there is at most one.
    /// (Its channel, which may be another one of the group, executes it.)
    pub(crate) fn release_deferred(&mut self, tracker: KeyedIndex<Tracker>) {
        let mut previous: Option<Index<Deferred>> = None;
        let mut next = self.trackers[tracker].deferred;
        while let Some(at) = next {
            let deferred = self.deferred[at];
            next = deferred.next;
            let status = self.trackers[tracker].status(deferred.data.order.sequence);
            // An operation in the past was given up while it was held here.
            let goes = match status {
                SequenceStatus::Past => true,
                SequenceStatus::Next => !self.changes_what_is_read(tracker, &deferred.data),
                SequenceStatus::Early | SequenceStatus::Beyond => false,
            };
            if deferred.state == DeferredState::Waiting && goes {
                match previous {
                    None => self.trackers[tracker].deferred = deferred.next,
                    Some(previous) => self.deferred[previous].next = deferred.next,
                }
                self.deferred[at].given_up = status == SequenceStatus::Past;
                self.deferred.make_due(at);
            } else {
                previous = Some(at);
            }
        }
    }

    /// True for an atomic in memory order on memory that is being read.
    fn changes_what_is_read(&self, tracker: KeyedIndex<Tracker>, data: &Data) -> bool {
        let Operation::Atomic { access, .. } = data.operation else { return false };
        if data.order.tag != Tag::Mo {
            return false;
        }
        let checked = self.segments.check(&access, Rights::ATOMIC);
        checked.is_ok_and(|(_, target)| self.is_being_read(tracker, &target))
    }

    /// Completes the unreported receives that are next in order.
    fn take_unreported_next(&mut self, tracker: KeyedIndex<Tracker>) {
        while let Some(unreported) = self.trackers.take_unreported_next(tracker) {
            self.complete_receive(unreported.receive, unreported.completion);
        }
        self.jetties.return_passed(&mut self.trackers, tracker);
    }

    /// Flushes the receives of an ended Jetty that are complete and wait to be reported in order.
    pub(crate) fn flush_unreported(&mut self, id: JettyId) {
        if self.trackers.unreported_in_use() == 0 {
            return;
        }
        let is_it = |_: &Tracker, unreported: &UnreportedReceive| unreported.completion.jetty == id;
        for tracker in self.trackers.all() {
            while let Some(unreported) = self.trackers.take_unreported(tracker, is_it) {
                let completion =
                    Completion { status: Status::Flushed, bytes: 0, ..unreported.completion };
                self.complete_receive(unreported.receive, completion);
                self.trackers[tracker].skip_receive(unreported.sequence);
            }
            self.take_unreported_next(tracker);
        }
    }

    /// Drops what an ended group had under way. Complete receives that wait for an earlier one are
    /// reported, in order, because the earlier one will not arrive.
    pub(crate) fn forget_group(&mut self, leader: ChannelId) {
        let group = leader.record();
        for tracker in self.trackers.of_channel(group) {
            self.jetties.return_reserved(&mut self.trackers, tracker);
            // A Jetty in sequence receives in order only, so messages behind a gap count as not
            // received.
            while let Some(unreported) = self.trackers.take_unreported(tracker, |_, unreported| {
                self.jetties.is_in_sequence(unreported.completion.jetty)
            }) {
                self.jetties.return_receive(unreported.completion.jetty, unreported.receive);
            }
            let mut steps = self.trackers.unreported_in_use();
            while self.trackers.has_unreported(tracker) && steps > 0 {
                steps -= 1;
                let next = self.trackers.first_unreported(tracker);
                match self.is_injected(InjectedBug::KeepSkipped) {
                    true => self.trackers[tracker].jump_to_receive(next),
                    false => self.trackers[tracker].give_up_receives_before(next),
                }
                self.take_unreported_next(tracker);
            }
        }
        self.trackers.forget_channel(group);
        self.mailboxes.forget_channel(leader.0);
        self.puts.forget_channel(group);
        self.initiator.sequences.forget_channel(group);
    }
}

pub(crate) fn atomic_execution(
    data: &Data,
    target: LocalRange,
    token: PlacementToken,
) -> AtomicExecution {
    let (operator, operand, compare) = match data.operation {
        Operation::Atomic { operator, operand, compare, .. } => (operator, operand, compare),
        // Only atomics are judged to be atomic; reading the word changes nothing.
        _ => (fairway_wire::AtomicOperator::Load, 0, 0),
    };
    AtomicExecution { target, operator, operand, compare, token }
}
