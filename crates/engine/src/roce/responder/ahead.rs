//! Packets that come too early, as an option ([`OutOfOrder`](crate::roce::OutOfOrder)): those of
//! the WRITE that is being received are put where they belong at once, as ORNIC does, and only wait
//! for their turn to count. Of others RoCE does not say where they belong; they have to come again.

use super::{Incoming, target};
use crate::list::Links;
use crate::pool::NONE;
use crate::roce::api::{CompletionKind, DropReason, Peer, Placement, TokenKind, Verdict};
use crate::roce::queue_pair::QueuePair;
use crate::roce::scatter::ScatterList;
use crate::roce::shared::{Granted, Shared};
use crate::roce::work::Pending;
use alloc::vec::Vec;
use fairway_wire::Psn;
use fairway_wire::roce::{NakCode, Operation, Packet, Syndrome, Tail, WriteFragment};

/// Records of early packets, by PSN modulo their number.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    slots: Vec<u32>,
    count: u32,
    /// The highest PSN of those that were dropped for being early.
    dropped: Option<Psn>,
    /// The highest PSN of those that have come early.
    highest: Psn,
}

impl Ahead {
    /// For `window` packets, a power of two or none at all.
    pub(crate) fn new(window: u32) -> Ahead {
        let slots = alloc::vec![NONE; window as usize];
        Ahead { slots, count: 0, dropped: None, highest: Psn::new(0) }
    }

    fn slot(&mut self, psn: Psn) -> &mut u32 {
        let at = psn.value() as usize & (self.slots.len() - 1);
        &mut self.slots[at]
    }

    /// Gives every record back.
    pub(crate) fn forget(&mut self, shared: &mut Shared) {
        self.dropped = None;
        for slot in self.slots.iter_mut().filter(|slot| **slot != NONE) {
            shared.pending.give_back(core::mem::replace(slot, NONE));
            self.count -= 1;
        }
    }
}

impl QueuePair {
    /// A request that comes `gap` packets too early.
    pub(super) fn handle_early(
        &mut self,
        shared: &mut Shared,
        packet: &Packet,
        payload: u32,
        gap: u32,
    ) -> Verdict {
        let Some(option) = shared.profile.out_of_order else { return self.handle_gap(shared) };
        let psn = packet.bth.psn;
        let early = (gap < option.window && shared.has_room_for_early())
            .then(|| self.early_target(shared, packet, payload, gap))
            .flatten();
        let verdict = match early {
            Some(_) if *self.responder.ahead.slot(psn) != NONE => {
                shared.counters.duplicate_requests += 1;
                shared.drop(DropReason::Duplicate)
            }
            Some((target, last)) => self.take_early(shared, packet, target, last),
            None => {
                let dropped = &mut self.responder.ahead.dropped;
                *dropped = Some(dropped.filter(|old| psn.is_before(*old)).unwrap_or(psn));
                shared.drop(DropReason::Gap)
            }
        };
        if gap > option.tolerance {
            self.tell_missing(shared);
        }
        verdict
    }

    /// Where the packet belongs, and whether it ends its message, if that is certain: RETH has told
    /// how long the message is.
    fn early_target(
        &self,
        shared: &Shared,
        packet: &Packet,
        payload: u32,
        gap: u32,
    ) -> Option<(ScatterList, bool)> {
        let Incoming::Write { granted, left, .. } = self.responder.incoming else { return None };
        let offset = gap.checked_mul(self.mtu).filter(|offset| *offset < left)?;
        let rest = left - offset;
        let last = match packet.operation {
            Operation::Write { fragment: WriteFragment::Middle, .. } => false,
            Operation::Write { fragment: WriteFragment::Last(None), .. } => true,
            _ => return None,
        };
        let fits = payload == rest.min(self.mtu) && last == (rest <= self.mtu);
        if !fits || !shared.is_current(&granted) {
            return None;
        }
        let granted = Granted { offset: granted.offset + u64::from(offset), ..granted };
        Some((target(&granted, payload), last))
    }

    fn take_early(
        &mut self,
        shared: &mut Shared,
        packet: &Packet,
        target: ScatterList,
        last: bool,
    ) -> Verdict {
        let pending = Pending {
            links: Links::UNLINKED,
            psn: packet.bth.psn,
            placed: false,
            ack_request: packet.bth.ack_request,
            last,
            receive: NONE,
            kind: CompletionKind::ReceiveWrite,
            bytes: 0,
            tail: Tail::Nothing,
            solicited: packet.bth.solicited,
            from: Peer::default(),
            resource: NONE,
        };
        let Some(index) = shared.pending.take(pending) else {
            return shared.drop(DropReason::PendingPool);
        };
        let (psn, ahead) = (packet.bth.psn, &mut self.responder.ahead);
        if ahead.count == 0 || ahead.highest.is_before(psn) {
            ahead.highest = psn;
        }
        *ahead.slot(psn) = index;
        ahead.count += 1;
        shared.counters.placed_early += 1;
        let token = self.token(TokenKind::Request, index);
        Verdict::Place(Placement { target, header: ScatterList::EMPTY, token })
    }

    /// The peer is told once that a packet is missing.
    fn tell_missing(&mut self, shared: &mut Shared) {
        if !self.responder.told {
            self.responder.told = true;
            let missing = self.responder.expected;
            self.responder.nak = Some((missing, Syndrome::Nak(NakCode::PsnSequence)));
            shared.counters.out_of_sequence += 1;
            self.mark_ready(shared);
        }
    }

    /// A gap may have closed: what came early takes its place.
    pub(super) fn absorb_early(&mut self, shared: &mut Shared) {
        while self.responder.ahead.count > 0 {
            let expected = self.responder.expected;
            let index = core::mem::replace(self.responder.ahead.slot(expected), NONE);
            if index == NONE {
                break;
            }
            self.responder.ahead.count -= 1;
            self.responder.expected = expected.next();
            if let Incoming::Write { granted, left, .. } = &mut self.responder.incoming {
                granted.offset += u64::from(self.mtu);
                *left = left.saturating_sub(self.mtu);
            }
            if shared.pending[index].last {
                self.responder.incoming = Incoming::Nothing;
            }
            self.responder.pending.push_back(&mut shared.pending, index);
        }
        let Some(option) = shared.profile.out_of_order else { return };
        let expected = self.responder.expected;
        let ahead = &mut self.responder.ahead;
        // Nobody else would say that what was dropped has to come again, ...
        let dropped =
            ahead.count == 0 && ahead.dropped.take().is_some_and(|psn| !psn.is_before(expected));
        // ... nor, if nothing more is on its way, that there is another gap.
        let late =
            ahead.count > 0 && ahead.highest.distance_from(expected) > option.tolerance as i32;
        if dropped || late {
            self.tell_missing(shared);
        }
    }
}
