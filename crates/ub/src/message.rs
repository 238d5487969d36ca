//! Messages being sent: local operations, and the answers to peers' operations.

mod attempts;
mod body;
mod division;
mod gate;
mod order;
mod overtaking;
mod progress;
mod report;
mod taken_slots;
#[cfg(test)]
mod tests;

pub(crate) use attempts::{Attempts, Outcome};
pub(crate) use body::{Body, Notice, OwnAnswer, OwnPut, Reply, Unsequenced, access};
pub(crate) use division::Division;
pub(crate) use gate::Gate;
pub(crate) use order::OrderState;
use overtaking::Overtaking;
pub(crate) use overtaking::OvertakingPlan;
pub(crate) use progress::Progress;
pub(crate) use report::{Report, Unreported};
pub(crate) use taken_slots::TakenSlots;

use crate::api::{ChannelId, Completion, LocalRange, OrderRequest, Status, Work, WorkRequest};
use crate::limits::Profile;
use crate::list::{Links, ListRecord};
use crate::names::{ChannelIndex, FlowIndex};
use crate::pool::Index;
use fairway_wire::{JettyId, Operation, ServiceMode, Tag};

/// One message (transaction) to be sent: its names, its place in the lists of its channel, and
/// owners of the rest of its state, whose fields are private to their files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// The kind of message, with the data that only this kind has.
    pub(crate) body: Body,
    /// The local bytes that the message carries, or that its answer is to fill.
    pub(crate) local: LocalRange,
    /// Set once the operation has been abandoned, or has ended, and its record notifies the target.
    notice: Option<Notice>,
    /// The local Jetty; in an answer, the peer's Jetty that it is for.
    pub(crate) jetty: JettyId,
    /// The message's channel; `None` once the record is free.
    pub(crate) channel: Option<ChannelIndex>,
    /// The message's flow, while it is queued to send payload.
    pub(crate) flow: Option<FlowIndex>,
    /// The links of the list that `place` states.
    pub(crate) links: Links<Index<Message>>,
    pub(crate) place: MessagePlace,
    /// Number of the transaction at its Jetty, which an answer repeats.
    pub(crate) transaction: u16,
    /// Progress of the message's transmission.
    pub(crate) progress: Progress,
    /// The slots that the message has at the peer.
    pub(crate) slots: TakenSlots,
    /// How the current attempt ends, and when the next one begins.
    pub(crate) attempts: Attempts,
    /// The order that the message has to keep.
    pub(crate) order: OrderState,
    /// What the message waits for before it is issued.
    pub(crate) gate: Gate,
    /// The message's completion, and whether that has been reported.
    pub(crate) report: Report,
    /// Whether the message is a part of an operation, or an operation in parts.
    pub(crate) division: Division,
}

/// A device has a record for every message that may be under way. This limit makes a change of the
/// record's size deliberate.
const _: () = assert!(size_of::<Message>() <= 248);

/// The fields of a peer's operation that an answer repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestFields {
    /// The Jetty of the peer.
    pub(crate) jetty: JettyId,
    pub(crate) transaction: u16,
    /// The slot in which the peer awaits the answer.
    pub(crate) slot: u8,
    pub(crate) sequence: u16,
}

/// Which list of its channel a message is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessagePlace {
    /// In no list: all of the message has been sent at least once, or it was given up.
    Unlisted,
    /// Waiting for its turn to send.
    Sending,
    /// In the list of its flow: others of the flow go first, or the flow must not send now.
    WithFlow,
    /// Waiting for a message slot.
    AwaitingSlot,
    /// Waiting for a read slot.
    AwaitingReadSlot,
    /// Refused, and waiting to be tried again.
    AwaitingReceiver,
    /// Waiting for earlier operations of its Jetty.
    Gated,
    /// A put that waits until fewer puts of its stream are under way.
    AwaitingTurn,
    /// In no list: parts of the operation are sent in its place.
    Divided,
    /// An operation whose gate has opened, queued to be moved to its channel.
    Opened,
    /// An unreliable message that was polled last: it ends when its payload has been gathered.
    Leaving,
    /// A load or store that is to be sent, or sent again.
    Bypassing,
    /// A load or store that waits because too many are under way.
    AwaitingBypass,
    /// A load or store that awaits its answer.
    AwaitingAnswer,
    /// A load whose answer is being placed.
    Placing,
    /// A store that is not repeated any more, and waits until no older one is.
    Expired,
    /// In no list: the channel is retired, and the message has to be moved. `retries`: it was
    /// refused, and is to be tried again.
    Stranded { retries: bool },
}

