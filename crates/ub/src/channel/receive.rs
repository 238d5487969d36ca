//! Reception of data packets: they are judged, recorded and placed.

use super::Channel;
use super::ack_state::BlockReason;
use super::execute::atomic_execution;
use super::respond::{has_taack, is_fetch};
use crate::api::{DropReason, LocalRange, Received, Rights, SegmentId, Status};
use crate::arrival::{Arrival, ArrivalKind, Turn};
use crate::injected_bug::InjectedBug;
use crate::mailbox::Ticket;
use crate::message::Message;
use crate::placement::{Placement, PlacementToken, Purpose, Verdict};
use crate::pool::{Index, Pool};
use crate::receive_window::Unrecorded;
use crate::shared::{Config, Shared};
use fairway_wire::{Data, Instant, Operation, Order, Psn, Refusal, Void};

/// What to do with a data packet whose PSN is new.
pub(crate) enum Judgement {
    /// The payload belongs at `target`.
    Place { target: LocalRange, purpose: Purpose },
    /// The word at `target` is to be changed, and the answer returns its old value.
    Atomic { target: LocalRange, answer: Index<Message> },
    /// The packet counts as arrived; there is nothing to place.
    Accept { purpose: Purpose },
    /// The packet's message is refused, for good.
    Refuse(Refusal),
    /// The packet is treated as if it had never arrived.
    Drop(DropReason),
}

impl Channel {
    pub(crate) fn handle_data(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        data: &Data,
        received: &Received,
    ) -> Verdict {
        self.acks.reply_by(received.route.path);
        self.acks.note_cci(received.route.cci);
        let is_marked = self.acks.count_mark(received.ecn);
        let admitted = self.admit(&shared.config, &mut shared.bitmap_blocks, data.psn);
        let again = admitted == Err(Unrecorded::Arrived)
            && shared.is_injected(InjectedBug::SkipDuplicateCheck);
        if let (Err(why), false) = (admitted, again) {
            return self.not_admitted(shared, data.psn, why);
        }
        if !self.acks.has_room_for(data.psn == self.tp.receive().base()) {
            self.tp.receive_mut().withdraw(data.psn, &mut shared.bitmap_blocks);
            return shared.counters.drop(DropReason::AcksBlocked);
        }
        let judgement = self.judge(shared, now, data, received.payload);
        if let Judgement::Drop(reason) = judgement {
            self.tp.receive_mut().withdraw(data.psn, &mut shared.bitmap_blocks);
            return shared.counters.drop(reason);
        }
        if !again && self.tp.receive_mut().record(data.psn, &mut shared.bitmap_blocks) {
            shared.counters.blocks_freed_early += 1;
        }
        let at_once = is_marked && shared.config.profile().acknowledge_marks;
        let arrived = shared.arrived_at(now);
        self.acks.note_arrival(arrived, received.route.path, data, (is_marked, at_once));
        shared.counters.data_received += 1;
        shared.counters.payload_received += u64::from(received.payload);
        self.congestion.controller_mut().on_data(now, received.payload, data.retry);
        let token = |purpose| PlacementToken {
            channel: self.id,
            psn: data.psn,
            message: data.message,
            purpose,
            bytes: received.payload,
            ack_request: data.ack_request,
            retry: data.retry,
        };
        match judgement {
            Judgement::Place { target, purpose } => {
                let token = token(purpose);
                let why = match purpose {
                    Purpose::Read(request) => BlockReason::PlacingAnswer { request },
                    _ => BlockReason::Placing,
                };
                self.acks.block(data.psn, why);
                Verdict::Place(Placement { target, token })
            }
            Judgement::Atomic { target, answer } => {
                self.acks.block(data.psn, BlockReason::Placing);
                let token = token(Purpose::Atomic(answer));
                Verdict::Own(atomic_execution(data, target, token))
            }
            Judgement::Accept { purpose } => {
                let token = token(purpose);
                self.account(shared, now, &token, 0);
                Verdict::Done
            }
            Judgement::Refuse(reason) => {
                self.refuse(&mut shared.counters, &mut shared.schedule, data, reason);
                Verdict::Done
            }
            Judgement::Drop(_) => Verdict::Done,
        }
    }

