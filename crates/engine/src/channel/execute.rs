//! The target's side of order: what arrives before something it has to follow is held, and
//! executed when its turn comes (UB §7.3, mode ROT), or sent back (mode ROL).

use super::Channel;
use super::receive::Judgement;
use crate::api::{
    AtomicExecution, Completion, DropReason, Execution, LocalRange, PlacementKind, PlacementToken,
    Status,
};
use crate::arrival::{Arrival, Parked};
use crate::canary::Canary;
use crate::held::{Held, HeldState};
use crate::order::{Key, Standing, Tracker, is_numbered};
use crate::pool::NONE;
use crate::shared::Shared;
use fairway_wire::{Data, JettyId, Operation, Order, Refusal, ServiceMode, Tag};

impl Channel {
    /// The tracker of a Jetty of the peer, made if need be. Once one could not be made, none is
    /// made any more: it would not know which numbers have been refused for lack of it.
    fn tracker(&mut self, shared: &mut Shared, jetty: JettyId) -> Option<u32> {
        let key = Key::of(self.index(), jetty);
        if self.orders_denied {
            return shared.trackers.find(&key);
        }
        let tracker = shared.trackers.find_or_make(&key, Tracker::NEW);
        self.orders_denied = tracker.is_none();
        tracker
    }

    /// Lets a transaction pass, or says what becomes of it instead.
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
        let Some(tracker) = self.tracker(shared, data.jetty) else {
            return Some(Judgement::Refuse(Refusal::Resources));
        };
        if order.in_order {
            match shared.trackers[tracker].receive_standing(order.receive_sequence) {
                Standing::Next | Standing::Early => {}
                Standing::Past => return Some(Judgement::Refuse(Refusal::Operation)),
                Standing::Beyond => return Some(Judgement::Refuse(Refusal::OutOfOrder)),
            }
        }
        if !numbered {
            return None;
        }
        match shared.trackers[tracker].standing(order.sequence) {
            Standing::Next => None,
            Standing::Early if order.tag == Tag::Ro => None,
            Standing::Early if shared.is_planted(Canary::StrictOvertakes) => None,
            Standing::Early => Some(self.hold(shared, tracker, data, payload)),
            Standing::Past => Some(Judgement::Refuse(Refusal::Operation)),
            Standing::Beyond => Some(Judgement::Refuse(Refusal::OutOfOrder)),
        }
    }

    fn hold(&mut self, shared: &mut Shared, tracker: u32, data: &Data, payload: u32) -> Judgement {
        let single = data.index == 0 && data.last && payload <= shared.stash_packet;
        if data.order.mode != ServiceMode::Rot
            || !single
            || shared.stash.is_none()
            || shared.held.is_exhausted()
        {
            shared.counters.sent_back += 1;
            return Judgement::Refuse(Refusal::OutOfOrder);
        }
        let Some(response) = self.reserve_answer(shared, data) else {
            return Judgement::Drop(DropReason::MessagePool);
        };
        let held = Held {
            data: *data,
            payload,
            channel: self.index(),
            response,
            arrival: NONE,
            next: shared.trackers[tracker].held,
            state: if payload > 0 { HeldState::Arriving } else { HeldState::Waiting },
        };
        let Some(index) = shared.held.take(held) else {
            return Judgement::Drop(DropReason::ArrivalPool);
        };
        shared.trackers[tracker].held = index;
        shared.counters.held += 1;
        if payload == 0 {
            return Judgement::Accept { kind: PlacementKind::Plain, subject: NONE };
        }
        let target = LocalRange { length: payload, ..shared.stash_place(index) };
        Judgement::Place { target, kind: PlacementKind::Stash, subject: index }
    }

    /// The payload of a held packet is in the stash.
    pub(crate) fn stashed(&mut self, shared: &mut Shared, index: u32) {
        shared.held[index].state = HeldState::Waiting;
        let key = Key::of(self.index(), shared.held[index].data.jetty);
        if let Some(tracker) = shared.trackers.find(&key) {
            self.release_held(shared, tracker);
        }
    }

    /// A numbered transaction of the peer was executed, or never will be.
    pub(crate) fn mark_executed(&mut self, shared: &mut Shared, jetty: JettyId, sequence: u16) {
        let Some(tracker) = self.tracker(shared, jetty) else { return };
        if shared.trackers[tracker].mark(sequence) {
            self.release_held(shared, tracker);
        }
    }

    /// Of the held ones of a tracker at most one is next: it is due now.
    fn release_held(&mut self, shared: &mut Shared, tracker: u32) {
        let mut previous = NONE;
        let mut at = shared.trackers[tracker].held;
        while at != NONE {
            let held = shared.held[at];
            let standing = shared.trackers[tracker].standing(held.data.order.sequence);
            if held.state == HeldState::Waiting && standing == Standing::Past {
                // It was given up while it waited here.
                match previous {
                    NONE => shared.trackers[tracker].held = held.next,
                    previous => shared.held[previous].next = held.next,
                }
                self.unreserve_answer(shared, held.response);
                shared.free_held(at);
                at = held.next;
                continue;
            }
            if held.state == HeldState::Waiting && standing == Standing::Next {
                match previous {
                    NONE => shared.trackers[tracker].held = held.next,
                    previous => shared.held[previous].next = held.next,
                }
                shared.make_due(at);
                return;
            }
            previous = at;
            at = held.next;
        }
    }

    /// Executes a held transaction whose turn has come, as far as the caller is not needed.
    pub(crate) fn execute_held(&mut self, shared: &mut Shared, index: u32) -> Option<Execution> {
        let Held { data, payload, response, .. } = shared.held[index];
        shared.held[index].state = HeldState::Executing;
        match self.judge_request(shared, &data, payload, response) {
            Judgement::Place { target, subject, .. } => {
                shared.held[index].arrival = subject;
                let from = LocalRange { length: payload, ..shared.stash_place(index) };
                let token = self.deferred(&data, payload, index);
                Some(Execution::Copy { from, to: target, token })
            }
            Judgement::Atomic { target, subject: _ } => {
                let token = self.deferred(&data, payload, index);
                Some(Execution::Atomic(atomic_execution(&data, target, token)))
            }
            Judgement::Accept { kind: PlacementKind::Arrival, subject } => {
                shared.free_held(index);
                self.finish_arrival(shared, subject);
                None
            }
            Judgement::Accept { .. } => {
                shared.free_held(index);
                None
            }
            Judgement::Refuse(refusal) => {
                shared.free_held(index);
                self.answer_refused(shared, response, &data, refusal);
                None
            }
            Judgement::Drop(reason) => {
                shared.free_held(index);
                // It cannot come again by itself, so its sender is asked to send it again.
                let refusal = match reason {
                    DropReason::Malformed => Refusal::Operation,
                    _ => Refusal::ReceiverNotReady,
                };
                self.answer_refused(shared, response, &data, refusal);
                None
            }
        }
    }

    fn deferred(&self, data: &Data, payload: u32, index: u32) -> PlacementToken {
        PlacementToken {
            channel: self.id,
            psn: data.psn,
            message: data.message,
            subject: index,
            bytes: payload,
            kind: PlacementKind::Deferred,
            ack_request: false,
            retry: false,
        }
    }

    /// The caller has executed what was held.
    pub(crate) fn executed(&mut self, shared: &mut Shared, token: &PlacementToken, old: u64) {
        if token.subject >= shared.held.high_water() {
            return;
        }
        let held = shared.held[token.subject];
        if held.channel != self.index()
            || held.state != HeldState::Executing
            || held.data.psn != token.psn
        {
            return;
        }
        shared.free_held(token.subject);
        if held.arrival != NONE {
            shared.arrivals[held.arrival].placed += token.bytes;
            shared.mailboxes.placed(shared.arrivals[held.arrival].ticket, token.bytes);
            self.finish_arrival(shared, held.arrival);
        } else {
            self.answer_atomic(shared, held.response, old);
        }
    }

    /// A transaction that was given up: nobody need wait for its numbers.
    pub(crate) fn judge_abandon(&mut self, shared: &mut Shared, data: &Data) -> Judgement {
        if data.index != 0 || !data.last {
            return Judgement::Drop(DropReason::Malformed);
        }
        self.skip_numbers(shared, data.jetty, &data.order);
        if let Operation::AbandonPut { mailbox, sequence } = data.operation {
            shared.mailboxes.abandon(self.sender(data.jetty), mailbox, sequence);
        }
        Judgement::Accept { kind: PlacementKind::Plain, subject: NONE }
    }

    /// Nobody need wait for the numbers of a transaction that was refused for good.
    pub(crate) fn skip_numbers(&mut self, shared: &mut Shared, jetty: JettyId, order: &Order) {
        if is_numbered(order.mode, order.tag) {
            self.mark_executed(shared, jetty, order.sequence);
        }
        if order.in_order {
            let Some(tracker) = self.tracker(shared, jetty) else { return };
            self.skip_receive(shared, tracker, order.receive_sequence);
        }
    }

    pub(crate) fn skip_receive(&mut self, shared: &mut Shared, tracker: u32, sequence: u16) {
        shared.trackers[tracker].skip_receive(sequence);
        self.unpark(shared, tracker);
    }

    /// Reports a receive, in its turn if it asked for that.
    pub(crate) fn complete_in_turn(&mut self, shared: &mut Shared, arrival: &Arrival) {
        let completion = self.receive_completion(arrival);
        let key = Key::of(self.index(), arrival.remote_jetty);
        let tracker = match arrival.order.in_order {
            true if !shared.is_planted(Canary::ReceivesAtOnce) => shared.trackers.find(&key),
            _ => None,
        };
        let Some(tracker) = tracker else {
            return shared.complete_receive(arrival.receive, completion);
        };
        let sequence = arrival.order.receive_sequence;
        if shared.trackers[tracker].receive_standing(sequence) == Standing::Next {
            shared.trackers[tracker].receive_done();
            shared.complete_receive(arrival.receive, completion);
            return self.unpark(shared, tracker);
        }
        let (receive, next) = (arrival.receive, shared.trackers[tracker].parked);
        // There are as many records as receives, and each holds one.
        if let Some(index) = shared.parked.take(Parked { completion, receive, sequence, next }) {
            shared.trackers[tracker].parked = index;
            shared.counters.receives_parked += 1;
        }
    }

    /// Completes the parked receives whose turn has come.
    fn unpark(&mut self, shared: &mut Shared, tracker: u32) {
        let (mut previous, mut at) = (NONE, shared.trackers[tracker].parked);
        while at != NONE {
            let parked = shared.parked[at];
            if shared.trackers[tracker].receive_standing(parked.sequence) != Standing::Next {
                (previous, at) = (at, parked.next);
                continue;
            }
            match previous {
                NONE => shared.trackers[tracker].parked = parked.next,
                previous => shared.parked[previous].next = parked.next,
            }
            shared.trackers[tracker].receive_done();
            shared.complete_receive(parked.receive, parked.completion);
            shared.parked.give_back(at);
            (previous, at) = (NONE, shared.trackers[tracker].parked);
        }
    }

    /// The channel ends: parked receives complete, in their order, without waiting any longer.
    pub(crate) fn report_parked(&mut self, shared: &mut Shared) {
        for tracker in shared.trackers.of_channel(self.index()) {
            let mut steps = shared.parked.high_water();
            while shared.trackers[tracker].parked != NONE && steps > 0 {
                steps -= 1;
                let next = self.first_parked(shared, tracker);
                shared.trackers[tracker].next_receive = next;
                self.unpark(shared, tracker);
            }
        }
    }

    /// The lowest receive sequence number that is parked.
    fn first_parked(&self, shared: &Shared, tracker: u32) -> u16 {
        let from = shared.trackers[tracker].next_receive;
        let mut lowest = u16::MAX;
        let mut at = shared.trackers[tracker].parked;
        while at != NONE {
            let parked = &shared.parked[at];
            lowest = lowest.min(parked.sequence.wrapping_sub(from));
            at = parked.next;
        }
        from.wrapping_add(lowest)
    }

    /// How a receive completes that a message has taken.
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
            channel: self.id,
            remote_jetty: arrival.remote_jetty,
        }
    }
}

pub(crate) fn atomic_execution(
    data: &Data,
    target: LocalRange,
    token: PlacementToken,
) -> AtomicExecution {
    let (operator, operand, compare) = match data.operation {
        Operation::Atomic { operator, operand, compare, .. } => (operator, operand, compare),
        // Only atomics are judged to be atomic; reading the word harms nobody.
        _ => (fairway_wire::AtomicOperator::Load, 0, 0),
    };
    AtomicExecution { target, operator, operand, compare, token }
}
