//! Where payload would go, before its packet has been taken in.

use super::Channel;
use crate::api::{LocalRange, Received, Rights, SegmentId};
use crate::arrival::{ArrivalKind, Turn};
use crate::canary::Canary;
use crate::message::{MessageKind, Outcome, Progress};
use crate::pool::NONE;
use crate::shared::Shared;
use fairway_wire::{Data, Operation, Order};

/// Of a message: where it starts, its length, and which of its packets have come (`None`: none).
type Whereabouts = (LocalRange, u32, Option<Progress>);

/// Is the packet `ahead` packets after `data` the last one of a message of several?
fn is_last(length: u32, mtu: u32, data: &Data, ahead: u32) -> bool {
    let end = (u64::from(data.index) + u64::from(ahead) + 1) * u64::from(mtu);
    end >= u64::from(length) && length > mtu
}

impl Channel {
    /// Whereabouts of the message of a WRITE or SEND packet, as far as they are certain.
    fn locate_message(&self, shared: &Shared, data: &Data, ahead: u32) -> Option<Whereabouts> {
        let multi = data.index > 0 || !data.last;
        let slot = if multi { *self.arrivals.get(usize::from(data.slot))? } else { NONE };
        if slot != NONE && shared.arrivals[slot].message == data.message {
            let arrival = &shared.arrivals[slot];
            let into_segment =
                matches!(arrival.kind, ArrivalKind::Write | ArrivalKind::WriteImmediate);
            // What was refused names no segment.
            let lost =
                arrival.kind == ArrivalKind::Put && !shared.mailboxes.is_live(arrival.ticket);
            if arrival.refused
                || lost
                || (into_segment
                    && !shared.segments.is_current(arrival.segment, &arrival.admission))
            {
                return None;
            }
            // What may have to be set aside is not received straight into place.
            if self.has_to_wait(shared, slot, data)
                || (arrival.turn == Turn::Come && is_last(arrival.length, self.mtu, data, ahead))
            {
                return None;
            }
            let segment = SegmentId(arrival.segment);
            let start = LocalRange { segment, offset: arrival.offset, length: 0 };
            return Some((start, arrival.length, Some(arrival.progress)));
        }
        // Of a message that is not known nothing has come, unless all of it has: so it is open if
        // this packet has not come. A message of one packet has no further ones.
        let Operation::Write { access } = data.operation else { return None };
        // What asks for order may have to wait, or may be refused, before it goes there.
        if data.order != Order::NONE {
            return None;
        }
        if self.tp.receive.has_arrived(data.psn, &shared.bitmap_blocks) || (!multi && ahead > 0) {
            return None;
        }
        let (_, offset) = shared.segments.check(&access, Rights::WRITE).ok()?;
        let segment = SegmentId(access.token_id.value());
        Some((LocalRange { segment, offset, length: 0 }, access.length, None))
    }

    /// Where the payload of `data`, or of the packet `ahead` packets later in its message, would
    /// go, if it is certain that it has not come yet. Changes nothing.
    pub(crate) fn locate(
        &self,
        shared: &Shared,
        received: &Received,
        ahead: u32,
    ) -> Option<LocalRange> {
        let fairway_wire::Packet::Data(data) = received.packet else { return None };
        let arrived = |psn| {
            !shared.is_planted(Canary::GuessOverArrived)
                && self.tp.receive.has_arrived(psn, &shared.bitmap_blocks)
        };
        let index = data.index.checked_add(ahead)?;
        let (start, length, progress) = if data.operation == Operation::ReadResponse {
            let read = *self.reads.get(usize::from(data.slot))?;
            let message = (read != NONE).then(|| &shared.messages[read])?;
            // Transactions are counted by Jetty: both have to agree. And they do where a Jetty was made
            // anew under its number: then it may be something else that awaits an answer.
            if !matches!(message.kind, MessageKind::Read | MessageKind::Get)
                || message.transaction != data.transaction
                || message.jetty != data.jetty
                || message.outcome != Outcome::Open
            {
                return None;
            }
            (message.local, message.local.length, Some(message.answer))
        } else {
            self.locate_message(shared, &data, ahead)?
        };
        let from = u64::from(index) * u64::from(self.mtu);
        let left = u64::from(length).checked_sub(from).filter(|&left| left > 0)?;
        let open = progress.is_none_or(|progress| progress.is_open(index, arrived))
            || shared.is_planted(Canary::GuessOverArrived);
        open.then(|| LocalRange {
            segment: start.segment,
            offset: start.offset + from,
            length: left.min(u64::from(self.mtu)) as u32,
        })
    }
}