    #[inline(always)]
    fn admit(
        &mut self,
        config: &Config,
        bitmap_blocks: &mut Pool<u16>,
        psn: Psn,
    ) -> Result<(), Unrecorded> {
        if config.is_injected(InjectedBug::WrapPsnEarly)
            && psn.value() < self.tp.receive().base().value()
        {
            return Err(Unrecorded::Arrived);
        }
        self.tp.receive_mut().admit(psn, bitmap_blocks)
    }

    fn not_admitted(&mut self, shared: &mut Shared, psn: Psn, why: Unrecorded) -> Verdict {
        match why {
            Unrecorded::Arrived => {
                self.acks.count_duplicate();
                self.repeat_nak(&shared.config, &mut shared.schedule, psn);
                self.acknowledge_soon(&mut shared.schedule);
                shared.counters.drop(DropReason::Duplicate)
            }
            Unrecorded::BeyondWindow => {
                self.acknowledge_soon(&mut shared.schedule);
                shared.counters.drop(DropReason::BeyondWindow)
            }
            Unrecorded::PoolExhausted => shared.counters.drop(DropReason::BitmapPool),
        }
    }

    /// Fills a sequence number that will carry nothing.
    pub(crate) fn handle_void(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        void: &Void,
        path: u8,
    ) -> Verdict {
        self.acks.reply_by(path);
        if self.confirm_refusal(shared, void) {
            // Another message may have been refused by the same packet.
            if !self.acks.is_refused(void.psn) {
                self.note_received(shared, now, void.psn, true, true);
            }
            return Verdict::Done;
        }
        if let Err(why) = self.admit(&shared.config, &mut shared.bitmap_blocks, void.psn) {
            return self.not_admitted(shared, void.psn, why);
        }
        self.tp.receive_mut().record(void.psn, &mut shared.bitmap_blocks);
        self.note_received(shared, now, void.psn, void.ack_request, true);
        Verdict::Done
    }

    #[inline(always)]
    fn judge(&mut self, shared: &mut Shared, now: Instant, data: &Data, payload: u32) -> Judgement {
        match self.judge_plain(shared, data, payload) {
            Some(Judgement::Refuse(refusal)) => self.judge_refused(shared, data, refusal),
            Some(judgement) => judgement,
            None => self.judge_any(shared, now, data, payload),
        }
    }

    /// Judges a WRITE of one packet that requests no order: it passes every gate, and needs no
    /// record.
    #[inline(always)]
    fn judge_plain(&self, shared: &Shared, data: &Data, payload: u32) -> Option<Judgement> {
        let Operation::Write { access } = &data.operation else { return None };
        if data.index > 0 || !data.last || data.order != Order::NONE {
            return None;
        }
        if !self.fits(access.length, data, payload) {
            return Some(Judgement::Drop(DropReason::Malformed));
        }
        Some(match shared.segments.check(access, Rights::WRITE) {
            Err(refusal) => Judgement::Refuse(refusal),
            Ok((_, target)) => {
                place_at(target.segment.number(), target.offset, payload, Purpose::Plain)
            }
        })
    }

    fn judge_any(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        data: &Data,
        payload: u32,
    ) -> Judgement {
        match data.operation {
            Operation::ReadResponse | Operation::AtomicResponse { .. } | Operation::Done { .. } => {
                return self.judge_response(shared, now, data, payload);
            }
            Operation::Abandon | Operation::AbandonPut { .. } => {
                return self.judge_abandon(shared, data);
            }
            _ => {}
        }
        let multi = data.index > 0 || !data.last;
        if multi && is_fetch(&data.operation) {
            return Judgement::Drop(DropReason::Malformed);
        }
        if multi {
            match self.inbound.by_slot(data.slot) {
                None => return Judgement::Drop(DropReason::Malformed),
                Some(None) => {}
                Some(Some(index)) if shared.arrivals[index].message == data.message => {
                    return self.judge_further(shared, index, data, payload);
                }
                // The peer reuses a slot only when all of the old message has arrived: the record
                // left in the slot is that of a message that was refused or given up.
                Some(Some(index)) => self.forget_arrival(shared, index),
            }
        }
        let judgement = match self.gate(shared, data, payload) {
            Some(judgement) => judgement,
            None => self.judge_request(shared, data, payload, None),
        };
        match judgement {
            Judgement::Refuse(refusal) => self.judge_refused(shared, data, refusal),
            other => other,
        }
    }

