//! Memory that its owner unmapped without deregistering it: an operation whose payload the caller
//! could not place, change or gather ends in an error, here and at the peer.

use super::Channel;
use crate::api::{Completion, Status};
use crate::arrival::{Arrival, ArrivalKind};
use crate::deferred::{Deferred, DeferredState};
use crate::injected_bug::InjectedBug;
use crate::message::{Message, MessagePlace, Reply};
use crate::placement::{PlacementToken, Purpose};
use crate::pool::Index;
use crate::send_window::ACKNOWLEDGED;
use crate::shared::Shared;
use fairway_wire::{Data, Instant, Refusal};

impl Channel {
    /// Handles a payload that could not be placed, or a word that could not be changed.
    pub(crate) fn unplaced(&mut self, shared: &mut Shared, now: Instant, token: &PlacementToken) {
        if shared.is_injected(InjectedBug::PlaceNowhere) {
            return self.placed(shared, now, token, 0);
        }
        let number = token.message;
        match token.purpose {
            Purpose::Deferred(deferred) => return self.unexecuted(shared, deferred, token),
            Purpose::Datagram(arrival) => {
                return self.end_datagram(shared, arrival, number, Status::LocalMemory);
            }
            Purpose::DatagramWrite => return,
            Purpose::Stored(answer) => {
                return self.end_store(
                    &mut shared.answers,
                    &mut shared.schedule,
                    answer,
                    number,
                    Some(Refusal::Access),
                );
            }
            Purpose::Loaded(load) => {
                return self.end_load(shared, load, number, Status::LocalMemory);
            }
            // The staging memory belongs to the caller.
            Purpose::Staging(_) => return self.placed(shared, now, token, 0),
            _ => {}
        }
        if !self.acks.is_placing(token.psn) {
            self.placed_late(&mut shared.schedule, now);
            return;
        }
        let refusal = match token.purpose {
            Purpose::Atomic(answer) => {
                self.unreserve_changed(shared, answer);
                Some(Refusal::Access)
            }
            Purpose::Arrival(index) => {
                let arrival = &shared.arrivals[index];
                let is_it = arrival.message == number && arrival.channel == Some(self.index());
                (is_it && !arrival.refused).then(|| self.break_off(shared, index))
            }
            Purpose::Read(request) => {
                self.fail_answered(shared, request);
                None
            }
            _ => Some(Refusal::Access),
        };
        match refusal {
            Some(reason) => {
                if self.acks.refuse_placing(token.psn, token.message, reason) {
                    self.mark_urgent(&mut shared.schedule);
                }
            }
            None => {
                if !self.acks.placed(token.psn) {
                    return;
                }
                if let Purpose::Read(request) = token.purpose {
                    self.retire_placed(shared, request);
                }
                self.note_received(shared, now, token.psn, token.ack_request, token.retry);
            }
        }
    }

    /// Discards the rest of a message. A receive whose memory is missing completes with an error;
    /// that of a WRITE returns to its Jetty. Returns the reason for which the message is refused.
    fn break_off(&mut self, shared: &mut Shared, index: Index<Arrival>) -> Refusal {
        let Arrival { remote_jetty, order, .. } = shared.arrivals[index];
        let refusal = self.stop_placing(shared, index);
        self.skip_numbers(shared, remote_jetty, &order);
        refusal
    }

    /// Like `break_off`, but operations behind the message continue to wait.
    fn stop_placing(&mut self, shared: &mut Shared, index: Index<Arrival>) -> Refusal {
        let arrival = shared.arrivals[index];
        if let Some(receive) = arrival.receive.filter(|_| !arrival.is_into_segment()) {
            shared.arrivals[index].receive = None;
            let completion = self.receive_completion(&arrival);
            let failed = Completion { status: Status::LocalMemory, bytes: 0, ..completion };
            shared.complete_receive(receive, failed);
        }
        self.abandon_arrival(shared, index);
        if !arrival.has_slot {
            shared.arrivals.free(index);
        }
        match arrival.kind {
            ArrivalKind::Write | ArrivalKind::WriteImmediate => Refusal::Access,
            ArrivalKind::Send | ArrivalKind::SendImmediate => Refusal::Operation,
            ArrivalKind::Put => Refusal::Resources,
        }
    }

    /// Stops all waiting for a word that was not changed.
    fn unmark(&mut self, shared: &mut Shared, answer: Index<Message>) {
        let message = &mut shared.messages[answer];
        let (jetty, sequence) = (message.jetty, message.order.sequence());
        if message.take_marks() {
            self.mark_executed(shared, jetty, sequence);
        }
    }

    fn unreserve_changed(&mut self, shared: &mut Shared, answer: Index<Message>) {
        self.unmark(shared, answer);
        self.unreserve_answer(shared, answer);
    }

    /// Fails a local READ whose answer could not be placed.
    fn fail_answered(&mut self, shared: &mut Shared, index: Index<Message>) {
        if self.is_answered(shared, index) {
            self.finish_request(shared, index, Status::LocalMemory);
        }
    }