impl Message {
    /// The answer to an operation of the peer. Its content is set later.
    pub(crate) fn answer(channel: ChannelIndex, request: &RequestFields) -> Message {
        Message {
            transaction: request.transaction,
            slots: TakenSlots::of_answer(request.slot),
            order: OrderState::of_answer(request.sequence),
            ..Message::new(Body::Answer(OwnAnswer::PENDING), channel, request.jetty)
        }
    }

    /// The fields of a peer's operation that this answer repeats.
    pub(crate) fn request_fields(&self) -> RequestFields {
        RequestFields {
            jetty: self.jetty,
            transaction: self.transaction,
            slot: self.slots.number(),
            sequence: self.order.sequence(),
        }
    }

    #[inline(always)]
    fn new(body: Body, channel: ChannelIndex, jetty: JettyId) -> Message {
        Message {
            body,
            local: LocalRange::default(),
            notice: None,
            jetty,
            channel: Some(channel),
            flow: None,
            links: Links::UNLINKED,
            place: MessagePlace::Unlisted,
            transaction: 0,
            progress: Progress::NEW,
            slots: TakenSlots::NONE,
            attempts: Attempts::NONE_YET,
            order: OrderState::of(OrderRequest::default()),
            gate: Gate::OPEN,
            report: Report::none(ChannelId(channel.number())),
            division: Division::Undivided,
        }
    }

    /// The channel group of a local operation, by the index of its leader.
    pub(crate) fn group(&self) -> ChannelIndex {
        self.report.channel().record()
    }

    /// A local operation that is to be sent by `channel`. Always inline: otherwise the record
    /// is copied once more.
    #[inline(always)]
    pub(crate) fn of(
        request: &WorkRequest,
        channel: ChannelIndex,
        jetty: JettyId,
        transaction: u16,
        mtu: u32,
    ) -> Message {
        let body = Body::of(&request.work);
        let local = match request.work {
            Work::Atomic { width, .. } => {
                LocalRange { length: u32::from(width), ..LocalRange::default() }
            }
            _ => request.local,
        };
        let progress = match body.has_payload() {
            true => Progress::of_payload(local.length, mtu),
            false => Progress::NEW,
        };
        Message {
            local,
            place: MessagePlace::Sending,
            transaction,
            progress,
            order: OrderState::of(request.order),
            report: Report::new(request.id, request.channel, request.signaled),
            ..Message::new(body, channel, jetty)
        }
    }

    // ---- properties of the kind ----

    /// True if the message carries the bytes of its local range.
    pub(crate) fn has_payload(&self) -> bool {
        self.body.has_payload() && self.notice.is_none()
    }

