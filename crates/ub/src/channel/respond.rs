//! Answers: those we owe the peer, and those to our own questions.

use super::Channel;
use super::receive::{Judgement, place_at};
use crate::api::{DropReason, LocalRange, Rights, Status, is_numbered};
use crate::injected_bug::InjectedBug;
use crate::message::{Asked, Message, MessagePlace, Reply};
use crate::placement::Purpose;
use crate::pool::Index;
use crate::shared::Shared;
use fairway_wire::{Access, Data, Duration, Instant, Operation, Order, Refusal, ServiceMode, Tag};

/// Does a transaction that is no question get an answer of its own (TAACK)?
pub(crate) fn wants_done(order: &Order) -> bool {
    matches!(order.mode, ServiceMode::Roi | ServiceMode::Rot)
}

/// Does it ask for an answer of its own, whatever the mode? Such a request is one packet.
pub(crate) fn is_question(operation: &Operation) -> bool {
    matches!(operation, Operation::Read { .. } | Operation::Get(_) | Operation::Atomic { .. })
}

impl Channel {
    /// Sets a record aside for the answer to a request; what it says is settled later.
    pub(crate) fn reserve_answer(
        &mut self,
        shared: &mut Shared,
        data: &Data,
    ) -> Option<Index<Message>> {
        // An initiator may reuse its slot as soon as the answer has come, before we hear of it.
        if self.inbound.answers() >= 2 * shared.config.limits().read_slots {
            return None;
        }
        let question = is_question(&data.operation);
        let asked = Asked {
            jetty: data.jetty,
            transaction: data.transaction,
            slot: if question { data.slot } else { data.order.request_slot },
            sequence: data.order.sequence,
        };
        let index = shared.messages.add(Message::answer(self.index(), &asked))?;
        self.inbound.begin_answer();
        Some(index)
    }

    /// Gives a record that was set aside back.
    pub(crate) fn unreserve_answer(&mut self, shared: &mut Shared, index: Index<Message>) {
        self.inbound.end_answer();
        shared.messages[index].channel = None;
        shared.messages.remove(index);
    }

    fn send_answer(&mut self, shared: &mut Shared, index: Index<Message>) {
        self.enlist(shared, index);
    }

    /// Tells the sender of a transaction that it is done.
    pub(crate) fn answer_done(&mut self, shared: &mut Shared, index: Index<Message>) {
        self.acknowledge_transaction(shared, index, None);
    }

    /// Tells the sender of a transaction that it is done, or why it is refused.
    pub(crate) fn acknowledge_transaction(
        &mut self,
        shared: &mut Shared,
        index: Index<Message>,
        refusal: Option<Refusal>,
    ) {
        shared.counters.transaction_acks_sent += 1;
        shared.messages[index].settle_reply(Reply::Done(refusal));
        self.send_answer(shared, index);
    }

    /// Tells the sender of a transaction, which the transport has acknowledged, that it is refused.
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
        answer.settle_reply(Reply::Old(old));
        let (marks, jetty, sequence) = (answer.take_marks(), answer.jetty, answer.order.sequence());
        self.send_answer(shared, index);
        if marks {
            self.mark_executed(shared, jetty, sequence);
        }
    }

    /// A peer wants to read: answer with a message of our own.
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
            Ok((_, local)) => self.answer_with(shared, data, local, reserved),
            Err(refusal) => Judgement::Refuse(refusal),
        }
    }

    pub(crate) fn answer_with(
        &mut self,
        shared: &mut Shared,
        data: &Data,
        local: LocalRange,
        reserved: Option<Index<Message>>,
    ) -> Judgement {
        let Some(index) = self.answer_for(shared, data, reserved) else {
            return Judgement::Drop(DropReason::MessagePool);
        };
        let answer = &mut shared.messages[index];
        answer.settle_bytes(local, self.mtu);
        // The memory may still be read when a packet has to be resent: until the answer has
        // arrived, nothing that has to follow the read may change it.
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

    /// A peer wants a word changed.
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

    // ---- answers to our own ----

    /// The operation that an answer is for, if it still waits for one.
    fn asked(&self, shared: &Shared, data: &Data) -> Option<Index<Message>> {
        let index = self.slots.asker(data.slot)?;
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

    /// An answer to something we asked.
    pub(crate) fn judge_response(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        data: &Data,
        payload: u32,
    ) -> Judgement {
        let nothing = Judgement::Accept { purpose: Purpose::Plain };
        let Some(index) = self.asked(shared, data) else {
            // No operation waits for it; it must not hold the sender up.
            shared.counters.drops[DropReason::NoRead as usize] += 1;
            return nothing;
        };
        let asked = &mut shared.messages[index];
        match data.operation {
            Operation::ReadResponse if asked.asks_for_bytes() => {
                self.judge_read_response(shared, index, data, payload)
            }
            Operation::AtomicResponse { value } if asked.note_old(value) => {
                self.finish_answered(shared, index);
                nothing
            }
            Operation::Done { refusal: Some(refusal), retry_after_us } => {
                let wait = match refusal {
                    Refusal::OutOfOrder => shared.config.profile().not_ready_delay,
                    _ => Duration::from_us(u64::from(retry_after_us)),
                };
                self.give_up(shared, index, refusal, now + wait);
                if !shared.messages[index].progress.has_outstanding() {
                    self.settle(shared, index);
                }
                nothing
            }
            Operation::Done { refusal: None, .. } if !asked.is_question() => {
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

    /// True if an answer that was being placed is still that of this READ. A peer that refuses what
    /// it has answered, or answers twice, must not end the READ while it waits to be asked again,
    /// nor another one.
    pub(crate) fn is_answered(&self, shared: &Shared, index: Index<Message>) -> bool {
        let message = &shared.messages[index];
        message.asks_for_bytes()
            && message.channel == Some(self.index())
            && message.attempts.is_open()
            && message.place == MessagePlace::Unlisted
    }

    /// Is a part of the answer to an operation of ours being put in place?
    pub(crate) fn is_being_answered(&self, index: Index<Message>) -> bool {
        self.acks.is_placing_answer(index)
    }

    /// A part of an answer is in place whose operation was refused meanwhile. When it was the last,
    /// the operation may end: until then its memory has no other use.
    pub(crate) fn settle_placed(&mut self, shared: &mut Shared, index: Index<Message>) {
        let message = &shared.messages[index];
        let is_refused = message.attempts.outcome().is_refused();
        let is_idle =
            message.place == MessagePlace::Unlisted && !message.progress.has_outstanding();
        if is_refused
            && is_idle
            && message.channel == Some(self.index())
            && !message.report.is_released()
        {
            self.settle(shared, index);
        }
    }

    /// The answer is complete, and what it brought is in place.
    pub(crate) fn finish_answered(&mut self, shared: &mut Shared, index: Index<Message>) {
        self.finish_question(shared, index, Status::Success);
    }

    /// An operation that waits for an answer ends, with whatever of the answer has come.
    pub(crate) fn finish_question(
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
