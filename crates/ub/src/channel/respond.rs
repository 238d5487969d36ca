//! Answers: those to the peer's requests, and those to local requests.

use super::Channel;
use super::receive::{Judgement, place_at};
use crate::api::{DropReason, LocalRange, Rights, Status, is_numbered};
use crate::injected_bug::InjectedBug;
use crate::message::{Message, MessagePlace, Reply, RequestFields};
use crate::placement::Purpose;
use crate::pool::Index;
use crate::shared::Shared;
use fairway_wire::{
    Access, Data, Duration, Executed, Instant, JettyId, Operation, Order, Part, Refusal,
    ServiceMode, Tag,
};

/// True if a transaction other than a READ, get or atomic gets a separate answer (TAACK).
pub(crate) fn has_taack(order: &Order) -> bool {
    matches!(order.mode, ServiceMode::Roi | ServiceMode::Rot)
}

/// True if an operation returns data of the target, and so gets an answer in every mode. Such a
/// request is one packet.
pub(crate) fn is_fetch(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Read { .. }
            | Operation::ReadPart(_)
            | Operation::Get(_)
            | Operation::Atomic { .. }
    )
}

impl Channel {
    /// Reserves a record for the answer to a request; its content is set later.
    pub(crate) fn reserve_answer(
        &mut self,
        shared: &mut Shared,
        data: &Data,
    ) -> Option<Index<Message>> {
        // An initiator may reuse its slot once the answer has arrived, before its acknowledgement
        // arrives.
        if self.inbound.answers() >= 2 * shared.config.limits().read_slots {
            return None;
        }
        let fetches = is_fetch(&data.operation);
        let request = RequestFields {
            jetty: data.jetty,
            transaction: data.transaction,
            slot: if fetches { data.slot } else { data.order.request_slot },
            sequence: data.order.sequence,
        };
        let index = shared.messages.add(Message::answer(self.index(), &request))?;
        self.inbound.begin_answer();
        Some(index)
    }

    /// Releases a reserved record.
    pub(crate) fn unreserve_answer(&mut self, shared: &mut Shared, index: Index<Message>) {
        self.inbound.end_answer();
        shared.messages[index].channel = None;
        shared.messages.remove(index);
    }

    fn send_answer(&mut self, shared: &mut Shared, index: Index<Message>) {
        self.enlist(shared, index);
    }

    /// Sends the sender of a transaction the answer that it is done.
    pub(crate) fn answer_done(&mut self, shared: &mut Shared, index: Index<Message>) {
        self.acknowledge_transaction(shared, index, None);
    }

    /// Sends the sender of a transaction the answer that it is done, or the reason for its refusal.
    pub(crate) fn acknowledge_transaction(
        &mut self,
        shared: &mut Shared,
        index: Index<Message>,
        refusal: Option<Refusal>,
    ) {
        shared.counters.transaction_acks_sent += 1;
        if refusal.is_none() && self.joins_answer(shared, index) {
            return self.unreserve_answer(shared, index);
        }
        shared.messages[index].set_reply(Reply::Done(refusal));
        self.send_answer(shared, index);
    }

    /// Acknowledges an executed operation with the answer that is last in the queue, if that
    /// acknowledges others of the same Jetty, which has numbered them apart. True if so: the record
    /// reserved for an answer of its own is not needed.
    fn joins_answer(&self, shared: &mut Shared, index: Index<Message>) -> bool {
        let answer = &shared.messages[index];
        if answer.is_answer_awaited() {
            return false;
        }
        let (slot, transaction, jetty) = (answer.slots.number(), answer.transaction, answer.jetty);
        let Some(last) = self.line.last() else { return false };
        let is_of_jetty =
            shared.messages[last].jetty == jetty || shared.is_injected(InjectedBug::JoinAnyJetty);
        is_of_jetty && shared.messages[last].acknowledge_also(slot, transaction)
    }

    /// Refuses, in an answer, a transaction that the transport has acknowledged.
    pub(crate) fn answer_refused(
        &mut self,
        shared: &mut Shared,
        index: Index<Message>,
        data: &Data,
        refusal: Refusal,
    ) {
        self.note_refused_key(shared, &data.operation);
        if !matches!(refusal, Refusal::ReceiverNotReady | Refusal::OutOfOrder) {
            self.skip_numbers(shared, data.jetty, &data.order);
        }
        self.acknowledge_transaction(shared, index, Some(refusal));
    }

    pub(crate) fn answer_atomic(&mut self, shared: &mut Shared, index: Index<Message>, old: u64) {
        shared.counters.atomics_executed += 1;
        let answer = &mut shared.messages[index];
        answer.set_reply(Reply::Old(old));
        let (marks, jetty, sequence) = (answer.take_marks(), answer.jetty, answer.order.sequence());
        self.send_answer(shared, index);
        if marks {
            self.mark_executed(shared, jetty, sequence);
        }
    }

