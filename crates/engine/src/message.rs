//! Messages being sent: operations of our own, and the answers to peers' reads.

use crate::api::{
    ChannelId, CompletionKind, LocalRange, OrderRequest, RemoteRange, Status, Work, WorkRequest,
};
use crate::list::{Links, ListRecord};
use crate::order::is_numbered;
use crate::pool::NONE;
use fairway_wire::{
    AtomicOperator, Instant, JettyId, Msn, Refusal, ServiceMode, Tag, Target, TokenId,
};

/// One message (transaction) on its way out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// The application's number for it.
    pub(crate) id: u64,
    pub(crate) local: LocalRange,
    pub(crate) remote_address: u64,
    /// Immediate data, an atomic's operand, the address of a mailbox, or the value in an answer.
    pub(crate) immediate: u64,
    /// What an atomic compares with; of a put its sequence number and the bytes before it.
    pub(crate) compare: u64,
    pub(crate) token_value: u32,
    pub(crate) token_id: TokenId,
    /// Our Jetty; in an answer, the one it is for.
    pub(crate) jetty: JettyId,
    /// The peer's Jetty, where the operation names one.
    pub(crate) target: Target,
    /// The index of its channel; `NONE` once the record is free.
    pub(crate) channel: u32,
    /// Of an operation: its channel's name, which outlives it.
    pub(crate) channel_id: ChannelId,
    /// While it is in line to send payload: its flow; `NONE` otherwise.
    pub(crate) flow: u32,
    pub(crate) number: Msn,
    /// Packets it takes; at least one.
    pub(crate) packets: u32,
    /// The next packet to be sent for the first time.
    pub(crate) next_index: u32,
    /// Packets sent and not acknowledged.
    pub(crate) outstanding: u32,
    /// Of a read: bytes of the answer in place.
    pub(crate) placed: u32,
    /// After a refusal: when to try again.
    pub(crate) retry_at: Instant,
    pub(crate) links: Links,
    pub(crate) transaction: u16,
    /// The slot under which the receiver keeps it, or the read slot; if `has_slot`.
    pub(crate) slot: u8,
    pub(crate) retries: u8,
    /// It was refused because it came before others, of which `behind` was the oldest: how often,
    /// and how many times to try again it lets pass.
    pub(crate) refusals_behind: u8,
    pub(crate) passes: u8,
    pub(crate) behind: u32,
    pub(crate) kind: MessageKind,
    /// What its completion calls it, whatever becomes of it.
    pub(crate) completes_as: CompletionKind,
    pub(crate) place: MessagePlace,
    pub(crate) outcome: Outcome,
    pub(crate) has_slot: bool,
    pub(crate) signaled: bool,
    /// The receiver has said that it knows where the message starts.
    pub(crate) learned: bool,
    /// It has, or awaits, `request_slot`, under which its Jetty waits for the response.
    pub(crate) has_request: bool,
    pub(crate) request_slot: u8,
    /// It has not been issued because an earlier read, or an earlier ordered one, is not done.
    pub(crate) waits_for_reads: bool,
    pub(crate) waits_for_order: bool,
    /// Nor because its Jetty has its share of what the target may have to hold under way; or it
    /// counts towards that.
    pub(crate) waits_for_share: bool,
    pub(crate) has_share: bool,
    /// It was told that it came too early: to be tried again after what goes before it.
    pub(crate) early: bool,
    /// How it ended, if its completion has to wait for those of earlier ones.
    pub(crate) parked: Option<Status>,
    /// It has completed; or nobody is to be told.
    pub(crate) reported: bool,
    /// It was given up in the middle: what tells the target so has the number that it had.
    pub(crate) keeps_number: bool,
    /// The transport needs it no more.
    pub(crate) released: bool,
    /// It failed, in memory order. Later operations are not reported before the target has
    /// acknowledged that it does not wait for this one.
    pub(crate) bars: bool,
    /// In an answer: `sequence` is to be marked as executed when the answer has arrived.
    pub(crate) marks: bool,
    /// In an answer to a READ in memory order: what overlaps it waits until it has arrived.
    pub(crate) is_tracked: bool,
    /// Of a put: the receiver has not taken note of its number.
    pub(crate) is_unnoted: bool,
    /// It was a put, and tells the receiver now that all up to a number are over.
    pub(crate) abandons_put: bool,
    /// A put: all earlier ones of its Jetty to its mailbox are over.
    pub(crate) is_oldest: bool,
    /// A put: it counts as under way; and it was sent back because earlier ones were missing.
    pub(crate) is_issued: bool,
    pub(crate) was_early: bool,
    /// A put: how many of its stream had been let go when it was, or when it was sent back.
    pub(crate) put_serial: u32,
    /// A put: it may have to wait for something.
    pub(crate) is_bound: bool,
    /// A put: an earlier one may be waiting for something.
    pub(crate) follows: bool,
    /// In an answer: why the transaction was refused, if it was.
    pub(crate) refusal: Option<Refusal>,
    pub(crate) operator: AtomicOperator,
    /// Of a put or get: the epoch it names.
    pub(crate) epoch: Option<u32>,
    pub(crate) order: OrderRequest,
    pub(crate) sequence: u16,
    pub(crate) receive_sequence: u16,
    /// Counts the posts of its Jetty, if that keeps order.
    pub(crate) serial: u32,
    pub(crate) incomplete_links: Links,
    pub(crate) ordered_links: Links,
    pub(crate) read_links: Links,
    pub(crate) put_links: Links,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    Write,
    WriteImmediate,
    Read,
    Send,
    SendImmediate,
    Atomic,
    Put,
    Get,
    Load,
    Store,
    /// Tells the target not to wait for one of ours that was given up.
    Abandon,
    /// The answer to a peer's read or get.
    ReadResponse,
    /// The answer to a peer's atomic.
    AtomicResponse,
    /// The transaction's acknowledgement (TAACK) to a peer's operation.
    Done,
}