    /// Records the refusal of a message of several packets, so that its other packets are
    /// recognized.
    fn judge_refused(&mut self, shared: &mut Shared, data: &Data, refusal: Refusal) -> Judgement {
        self.note_refused_key(shared, &data.operation);
        if data.index > 0 || !data.last {
            let mut arrival = Arrival::refused(*data, self.index());
            arrival.has_slot = true;
            let Some(index) = shared.arrivals.add(arrival) else {
                return Judgement::Drop(DropReason::ArrivalPool);
            };
            self.inbound.occupy(data.slot, index);
        }
        if !matches!(refusal, Refusal::ReceiverNotReady | Refusal::OutOfOrder) {
            self.skip_numbers(shared, data.jetty, &data.order);
        }
        Judgement::Refuse(refusal)
    }

    /// Judges a new transaction that may be executed. `reserved` is the record that was set aside
    /// for its answer when it arrived, unless it has just arrived.
    pub(crate) fn judge_request(
        &mut self,
        shared: &mut Shared,
        data: &Data,
        payload: u32,
        reserved: Option<Index<Message>>,
    ) -> Judgement {
        let length = match data.operation {
            Operation::Read { access } => {
                return self.judge_read(shared, data, payload, access, reserved);
            }
            Operation::ReadPart(part) => {
                return self.judge_read_part(shared, data, payload, &part, reserved);
            }
            Operation::Atomic { access, .. } => {
                return self.judge_atomic(shared, data, payload, access, reserved);
            }
            Operation::Write { access } | Operation::WriteImmediate { access, .. } => access.length,
            Operation::WritePart(part) => part.access.length,
            Operation::Send { length, .. } | Operation::SendImmediate { length, .. } => length,
            Operation::Put(put) => put.length,
            Operation::Get(get) => return self.judge_get(shared, data, payload, &get, reserved),
            _ => return Judgement::Drop(DropReason::StartUnknown),
        };
        if !self.fits(length, data, payload) {
            return Judgement::Drop(DropReason::Malformed);
        }
        self.judge_first(shared, data, length, payload, reserved)
    }

    /// Judges the first packet to arrive of a message that needs a record.
    fn judge_first(
        &mut self,
        shared: &mut Shared,
        data: &Data,
        length: u32,
        payload: u32,
        reserved: Option<Index<Message>>,
    ) -> Judgement {
        let multi = data.index > 0 || !data.last;
        if shared.arrivals.is_exhausted() {
            return Judgement::Drop(DropReason::ArrivalPool);
        }
        let mut response = None;
        if has_taack(&data.order) {
            match self.answer_for(shared, data, reserved) {
                Some(index) => response = Some(index),
                None => return Judgement::Drop(DropReason::MessagePool),
            }
        }
        let mut arrival = match self.admit_message(shared, data, length) {
            Ok(arrival) => arrival,
            Err(refusal) => {
                if let (None, Some(response)) = (reserved, response) {
                    self.unreserve_answer(shared, response);
                }
                return Judgement::Refuse(refusal);
            }
        };
        arrival.has_slot = multi;
        arrival.response = response;
        let Some(index) = shared.arrivals.add(arrival) else {
            return Judgement::Drop(DropReason::ArrivalPool);
        };
        if multi {
            self.inbound.occupy(data.slot, index);
            self.acks.note_start_known(data.message);
        }
        let judgement = match self.await_turn(shared, index) {
            true => self.place_in(shared, index, data, payload),
            false => self.send_back(shared, index),
        };
        if multi && matches!(judgement, Judgement::Refuse(_)) {
            // The refusal gets a separate record.
            self.forget_arrival(shared, index);
        }
        judgement
    }

