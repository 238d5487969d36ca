//! Packets that a requester receives: acknowledgements, refusals, and answers to READs and atomics
//! (9.7.3).

use super::api::{DropReason, OwnVerdict, Placement, Status, Target, TokenSubject, Verdict, Work};
use super::queue_pair::QueuePair;
use super::shared::Shared;
use crate::work::Send;
use fairway_device::pool::Index;
use fairway_device::{Rights, ScatterList};
use fairway_wire::roce::{
    Aeth, Credits, NakCode, Operation, Packet, ReadFragment, RnrTimer, Syndrome,
};
use fairway_wire::{Instant, Psn};

impl QueuePair {
    /// Handles a response of the peer.
    pub(crate) fn handle_response(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        packet: &Packet,
        payload: u32,
    ) -> Verdict {
        let psn = packet.bth.psn;
        let requester = &self.requester;
        // The response is for a PSN that has been acknowledged already or was never sent.
        if psn.is_before(requester.una) || !psn.is_before(requester.high) {
            if psn.next() == requester.una {
                self.note_credits(&packet.operation);
            }
            return shared.drop(DropReason::BadAnswer);
        }
        let verdict = match packet.operation {
            Operation::Acknowledge(aeth) => self.handle_acknowledge(shared, now, psn, &aeth),
            Operation::ReadResponse(_) => self.handle_read_response(shared, now, psn, payload),
            Operation::AtomicAcknowledge { original, .. } => {
                self.handle_atomic(shared, now, psn, original)
            }
            _ => shared.drop(DropReason::Malformed),
        };
        self.note_credits(&packet.operation);
        self.complete_ready(shared);
        self.mark_ready(shared);
        verdict
    }

    /// Records how many more messages the peer can accept (9.7.7.2).
    fn note_credits(&mut self, operation: &Operation) {
        let aeth = match operation {
            Operation::Acknowledge(aeth) | Operation::AtomicAcknowledge { aeth, .. } => aeth,
            Operation::ReadResponse(
                ReadFragment::First(aeth) | ReadFragment::Last(aeth) | ReadFragment::Only(aeth),
            ) => aeth,
            _ => return,
        };
        if let Syndrome::Ack(credits) = aeth.syndrome {
            self.requester.limit = match credits {
                Credits::UNLIMITED => None,
                credits => credits.count().map(|count| aeth.msn.value().wrapping_add(count)),
            };
        }
    }

    fn handle_acknowledge(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        psn: Psn,
        aeth: &Aeth,
    ) -> Verdict {
        let before = psn.distance_from(self.requester.una).max(0) as u32;
        match aeth.syndrome {
            Syndrome::Ack(_) => {
                if !self.advance(shared, now, before + 1) {
                    self.answer_was_lost(shared, now);
                }
            }
            Syndrome::RnrNak(timer) => {
                shared.counters.rnr_naks_received += 1;
                match self.advance(shared, now, before) {
                    true => self.wait_for_receiver(shared, now, timer),
                    false => self.answer_was_lost(shared, now),
                }
            }
            Syndrome::Nak(NakCode::PsnSequence) => {
                shared.counters.sequence_naks_received += 1;
                match self.advance(shared, now, before) {
                    true => self.go_back(shared, now),
                    false => self.answer_was_lost(shared, now),
                }
            }
            Syndrome::Nak(code) => {
                self.advance(shared, now, before);
                let refused = self.send_with(shared, psn);
                self.complete_ready(shared);
                let status = match code {
                    NakCode::RemoteAccess => Status::RemoteAccess,
                    NakCode::RemoteOperational => Status::RemoteOperation,
                    NakCode::InvalidRequest | NakCode::InvalidRdRequest | NakCode::PsnSequence => {
                        Status::RemoteInvalidRequest
                    }
                };
                self.end_sends(shared, refused, status);
            }
        }
        Verdict::Done
    }