impl MessageKind {
    pub(crate) fn of(work: &Work) -> MessageKind {
        match work {
            Work::Write { .. } => MessageKind::Write,
            Work::WriteImmediate { .. } => MessageKind::WriteImmediate,
            Work::Read { .. } => MessageKind::Read,
            Work::Send { .. } => MessageKind::Send,
            Work::SendImmediate { .. } => MessageKind::SendImmediate,
            Work::Atomic { .. } => MessageKind::Atomic,
            Work::Put { .. } => MessageKind::Put,
            Work::Get { .. } => MessageKind::Get,
            Work::Load { .. } => MessageKind::Load,
            Work::Store { .. } => MessageKind::Store,
        }
    }

    fn completes_as(self) -> CompletionKind {
        match self {
            MessageKind::Read => CompletionKind::Read,
            MessageKind::Send | MessageKind::SendImmediate => CompletionKind::Send,
            MessageKind::Atomic => CompletionKind::Atomic,
            MessageKind::Put => CompletionKind::Put,
            MessageKind::Get => CompletionKind::Get,
            MessageKind::Load => CompletionKind::Load,
            MessageKind::Store => CompletionKind::Store,
            _ => CompletionKind::Write,
        }
    }

    /// Does the local range travel with it?
    pub(crate) fn has_payload(self) -> bool {
        matches!(
            self,
            MessageKind::Write
                | MessageKind::WriteImmediate
                | MessageKind::Send
                | MessageKind::SendImmediate
                | MessageKind::Put
                | MessageKind::ReadResponse
        )
    }

    /// Is it an answer to a peer's operation?
    pub(crate) fn is_answer(self) -> bool {
        matches!(self, MessageKind::ReadResponse | MessageKind::AtomicResponse | MessageKind::Done)
    }

    /// Does it ask for an answer of its own, whatever the mode?
    pub(crate) fn is_question(self) -> bool {
        matches!(self, MessageKind::Read | MessageKind::Get | MessageKind::Atomic)
    }
}

/// Which list of its channel a message is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessagePlace {
    /// None: all of it has been sent at least once, or it was given up.
    Unlisted,
    /// Waiting for its turn to send.
    Sending,
    /// With its flow: others of it go first, or it must not send now.
    Parked,
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

/// How a message is going to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing stands against it.
    Open,
    /// Refused for lack of a receive: to be tried again once nothing of it is in flight.
    NotReady,
    /// Refused for good.
    Failed(Status),
    /// Its answer is complete, and it has been reported.
    Reported,
}