    /// Handles a held operation that could not be executed.
    fn unexecuted(&mut self, shared: &mut Shared, index: Index<Deferred>, token: &PlacementToken) {
        let Some(&deferred) = shared.deferred.get(index) else { return };
        let is_it = deferred.channel == Some(self.index())
            && deferred.state == DeferredState::Executing
            && deferred.data.psn == token.psn;
        if !is_it {
            return;
        }
        let arrival = match deferred.is_part {
            true => {
                deferred.arrival.filter(|_| self.arrival_of(&shared.arrivals, &deferred).is_some())
            }
            false => deferred.arrival,
        };
        shared.deferred.free(index, &mut shared.channels);
        if deferred.given_up {
            return;
        }
        if let Some(arrival) = arrival {
            self.break_off_later(shared, arrival, None);
        } else if !deferred.is_part {
            self.unmark(shared, deferred.answer());
            self.answer_refused(shared, deferred.answer(), &deferred.data, Refusal::Access);
        }
    }

    /// Ends a message that was set aside, and whose memory was missing or not granted any more when
    /// it became next in order. `revoked` is the reason in the latter case. Its packets may have
    /// been acknowledged, so its answer, if it has one, reports the failure. If some of it has yet
    /// to arrive, the refusal is attached to its next packet; if all of it has arrived, to the
    /// packet that made it next in order, which has not been acknowledged yet.
    pub(super) fn break_off_later(
        &mut self,
        shared: &mut Shared,
        index: Index<Arrival>,
        revoked: Option<Refusal>,
    ) {
        let reason = |refusal| revoked.unwrap_or(refusal);
        let response = shared.arrivals[index].response.take();
        let arrival = shared.arrivals[index];
        if let Some(response) = response {
            let refusal = reason(self.break_off(shared, index));
            self.acknowledge_transaction(shared, response, Some(refusal));
        } else if arrival.has_slot && arrival.placed + arrival.aside < arrival.length {
            let refusal = reason(self.break_off(shared, index));
            shared.arrivals[index].pending_refusal = Some(refusal);
        } else if shared.is_injected(InjectedBug::ForgetLate) {
            self.break_off(shared, index);
        } else {
            let refusal = reason(self.stop_placing(shared, index));
            self.refuse_late(shared, &arrival, refusal);
        }
    }

    /// Handles a packet to be sent whose payload could not be gathered. A local operation fails;
    /// the initiator of a READ is sent a refusal.
    pub(crate) fn ungathered(&mut self, shared: &mut Shared, data: &Data) {
        if !self.tp.is_in_window(data.psn) {
            return;
        }
        let sent = *self.send.record(data.psn, &mut shared.send_blocks);
        let message = shared.messages[sent.message()];
        let is_it = !sent.is(ACKNOWLEDGED)
            && message.progress.number() == data.message
            && message.attempts.is_open();
        if !is_it {
            return;
        }
        let is_answer = message.is_read_response();
        if is_answer && !self.refuse_read(shared, &message) {
            if shared.is_injected(InjectedBug::WaitForRecord) {
                return;
            }
            // The next record available for the refusal is the answer's own, once its packets are
            // void.
            shared.messages[sent.message()].own_answer().reply =
                Reply::Bytes { refused_next: true };
        }
        if matches!(message.place, MessagePlace::Sending | MessagePlace::WithFlow) {
            self.delist(shared, sent.message());
        }
        // The packets under way become void when they are lost, as if the operation had been
        // cancelled; the target need not wait for its numbers.
        shared.messages[sent.message()].attempts.fail(Status::Flushed);
        if is_answer {
            self.unmark(shared, sent.message());
        } else if message.report.is_pending() {
            shared.complete_message(sent.message(), Status::LocalMemory);
        }
    }

    /// Reuses the record of an answer to a READ whose memory is missing for the refusal, once
    /// nothing of the answer is under way.
    pub(crate) fn turn_into_refusal(&mut self, shared: &mut Shared, index: Index<Message>) {
        self.release_slots(shared, index);
        self.read_ends(shared, index);
        let begun = shared.messages[index];
        shared.release(begun.local.segment.number());
        shared.messages[index] = self.successor_of_read(&begun);
        self.acknowledge_transaction(shared, index, Some(Refusal::Access));
    }

    /// A new answer, without content yet, to the READ that `begun` answers.
    fn successor_of_read(&self, begun: &Message) -> Message {
        Message::answer(self.index(), &begun.request_fields())
    }

    /// Answers a READ with a refusal, instead of the answer that was begun. False if no record is
    /// available for it at present.
    fn refuse_read(&mut self, shared: &mut Shared, begun: &Message) -> bool {
        let answer = self.successor_of_read(begun);
        let Some(index) = shared.messages.add(answer) else { return false };
        self.inbound.begin_answer();
        self.acknowledge_transaction(shared, index, Some(Refusal::Access));
        true
    }
}
