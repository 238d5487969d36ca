//! Messages being received of which a record is kept: those of several packets, sends, and notified
//! writes.

use crate::api::{Completion, CompletionKind, LocalRange, SegmentId};
use crate::deferred::Deferred;
use crate::jetty::Receive;
use crate::mailbox::Ticket;
use crate::message::Message;
use crate::names::ChannelIndex;
use crate::pool::{Index, Pool};
use crate::segment::Admission;
use fairway_wire::{Data, JettyId, Msn, Order, Refusal};

/// A message that is being received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Offset in the target memory of the message's first byte, in bytes.
    pub(crate) offset: u64,
    pub(crate) immediate: u64,
    pub(crate) segment: u32,
    /// For a write: the result of the access check that admitted it.
    pub(crate) admission: Admission,
    pub(crate) length: u32,
    /// Bytes that have been placed.
    pub(crate) placed: u32,
    pub(crate) message: Msn,
    /// The receive that the message consumed.
    pub(crate) receive: Option<Index<Receive>>,
    /// The Jetty that the message is for, if it consumed a receive.
    pub(crate) jetty: JettyId,
    pub(crate) remote_jetty: JettyId,
    pub(crate) kind: ArrivalKind,
    pub(crate) slot: u8,
    /// True if the record is kept under `slot`; that of a message of one packet is not.
    pub(crate) has_slot: bool,
    /// True if the message was refused: its packets count as arrived and are not placed.
    pub(crate) refused: bool,
    /// The reason to refuse the message's next packet, because no refusal has been sent yet.
    pub(crate) pending_refusal: Option<Refusal>,
    /// True if the message came in an unreliable packet.
    pub(crate) is_datagram: bool,
    /// The message's channel; `None` once the record is free.
    pub(crate) channel: Option<ChannelIndex>,
    /// The order that the message requested.
    pub(crate) order: Order,
    /// The answer that reports to the sender that the message is done, if one was requested.
    pub(crate) response: Option<Index<Message>>,
    /// For a put: its place in an epoch.
    pub(crate) ticket: Ticket,
    /// Whether the message may be placed yet, if it keeps memory order.
    pub(crate) turn: Turn,
    /// Packets of the message that were set aside, linked.
    pub(crate) parts: Option<Index<Deferred>>,
    /// The next message of the same tracker that waits for its turn.
    pub(crate) next_waiting: Option<Index<Arrival>>,
    /// Bytes of the message in the staging memory.
    pub(crate) aside: u32,
    /// True if the message had to wait, and so counts among those of `Arrivals::waiting`.
    pub(crate) has_waited: bool,
}

/// When a message may be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// At any time: the message does not keep memory order.
    Any,
    /// After other messages: its packets are set aside, and it is in its tracker's list.
    Waits,
    /// Now: its turn has come.
    Come,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrivalKind {
    Write,
    WriteImmediate,
    Send,
    SendImmediate,
    Put,
}

impl Arrival {
    /// The record of a message none of whose packets may be placed.
    pub(crate) fn refused(data: Data, channel: ChannelIndex) -> Arrival {
        Arrival {
            offset: 0,
            immediate: 0,
            segment: SegmentId::NOWHERE.number(),
            admission: Admission::default(),
            length: 0,
            placed: 0,
            message: data.message,
            receive: None,
            jetty: JettyId::default(),
            remote_jetty: data.jetty,
            kind: ArrivalKind::Write,
            slot: data.slot,
            has_slot: false,
            refused: true,
            pending_refusal: None,
            is_datagram: false,
            channel: Some(channel),
            order: data.order,
            response: None,
            ticket: Ticket::VOID,
            turn: Turn::Any,
            parts: None,
            next_waiting: None,
            aside: 0,
            has_waited: false,
        }
    }

    /// The memory that the message is placed into.
    pub(crate) fn range(&self) -> LocalRange {
        let segment = SegmentId::new(self.segment);
        LocalRange { segment, offset: self.offset, length: self.length }
    }

    /// True if the message is placed into registered memory, and not into a receive.
    pub(crate) fn is_into_segment(&self) -> bool {
        matches!(self.kind, ArrivalKind::Write | ArrivalKind::WriteImmediate)
    }

    /// The completion kind and immediate data of the receive that the message consumed.
    pub(crate) fn completion(&self) -> (CompletionKind, Option<u64>) {
        match self.kind {
            ArrivalKind::Send => (CompletionKind::Receive, None),
            ArrivalKind::SendImmediate => (CompletionKind::Receive, Some(self.immediate)),
            _ => (CompletionKind::ReceiveWrite, Some(self.immediate)),
        }
    }
}

/// A receive whose message is complete, but whose completion waits for earlier ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnreportedReceive {
    pub(crate) completion: Completion,
    pub(crate) receive: Index<Receive>,
    pub(crate) sequence: u16,
    /// The sequence number before which everything must have been executed first, if any.
    pub(crate) after: Option<u16>,
    /// The next such receive of the same tracker.
    pub(crate) next: Option<Index<UnreportedReceive>>,
}

impl UnreportedReceive {
    /// The receives of a list.
    pub(crate) fn list(
        pool: &Pool<UnreportedReceive>,
        first: Option<Index<UnreportedReceive>>,
    ) -> impl Iterator<Item = &UnreportedReceive> {
        let record = |index: Option<Index<UnreportedReceive>>| index.map(|index| &pool[index]);
        core::iter::successors(record(first), move |unreported| record(unreported.next))
    }
}
