//! Memory order at the target (tag [`Mo`](fairway_wire::Tag::Mo)): memory changes as if the
//! operations of a peer Jetty were executed one after the other, whatever order packets arrive in.
//!
//! * A message that is **next in order** is placed as its packets arrive. Payload of later messages
//!   is **set aside** in the staging memory, packet by packet, and copied to its place when its
//!   message is next. Such a packet counts as arrived, so it never holds a sequence number up.
//! * Without room in the staging memory the message is sent back; its initiator sends it again when
//!   it is the oldest one. Any receive that the message took at the target stays reserved for it.
//! * A READ counts as executed when its answer begins. Until the answer has arrived (a lost packet
//!   of it is read from memory again), messages that **overlap** what it reads wait, and only
//!   those. A message that was posted while a READ was under way is therefore in mode ROT: it
//!   completes when it has been executed, and not when it has arrived. The same applies to a
//!   message of a Jetty whose number had relaxed or strict operations before, because the target
//!   may still wait for the acknowledgement of an answer to them.
//! * The **last packet** of a message of several is placed last, so a program that watches the last
//!   byte of a WRITE sees all of it.
//! * While payload that is next in order is being copied, no acknowledgement or answer leaves: it
//!   might let the initiator report an operation whose bytes are not in place yet. If the memory
//!   turns out to be missing, the message is refused late (`late_refusal.rs`).

use super::Channel;
use super::receive::Judgement;
use crate::api::LocalRange;
use crate::arrival::{Arrival, Turn};
use crate::deferred::{Deferred, DeferredState};
use crate::injected_bug::InjectedBug;
use crate::message::Message;
use crate::order::{Answering, Key, KeyedIndex, SequenceStatus, Tracker};
use crate::placement::{Execution, Purpose};
use crate::pool::Index;
use crate::shared::{Arrivals, Config, Shared};
use crate::tpg::ChannelGroups;
use fairway_wire::{Data, Order, Refusal, ServiceMode, Tag};

impl Channel {
    /// Decides whether a new message may be placed, or waits for its turn. False if too many wait.
    pub(crate) fn await_turn(&mut self, shared: &mut Shared, index: Index<Arrival>) -> bool {
        let arrival = shared.arrivals[index];
        // READs and atomics return the bytes of their place in the order, so an operation posted
        // while one was under way waits for it even here.
        let relaxed = arrival.is_into_segment()
            && arrival.order.mode != ServiceMode::Rot
            && shared.segments.is_relaxed(arrival.segment, &arrival.admission);
        if arrival.order.tag != Tag::Mo || relaxed || shared.is_injected(InjectedBug::PlaceAhead) {
            return true;
        }
        let key = Key::of(self.group(), arrival.remote_jetty);
        let Some(tracker) = shared.trackers.find(&key) else { return true };
        shared.arrivals[index].turn = Turn::Come;
        if arrival.length == 0 || shared.has_turn(tracker, &arrival.order, &arrival.range()) {
            return true;
        }
        shared.arrivals.wait(&mut shared.trackers[tracker].waiting, index)
    }

    /// True if this packet of a message has to wait, although the message was admitted.
    pub(crate) fn has_to_wait(
        &self,
        arrivals: &Arrivals,
        index: Index<Arrival>,
        data: &Data,
    ) -> bool {
        let arrival = &arrivals[index];
        match arrival.turn {
            Turn::Any => false,
            Turn::Waits => true,
            Turn::Come => {
                let before = u64::from(data.index) * u64::from(self.mtu);
                data.last && data.index > 0 && u64::from(arrival.placed) < before
            }
        }
    }

    /// Puts a packet's payload into the staging memory. Without room there, its message is sent
    /// back.
    pub(crate) fn set_aside(
        &mut self,
        shared: &mut Shared,
        index: Index<Arrival>,
        data: &Data,
        payload: u32,
    ) -> Option<Judgement> {
        let deferred = Deferred {
            data: *data,
            payload,
            channel: Some(self.index()),
            leader: self.group(),
            response: None,
            arrival: Some(index),
            next: shared.arrivals[index].parts,
            is_part: true,
            given_up: false,
            cause: None,
            state: DeferredState::Arriving,
        };
        let part = shared.deferred.add(deferred)?;
        shared.arrivals[index].parts = Some(part);
        shared.count_deferred();
        let target = shared.deferred.place(part, payload);
        Some(Judgement::Place { target, purpose: Purpose::Staging(part) })
    }

    /// Sends a message back that finds no room in the staging memory. Its initiator sends it again;
    /// the receive that it took stays reserved for it.
    pub(crate) fn send_back(&mut self, shared: &mut Shared, index: Index<Arrival>) -> Judgement {
        shared.counters.sent_back += 1;
        let arrival = shared.arrivals[index];
        let key = Key::of(self.group(), arrival.remote_jetty);
        if arrival.receive.is_some()
            && arrival.order.in_order
            && let Some(tracker) = shared.trackers.find(&key)
            && shared.jetties.keep_receive(&mut shared.trackers, tracker, &arrival)
        {
            shared.arrivals[index].receive = None;
        }
        self.abandon_arrival(shared, index);
        if !arrival.has_slot {
            shared.arrivals.free(index);
        }
        Judgement::Refuse(Refusal::OutOfOrder)
    }