/// A message that came before others lets at most `2^7` times to try again pass. Dozens of them may
/// wait, and where the window has room for one packet each attempt takes a round trip.
const PASSES_MAX: u8 = 8;
/// The same with [`Canary::RetrySoon`] planted.
const PASSES_PLANTED: u8 = 5;

/// How seldom a message that came before others is tried again: as it is, or with a bug planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OvertakingPlan {
    Patient,
    /// Whenever the oldest has completed, all begin anew
    /// ([`Canary::RetryAll`](crate::Canary::RetryAll)).
    ForEachFirst,
    /// The same, and they wait less ([`Canary::RetrySoon`](crate::Canary::RetrySoon)).
    ForEachFirstSoon,
}

impl Message {
    /// The message was refused because it came before others, of which `first` is the oldest. It is
    /// tried again ever more seldom (after 1, 1, 2, 4 and so on to 128 waits) until enough of those
    /// have completed: each attempt takes a slot, and its packets' place on the wire, from them.
    pub(crate) fn note_overtaking(&mut self, first: u32, plan: OvertakingPlan) {
        let (again, most) = match plan {
            OvertakingPlan::Patient => (self.behind != NONE, PASSES_MAX),
            OvertakingPlan::ForEachFirst => (self.behind == first, PASSES_MAX),
            OvertakingPlan::ForEachFirstSoon => (self.behind == first, PASSES_PLANTED),
        };
        self.refusals_behind = if again { (self.refusals_behind + 1).min(most) } else { 0 };
        self.behind = first;
        self.passes = ((1_u32 << self.refusals_behind) >> 1) as u8;
    }

    /// Was it refused at least once for lack of a receive?
    pub(crate) fn was_not_ready(&self) -> bool {
        self.retries > 0 || self.behind != NONE
    }

    /// A message that says nothing yet.
    pub(crate) fn new(kind: MessageKind, channel: u32, jetty: JettyId) -> Message {
        Message {
            id: 0,
            local: LocalRange::default(),
            remote_address: 0,
            immediate: 0,
            compare: 0,
            token_value: 0,
            token_id: TokenId::default(),
            jetty,
            target: Target::default(),
            channel,
            channel_id: ChannelId(channel),
            flow: NONE,
            number: Msn::default(),
            packets: 1,
            next_index: 0,
            outstanding: 0,
            placed: 0,
            retry_at: Instant::ZERO,
            links: Links::UNLINKED,
            transaction: 0,
            slot: 0,
            retries: 0,
            refusals_behind: 0,
            passes: 0,
            behind: NONE,
            kind,
            completes_as: kind.completes_as(),
            place: MessagePlace::Unlisted,
            outcome: Outcome::Open,
            has_slot: false,
            signaled: false,
            learned: false,
            has_request: false,
            request_slot: 0,
            waits_for_reads: false,
            waits_for_order: false,
            waits_for_share: false,
            has_share: false,
            early: false,
            parked: None,
            reported: false,
            keeps_number: false,
            released: false,
            bars: false,
            marks: false,
            is_tracked: false,
            is_unnoted: false,
            abandons_put: false,
            is_oldest: false,
            is_issued: false,
            was_early: false,
            put_serial: 0,
            is_bound: false,
            follows: false,
            refusal: None,
            operator: AtomicOperator::Load,
            epoch: None,
            order: OrderRequest::default(),
            sequence: 0,
            receive_sequence: 0,
            serial: 0,
            incomplete_links: Links::UNLINKED,
            ordered_links: Links::UNLINKED,
            read_links: Links::UNLINKED,
            put_links: Links::UNLINKED,
        }
    }

    /// The group of the channel that an operation of our own goes by, found by its leader.
    pub(crate) fn group(&self) -> u32 {
        self.channel_id.index() as u32
    }