    /// True if the message is an answer to a peer's operation.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self.body, Body::Answer(_))
    }

    /// True if the message is the answer to a peer's READ or GET.
    pub(crate) fn is_read_response(&self) -> bool {
        matches!(self.body, Body::Answer(OwnAnswer { reply: Reply::Bytes { .. }, .. }))
    }

    /// True for the answer to a READ or GET whose bytes could not be gathered, and which a refusal
    /// follows.
    pub(crate) fn is_refused_next(&self) -> bool {
        let refused = Reply::Bytes { refused_next: true };
        matches!(self.body, Body::Answer(OwnAnswer { reply, .. }) if reply == refused)
    }

    /// True if the message returns data of the target, and so gets an answer in every mode.
    pub(crate) fn is_fetch(&self) -> bool {
        self.body.is_fetch() && self.notice.is_none()
    }

    /// True if the message requests bytes of the peer.
    pub(crate) fn requests_bytes(&self) -> bool {
        matches!(self.body, Body::Read { .. } | Body::Get { .. }) && self.notice.is_none()
    }

    /// True if the message bypasses the transport.
    pub(crate) fn bypasses(&self) -> bool {
        matches!(self.body, Body::Load(_) | Body::Store(_)) && self.notice.is_none()
    }

    /// The put, if the message is one that has not ended.
    pub(crate) fn open_put(&mut self) -> Option<&mut OwnPut> {
        match &mut self.body {
            Body::Put(put) if self.notice.is_none() => Some(put),
            _ => None,
        }
    }

    /// True if the message is a put that has not ended.
    pub(crate) fn is_open_put(&self) -> bool {
        matches!(self.body, Body::Put(_)) && self.notice.is_none()
    }

    /// The local put that the message is known to be.
    pub(crate) fn put(&self) -> &OwnPut {
        match &self.body {
            Body::Put(put) => put,
            other => unreachable!("{other:?} is not a put"),
        }
    }

    /// The local put that the message is known to be.
    pub(crate) fn put_mut(&mut self) -> &mut OwnPut {
        match &mut self.body {
            Body::Put(put) => put,
            other => unreachable!("{other:?} is not a put"),
        }
    }

    /// The local load or store that the message is known to be.
    pub(crate) fn unsequenced(&self) -> &Unsequenced {
        match &self.body {
            Body::Load(own) | Body::Store(own) => own,
            other => unreachable!("{other:?} is neither a load nor a store"),
        }
    }

    /// Sets the number of a local load or store.
    pub(crate) fn set_unsequenced_number(&mut self, number: u32) {
        match &mut self.body {
            Body::Load(own) | Body::Store(own) => own.number = number,
            other => unreachable!("{other:?} is neither a load nor a store"),
        }
    }

    /// The answer that the message is known to be.
    pub(crate) fn own_answer(&mut self) -> &mut OwnAnswer {
        match &mut self.body {
            Body::Answer(answer) => answer,
            other => unreachable!("{other:?} is not an answer"),
        }
    }

    /// Sets the content of the answer: the bytes of `local`.
    pub(crate) fn set_reply_bytes(&mut self, local: LocalRange, mtu: u32) {
        self.set_reply(Reply::Bytes { refused_next: false });
        self.local = local;
        self.progress.set_payload(local.length, mtu);
    }

    /// From now on the record notifies the target, in one packet, that the operation has ended.
    pub(crate) fn give_notice(&mut self, notice: Notice) {
        self.notice = Some(notice);
        self.progress.restart_as_notice();
    }

    /// True if the record notifies the receiver up to which put all have ended.
    pub(crate) fn ends_puts(&self) -> bool {
        matches!(self.notice, Some(Notice::PutsOver { .. }))
    }

    /// Sets the content of an answer, which is possible once.
    pub(crate) fn set_reply(&mut self, reply: Reply) {
        let answer = self.own_answer();
        assert!(answer.reply == Reply::Pending, "an answer was settled twice");
        answer.reply = reply;
    }

    /// Acknowledges one more executed operation of the peer with this message. False if it is no
    /// acknowledgement of an executed operation, has been sent, or is full.
    pub(crate) fn acknowledge_also(&mut self, slot: u8, transaction: u16) -> bool {
        match &mut self.body {
            Body::Answer(answer) if !self.progress.has_begun() => {
                answer.acknowledge_also(slot, transaction)
            }
            _ => false,
        }
    }

    /// The local Jetty that granted the access which the message answers, if one did.
    pub(crate) fn granted_by(&self) -> Option<u32> {
        match self.body {
            Body::Answer(answer) => answer.via,
            _ => None,
        }
    }

    /// True if more than the peer's operation waits for the answer to arrive.
    pub(crate) fn is_answer_awaited(&self) -> bool {
        matches!(self.body, Body::Answer(answer) if answer.marks || answer.is_tracked)
    }

    /// True, once, if the number of the peer's operation is to be marked as executed with this
    /// answer.
    pub(crate) fn take_marks(&mut self) -> bool {
        match &mut self.body {
            Body::Answer(answer) => core::mem::take(&mut answer.marks),
            _ => false,
        }
    }

    /// Counts bytes of the answer to a READ or GET as placed. True if all of them are in place.
    pub(crate) fn note_placed(&mut self, bytes: u32) -> bool {
        let (Body::Read { placed, .. } | Body::Get { placed, .. }) = &mut self.body else {
            unreachable!("{:?} requests no bytes", self.body);
        };
        *placed += bytes;
        *placed == self.local.length
    }

    /// The answer that the message is, if it is one.
    pub(crate) fn reply(&self) -> Option<&OwnAnswer> {
        match &self.body {
            Body::Answer(answer) => Some(answer),
            _ => None,
        }
    }

    /// True if the record sends a notice in place of an operation that has ended.
    pub(crate) fn is_notice(&self) -> bool {
        self.notice.is_some()
    }

    /// True for a WRITE, or a part of one, that takes no receive and is acknowledged.
    pub(crate) fn is_plain_write(&self) -> bool {
        matches!(self.body, Body::Write { .. })
            && self.notice.is_none()
            && self.order.mode() != ServiceMode::Uno
    }

    /// True for a READ, or a part of one. (A GET may be refused when it is repeated, although a
    /// part of its answer is in place.)
    pub(crate) fn is_plain_read(&self) -> bool {
        matches!(self.body, Body::Read { .. }) && self.notice.is_none()
    }

    /// Takes the message out of the lists of its channel, which is retired.
    pub(crate) fn strand(&mut self) {
        let retries = self.place == MessagePlace::AwaitingReceiver;
        self.place = MessagePlace::Stranded { retries };
        self.links = Links::UNLINKED;
    }

    /// Prepares the operation to be sent from its beginning on another channel.
    pub(crate) fn repeat_elsewhere(&mut self) {
        self.progress.repeat_elsewhere();
        self.restart();
        self.attempts.reopen();
    }

    /// Prepares the operation to be sent again, from its beginning.
    pub(crate) fn restart(&mut self) {
        self.progress.restart();
        if let Body::Read { placed, .. } | Body::Get { placed, .. } = &mut self.body {
            *placed = 0;
        }
    }

    /// Stores the old value of an atomic's word, which has arrived. False if the message is no
    /// atomic.
    pub(crate) fn note_old(&mut self, value: u64) -> bool {
        let Body::Atomic(atomic) = &mut self.body else { return false };
        atomic.old = value;
        true
    }

    /// The completion of a local operation.
    pub(crate) fn completion(&self, status: Status) -> Completion {
        let success = status == Status::Success;
        let value = match &self.body {
            Body::Atomic(atomic) if success => atomic.old,
            _ => 0,
        };
        Completion {
            id: self.report.id(),
            jetty: self.jetty,
            status,
            kind: self.body.completes_as(),
            bytes: if success { self.local.length } else { 0 },
            immediate: None,
            value,
            channel: self.report.channel(),
            remote_jetty: self.remote_jetty(),
        }
    }

    /// The peer's Jetty, if the operation names one; otherwise the default.
    fn remote_jetty(&self) -> JettyId {
        match self.body {
            Body::WriteImmediate { target, .. }
            | Body::Send { target }
            | Body::SendImmediate { target, .. } => target.jetty,
            _ => JettyId::default(),
        }
    }

    /// The operation in a packet of the message. `start_known`: the receiver has recorded where the
    /// message starts.
    pub(crate) fn operation(&self, start_known: bool, profile: &Profile) -> Operation {
        match self.notice {
            None if self.division.whole().is_none() => {
                self.body.operation(self.local.length, start_known, profile)
            }
            None => {
                let operation = self.body.operation(self.local.length, start_known, profile);
                self.division.operation(operation)
            }
            Some(Notice::Abandoned) => Operation::Abandon,
            Some(Notice::PutsOver { through }) => {
                let mailbox = self.put().mailbox.address;
                Operation::AbandonPut { mailbox, sequence: through }
            }
        }
    }

    /// True if an answer ends the message, and not the transport's acknowledgement.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.is_fetch()
            || (matches!(self.order.mode(), ServiceMode::Roi | ServiceMode::Rot)
                && !self.is_answer()
                && self.notice.is_none())
    }

    /// False if the message can be sent without slots at the peer, as it always can if it is one
    /// packet that awaits no answer.
    #[inline]
    pub(crate) fn needs_slots(&self) -> bool {
        self.progress.is_multi() || self.awaits_answer()
    }

    /// True if the target may have to hold the message, with its read slot, until the operations
    /// that it follows are done. Strict messages of several packets, and those that the initiator
    /// orders, are not issued before that.
    pub(crate) fn may_be_deferred(&self) -> bool {
        let deferred = match self.order.tag() {
            Tag::So => !self.progress.is_multi(),
            Tag::Mo => true,
            Tag::No | Tag::Ro => false,
        };
        self.order.mode() == ServiceMode::Rot && deferred
    }

    /// True if a fence waits for the message.
    pub(crate) fn is_read(&self) -> bool {
        self.body.is_fetch()
    }

    /// True if the target may keep a part of the message, and a receive or the place of a put in an
    /// epoch, and wait for the rest.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.progress.is_multi() && self.progress.has_begun() && !self.is_answer()
    }
}

impl ListRecord for Message {
    fn links(&mut self) -> &mut Links<Index<Message>> {
        &mut self.links
    }
}
