//! Data packets in: judged, recorded, placed.

use super::{Channel, Why, Withheld};
use crate::api::{
    Completion, CompletionKind, DropReason, LocalRange, Placement, PlacementKind, PlacementToken,
    Received, Rights, SegmentId, Status, Verdict,
};
use crate::arrival::{Arrival, ArrivalKind};
use crate::canary::Canary;
use crate::list::Links;
use crate::message::{Message, MessageKind, MessagePlace, Outcome, Progress, packets_of};
use crate::pool::NONE;
use crate::receive_window::Unrecorded;
use crate::shared::Shared;
use fairway_wire::{Access, Data, Instant, JettyId, Msn, Operation, Psn, Refusal, Void};

/// What is to become of a data packet whose PSN is new.
pub(crate) enum Judgement {
    /// Its payload belongs there.
    Place { target: LocalRange, kind: PlacementKind, subject: u32 },
    /// It counts as arrived; there is nothing to place.
    Accept { kind: PlacementKind, subject: u32 },
    /// Its message is refused, for good.
    Refuse(Refusal),
    /// It is as if it had never come.
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
        self.owed.path = received.route.path;
        if received.ecn == fairway_wire::Ecn::Congested {
            self.owed.marks = self.owed.marks.wrapping_add(1);
        }
        let admitted = self.admit(shared, data.psn);
        let again =
            admitted == Err(Unrecorded::Arrived) && shared.is_planted(Canary::SkipDuplicateCheck);
        if let (Err(why), false) = (admitted, again) {
            return self.not_admitted(shared, data.psn, why);
        }
        // The last place is kept for the packet everybody waits for.
        let room = self.withheld.capacity() - self.withheld.len();
        if room == 0 || (room == 1 && data.psn != self.tp.receive.base()) {
            self.tp.receive.withdraw(data.psn, &mut shared.bitmap_blocks);
            return shared.drop(DropReason::Withheld);
        }
        let judgement = self.judge(shared, data, received.payload);
        if let Judgement::Drop(reason) = judgement {
            self.tp.receive.withdraw(data.psn, &mut shared.bitmap_blocks);
            return shared.drop(reason);
        }
        if !again && self.tp.receive.record(data.psn, &mut shared.bitmap_blocks) {
            shared.counters.blocks_freed_early += 1;
        }
        shared.counters.data_received += 1;
        shared.counters.payload_received += u64::from(received.payload);
        self.policy.congestion.on_data(now, received.payload, data.retry);
        let token = |kind, subject| PlacementToken {
            channel: self.id,
            psn: data.psn,
            message: data.message,
            subject,
            bytes: received.payload,
            kind,
            ack_request: data.ack_request,
            retry: data.retry,
        };
        match judgement {
            Judgement::Place { target, kind, subject } => {
                let token = token(kind, subject);
                let alone = kind == PlacementKind::Arrival && data.index == 0 && data.last;
                let arrival = if alone { subject } else { NONE };
                self.withheld.push(Withheld { psn: data.psn, why: Why::Placing { arrival } });
                Verdict::Place(Placement { target, token })
            }
            Judgement::Accept { kind, subject } => {
                let token = token(kind, subject);
                self.account(shared, now, &token);
                Verdict::Done
            }
            Judgement::Refuse(reason) => {
                self.refuse(shared, data, reason);
                Verdict::Done
            }
            Judgement::Drop(_) => Verdict::Done,
        }
    }

    fn admit(&mut self, shared: &mut Shared, psn: Psn) -> Result<(), Unrecorded> {
        if shared.is_planted(Canary::WrapPsnEarly) && psn.value() < self.tp.receive.base().value() {
            return Err(Unrecorded::Arrived);
        }
        self.tp.receive.admit(psn, &mut shared.bitmap_blocks)
    }

    fn not_admitted(&mut self, shared: &mut Shared, psn: Psn, why: Unrecorded) -> Verdict {
        match why {
            Unrecorded::Arrived => {
                self.owed.duplicates = self.owed.duplicates.wrapping_add(1);
                self.repeat_nak(shared, psn);
                self.acknowledge_soon(shared);
                shared.drop(DropReason::Duplicate)
            }
            Unrecorded::BeyondWindow => {
                self.acknowledge_soon(shared);
                shared.drop(DropReason::BeyondWindow)
            }
            Unrecorded::PoolExhausted => shared.drop(DropReason::BitmapPool),
        }
    }

    /// A sequence number that will carry nothing: fill it.
    pub(crate) fn handle_void(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        void: &Void,
        path: u8,
    ) -> Verdict {
        self.owed.path = path;
        if self.confirm_refusal(void.psn) {
            self.note_received(shared, now, void.psn, true, true);
            return Verdict::Done;
        }
        if let Err(why) = self.admit(shared, void.psn) {
            return self.not_admitted(shared, void.psn, why);
        }
        self.tp.receive.record(void.psn, &mut shared.bitmap_blocks);
        self.note_received(shared, now, void.psn, void.ack_request, true);
        Verdict::Done
    }

    fn judge(&mut self, shared: &mut Shared, data: &Data, payload: u32) -> Judgement {
        match data.operation {
            Operation::Read { access } => self.judge_read(shared, data, payload, access),
            Operation::ReadResponse => self.judge_response(shared, data, payload),
            _ => self.judge_message(shared, data, payload),
        }
    }

    /// A WRITE or SEND, of one packet or many.
    fn judge_message(&mut self, shared: &mut Shared, data: &Data, payload: u32) -> Judgement {
        let multi = data.index > 0 || !data.last;
        if multi {
            match self.arrivals.get(usize::from(data.slot)) {
                None => return Judgement::Drop(DropReason::Malformed),
                Some(&NONE) => {}
                Some(&index) if shared.arrivals[index].message == data.message => {
                    return self.judge_further(shared, index, data, payload);
                }
                // The peer reuses a slot only when all of the old message has arrived: this is
                // the rest of one that was refused or given up.
                Some(&index) => self.forget_arrival(shared, index),
            }
        }
        let length = match data.operation {
            Operation::Write { access } | Operation::WriteImmediate { access, .. } => access.length,
            Operation::Send { length, .. } | Operation::SendImmediate { length, .. } => length,
            _ => return Judgement::Drop(DropReason::Unlearned),
        };
        if !self.fits(length, data, payload) {
            return Judgement::Drop(DropReason::Malformed);
        }
        if let (false, Operation::Write { access }) = (multi, data.operation) {
            return match shared.segments.check(&access, Rights::WRITE) {
                Err(refusal) => Judgement::Refuse(refusal),
                Ok((_, offset)) => self.place_at(
                    access.token_id.value(),
                    offset,
                    payload,
                    PlacementKind::Plain,
                    NONE,
                ),
            };
        }
        self.judge_first(shared, data, length, multi, payload)
    }

    /// The first packet to arrive of a message that has to be kept count of.
    fn judge_first(
        &mut self,
        shared: &mut Shared,
        data: &Data,
        length: u32,
        multi: bool,
        payload: u32,
    ) -> Judgement {
        if shared.arrivals.is_exhausted() {
            return Judgement::Drop(DropReason::ArrivalPool);
        }
        let admitted = self.admit_message(shared, data, length);
        let (mut arrival, refusal) = match admitted {
            Ok(arrival) => (arrival, None),
            Err(refusal) if multi => (refused_arrival(data), Some(refusal)),
            Err(refusal) => return Judgement::Refuse(refusal),
        };
        arrival.has_slot = multi;
        let Some(index) = shared.arrivals.take(arrival) else {
            return Judgement::Drop(DropReason::ArrivalPool);
        };
        if multi {
            self.arrivals[usize::from(data.slot)] = index;
        }
        match refusal {
            Some(refusal) => Judgement::Refuse(refusal),
            None => {
                if multi {
                    self.owed.learned = Some(data.message);
                }
                self.place_in(shared, index, data, payload)
            }
        }
    }

    /// Checks a new message and takes the receive it needs.
    fn admit_message(
        &mut self,
        shared: &mut Shared,
        data: &Data,
        length: u32,
    ) -> Result<Arrival, Refusal> {
        let mut arrival = Arrival { length, refused: false, ..refused_arrival(data) };
        let target = match data.operation {
            Operation::Write { .. } => None,
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
            _ => return Err(Refusal::Operation),
        };
        if let Operation::Write { access } | Operation::WriteImmediate { access, .. } =
            data.operation
        {
            let (generation, offset) = shared.segments.check(&access, Rights::WRITE)?;
            arrival.segment = access.token_id.value();
            arrival.segment_generation = generation;
            arrival.offset = offset;
        }
        let Some(target) = target else { return Ok(arrival) };
        let jetty = shared.ready_jetty(target).ok_or(Refusal::NoJetty)?;
        let next = jetty.receive_head;
        if next == NONE {
            return Err(Refusal::ReceiverNotReady);
        }
        if arrival.kind != ArrivalKind::WriteImmediate {
            let receive = shared.receives[next];
            if length > receive.length {
                return Err(Refusal::Length);
            }
            arrival.segment = receive.segment;
            arrival.offset = receive.offset;
        }
        arrival.jetty = target;
        arrival.receive = shared.take_receive(target).unwrap_or(NONE);
        Ok(arrival)
    }

    /// A packet of a message that is known.
    fn judge_further(
        &mut self,
        shared: &mut Shared,
        index: u32,
        data: &Data,
        payload: u32,
    ) -> Judgement {
        let arrival = shared.arrivals[index];
        if arrival.refused {
            return Judgement::Accept { kind: PlacementKind::Plain, subject: NONE };
        }
        if !self.fits(arrival.length, data, payload) {
            return Judgement::Drop(DropReason::Malformed);
        }
        let into_segment = matches!(arrival.kind, ArrivalKind::Write | ArrivalKind::WriteImmediate);
        if into_segment && !shared.segments.is_current(arrival.segment, arrival.segment_generation)
        {
            // Deregistered in the middle of the message.
            self.abandon_arrival(shared, index);
            return Judgement::Refuse(Refusal::Access);
        }
        self.place_in(shared, index, data, payload)
    }

    fn place_in(
        &mut self,
        shared: &mut Shared,
        index: u32,
        data: &Data,
        payload: u32,
    ) -> Judgement {
        let mtu = u64::from(self.mtu);
        let arrival = &mut shared.arrivals[index];
        arrival.progress.note(data.psn, data.index);
        let offset = arrival.offset + u64::from(data.index) * mtu;
        self.place_at(arrival.segment, offset, payload, PlacementKind::Arrival, index)
    }

    fn place_at(
        &self,
        segment: u32,
        offset: u64,
        length: u32,
        kind: PlacementKind,
        subject: u32,
    ) -> Judgement {
        if length == 0 {
            return Judgement::Accept { kind, subject };
        }
        let target = LocalRange { segment: SegmentId(segment), offset, length };
        Judgement::Place { target, kind, subject }
    }

    /// A peer wants to read: answer with a message of our own.
    fn judge_read(
        &mut self,
        shared: &mut Shared,
        data: &Data,
        payload: u32,
        access: Access,
    ) -> Judgement {
        if data.index != 0 || !data.last || payload != 0 {
            return Judgement::Drop(DropReason::Malformed);
        }
        let (_, offset) = match shared.segments.check(&access, Rights::READ) {
            Ok(found) => found,
            Err(refusal) => return Judgement::Refuse(refusal),
        };
        // A reader may reuse its slot as soon as the answer has come, before we have heard so.
        if self.responses >= 2 * shared.limits.read_slots {
            return Judgement::Drop(DropReason::MessagePool);
        }
        let segment = access.token_id.value();
        let local = LocalRange { segment: SegmentId(segment), offset, length: access.length };
        let response = Message {
            id: 0,
            local,
            remote_address: 0,
            immediate: 0,
            token_value: 0,
            token_id: access.token_id,
            jetty: data.jetty,
            target: JettyId::default(),
            channel: self.index(),
            number: Msn::default(),
            packets: packets_of(access.length, self.mtu),
            next_index: 0,
            outstanding: 0,
            placed: 0,
            answer: Progress::default(),
            retry_at: Instant::ZERO,
            links: Links::UNLINKED,
            transaction: data.transaction,
            slot: data.slot,
            retries: 0,
            kind: MessageKind::ReadResponse,
            place: MessagePlace::Sending,
            outcome: Outcome::Open,
            has_slot: false,
            signaled: false,
            learned: false,
        };
        let Some(index) = shared.messages.take(response) else {
            return Judgement::Drop(DropReason::MessagePool);
        };
        shared.segments.hold(segment);
        self.responses += 1;
        self.sending.push_back(&mut shared.messages, index);
        self.mark_ready(shared);
        Judgement::Accept { kind: PlacementKind::Plain, subject: NONE }
    }

    /// Part of the answer to a read of ours.
    fn judge_response(&mut self, shared: &mut Shared, data: &Data, payload: u32) -> Judgement {
        let index = self.reads.get(usize::from(data.slot)).copied().unwrap_or(NONE);
        let pending = index != NONE && {
            let message = &shared.messages[index];
            message.transaction == data.transaction
                && message.jetty == data.jetty
                && message.outcome == Outcome::Open
        };
        if !pending {
            // Nobody waits for it; it must not hold the sender up.
            shared.counters.drops[DropReason::NoRead as usize] += 1;
            return Judgement::Accept { kind: PlacementKind::Plain, subject: NONE };
        }
        let message = &mut shared.messages[index];
        let local = message.local;
        if !self.fits(local.length, data, payload) {
            return Judgement::Drop(DropReason::Malformed);
        }
        message.answer.note(data.psn, data.index);
        let offset = local.offset + u64::from(data.index) * u64::from(self.mtu);
        self.place_at(local.segment.0, offset, payload, PlacementKind::Read, index)
    }

    /// Do index, payload and last-mark agree with the message's length?
    fn fits(&self, length: u32, data: &Data, payload: u32) -> bool {
        let start = u64::from(data.index) * u64::from(self.mtu);
        let end = start + u64::from(payload);
        if data.last {
            end == u64::from(length) && payload <= self.mtu && (payload > 0 || length == 0)
        } else {
            payload == self.mtu && end < u64::from(length)
        }
    }

    /// A payload is in place.
    pub(crate) fn placed(&mut self, shared: &mut Shared, now: Instant, token: &PlacementToken) {
        let found = self
            .withheld
            .iter()
            .rposition(|entry| entry.psn == token.psn && matches!(entry.why, Why::Placing { .. }));
        // A placement that was under way when the channel was flushed counts for nothing.
        if let Some(at) = found {
            self.withheld.swap_remove(at);
            self.account(shared, now, token);
        }
    }

    /// Counts a packet whose payload, if any, is in place.
    fn account(&mut self, shared: &mut Shared, now: Instant, token: &PlacementToken) {
        match token.kind {
            PlacementKind::Plain => {}
            PlacementKind::Arrival => {
                let arrival = &mut shared.arrivals[token.subject];
                // A peer that reuses a slot too early must not count towards another message.
                if arrival.message != token.message {
                    return;
                }
                arrival.placed += token.bytes;
                if arrival.placed == arrival.length {
                    self.finish_arrival(shared, token.subject);
                }
            }
            PlacementKind::Read => {
                let message = &mut shared.messages[token.subject];
                if message.kind != MessageKind::Read || message.outcome != Outcome::Open {
                    return;
                }
                message.placed += token.bytes;
                if message.placed == message.local.length {
                    self.finish_read(shared, token.subject);
                }
            }
        }
        self.note_received(shared, now, token.psn, token.ack_request, token.retry);
    }

    fn finish_arrival(&mut self, shared: &mut Shared, index: u32) {
        let arrival = shared.arrivals[index];
        if arrival.receive != NONE {
            let (kind, immediate) = match arrival.kind {
                ArrivalKind::Send => (CompletionKind::Receive, None),
                ArrivalKind::SendImmediate => (CompletionKind::Receive, Some(arrival.immediate)),
                _ => (CompletionKind::ReceiveWrite, Some(arrival.immediate)),
            };
            let completion = Completion {
                id: 0,
                jetty: arrival.jetty,
                status: Status::Success,
                kind,
                bytes: arrival.length,
                immediate,
                channel: self.id,
                remote_jetty: arrival.remote_jetty,
            };
            shared.complete_receive(&arrival, completion);
        }
        if shared.is_planted(Canary::LeakSlot) {
            return;
        }
        self.forget_slot(&arrival, index);
        shared.arrivals.give_back(index);
    }

    /// Drops what is known of a message; a receive it took goes back to its Jetty.
    pub(crate) fn forget_arrival(&mut self, shared: &mut Shared, index: u32) {
        self.abandon_arrival(shared, index);
        let arrival = shared.arrivals[index];
        self.forget_slot(&arrival, index);
        shared.arrivals.give_back(index);
    }

    fn forget_slot(&mut self, arrival: &Arrival, index: u32) {
        if arrival.has_slot && self.arrivals[usize::from(arrival.slot)] == index {
            self.arrivals[usize::from(arrival.slot)] = NONE;
        }
    }

    /// From now on the message's packets count as arrived and go nowhere.
    fn abandon_arrival(&mut self, shared: &mut Shared, index: u32) {
        let arrival = &mut shared.arrivals[index];
        arrival.refused = true;
        let (jetty, receive) = (arrival.jetty, core::mem::replace(&mut arrival.receive, NONE));
        if receive != NONE {
            shared.return_receive(jetty, receive);
        }
    }
}

/// What is kept of a message none of whose packets may go anywhere.
fn refused_arrival(data: &Data) -> Arrival {
    Arrival {
        offset: 0,
        immediate: 0,
        segment: NONE,
        segment_generation: 0,
        length: 0,
        placed: 0,
        message: data.message,
        receive: NONE,
        jetty: JettyId::default(),
        remote_jetty: data.jetty,
        progress: Progress::default(),
        kind: ArrivalKind::Write,
        slot: data.slot,
        has_slot: false,
        refused: true,
    }
}