    /// An operation of our own, which is to go by `channel`.
    pub(crate) fn of(
        request: &WorkRequest,
        channel: u32,
        jetty: JettyId,
        transaction: u16,
        mtu: u32,
    ) -> Message {
        let kind = MessageKind::of(&request.work);
        let mut message = Message {
            id: request.id,
            local: request.local,
            transaction,
            signaled: request.signaled,
            order: request.order,
            channel_id: request.channel,
            place: MessagePlace::Sending,
            ..Message::new(kind, channel, jetty)
        };
        message.fill_in(&request.work);
        if kind.has_payload() {
            message.packets = packets_of(request.local.length, mtu);
        }
        message
    }

    fn fill_in(&mut self, work: &Work) {
        match *work {
            Work::Write { remote }
            | Work::Read { remote }
            | Work::Load { remote }
            | Work::Store { remote } => self.set_remote(&remote),
            Work::WriteImmediate { remote, target, immediate } => {
                self.set_remote(&remote);
                (self.target, self.immediate) = (target, immediate);
            }
            Work::Send { target } => self.target = target,
            Work::SendImmediate { target, immediate } => {
                (self.target, self.immediate) = (target, immediate);
            }
            Work::Atomic { remote, width, operator, operand, compare } => {
                self.set_remote(&remote);
                self.local = LocalRange { length: u32::from(width), ..LocalRange::default() };
                (self.operator, self.immediate, self.compare) = (operator, operand, compare);
            }
            Work::Put { mailbox, offset, epoch } | Work::Get { mailbox, offset, epoch } => {
                (self.immediate, self.token_value) = (mailbox.address, mailbox.key);
                (self.remote_address, self.epoch) = (offset, epoch);
            }
        }
    }

    fn set_remote(&mut self, remote: &RemoteRange) {
        self.remote_address = remote.address;
        self.token_value = remote.token_value;
        self.token_id = remote.token_id;
    }

    pub(crate) fn is_multi(&self) -> bool {
        self.packets > 1
    }

    /// Is it ended by an answer, and not by the transport's acknowledgement?
    pub(crate) fn awaits_answer(&self) -> bool {
        self.kind.is_question()
            || (matches!(self.order.mode, ServiceMode::Roi | ServiceMode::Rot)
                && !self.kind.is_answer()
                && self.kind != MessageKind::Abandon)
    }

    /// May the target have to hold it, with its read slot, until what it follows is done? What
    /// takes several packets, and what the initiator orders, is not issued before that.
    pub(crate) fn may_be_held(&self) -> bool {
        let order = &self.order;
        let held = match order.tag {
            Tag::So => !self.is_multi(),
            Tag::Mo => true,
            Tag::No | Tag::Ro => false,
        };
        order.mode == ServiceMode::Rot && held
    }

    /// Is there something that it waits for before it is issued?
    pub(crate) fn waits(&self) -> bool {
        self.waits_for_reads || self.waits_for_order || self.waits_for_share
    }

    /// Does a fence wait for it?
    pub(crate) fn is_read(&self) -> bool {
        matches!(
            self.completes_as,
            CompletionKind::Read | CompletionKind::Get | CompletionKind::Atomic
        )
    }

    /// Has it numbers that somebody at the target may wait for?
    pub(crate) fn is_awaited(&self) -> bool {
        is_numbered(self.order.mode, self.order.tag) || self.order.receive_in_order
    }

    /// May the target keep a part of it, and a receive, for the rest?
    pub(crate) fn is_cut_short(&self) -> bool {
        let is_put = self.completes_as == CompletionKind::Put;
        self.is_multi() && self.next_index > 0 && !self.kind.is_answer() && !is_put
    }

    /// Payload bytes of packet `index`.
    pub(crate) fn payload(&self, index: u32, mtu: u32) -> u32 {
        if !self.kind.has_payload() {
            return 0;
        }
        let before = u64::from(index) * u64::from(mtu);
        (u64::from(self.local.length) - before).min(u64::from(mtu)) as u32
    }

    /// Bytes still to be sent for the first time.
    pub(crate) fn remaining(&self, mtu: u32) -> u64 {
        if !self.kind.has_payload() {
            return 0;
        }
        u64::from(self.local.length).saturating_sub(u64::from(self.next_index) * u64::from(mtu))
    }
}

/// Packets a message of `length` bytes takes.
pub(crate) fn packets_of(length: u32, mtu: u32) -> u32 {
    length.div_ceil(mtu).max(1)
}

impl ListRecord for Message {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}
