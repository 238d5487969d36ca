//! Packets that a responder sends: answers to READs and atomics, acknowledgements, refusals,
//! congestion notifications. They are sent in PSN order, so that none acknowledges an earlier
//! answer that has not been sent.

use super::api::{AtomicExecution, Completion, Event, Status, TokenSubject, Transmit};
use super::queue_pair::QueuePair;
use super::resources::{ResourceKind, Stage};
use super::responder::{Incoming, target};
use super::shared::{Granted, Shared};
use crate::work::Pending;
use fairway_device::pool::Index;
use fairway_device::{LocalRange, ScatterList, SegmentId};
use fairway_wire::roce::{Aeth, Bth, Credits, NakCode, Operation, Packet, ReadFragment, Syndrome};
use fairway_wire::{AtomicOperator, Instant, Psn};

impl QueuePair {
    /// The next packet that the responder sends.
    pub(crate) fn next_response(&mut self, shared: &mut Shared, now: Instant) -> Option<Transmit> {
        if core::mem::take(&mut self.responder.cnp_due) {
            shared.counters.cnps_sent += 1;
            let bth = Bth { becn: true, ..self.bth(Psn::new(0)) };
            return Some(self.response(bth, Operation::Cnp, ScatterList::EMPTY));
        }
        let held = self.held_answer(shared, now);
        if held.is_none()
            && let Some(answer) = self.next_answer(shared, now)
        {
            return Some(answer);
        }
        if held.is_none()
            && self.responder.pending.is_empty()
            && let Some((psn, syndrome)) = self.responder.nak.take()
        {
            let aeth = Aeth { syndrome, msn: self.responder.msn };
            let nak =
                self.response(self.bth(psn), Operation::Acknowledge(aeth), ScatterList::EMPTY);
            // The refusal acknowledges everything before it.
            self.responder.ack_due = None;
            if let Some(status) = self.responder.fatal.take() {
                if let (Syndrome::Nak(code), Status::Flushed) = (syndrome, status) {
                    shared.events.push_back(Event::Refused { queue_pair: self.number, code });
                }
                self.end(shared, status);
            }
            return Some(nak);
        }
        let before = |due: &mut Psn| held.is_none_or(|held| due.is_before(held));
        let psn = self.responder.ack_due.take_if(before)?;
        // The acknowledgement may cover more than was requested, unless it would skip an answer.
        let psn = match self.responder.resources.any_after(psn) {
            true => psn,
            false => self.responder.finished,
        };
        shared.counters.acks_sent += 1;
        let operation = Operation::Acknowledge(self.acknowledged(shared));
        Some(self.response(self.bth(psn), operation, ScatterList::EMPTY))
    }

    fn response(&self, bth: Bth, operation: Operation, gather: ScatterList) -> Transmit {
        let packet = Packet { bth, operation };
        Transmit { queue_pair: self.number, to: self.peer.address, packet, gather }
    }

    /// A positive acknowledgement. A shared receive queue grants no credits (9.7.7.2).
    fn acknowledged(&self, shared: &Shared) -> Aeth {
        let credits = match self.shares_receives {
            true => Credits::UNLIMITED,
            false => Credits::at_most(shared.receive_queues[self.receives].posted),
        };
        Aeth { syndrome: Syndrome::Ack(credits), msn: self.responder.msn }
    }

    /// The next packet of the earliest READ or atomic that is to be answered.
    pub(crate) fn next_answer(&mut self, shared: &mut Shared, now: Instant) -> Option<Transmit> {
        let answer = self.make_answer(shared)?;
        self.charge_flow(shared, now, answer.gather.length());
        // The answer acknowledges everything before it.
        let own = answer.packet.bth.psn;
        self.responder.ack_due = self.responder.ack_due.filter(|due| own.is_before(*due));
        Some(answer)
    }

    /// The PSN of the next packet of an answer, if the scheduler does not let it be sent yet.
    /// Nothing behind it may be acknowledged or refused.
    fn held_answer(&mut self, shared: &mut Shared, now: Instant) -> Option<Psn> {
        if !shared.schedule.has_scheduler() {
            return None;
        }
        let resource = self.responder.resources.first_to_answer()?;
        let Stage::Answering { next } = resource.stage else { return None };
        let psn = resource.first.plus(next);
        (!self.passes_gate(shared, now)).then_some(psn)
    }