    /// Checks a new message and takes the receive that it needs.
    pub(crate) fn admit_message(
        &mut self,
        shared: &mut Shared,
        data: &Data,
        length: u32,
    ) -> Result<Arrival, Refusal> {
        let refused = Arrival::refused(*data, self.index());
        let mut arrival = Arrival { length, refused: false, ..refused };
        let target = match data.operation {
            Operation::Write { .. } | Operation::WritePart(_) => None,
            Operation::WriteImmediate { target, immediate, .. } => {
                arrival.kind = ArrivalKind::WriteImmediate;
                arrival.immediate = immediate;
                Some(target)
            }
            Operation::Send { target, .. } => {
                arrival.kind = ArrivalKind::Send;
                Some(target)
            }
            Operation::SendImmediate { target, immediate, .. } => {
                arrival.kind = ArrivalKind::SendImmediate;
                arrival.immediate = immediate;
                Some(target)
            }
            Operation::Put(put) => {
                self.admit_put(&shared.config, &mut shared.mailboxes, &mut arrival, &put)?;
                None
            }
            _ => return Err(Refusal::Operation),
        };
        if let Operation::Write { access } | Operation::WriteImmediate { access, .. } =
            data.operation
        {
            let (admission, target) = shared.segments.check(&access, Rights::WRITE)?;
            arrival.segment = target.segment.number();
            arrival.admission = admission;
            arrival.offset = target.offset;
        }
        if let Operation::WritePart(part) = data.operation {
            let (admission, target) = shared.check_part(&part, Rights::WRITE)?;
            arrival.segment = target.segment.number();
            arrival.admission = admission;
            arrival.offset = target.offset;
        }
        if let Some(target) = target {
            self.take_receive(shared, data, &target, &mut arrival)?;
        }
        Ok(arrival)
    }

    /// Judges a packet of a message that has a record.
    fn judge_further(
        &mut self,
        shared: &mut Shared,
        index: Index<Arrival>,
        data: &Data,
        payload: u32,
    ) -> Judgement {
        let arrival = &mut shared.arrivals[index];
        if arrival.refused {
            return match core::mem::take(&mut arrival.pending_refusal) {
                Some(refusal) => Judgement::Refuse(refusal),
                None => Judgement::Accept { purpose: Purpose::Plain },
            };
        }
        let arrival = &shared.arrivals[index];
        if !self.fits(arrival.length, data, payload) {
            return Judgement::Drop(DropReason::Malformed);
        }
        if arrival.is_into_segment()
            && !shared.segments.is_current(arrival.segment, &arrival.admission)
        {
            // The memory was deregistered, or access revoked, in the middle of the message.
            let (jetty, order) = (arrival.remote_jetty, arrival.order);
            let refusal = shared.segments.revocation(&arrival.admission);
            self.abandon_arrival(shared, index);
            self.skip_numbers(shared, jetty, &order);
            return Judgement::Refuse(refusal);
        }
        self.place_in(shared, index, data, payload)
    }

    fn place_in(
        &mut self,
        shared: &mut Shared,
        index: Index<Arrival>,
        data: &Data,
        payload: u32,
    ) -> Judgement {
        let mtu = u64::from(self.mtu);
        let arrival = &shared.arrivals[index];
        let is_lost = arrival.kind == ArrivalKind::Put
            && !shared.mailboxes.is_live(arrival.ticket)
            && !(shared.is_injected(InjectedBug::PlaceRewound) && arrival.ticket != Ticket::VOID);
        if is_lost {
            return Judgement::Accept { purpose: Purpose::Arrival(index) };
        }
        let (segment, start) = (arrival.segment, arrival.offset);
        let offset = start + u64::from(data.index) * mtu;
        if self.has_to_wait(&shared.arrivals, index, data) {
            let waits = shared.arrivals[index].turn == Turn::Waits;
            match self.set_aside(shared, index, data, payload) {
                Some(judgement) => return judgement,
                None if waits => return self.send_back(shared, index),
                // The rule that the last packet is placed last does not justify sending the message
                // back.
                None => {}
            }
        }
        place_at(segment, offset, payload, Purpose::Arrival(index))
    }

