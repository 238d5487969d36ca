//! Messages being sent: operations of our own, and the answers to peers' reads.

mod attempts;
mod body;
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
pub(crate) use gate::Gate;
pub(crate) use order::OrderState;
use overtaking::Overtaking;
pub(crate) use overtaking::OvertakingPlan;
pub(crate) use progress::Progress;
pub(crate) use report::Report;
pub(crate) use taken_slots::TakenSlots;

use crate::api::{ChannelId, Completion, LocalRange, OrderRequest, Status, Work, WorkRequest};
use crate::limits::Profile;
use crate::list::{Links, ListRecord};
use crate::names::{ChannelIndex, FlowIndex};
use crate::pool::Index;
use fairway_wire::{JettyId, Operation, ServiceMode, Tag};

/// One message (transaction) on its way out: its names, its place in the lists of its channel, and
/// owners of the rest of its state, whose fields are private to their files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// What it is, with what only messages of its kind have.
    pub(crate) body: Body,
    /// The local bytes that it carries, or that its answer is to fill.
    pub(crate) local: LocalRange,
    /// Set once the operation has been given up, or is over, and its record tells the target so.
    notice: Option<Notice>,
    /// Our Jetty; in an answer, the one it is for.
    pub(crate) jetty: JettyId,
    /// Its channel; `None` once the record is free.
    pub(crate) channel: Option<ChannelIndex>,
    /// While it is in line to send payload: its flow.
    pub(crate) flow: Option<FlowIndex>,
    /// The links of the list that `place` states.
    pub(crate) links: Links<Index<Message>>,
    pub(crate) place: MessagePlace,
    /// The number of the transaction at its Jetty, which an answer repeats.
    pub(crate) transaction: u16,
    /// How far its transmission has got.
    pub(crate) progress: Progress,
    /// The slots that it has at the peer.
    pub(crate) slots: TakenSlots,
    /// How the current attempt to carry it out ends, and when the next one begins.
    pub(crate) attempts: Attempts,
    /// The order that it has to keep.
    pub(crate) order: OrderState,
    /// What it waits for before it is issued.
    pub(crate) gate: Gate,
    /// Its completion, and whether that has been reported.
    pub(crate) report: Report,
}

/// A NIC has a record for every message that may be under way. This limit makes a change of the
/// record's size deliberate.
const _: () = assert!(size_of::<Message>() <= 232);

/// What an answer repeats of the operation of the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
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
    /// None: all of it has been sent at least once, or it was given up.
    Unlisted,
    /// Waiting for its turn to send.
    Sending,
    /// With its flow: others of it go first, or it must not send now.
    WithFlow,
    /// Waiting for a message slot.
    AwaitingSlot,
    /// Waiting for a read slot.
    AwaitingReadSlot,
    /// Refused, and waiting to be tried again.
    AwaitingReceiver,
    /// Waiting for earlier operations of its Jetty.
    Gated,
    /// A put that waits until fewer of its stream are under way.
    AwaitingTurn,
    /// Its gate has opened: on its way to its channel.
    Opened,
    /// An unreliable message that was polled last: it is over when its payload has been gathered.
    Leaving,
    /// A load or store that is to be sent, or sent again.
    Bypassing,
    /// A load or store that waits because too many are under way.
    AwaitingBypass,
    /// A load or store that awaits its answer.
    Asked,
    /// A load whose answer is being put in place.
    Placing,
    /// A store that is not repeated any more, and waits until nothing older is.
    Expired,
}

impl Message {
    /// The answer to an operation of the peer. What it says is settled later.
    pub(crate) fn answer(channel: ChannelIndex, asked: &Asked) -> Message {
        Message {
            transaction: asked.transaction,
            slots: TakenSlots::of_answer(asked.slot),
            order: OrderState::of_answer(asked.sequence),
            ..Message::new(Body::Answer(OwnAnswer::PENDING), channel, asked.jetty)
        }
    }

