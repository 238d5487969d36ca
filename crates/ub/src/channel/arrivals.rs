//! How incoming messages end: complete, forgotten, evicted from their receive, or abandoned.

use super::Channel;
use crate::api::{Completion, Status, is_numbered};
use crate::arrival::{Arrival, ArrivalKind};
use crate::injected_bug::InjectedBug;
use crate::mailbox::Ticket;
use crate::order::Key;
use crate::pool::Index;
use crate::shared::Shared;
use fairway_wire::{Msn, Refusal};

impl Channel {
    /// Completes a message all of which is in place.
    pub(crate) fn finish_arrival(&mut self, shared: &mut Shared, index: Index<Arrival>) {
        let arrival = shared.arrivals[index];
        if arrival.kind == ArrivalKind::Put {
            shared.mailboxes.finish(arrival.ticket);
            shared.counters.puts_received += 1;
        }
        if let Some(response) = arrival.response {
            shared.arrivals[index].response = None;
            self.answer_done(shared, response);
        }
        if let Some(receive) = arrival.receive {
            self.complete_in_turn(shared, &arrival, receive);
        } else if arrival.order.in_order {
            // The message consumed no receive, so no later message has to wait for it.
            let key = Key::of(self.group(), arrival.remote_jetty);
            if let Some(tracker) = shared.trackers.find(&key) {
                self.skip_receive(shared, tracker, arrival.order.receive_sequence);
            }
        }
        if is_numbered(arrival.order.mode, arrival.order.tag) {
            self.mark_executed(shared, arrival.remote_jetty, arrival.order.sequence);
        }
        self.drop_parts(shared, index);
        if shared.is_injected(InjectedBug::LeakSlot) {
            return;
        }
        self.forget_slot(&arrival, index);
        shared.arrivals.free(index);
    }

    /// Drops the record of a message; a receive that it took returns to its Jetty.
    pub(crate) fn forget_arrival(&mut self, shared: &mut Shared, index: Index<Arrival>) {
        self.abandon_arrival(shared, index);
        let arrival = shared.arrivals[index];
        self.forget_slot(&arrival, index);
        shared.arrivals.free(index);
    }

    /// Ends an incoming message that had taken a receive of a Jetty that has ended: the receive is
    /// flushed, and the rest of the message is discarded.
    pub(crate) fn evict_arrival(&mut self, shared: &mut Shared, index: Index<Arrival>) {
        let response = shared.arrivals[index].response.take();
        let receive = shared.arrivals[index].receive.take();
        let arrival = shared.arrivals[index];
        let completion = self.receive_completion(&arrival);
        let flushed = Completion { status: Status::Flushed, bytes: 0, ..completion };
        if let Some(receive) = receive {
            shared.complete_receive(receive, flushed);
        }
        if let Some(response) = response {
            self.acknowledge_transaction(shared, response, Some(Refusal::NoJetty));
        }
        self.skip_numbers(shared, arrival.remote_jetty, &arrival.order);
        self.abandon_arrival(shared, index);
        shared.deferred.give_up_executing(index);
        shared.arrivals[index].pending_refusal = response.is_none().then_some(Refusal::NoJetty);
        if !arrival.has_slot {
            shared.arrivals.free(index);
        }
    }

    /// Drops the record of a message that its sender has abandoned in the middle. The sender
    /// reports this when every packet of the message has arrived or has been voided, so that no
    /// more of it arrives.
    pub(crate) fn forget_cut_short(&mut self, shared: &mut Shared, message: Msn) {
        let is_it = |index: &Index<Arrival>| {
            let arrival = &shared.arrivals[*index];
            arrival.message == message && !arrival.refused
        };
        let found = self.inbound.messages().find(is_it);
        if let Some(index) = found {
            self.forget_arrival(shared, index);
        }
    }

    pub(crate) fn forget_slot(&mut self, arrival: &Arrival, index: Index<Arrival>) {
        if arrival.has_slot {
            self.inbound.vacate(arrival.slot, index);
        }
    }

    /// Abandons a message: from now on its packets count as arrived and their payload is discarded.
    pub(crate) fn abandon_arrival(&mut self, shared: &mut Shared, index: Index<Arrival>) {
        let arrival = &mut shared.arrivals[index];
        arrival.refused = true;
        shared.mailboxes.cancel(core::mem::replace(&mut arrival.ticket, Ticket::VOID));
        let response = arrival.response.take();
        let (jetty, receive) = (arrival.jetty, arrival.receive.take());
        if let Some(response) = response {
            self.unreserve_answer(shared, response);
        }
        if let Some(receive) = receive {
            shared.jetties.return_receive(jetty, receive);
        }
        self.drop_parts(shared, index);
    }
}