    /// True if index, payload and last-mark agree with the message's length.
    #[inline]
    pub(crate) fn fits(&self, length: u32, data: &Data, payload: u32) -> bool {
        let start = u64::from(data.index) * u64::from(self.mtu);
        let end = start + u64::from(payload);
        if data.last {
            end == u64::from(length) && payload <= self.mtu && (payload > 0 || length == 0)
        } else {
            payload == self.mtu && end < u64::from(length)
        }
    }

    /// Handles a payload that is in place, or a word that was changed and was `old` before.
    pub(crate) fn placed(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        token: &PlacementToken,
        old: u64,
    ) {
        match token.purpose {
            Purpose::Deferred(deferred) => return self.executed(shared, deferred, token, old),
            Purpose::Datagram(arrival) => {
                return self.end_datagram(shared, arrival, token.message, Status::Success);
            }
            Purpose::DatagramWrite => return,
            Purpose::Stored(answer) => {
                return self.end_store(
                    &mut shared.answers,
                    &mut shared.schedule,
                    answer,
                    token.message,
                    None,
                );
            }
            Purpose::Loaded(load) => {
                return self.end_load(shared, load, token.message, Status::Success);
            }
            _ => {}
        }
        // A placement that was under way when the channel was flushed does not count.
        if self.acks.placed(token.psn) {
            self.account(shared, now, token, old);
        } else {
            self.placed_late(&mut shared.schedule, now);
        }
    }

    /// Counts a packet whose payload, if any, is in place.
    #[inline]
    fn account(&mut self, shared: &mut Shared, now: Instant, token: &PlacementToken, old: u64) {
        if token.purpose == Purpose::Plain || self.settle(shared, token, old) {
            self.note_received(shared, now, token.psn, token.ack_request, token.retry);
        }
    }

    /// Does what a payload in place is for, or a word that was `old`. False if the packet does not
    /// count as received.
    fn settle(&mut self, shared: &mut Shared, token: &PlacementToken, old: u64) -> bool {
        match token.purpose {
            Purpose::Plain
            | Purpose::Deferred(_)
            | Purpose::Datagram(_)
            | Purpose::DatagramWrite
            | Purpose::Stored(_)
            | Purpose::Loaded(_) => {}
            Purpose::Staging(deferred) => {
                if let Some(refusal) =
                    self.refusal_of_part(&mut shared.arrivals, &shared.deferred, deferred)
                {
                    shared.deferred.free(deferred, &mut shared.channels);
                    let why = BlockReason::Refused {
                        message: token.message,
                        reason: refusal,
                        nak_due: true,
                    };
                    self.acks.block(token.psn, why);
                    self.mark_urgent(&mut shared.schedule);
                    return false;
                }
                self.staged(shared, deferred);
            }
            Purpose::Atomic(answer) => self.answer_atomic(shared, answer, old),
            Purpose::Arrival(index) => {
                let arrival = &shared.arrivals[index];
                // A peer that reuses a slot too early must not count towards another message.
                if arrival.message != token.message || arrival.channel != Some(self.index()) {
                    return false;
                }
                self.count_placed(shared, index, token.bytes);
            }
            Purpose::Read(index) => {
                if !self.is_answered(shared, index) {
                    self.retire_placed(shared, index);
                    return false;
                }
                if shared.messages[index].note_placed(token.bytes) {
                    self.finish_answered(shared, index);
                }
            }
        }
        true
    }
}

/// The judgement for a payload of `length` bytes that belongs into a segment.
#[inline]
pub(crate) fn place_at(segment: u32, offset: u64, length: u32, purpose: Purpose) -> Judgement {
    if length == 0 {
        return Judgement::Accept { purpose };
    }
    let target = LocalRange { segment: SegmentId::new(segment), offset, length };
    Judgement::Place { target, purpose }
}