    /// Judges a READ of the peer: a local message answers it.
    pub(crate) fn judge_read(
        &mut self,
        shared: &mut Shared,
        data: &Data,
        payload: u32,
        access: Access,
        reserved: Option<Index<Message>>,
    ) -> Judgement {
        if data.index != 0 || !data.last || payload != 0 {
            return Judgement::Drop(DropReason::Malformed);
        }
        match shared.segments.check(&access, Rights::READ) {
            Ok((admission, local)) => {
                self.answer_with(shared, data, (local, admission.via), reserved)
            }
            Err(refusal) => Judgement::Refuse(refusal),
        }
    }

    /// Judges a part of a READ of the peer.
    pub(crate) fn judge_read_part(
        &mut self,
        shared: &mut Shared,
        data: &Data,
        payload: u32,
        part: &Part,
        reserved: Option<Index<Message>>,
    ) -> Judgement {
        if data.index != 0 || !data.last || payload != 0 {
            return Judgement::Drop(DropReason::Malformed);
        }
        match shared.check_part(part, Rights::READ) {
            Ok((admission, local)) => {
                self.answer_with(shared, data, (local, admission.via), reserved)
            }
            Err(refusal) => Judgement::Refuse(refusal),
        }
    }

    pub(crate) fn answer_with(
        &mut self,
        shared: &mut Shared,
        data: &Data,
        (local, via): (LocalRange, Option<u32>),
        reserved: Option<Index<Message>>,
    ) -> Judgement {
        let Some(index) = self.answer_for(shared, data, reserved) else {
            return Judgement::Drop(DropReason::MessagePool);
        };
        let answer = &mut shared.messages[index];
        answer.set_reply_bytes(local, self.mtu);
        answer.own_answer().via = via;
        // The memory may be read again when a packet has to be resent: until the answer has
        // arrived, no operation that has to follow the READ may change it.
        let in_memory_order = data.order.tag == Tag::Mo;
        answer.own_answer().marks =
            is_numbered(data.order.mode, data.order.tag) && !in_memory_order;
        shared.segments.hold(local.segment.number());
        self.send_answer(shared, index);
        if in_memory_order {
            self.read_begins(shared, index);
        }
        Judgement::Accept { purpose: Purpose::Plain }
    }

    pub(crate) fn answer_for(
        &mut self,
        shared: &mut Shared,
        data: &Data,
        reserved: Option<Index<Message>>,
    ) -> Option<Index<Message>> {
        reserved.or_else(|| self.reserve_answer(shared, data))
    }

    /// Judges an atomic of the peer.
    pub(crate) fn judge_atomic(
        &mut self,
        shared: &mut Shared,
        data: &Data,
        payload: u32,
        access: Access,
        reserved: Option<Index<Message>>,
    ) -> Judgement {
        if data.index != 0 || !data.last || payload != 0 || !matches!(access.length, 4 | 8) {
            return Judgement::Drop(DropReason::Malformed);
        }
        let target = match shared.segments.check(&access, Rights::ATOMIC) {
            Ok((_, target)) => target,
            Err(refusal) => return Judgement::Refuse(refusal),
        };
        if !{ access.address }.is_multiple_of(u64::from(access.length)) {
            return Judgement::Refuse(Refusal::Misaligned);
        }
        let Some(index) = self.answer_for(shared, data, reserved) else {
            return Judgement::Drop(DropReason::MessagePool);
        };
        shared.messages[index].own_answer().marks = is_numbered(data.order.mode, data.order.tag);
        Judgement::Atomic { target, answer: index }
    }

    // ---- answers to local requests ----

    /// The operation that a further entry of a transaction acknowledgement is for, if it still
    /// waits for one. The slot may belong to an operation of another Jetty by now, whose number is
    /// the same.
    fn also_executed(
        &self,
        shared: &Shared,
        jetty: JettyId,
        (slot, transaction): (u8, u16),
    ) -> Option<Index<Message>> {
        let index = self.slots.read_slot_owner(slot)?;
        let message = &shared.messages[index];
        let is_of_jetty = message.jetty == jetty || shared.is_injected(InjectedBug::JoinAnyJetty);
        let fits = is_of_jetty
            && message.transaction == transaction
            && message.attempts.is_open()
            && message.progress.is_all_sent()
            && !message.is_fetch();
        fits.then_some(index)
    }

    /// Completes the operations that the further entries of a transaction acknowledgement name.
    fn finish_others(&mut self, shared: &mut Shared, jetty: JettyId, others: &Executed) {
        let count = match shared.is_injected(InjectedBug::SkipLastExecuted) {
            true => others.len().saturating_sub(1),
            false => others.len(),
        };
        for entry in others.iter().take(count) {
            match self.also_executed(shared, jetty, entry) {
                Some(index) => self.finish_answered(shared, index),
                None => shared.counters.drops[DropReason::NoRead as usize] += 1,
            }
        }
    }

