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

/// One message on its way in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Where its first byte belongs.
    pub(crate) offset: u64,
    pub(crate) immediate: u64,
    pub(crate) segment: u32,
    /// Of a write: what it was let in by.
    pub(crate) admission: Admission,
    pub(crate) length: u32,
    /// Bytes in place.
    pub(crate) placed: u32,
    pub(crate) message: Msn,
    /// The receive it took.
    pub(crate) receive: Option<Index<Receive>>,
    /// The Jetty that it is for, if it took a receive.
    pub(crate) jetty: JettyId,
    pub(crate) remote_jetty: JettyId,
    pub(crate) kind: ArrivalKind,
    pub(crate) slot: u8,
    /// It is kept under `slot`; a message of one packet is not.
    pub(crate) has_slot: bool,
    /// It was refused: its packets count as arrived and go nowhere.
    pub(crate) refused: bool,
    /// Why its next packet is refused, because no refusal has been sent yet.
    pub(crate) unreported_losses: Option<Refusal>,
    /// It came in an unreliable packet.
    pub(crate) is_datagram: bool,
    /// Its channel; `None` once the record is free.
    pub(crate) channel: Option<ChannelIndex>,
    /// What it asked of the order.
    pub(crate) order: Order,
    /// The answer that is to report to its sender that it is done, if one was requested.
    pub(crate) response: Option<Index<Message>>,
    /// Of a put: its place in an epoch.
    pub(crate) ticket: Ticket,
    /// Whether it may be placed, if it keeps memory order.
    pub(crate) turn: Turn,
    /// Its packets that were set aside, linked.
    pub(crate) parts: Option<Index<Deferred>>,
    /// The next one that waits for its turn.
    pub(crate) next_waiting: Option<Index<Arrival>>,
    /// Bytes in the staging memory.
    pub(crate) aside: u32,
    /// It had to wait: it counts among those of `Arrivals::waiting`.
    pub(crate) has_waited: bool,
}

/// When a message may be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// At any time: it does not keep memory order.
    Any,
    /// After others: its packets are set aside, and it is in its tracker's list.
    Waits,
    /// Now.
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
    /// What is kept of a message none of whose packets may go anywhere.
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
            unreported_losses: None,
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

    /// The memory that it goes into.
    pub(crate) fn range(&self) -> LocalRange {
        let segment = SegmentId::new(self.segment);
        LocalRange { segment, offset: self.offset, length: self.length }
    }

    /// Does it go into registered memory, and not into a receive?
    pub(crate) fn is_into_segment(&self) -> bool {
        matches!(self.kind, ArrivalKind::Write | ArrivalKind::WriteImmediate)
    }

    /// How the receive that it took completes.
    pub(crate) fn completion(&self) -> (CompletionKind, Option<u64>) {
        match self.kind {
            ArrivalKind::Send => (CompletionKind::Receive, None),
            ArrivalKind::SendImmediate => (CompletionKind::Receive, Some(self.immediate)),
            _ => (CompletionKind::ReceiveWrite, Some(self.immediate)),
        }
    }
}

/// A receive whose message is complete, and whose turn to be reported has not come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnreportedReceive {
    pub(crate) completion: Completion,
    pub(crate) receive: Index<Receive>,
    pub(crate) sequence: u16,
    /// It also waits until everything before this number has been executed.
    pub(crate) after: Option<u16>,
    /// The next one of the same tracker.
    pub(crate) next: Option<Index<UnreportedReceive>>,
}

impl UnreportedReceive {
    /// Those of a list.
    pub(crate) fn list(
        pool: &Pool<UnreportedReceive>,
        first: Option<Index<UnreportedReceive>>,
    ) -> impl Iterator<Item = &UnreportedReceive> {
        let record = |index: Option<Index<UnreportedReceive>>| index.map(|index| &pool[index]);
        core::iter::successors(record(first), move |unreported| record(unreported.next))
    }
}