    /// What an answer repeats of the operation of the peer.
    pub(crate) fn asked(&self) -> Asked {
        Asked {
            jetty: self.jetty,
            transaction: self.transaction,
            slot: self.slots.number(),
            sequence: self.order.sequence(),
        }
    }

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
        }
    }

    /// The group of the channel that an operation of our own goes by, found by its leader.
    pub(crate) fn group(&self) -> ChannelIndex {
        self.report.channel().record()
    }

    /// An operation of our own, which is to go by `channel`.
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

    // ---- what its kind says ----

    /// Does the local range travel with it?
    pub(crate) fn has_payload(&self) -> bool {
        self.body.has_payload() && self.notice.is_none()
    }

    /// Is it an answer to a peer's operation?
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self.body, Body::Answer(_))
    }

    /// Is it the answer to a peer's READ or GET?
    pub(crate) fn is_read_response(&self) -> bool {
        matches!(self.body, Body::Answer(OwnAnswer { reply: Reply::Bytes { .. }, .. }))
    }

    /// Is it such an answer whose bytes could not be gathered, and which a refusal is to follow?
    pub(crate) fn is_refused_next(&self) -> bool {
        let refused = Reply::Bytes { refused_next: true };
        matches!(self.body, Body::Answer(OwnAnswer { reply, .. }) if reply == refused)
    }

    /// Does it ask for an answer of its own, whatever the mode?
    pub(crate) fn is_question(&self) -> bool {
        self.body.is_question() && self.notice.is_none()
    }

    /// Does it ask for bytes of the peer, which are still to come?
    pub(crate) fn asks_for_bytes(&self) -> bool {
        matches!(self.body, Body::Read { .. } | Body::Get { .. }) && self.notice.is_none()
    }

    /// Does it bypass the transport?
    pub(crate) fn bypasses(&self) -> bool {
        matches!(self.body, Body::Load(_) | Body::Store(_)) && self.notice.is_none()
    }

    /// The put, if it is one that is not over.
    pub(crate) fn open_put(&mut self) -> Option<&mut OwnPut> {
        match &mut self.body {
            Body::Put(put) if self.notice.is_none() => Some(put),
            _ => None,
        }
    }

    /// Is it a put that is not over?
    pub(crate) fn is_open_put(&self) -> bool {
        matches!(self.body, Body::Put(_)) && self.notice.is_none()
    }

    /// A put of our own, which the message is known to be.
    pub(crate) fn put(&self) -> &OwnPut {
        match &self.body {
            Body::Put(put) => put,
            other => unreachable!("{other:?} is not a put"),
        }
    }

    /// A put of our own, which the message is known to be.
    pub(crate) fn put_mut(&mut self) -> &mut OwnPut {
        match &mut self.body {
            Body::Put(put) => put,
            other => unreachable!("{other:?} is not a put"),
        }
    }

    /// A load or store of our own, which the message is known to be.
    pub(crate) fn unsequenced(&self) -> &Unsequenced {
        match &self.body {
            Body::Load(own) | Body::Store(own) => own,
            other => unreachable!("{other:?} is neither a load nor a store"),
        }
    }

    /// A load or store of our own gets its number.
    pub(crate) fn set_unsequenced_number(&mut self, number: u32) {
        match &mut self.body {
            Body::Load(own) | Body::Store(own) => own.number = number,
            other => unreachable!("{other:?} is neither a load nor a store"),
        }
    }

    /// An answer, which the message is known to be.
    pub(crate) fn own_answer(&mut self) -> &mut OwnAnswer {
        match &mut self.body {
            Body::Answer(answer) => answer,
            other => unreachable!("{other:?} is not an answer"),
        }
    }

    /// The answer brings the bytes of `local`.
    pub(crate) fn settle_bytes(&mut self, local: LocalRange, mtu: u32) {
        self.settle_reply(Reply::Bytes { refused_next: false });
        self.local = local;
        self.progress.set_payload(local.length, mtu);
    }

    /// From now on the record tells the target that the operation is over, in one packet.
    pub(crate) fn give_notice(&mut self, notice: Notice) {
        self.notice = Some(notice);
        self.progress.restart_as_notice();
    }

    /// Does it tell the receiver up to which put all are over?
    pub(crate) fn ends_puts(&self) -> bool {
        matches!(self.notice, Some(Notice::PutsOver { .. }))
    }

    /// Settles what an answer says, which it does once.
    pub(crate) fn settle_reply(&mut self, reply: Reply) {
        let answer = self.own_answer();
        assert!(answer.reply == Reply::Pending, "an answer was settled twice");
        answer.reply = reply;
    }

    /// Is something waiting for the answer to arrive, beside the peer's operation?
    pub(crate) fn is_answer_awaited(&self) -> bool {
        matches!(self.body, Body::Answer(answer) if answer.marks || answer.is_tracked)
    }

    /// True once, if the number of the peer's operation is to be marked as executed with this
    /// answer.
    pub(crate) fn take_marks(&mut self) -> bool {
        match &mut self.body {
            Body::Answer(answer) => core::mem::take(&mut answer.marks),
            _ => false,
        }
    }

    /// Counts bytes of the answer to a READ or GET as placed. True if they are all in place.
    pub(crate) fn note_placed(&mut self, bytes: u32) -> bool {
        let (Body::Read { placed, .. } | Body::Get { placed, .. }) = &mut self.body else {
            unreachable!("{:?} asks for no bytes", self.body);
        };
        *placed += bytes;
        *placed == self.local.length
    }

    /// The operation is to be sent again, from its beginning.
    pub(crate) fn restart(&mut self) {
        self.progress.restart();
        if let Body::Read { placed, .. } | Body::Get { placed, .. } = &mut self.body {
            *placed = 0;
        }
    }

    /// The old value of an atomic's word has arrived. False if it is no atomic.
    pub(crate) fn note_old(&mut self, value: u64) -> bool {
        let Body::Atomic(atomic) = &mut self.body else { return false };
        atomic.old = value;
        true
    }

    /// The completion of an operation of our own.
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

    /// The peer's Jetty, where the operation names one.
    fn remote_jetty(&self) -> JettyId {
        match self.body {
            Body::WriteImmediate { target, .. }
            | Body::Send { target }
            | Body::SendImmediate { target, .. } => target.jetty,
            _ => JettyId::default(),
        }
    }

    /// What a packet of the message says; `start_known`: the receiver knows where the message
    /// starts.
    pub(crate) fn operation(&self, start_known: bool, profile: &Profile) -> Operation {
        match self.notice {
            None => self.body.operation(self.local.length, start_known, profile),
            Some(Notice::Abandoned) => Operation::Abandon,
            Some(Notice::PutsOver { through }) => {
                let mailbox = self.put().mailbox.address;
                Operation::AbandonPut { mailbox, sequence: through }
            }
        }
    }

    /// Is it ended by an answer, and not by the transport's acknowledgement?
    pub(crate) fn awaits_answer(&self) -> bool {
        self.is_question()
            || (matches!(self.order.mode(), ServiceMode::Roi | ServiceMode::Rot)
                && !self.is_answer()
                && self.notice.is_none())
    }

    /// May the target have to hold it, with its read slot, until what it follows is done? What
    /// takes several packets, and what the initiator orders, is not issued before that.
    pub(crate) fn may_be_deferred(&self) -> bool {
        let deferred = match self.order.tag() {
            Tag::So => !self.progress.is_multi(),
            Tag::Mo => true,
            Tag::No | Tag::Ro => false,
        };
        self.order.mode() == ServiceMode::Rot && deferred
    }

    /// Does a fence wait for it?
    pub(crate) fn is_read(&self) -> bool {
        self.body.is_question()
    }

    /// May the target keep a part of it, and a receive, for the rest?
    pub(crate) fn is_cut_short(&self) -> bool {
        let is_other = !matches!(self.body, Body::Answer(_) | Body::Put(_));
        self.progress.is_multi() && self.progress.has_begun() && is_other
    }
}

impl ListRecord for Message {
    fn links(&mut self) -> &mut Links<Index<Message>> {
        &mut self.links
    }
}