    /// The unacknowledged send to which `psn` belongs.
    fn send_with(&self, shared: &Shared, psn: Psn) -> Option<Index<Send>> {
        let mut next = self.requester.oldest;
        let mut left = psn.distance_from(self.requester.una).max(0) as u32;
        while let Some(at) = next {
            let send = &shared.sends[at];
            let own = send.packets - send.acknowledged;
            if left < own {
                break;
            }
            left -= own;
            next = send.links.next();
        }
        next
    }

    /// Marks `count` packets from the oldest on as acknowledged. Returns false if there is a READ
    /// or atomic among them, which only its answer acknowledges.
    fn advance(&mut self, shared: &mut Shared, now: Instant, mut count: u32) -> bool {
        let requester = &mut self.requester;
        let from = requester.una;
        while let Some(oldest) = requester.oldest.filter(|_| count > 0) {
            let send = &mut shared.sends[oldest];
            if send.is_answered() {
                break;
            }
            let step = count.min(send.packets - send.acknowledged);
            send.acknowledged += step;
            requester.una = requester.una.plus(step);
            count -= step;
            if send.acknowledged == send.packets {
                requester.oldest = send.links.next();
            }
        }
        if requester.una != from {
            let acknowledged = requester.una.distance_from(from).unsigned_abs();
            requester.window.grow(acknowledged);
            self.note_progress(shared, now);
        }
        count == 0
    }

    /// Restarts retries and timers after `una` has moved.
    fn note_progress(&mut self, shared: &mut Shared, now: Instant) {
        self.requester.restore_retries();
        self.requester.rewound_to = None;
        if self.requester.cursor_psn.is_before(self.requester.una) {
            self.move_cursor_to_oldest(shared);
        }
        self.continue_recovery(shared, now);
        self.arm(shared, now);
    }

    /// Handles the loss of an answer to the oldest send, which a later answer reveals: an implied
    /// NAK (9.7.3.1.1).
    fn answer_was_lost(&mut self, shared: &mut Shared, now: Instant) {
        if self.requester.asked_again == Some(self.requester.una) {
            // The peer is alive and still answers earlier requests; it will answer this one after
            // them.
            return self.arm(shared, now);
        }
        if self.requester.rewound_to != Some(self.requester.una) {
            shared.counters.implied_naks += 1;
        }
        self.go_back(shared, now);
    }

    /// Retransmits from the oldest send on, but only once; after that only the timer does.
    fn go_back(&mut self, shared: &mut Shared, now: Instant) {
        if self.requester.rewound_to == Some(self.requester.una) {
            return;
        }
        if self.requester.retries_left == 0 {
            return self.fail_oldest(shared, Status::RetryExceeded);
        }
        self.requester.retries_left -= 1;
        if !self.begin_repair(shared) {
            self.note_loss(shared);
            self.rewind(shared);
        }
        self.arm(shared, now);
    }

    fn wait_for_receiver(&mut self, shared: &mut Shared, now: Instant, timer: RnrTimer) {
        // This is a copy of a refusal for which the requester already waits.
        if self.requester.not_before.is_some() {
            return;
        }
        match self.requester.rnr_left {
            0 => {
                return self.fail_oldest(shared, Status::RnrRetryExceeded);
            }
            7 => {}
            left => self.requester.rnr_left = left - 1,
        }
        self.rewind(shared);
        self.requester.rewound_to = None;
        self.requester.retransmit_at = None;
        let until = now + timer.duration();
        self.requester.not_before = Some(until);
        shared.deadlines.wake_by(self.index, until);
    }

