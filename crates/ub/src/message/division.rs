//! The division of an operation into parts, which go by several channels of a group.

use super::{Body, Message, OrderState, Progress, Report};
use crate::api::{LocalRange, Status};
use crate::injected_bug::InjectedBug;
use crate::names::ChannelIndex;
use crate::pool::Index;
use fairway_wire::{Operation, Part, ServiceMode, Tag};

/// Whether a message is a part of an operation, or an operation that was divided into parts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Division {
    /// The message is neither: it sends all of its operation.
    Undivided,
    /// So many parts of the operation are sent in its place. `open` of them have not ended.
    /// `failure` is the status of the first part that failed.
    Whole { parts: u8, open: u8, failure: Option<Status> },
    /// The message is a part of the operation `whole`, which completes with its last part. The
    /// part begins after `before` of the operation's `length` bytes.
    Part { whole: Index<Message>, before: u32, length: u32 },
}

impl Division {
    /// The operation of which the message is a part.
    #[inline]
    pub(crate) fn whole(&self) -> Option<Index<Message>> {
        match self {
            Division::Part { whole, .. } => Some(*whole),
            _ => None,
        }
    }

    /// True if parts of the operation are sent in its place.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Division::Whole { .. })
    }

    /// The operation in a packet of the message, if `operation` is that of all its bytes.
    #[inline]
    pub(super) fn operation(&self, operation: Operation) -> Operation {
        let Division::Part { before, length, .. } = *self else { return operation };
        let part = |access| Part { access, before, whole: length };
        match operation {
            Operation::Write { access } => Operation::WritePart(part(access)),
            Operation::Read { access } => Operation::ReadPart(part(access)),
            other => other,
        }
    }

    /// True if a part of the operation has ended.
    pub(crate) fn has_ended_part(&self) -> bool {
        matches!(self, Division::Whole { parts, open, .. } if open < parts)
    }

    /// Counts a part as ended. Returns how the operation ends if that was the last one.
    pub(crate) fn end_part(&mut self, status: Status, bug: Option<InjectedBug>) -> Option<Status> {
        let Division::Whole { open, failure, .. } = self else {
            unreachable!("a part of an operation that was not divided");
        };
        *open -= 1;
        if status != Status::Success && bug != Some(InjectedBug::ForgetFailedPart) {
            *failure = failure.or(Some(status));
        }
        let has_ended = *open == 0;
        has_ended.then(|| failure.unwrap_or(Status::Success))
    }
}

impl Message {
    /// True if several messages may carry the operation: bytes that are copied, and whose order
    /// nothing depends on. The target must not count the operation as one: a SEND and a WRITE_IMM
    /// take one receive, a PUT counts towards one epoch, and an operation that the target orders
    /// has one number. The current epoch of a GET may change between parts.
    pub(crate) fn is_divisible(&self) -> bool {
        let (Body::Write { remote } | Body::Read { remote, .. }) = self.body else { return false };
        // The peer refuses what leaves the space of addresses.
        remote.address.checked_add(u64::from(self.local.length)).is_some()
            && self.notice.is_none()
            && matches!(self.division, Division::Undivided)
            && self.order.tag() == Tag::No
            && self.order.mode() != ServiceMode::Uno
            && !self.order.request().receive_in_order
    }

    /// The part of this operation, whose index is `whole`, that begins at `offset` and has `length`
    /// bytes.
    pub(crate) fn part(
        &self,
        whole: Index<Message>,
        (offset, length): (u32, u32),
        channel: ChannelIndex,
        mtu: u32,
    ) -> Message {
        let from = u64::from(offset);
        let mut body = self.body;
        match &mut body {
            Body::Write { remote } | Body::Read { remote, .. } => remote.address += from,
            other => unreachable!("{other:?} is not divided"),
        }
        let progress = match body.has_payload() {
            true => Progress::of_payload(length, mtu),
            false => Progress::NEW,
        };
        Message {
            local: LocalRange { offset: self.local.offset + from, length, ..self.local },
            transaction: self.transaction,
            progress,
            order: OrderState::of_part(&self.order),
            report: Report::new(self.report.id(), self.report.channel(), false),
            division: Division::Part { whole, before: offset, length: self.local.length },
            ..Message::new(body, channel, self.jetty)
        }
    }
}