    /// Notes that the payload of a packet that was set aside is in the staging memory.
    pub(crate) fn part_staged(&mut self, shared: &mut Shared, part: Index<Deferred>) {
        let deferred = shared.deferred[part];
        if deferred.given_up {
            return shared.deferred.free(part, &mut shared.channels);
        }
        shared.deferred[part].state = DeferredState::Waiting;
        let Some(index) = deferred.arrival else { return };
        shared.arrivals[index].aside += deferred.payload;
        self.release_slot(&mut shared.arrivals, index);
        if shared.arrivals[index].turn != Turn::Waits {
            shared.call_parts(index, self.mtu);
        }
    }

    /// Copies a packet that was set aside to its place, because its message is next in order.
    pub(crate) fn execute_part(
        &mut self,
        shared: &mut Shared,
        part: Index<Deferred>,
    ) -> Option<Execution> {
        let deferred = shared.deferred[part];
        let Some((index, arrival)) = self.arrival_of(&shared.arrivals, &deferred) else {
            shared.deferred.free(part, &mut shared.channels);
            return None;
        };
        let current = !arrival.is_into_segment()
            || shared.segments.is_current(arrival.segment, &arrival.admission);
        if !current {
            // The memory was deregistered, or access revoked, while the packet waited.
            let revoked = shared.segments.revocation(&arrival.admission);
            self.break_off_later(shared, index, Some(revoked));
            shared.deferred.free(part, &mut shared.channels);
            return None;
        }
        shared.deferred[part].state = DeferredState::Executing;
        let from = shared.deferred.place(part, deferred.payload);
        let offset = arrival.offset + u64::from(deferred.data.index) * u64::from(self.mtu);
        let to = LocalRange { offset, length: deferred.payload, ..arrival.range() };
        Some(Execution::Copy {
            from,
            to,
            token: self.deferred(&deferred.data, deferred.payload, part),
        })
    }

    /// Accounts for a packet that was set aside and is now in its place.
    pub(crate) fn part_executed(
        &mut self,
        shared: &mut Shared,
        index: Index<Deferred>,
        bytes: u32,
    ) {
        let deferred = shared.deferred[index];
        let arrival = self.arrival_of(&shared.arrivals, &deferred);
        shared.deferred.free(index, &mut shared.channels);
        if let Some((index, _)) = arrival {
            shared.arrivals[index].aside -= bytes;
            self.count_placed(shared, index, bytes);
        }
    }

    /// Counts bytes of a message that are in place.
    pub(crate) fn count_placed(&mut self, shared: &mut Shared, index: Index<Arrival>, bytes: u32) {
        let arrival = &mut shared.arrivals[index];
        arrival.placed += bytes;
        shared.mailboxes.placed(arrival.ticket, bytes);
        if arrival.placed == arrival.length {
            self.finish_arrival(shared, index);
        } else if arrival.turn == Turn::Come {
            if arrival.parts.is_some() {
                shared.call_parts(index, self.mtu);
            }
            self.release_slot(&mut shared.arrivals, index);
        }
    }

    /// Releases the slot of a message that had to wait, once all of it has arrived, some of it in
    /// the staging memory: its sender may use the slot again.
    fn release_slot(&mut self, arrivals: &mut Arrivals, index: Index<Arrival>) {
        let arrival = arrivals[index];
        let is_whole = arrival.placed + arrival.aside == arrival.length;
        if arrival.has_slot && arrival.has_waited && is_whole {
            self.forget_slot(&arrival, index);
            arrivals[index].has_slot = false;
        }
    }

    /// The message that a packet was set aside for, if it is still under way.
    pub(crate) fn arrival_of(
        &self,
        arrivals: &Arrivals,
        deferred: &Deferred,
    ) -> Option<(Index<Arrival>, Arrival)> {
        let index = deferred.arrival?;
        let arrival = arrivals[index];
        let same = arrival.channel == Some(self.index())
            && arrival.message == deferred.data.message
            && !arrival.refused
            // The peer chooses message numbers, so another message may have the record by now.
            && arrival.turn == Turn::Come
            && arrival.aside >= deferred.payload
            && self.fits(arrival.length, &deferred.data, deferred.payload);
        same.then_some((index, arrival))
    }

    /// Stops placing a message and drops the packets that were set aside for it.
    pub(crate) fn drop_parts(&mut self, shared: &mut Shared, index: Index<Arrival>) {
        let arrival = shared.arrivals[index];
        if arrival.turn == Turn::Any {
            return;
        }
        let key = Key::of(self.group(), arrival.remote_jetty);
        if arrival.turn == Turn::Waits
            && let Some(tracker) = shared.trackers.find(&key)
        {
            shared.arrivals.unlink_waiting(&mut shared.trackers[tracker].waiting, index);
        }
        shared.drop_parts(index);
    }