    fn make_answer(&mut self, shared: &mut Shared) -> Option<Transmit> {
        let resource = self.responder.resources.first_to_answer()?;
        let Stage::Answering { next } = resource.stage else { return None };
        let psn = resource.first.plus(next);
        let (granted, length, from) = match resource.kind {
            ResourceKind::Read { granted, length, from } => (granted, length, from),
            ResourceKind::Atomic { old, .. } => {
                resource.stage = Stage::Answered;
                let aeth = self.acknowledged(shared);
                let operation = Operation::AtomicAcknowledge { aeth, original: old };
                return Some(self.response(self.bth(psn), operation, ScatterList::EMPTY));
            }
        };
        if !shared.is_current(&granted) {
            resource.stage = Stage::Answered;
            let _ = self.refuse(shared, psn, NakCode::RemoteAccess, Status::Flushed);
            return None;
        }
        let offset = (next - from) * self.mtu;
        let payload = (length - offset).min(self.mtu);
        let last = offset + payload == length;
        resource.stage = match last {
            true => Stage::Answered,
            false => Stage::Answering { next: next + 1 },
        };
        let aeth = self.acknowledged(shared);
        let fragment = match (next == from, last) {
            (true, true) => ReadFragment::Only(aeth),
            (true, false) => ReadFragment::First(aeth),
            (false, false) => ReadFragment::Middle,
            (false, true) => ReadFragment::Last(aeth),
        };
        let granted = Granted { offset: granted.offset + u64::from(offset), ..granted };
        let operation = Operation::ReadResponse(fragment);
        Some(self.response(self.bth(psn), operation, target(&granted, payload)))
    }

    /// Ends the queue pair after the refusal has been sent.
    fn end(&mut self, shared: &mut Shared, status: Status) {
        if status != Status::Flushed
            && let Incoming::Send { receive, .. } = self.responder.incoming
        {
            self.responder.incoming = Incoming::Nothing;
            let completion =
                Completion { from: self.peer, ..Shared::empty_receive(self.number, status) };
            shared.complete_receive(self.receive_queue, receive, completion);
        }
        self.fault(shared, status);
    }

    /// The atomic at the head of the pending packets, if it has not been returned yet.
    pub(crate) fn next_execution(&mut self, shared: &mut Shared) -> Option<AtomicExecution> {
        let index = self.responder.pending.head()?;
        let resource = self.responder.resources.get(shared.pending[index].resource)?;
        let ResourceKind::Atomic { granted, compare, operand, .. } = resource.kind else {
            return None;
        };
        if resource.stage != Stage::Due {
            return None;
        }
        let first = resource.first;
        resource.stage = Stage::Executing;
        if !shared.is_current(&granted) {
            resource.stage = Stage::Answered;
            self.responder.pending.unlink(&mut shared.pending, index);
            shared.pending.remove(index);
            let _ = self.refuse(shared, first, NakCode::RemoteAccess, Status::Flushed);
            return None;
        }
        let (segment, offset) =
            (granted.segment.map_or(SegmentId::NOWHERE, SegmentId::new), granted.offset);
        let target = LocalRange { segment, offset, length: 8 };
        let token = self.token(TokenSubject::Atomic(index));
        let (operator, compare) = match compare {
            Some(compare) => (AtomicOperator::CompareSwap, compare),
            None => (AtomicOperator::Add, 0),
        };
        Some(AtomicExecution { target, operator, operand, compare, token })
    }

    /// Records that an atomic was executed; `value` is the word's value before.
    pub(crate) fn atomic_executed(
        &mut self,
        shared: &mut Shared,
        index: Index<Pending>,
        value: u64,
    ) {
        if self.responder.pending.head() != Some(index) {
            return;
        }
        if let Some(resource) = self.responder.resources.get(shared.pending[index].resource)
            && resource.stage == Stage::Executing
            && let ResourceKind::Atomic { old, .. } = &mut resource.kind
        {
            *old = value;
            shared.pending[index].placed = true;
            self.finish_pending(shared);
        }
    }

    /// Sends a congestion notification for a packet with an ECN mark, but not too often.
    pub(crate) fn note_congestion(&mut self, shared: &mut Shared, now: Instant) {
        if self.responder.cnp_not_before.is_none_or(|at| now.is_at_or_after(at)) {
            self.responder.cnp_not_before = Some(now + shared.profile.cnp_interval);
            self.responder.cnp_due = true;
            self.mark_ready(shared);
        }
    }
}
