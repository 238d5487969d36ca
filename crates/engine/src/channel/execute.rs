//! The target's side of order: what arrives before something it has to follow is held, and
//! executed when its turn comes (UB §7.3, mode ROT), or sent back (mode ROL).

use super::Channel;
use super::receive::Judgement;
use crate::api::{
    AtomicExecution, Completion, DropReason, Execution, LocalRange, PlacementKind, PlacementToken,
};
use crate::arrival::Arrival;
use crate::canary::Canary;
use crate::held::{Held, HeldState};
use crate::order::{Key, Standing, Tracker};
use crate::pool::NONE;
use crate::shared::Shared;
use fairway_wire::{Data, Operation, Order, Refusal, ServiceMode, Tag};

/// Does the target order transactions that ask for this?
pub(crate) fn is_numbered(order: &Order) -> bool {
    order.tag != Tag::No && order.mode != ServiceMode::Roi
}

impl Channel {
    /// Lets a transaction pass, or says what becomes of it instead.
    pub(crate) fn gate(
        &mut self,
        shared: &mut Shared,
        data: &Data,
        payload: u32,
    ) -> Option<Judgement> {
        let order = &data.order;
        let numbered = is_numbered(order);
        if !numbered && !order.in_order {
            return None;
        }
        shared.counters.gates_passed += 1;
        let key = Key::of(self.index(), data.jetty);
        let Some(tracker) = shared.trackers.find_or_make(&key, Tracker::NEW) else {
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
    pub(crate) fn mark_executed(
        &mut self,
        shared: &mut Shared,
        jetty: fairway_wire::JettyId,
        sequence: u16,
    ) {
        let key = Key::of(self.index(), jetty);
        let Some(tracker) = shared.trackers.find_or_make(&key, Tracker::NEW) else { return };
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
        self.skip_numbers(shared, data);
        Judgement::Accept { kind: PlacementKind::Plain, subject: NONE }
    }

    /// Nobody need wait for the numbers of a transaction that was refused for good.
    pub(crate) fn skip_numbers(&mut self, shared: &mut Shared, data: &Data) {
        if is_numbered(&data.order) {
            self.mark_executed(shared, data.jetty, data.order.sequence);
        }
        if data.order.in_order {
            let key = Key::of(self.index(), data.jetty);
            let Some(tracker) = shared.trackers.find_or_make(&key, Tracker::NEW) else { return };
            self.skip_receive(shared, tracker, data.order.receive_sequence);
        }
    }

    pub(crate) fn skip_receive(&mut self, shared: &mut Shared, tracker: u32, sequence: u16) {
        match shared.trackers[tracker].receive_standing(sequence) {
            Standing::Next => {
                let tracker = &mut shared.trackers[tracker];
                tracker.next_receive = tracker.next_receive.wrapping_add(1);
            }
            Standing::Early => {
                // Leaves a parked record without a receive, which completes as nothing.
                let mut arrival = Arrival::refused(sequence_only(sequence), self.index());
                arrival.next_parked = shared.trackers[tracker].parked;
                if let Some(index) = shared.arrivals.take(arrival) {
                    shared.trackers[tracker].parked = index;
                }
            }
            _ => return,
        }
        self.unpark(shared, tracker);
    }

    /// Reports a receive, in its turn if it asked for that. True if the arrival's record is still
    /// needed.
    pub(crate) fn complete_in_turn(&mut self, shared: &mut Shared, index: u32) -> bool {
        let arrival = shared.arrivals[index];
        if !arrival.order.in_order || shared.is_planted(Canary::ReceivesAtOnce) {
            self.report_receive(shared, index);
            return false;
        }
        let key = Key::of(self.index(), arrival.remote_jetty);
        let Some(tracker) = shared.trackers.find(&key) else {
            self.report_receive(shared, index);
            return false;
        };
        if shared.trackers[tracker].receive_standing(arrival.order.receive_sequence)
            == Standing::Next
        {
            let record = &mut shared.trackers[tracker];
            record.next_receive = record.next_receive.wrapping_add(1);
            self.report_receive(shared, index);
            self.unpark(shared, tracker);
            return false;
        }
        shared.arrivals[index].next_parked = shared.trackers[tracker].parked;
        shared.trackers[tracker].parked = index;
        shared.counters.receives_parked += 1;
        true
    }

    /// Completes the parked receives whose turn has come.
    fn unpark(&mut self, shared: &mut Shared, tracker: u32) {
        let (mut previous, mut at) = (NONE, shared.trackers[tracker].parked);
        while at != NONE {
            let arrival = shared.arrivals[at];
            let sequence = arrival.order.receive_sequence;
            if shared.trackers[tracker].receive_standing(sequence) != Standing::Next {
                (previous, at) = (at, arrival.next_parked);
                continue;
            }
            match previous {
                NONE => shared.trackers[tracker].parked = arrival.next_parked,
                previous => shared.arrivals[previous].next_parked = arrival.next_parked,
            }
            let record = &mut shared.trackers[tracker];
            record.next_receive = record.next_receive.wrapping_add(1);
            self.report_receive(shared, at);
            shared.free_arrival(at);
            (previous, at) = (NONE, shared.trackers[tracker].parked);
        }
    }

    /// The channel ends: parked receives complete, in their order, without waiting any longer.
    pub(crate) fn report_parked(&mut self, shared: &mut Shared) {
        for tracker in shared.trackers.of_channel(self.index()) {
            let mut steps = shared.arrivals.high_water();
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
            let arrival = &shared.arrivals[at];
            lowest = lowest.min(arrival.order.receive_sequence.wrapping_sub(from));
            at = arrival.next_parked;
        }
        from.wrapping_add(lowest)
    }

    pub(crate) fn report_receive(&mut self, shared: &mut Shared, index: u32) {
        let arrival = shared.arrivals[index];
        if arrival.receive == NONE {
            return;
        }
        let (kind, immediate) = arrival.completion();
        let completion = Completion {
            id: 0,
            jetty: arrival.jetty,
            status: crate::api::Status::Success,
            kind,
            bytes: arrival.length,
            immediate,
            value: 0,
            channel: self.id,
            remote_jetty: arrival.remote_jetty,
        };
        shared.complete_receive(&arrival, completion);
    }
}

/// A data packet that says nothing but a receive sequence number.
fn sequence_only(sequence: u16) -> Data {
    Data {
        psn: Default::default(),
        message: Default::default(),
        index: 0,
        jetty: Default::default(),
        transaction: 0,
        slot: 0,
        ack_request: false,
        retry: false,
        last: true,
        order: Order { in_order: true, receive_sequence: sequence, ..Order::NONE },
        operation: Operation::Abandon,
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