    /// The operation that an answer is for, if it still waits for one.
    fn answered_request(&self, shared: &Shared, data: &Data) -> Option<Index<Message>> {
        let index = self.slots.read_slot_owner(data.slot)?;
        let message = &shared.messages[index];
        // A message may be refused when its first packet has arrived and others have not been sent.
        let is_refusal = matches!(data.operation, Operation::Done { refusal: Some(_), .. });
        let is_refused_early = is_refusal
            && message.progress.has_begun()
            && !shared.is_injected(InjectedBug::IgnoreEarlyRefusal);
        let fits = message.transaction == data.transaction
            && message.jetty == data.jetty
            && message.attempts.is_open()
            && (message.progress.is_all_sent() || is_refused_early);
        fits.then_some(index)
    }

    /// Judges an answer to a local request.
    pub(crate) fn judge_response(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        data: &Data,
        payload: u32,
    ) -> Judgement {
        let judgement = self.judge_first_answered(shared, now, data, payload);
        if let Operation::Done { others, .. } = &data.operation {
            // They were executed after the first one, and so complete after it.
            self.finish_others(shared, data.jetty, others);
        }
        judgement
    }

    /// Judges an answer as far as it is for the request that its fixed headers name.
    fn judge_first_answered(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        data: &Data,
        payload: u32,
    ) -> Judgement {
        let nothing = Judgement::Accept { purpose: Purpose::Plain };
        let Some(index) = self.answered_request(shared, data) else {
            // No operation waits for the answer; it must not hold the sender up.
            shared.counters.drops[DropReason::NoRead as usize] += 1;
            return nothing;
        };
        let request = &mut shared.messages[index];
        match data.operation {
            Operation::ReadResponse if request.requests_bytes() => {
                self.judge_read_response(shared, index, data, payload)
            }
            Operation::AtomicResponse { value } if request.note_old(value) => {
                self.finish_answered(shared, index);
                nothing
            }
            Operation::Done { refusal: Some(refusal), retry_after_us, .. } => {
                let wait = match refusal {
                    Refusal::OutOfOrder => shared.config.profile().not_ready_delay,
                    _ => Duration::from_us(u64::from(retry_after_us)),
                };
                self.give_up(shared, index, refusal, now + wait);
                if !shared.messages[index].progress.has_outstanding() {
                    self.retire(shared, index);
                }
                nothing
            }
            Operation::Done { refusal: None, .. } if !request.is_fetch() => {
                self.finish_answered(shared, index);
                nothing
            }
            _ => {
                shared.counters.drops[DropReason::NoRead as usize] += 1;
                nothing
            }
        }
    }

    fn judge_read_response(
        &mut self,
        shared: &mut Shared,
        index: Index<Message>,
        data: &Data,
        payload: u32,
    ) -> Judgement {
        let local = shared.messages[index].local;
        if !self.fits(local.length, data, payload) {
            return Judgement::Drop(DropReason::Malformed);
        }
        let offset = local.offset + u64::from(data.index) * u64::from(self.mtu);
        place_at(local.segment.number(), offset, payload, Purpose::Read(index))
    }

    /// True if an answer that was being placed still belongs to this READ. A peer that refuses what
    /// it has answered, or answers twice, must not end the READ while it waits to be sent again,
    /// nor another READ.
    pub(crate) fn is_answered(&self, shared: &Shared, index: Index<Message>) -> bool {
        let message = &shared.messages[index];
        message.requests_bytes()
            && message.channel == Some(self.index())
            && message.attempts.is_open()
            && message.place == MessagePlace::Unlisted
    }

    /// True if a part of the answer to a local operation is being placed.
    pub(crate) fn is_being_answered(&self, index: Index<Message>) -> bool {
        self.acks.is_placing_answer(index)
    }

    /// Handles a placed part of an answer whose operation was refused meanwhile. When it was the
    /// last part, the operation may end: until then its memory has no other use.
    pub(crate) fn retire_placed(&mut self, shared: &mut Shared, index: Index<Message>) {
        let message = &shared.messages[index];
        let is_refused = message.attempts.outcome().is_refused();
        let is_idle =
            message.place == MessagePlace::Unlisted && !message.progress.has_outstanding();
        if is_refused
            && is_idle
            && message.channel == Some(self.index())
            && !message.report.is_released()
        {
            self.retire(shared, index);
        }
    }

    /// Completes an operation whose whole answer is in place.
    pub(crate) fn finish_answered(&mut self, shared: &mut Shared, index: Index<Message>) {
        self.finish_request(shared, index, Status::Success);
    }

    /// Ends an operation that waits for an answer, with whatever part of the answer has arrived.
    pub(crate) fn finish_request(
        &mut self,
        shared: &mut Shared,
        index: Index<Message>,
        status: Status,
    ) {
        shared.complete_message(index, status);
        shared.messages[index].attempts.note_reported();
        self.release_slots(shared, index);
        if !shared.messages[index].progress.has_outstanding() {
            self.release(shared, index);
        }
    }
}