    /// Drops a message that its initiator abandoned before it was next in order.
    pub(crate) fn drop_given_up(&mut self, shared: &mut Shared, index: Index<Arrival>) {
        let arrival = shared.arrivals[index];
        self.abandon_arrival(shared, index);
        if !arrival.has_slot {
            shared.arrivals.free(index);
        }
    }

    /// Registers the answer to a READ in memory order that begins. Operations that overlap it wait.
    pub(crate) fn read_begins(&mut self, shared: &mut Shared, answer: Index<Message>) {
        let message = &shared.messages[answer];
        let (jetty, sequence) = (message.jetty, message.order.sequence());
        if let Some(tracker) = shared.trackers.find(&Key::of(self.group(), jetty)) {
            shared.messages[answer].own_answer().is_tracked = true;
            let mut reading = shared.trackers[tracker].reading;
            reading.push_back(&mut Answering(&mut shared.messages), answer);
            shared.trackers[tracker].reading = reading;
        }
        self.mark_executed(shared, jetty, sequence);
    }

    /// Removes the answer to a READ in memory order that has arrived, or never will.
    pub(crate) fn read_ends(&mut self, shared: &mut Shared, answer: Index<Message>) {
        let message = &mut shared.messages[answer];
        let jetty = message.jetty;
        if !core::mem::take(&mut message.own_answer().is_tracked) {
            return;
        }
        let Some(tracker) = shared.trackers.find(&Key::of(self.group(), jetty)) else { return };
        let mut reading = shared.trackers[tracker].reading;
        reading.unlink(&mut Answering(&mut shared.messages), answer);
        shared.trackers[tracker].reading = reading;
        shared.release_deferred(tracker);
        shared.release_waiting(tracker, self.mtu);
    }

    /// True if acknowledgements and answers have to wait until what was set aside is in place.
    pub(crate) fn is_draining(&self, config: &Config, channels: &mut ChannelGroups) -> bool {
        let group = channels.get_mut(self.group());
        let draining = group.awaits_draining();
        (draining || group.is_cut_off) && !config.is_injected(InjectedBug::AcknowledgeAside)
    }
}

impl Shared {
    /// True if an operation in memory order, on this memory, may be executed now.
    pub(crate) fn has_turn(
        &self,
        tracker: KeyedIndex<Tracker>,
        order: &Order,
        range: &LocalRange,
    ) -> bool {
        // An operation that was posted while no READ was under way is in another mode than ROT: any
        // answer still recorded here has arrived.
        self.trackers[tracker].status(order.sequence) == SequenceStatus::Next
            && (order.mode != ServiceMode::Rot || !self.is_being_read(tracker, range))
    }

    /// True if an answer to a READ of this Jetty that has not arrived reads from this memory.
    pub(crate) fn is_being_read(&self, tracker: KeyedIndex<Tracker>, range: &LocalRange) -> bool {
        if self.is_injected(InjectedBug::ReadLate) {
            return false;
        }
        let mut next = self.trackers[tracker].reading.head();
        while let Some(at) = next {
            let answer = &self.messages[at];
            if self.segments.overlap(&answer.local, range) {
                return true;
            }
            next = answer.order.next_ordered();
        }
        false
    }

    /// Places what has been set aside for messages that are now next in order.
    pub(crate) fn release_waiting(&mut self, tracker: KeyedIndex<Tracker>, mtu: u32) {
        let mut next = self.trackers[tracker].waiting;
        while let Some(at) = next {
            let arrival = self.arrivals[at];
            next = arrival.next_waiting;
            if self.trackers[tracker].status(arrival.order.sequence) == SequenceStatus::Past {
                self.arrivals.end_waiting(&mut self.trackers[tracker].waiting, at);
                self.arrivals.give_up(at);
            } else if self.has_turn(tracker, &arrival.order, &arrival.range()) {
                self.arrivals.end_waiting(&mut self.trackers[tracker].waiting, at);
                self.call_parts(at, mtu);
            }
        }
    }

    /// Makes due the packets that were set aside for a message that is now next in order, except
    /// its last packet while another one is missing.
    fn call_parts(&mut self, index: Index<Arrival>, mtu: u32) {
        let arrival = self.arrivals[index];
        let mut next = self.arrivals[index].parts.take();
        while let Some(at) = next {
            let deferred = self.deferred[at];
            next = deferred.next;
            let before = u64::from(deferred.data.index) * u64::from(mtu);
            let is_last = deferred.data.last && u64::from(arrival.placed) < before;
            if deferred.state == DeferredState::Waiting && !is_last {
                self.channels.get_mut(deferred.leader).begin_draining();
                self.deferred.make_due(at);
            } else {
                self.deferred[at].next = self.arrivals[index].parts.replace(at);
            }
        }
    }

    fn drop_parts(&mut self, index: Index<Arrival>) {
        let mut next = self.arrivals[index].parts;
        while let Some(at) = next {
            next = self.deferred[at].next;
            match self.deferred[at].state {
                DeferredState::Arriving => self.deferred[at].given_up = true,
                _ => self.deferred.free(at, &mut self.channels),
            }
        }
        let arrival = &mut self.arrivals[index];
        (arrival.turn, arrival.parts) = (Turn::Any, None);
    }
}