    fn handle_read_response(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        psn: Psn,
        payload: u32,
    ) -> Verdict {
        let Some(index) = self.answered_send(shared, now, psn) else {
            return shared.drop(DropReason::BadAnswer);
        };
        let send = &mut shared.sends[index];
        if !matches!(send.work, Work::Read { .. }) {
            self.fail(shared, index, Status::BadResponse);
            return shared.drop(DropReason::Malformed);
        }
        let offset = send.acknowledged * self.mtu;
        if payload != (send.length - offset.min(send.length)).min(self.mtu) {
            self.fail(shared, index, Status::BadResponse);
            return shared.drop(DropReason::Malformed);
        }
        let target = send.local.slice(offset, payload);
        if shared.is_revoked(self.domain, &target) {
            self.fail(shared, index, Status::LocalProtection);
            return shared.drop(DropReason::Refused);
        }
        let send = &mut shared.sends[index];
        send.placing += u32::from(payload > 0);
        self.note_answer(shared, now, index);
        if payload == 0 {
            self.note_answered(shared, index);
            return Verdict::Done;
        }
        let token = self.token(TokenSubject::Answer(index));
        let (header, relaxed) = (ScatterList::EMPTY, self.rights.contains(Rights::RELAXED));
        Verdict::Place(Placement { target: Target { bytes: target, header, relaxed }, token })
    }

    fn handle_atomic(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        psn: Psn,
        original: u64,
    ) -> Verdict {
        let Some(index) = self.answered_send(shared, now, psn) else {
            return shared.drop(DropReason::BadAnswer);
        };
        let send = &mut shared.sends[index];
        if matches!(send.work, Work::Read { .. }) {
            self.fail(shared, index, Status::BadResponse);
            return shared.drop(DropReason::Malformed);
        }
        send.value = original;
        let target = send.local;
        if shared.is_revoked(self.domain, &target) {
            self.fail(shared, index, Status::LocalProtection);
            return shared.drop(DropReason::Refused);
        }
        let send = &mut shared.sends[index];
        send.placing += u32::from(target.length() > 0);
        self.note_answer(shared, now, index);
        if target.length() == 0 {
            self.note_answered(shared, index);
            return Verdict::Done;
        }
        let token = self.token(TokenSubject::Answer(index));
        Verdict::Own(OwnVerdict::Store { target, value: original, token })
    }

    /// The READ or atomic whose next answer has this PSN. The answer also acknowledges all sends
    /// before it.
    fn answered_send(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        psn: Psn,
    ) -> Option<Index<Send>> {
        let before = psn.distance_from(self.requester.una).max(0) as u32;
        if !self.advance(shared, now, before) {
            self.answer_was_lost(shared, now);
            return None;
        }
        self.requester.oldest.filter(|&index| shared.sends[index].is_answered())
    }

    /// Records that the next answer to the oldest send has arrived.
    fn note_answer(&mut self, shared: &mut Shared, now: Instant, index: Index<Send>) {
        let requester = &mut self.requester;
        let send = &mut shared.sends[index];
        send.acknowledged += 1;
        requester.una = requester.una.next();
        requester.read_span = requester.read_span.saturating_sub(1);
        requester.read_window.grow(1);
        if send.acknowledged == send.packets {
            requester.oldest = send.links.next();
            requester.readings.answered(index);
        } else if send.in_flight > 0 && send.acknowledged.is_multiple_of(requester.read_packets) {
            send.in_flight -= 1;
            requester.reads_in_flight -= 1;
        }
        self.note_progress(shared, now);
    }

    /// Stops counting a READ or atomic as in flight once all of its answer has been placed. (The
    /// requests of a long READ count one by one until they are answered.)
    fn note_answered(&mut self, shared: &mut Shared, index: Index<Send>) {
        let send = &mut shared.sends[index];
        if send.is_done() {
            self.requester.reads_in_flight -= core::mem::take(&mut send.in_flight);
        }
    }

    /// Records that part of an answer has been placed.
    pub(crate) fn answer_placed(&mut self, shared: &mut Shared, index: Index<Send>) {
        if shared.sends.get(index).is_some_and(|send| send.placing > 0) {
            shared.sends[index].placing -= 1;
            self.note_answered(shared, index);
            self.complete_ready(shared);
            self.mark_ready(shared);
        }
    }
}
