//! Early packets, which arrive before they are next in sequence, as an option
//! ([`OutOfOrder`](crate::OutOfOrder)). Packets of a WRITE whose first packet has arrived have a
//! known address. They are placed there at once, as in ORNIC, if no program can observe that they
//! were early, or if the memory may change in any order; they count as received when they are next
//! in sequence. Other packets have no known address, or their early effect could be observed: the
//! caller keeps them, and passes them in again when they are next in sequence.

use super::messages::{Message, Messages, Overlap};
use super::{Incoming, target};
use crate::api::{
    CompletionKind, DropReason, OwnVerdict, Peer, Placement, RemoteAddress, Status, Target,
    TokenSubject, Verdict,
};
use crate::injected_bug::InjectedBug;
use crate::queue_pair::QueuePair;
use crate::responder::packets;
use crate::shared::{Granted, Shared};
use crate::work::Pending;
use alloc::vec::Vec;
use fairway_device::list::Links;
use fairway_device::pool::Index;
use fairway_device::{Rights, ScatterList};
use fairway_wire::Psn;
use fairway_wire::roce::{NakCode, Operation, Packet, Reth, Syndrome, Tail, WriteFragment};

/// Early packets by PSN modulo the number of slots: the record of each, or the place where it is
/// buffered.
#[derive(Debug, Default)]
pub(crate) struct ReorderBuffer {
    slots: Vec<Option<Entry>>,
    count: u32,
    /// The highest PSN among the early packets that were dropped.
    dropped: Option<Psn>,
    /// The highest PSN among the early packets that arrived.
    highest: Psn,
    /// WRITEs whose first packet was early.
    messages: Messages,
}

/// An early packet of a WRITE, and the range to which it belongs.
struct Early {
    granted: Granted,
    payload: u32,
    first: bool,
    last: bool,
    /// True if it belongs to the message that is being received.
    current: bool,
    /// The message that the packet begins.
    begins: Option<Message>,
}

impl ReorderBuffer {
    /// A buffer for `window` packets, a power of two; 1 stands for no packets.
    pub(crate) fn new(window: u32) -> ReorderBuffer {
        let slots = alloc::vec![None; window as usize];
        let messages = Messages::new(window > 1);
        ReorderBuffer { slots, count: 0, dropped: None, highest: Psn::new(0), messages }
    }

    fn slot(&mut self, psn: Psn) -> &mut Option<Entry> {
        let at = psn.value() as usize & (self.slots.len() - 1);
        &mut self.slots[at]
    }

    /// Empties a slot.
    fn remove(&mut self, psn: Psn) -> Option<Entry> {
        self.count -= 1;
        self.slot(psn).take()
    }

    fn insert(&mut self, psn: Psn, entry: Entry) {
        if self.count == 0 || self.highest.is_before(psn) {
            self.highest = psn;
        }
        *self.slot(psn) = Some(entry);
        self.count += 1;
    }

    fn note_dropped(&mut self, psn: Psn) {
        self.dropped = Some(self.dropped.filter(|old| psn.is_before(*old)).unwrap_or(psn));
    }

    /// True if any of the `psns` PSNs from `psn` on, except `psn` itself, has arrived.
    pub(super) fn is_within(&mut self, psn: Psn, psns: u32) -> bool {
        let most = (self.slots.len() as u32).min(psns);
        self.count > 0 && (1..most).any(|index| self.slot(psn.plus(index)).is_some())
    }

    /// Frees the buffered copy of a packet that is next in sequence and has arrived otherwise.
    pub(super) fn release(&mut self, shared: &mut Shared, psn: Psn) {
        if self.count > 0
            && let Some(entry) = *self.slot(psn)
        {
            self.remove(psn);
            entry.free(shared);
        }
    }

    /// Frees every record.
    pub(crate) fn forget(&mut self, shared: &mut Shared) {
        self.dropped = None;
        self.messages.clear();
        for entry in self.slots.iter_mut().filter_map(Option::take) {
            entry.free(shared);
            self.count -= 1;
        }
    }
}

/// A packet that came early.
#[derive(Clone, Copy, Debug)]
enum Entry {
    /// The packet was placed, and this is its record.
    Placed(Index<Pending>),
    /// The caller keeps the packet at this place.
    Buffered(Index<()>),
}

impl Entry {
    fn free(self, shared: &mut Shared) {
        match self {
            Entry::Placed(record) => shared.pending.remove(record),
            Entry::Buffered(place) => shared.buffered.remove(place),
        }
    }
}

impl QueuePair {
    /// Handles a request that arrives `gap` packets early.
    pub(super) fn handle_early(
        &mut self,
        shared: &mut Shared,
        packet: &Packet,
        payload: u32,
        gap: u32,
    ) -> Verdict {
        let Some(option) = shared.profile.out_of_order else { return self.handle_gap(shared) };
        let psn = packet.bth.psn;
        let verdict = if gap >= option.window {
            self.miss_early(shared, psn)
        } else if self.responder.reorder_buffer.slot(psn).is_some() {
            shared.counters.duplicate_requests += 1;
            shared.drop(DropReason::Duplicate)
        } else {
            match self.early_target(shared, packet, payload, gap) {
                Some(early) if shared.has_room_for_early() => {
                    self.take_early(shared, packet, &early)
                }
                _ => self.keep_early(shared, psn),
            }
        };
        if gap > option.tolerance {
            self.report_missing(shared);
        }
        verdict
    }

    /// Drops a packet, which the peer has to retransmit.
    fn miss_early(&mut self, shared: &mut Shared, psn: Psn) -> Verdict {
        self.responder.reorder_buffer.note_dropped(psn);
        shared.drop(DropReason::Gap)
    }

    /// Lets the caller keep a packet, if a place is free.
    fn keep_early(&mut self, shared: &mut Shared, psn: Psn) -> Verdict {
        let Some(place) = shared.buffered.add(()) else { return self.miss_early(shared, psn) };
        shared.counters.kept_early += 1;
        self.responder.reorder_buffer.insert(psn, Entry::Buffered(place));
        Verdict::Own(OwnVerdict::Buffer { place: place.number() })
    }

    /// The memory to which the packet belongs, if that is certain: RETH has given the address and
    /// length of its message. A packet with immediate data uses a receive, and has to wait until it
    /// is next in sequence.
    fn early_target(
        &self,
        shared: &Shared,
        packet: &Packet,
        payload: u32,
        gap: u32,
    ) -> Option<Early> {
        let Operation::Write { fragment, .. } = packet.operation else { return None };
        let psn = packet.bth.psn;
        let last = match fragment {
            WriteFragment::First(reth) | WriteFragment::Only(reth, None) => {
                return self.early_message(shared, psn, &reth, payload, fragment);
            }
            WriteFragment::Middle => false,
            WriteFragment::Last(None) => true,
            WriteFragment::Only(_, Some(_)) | WriteFragment::Last(Some(_)) => return None,
        };
        let (granted, rest, current) = self.early_rest(psn, gap)?;
        let fits = payload == rest.min(self.mtu) && last == (rest <= self.mtu);
        let fits = fits && shared.is_current(&granted);
        let early = Early { granted, payload, first: false, last, current, begins: None };
        (fits && self.may_be_early(shared, &early)).then_some(early)
    }

    /// For a packet that continues a message: its memory, how much of the message is left from it
    /// on, and whether the message is the one that is being received.
    fn early_rest(&self, psn: Psn, gap: u32) -> Option<(Granted, u32, bool)> {
        if let Incoming::Write { granted, left, .. } = self.responder.incoming
            && let Some(offset) = gap.checked_mul(self.mtu).filter(|offset| *offset < left)
        {
            let granted = Granted { offset: granted.offset + u64::from(offset), ..granted };
            return Some((granted, left - offset, true));
        }
        let message = self.responder.reorder_buffer.messages.with(psn)?;
        let offset = psn.distance_from(message.first).unsigned_abs() * self.mtu;
        let granted =
            Granted { offset: message.granted.offset + u64::from(offset), ..message.granted };
        Some((granted, message.length - offset, false))
    }

    /// Handles the first packet of a WRITE, if it is early. Errors are reported when it is next in
    /// sequence.
    fn early_message(
        &self,
        shared: &Shared,
        psn: Psn,
        reth: &Reth,
        payload: u32,
        fragment: WriteFragment,
    ) -> Option<Early> {
        let last = matches!(fragment, WriteFragment::Only(..));
        let whole = reth.length <= self.mtu;
        let room = self.responder.reorder_buffer.messages.has_room();
        let fits = payload == reth.length.min(self.mtu) && last == whole;
        if !fits || !room || reth.length > 1 << 31 || !self.rights.contains(Rights::WRITE) {
            return None;
        }
        let remote = RemoteAddress { address: reth.address, r_key: reth.r_key };
        let granted = shared.check(self.domain, &remote, reth.length, Rights::WRITE).ok()?;
        let length = reth.length;
        let packets = packets(length, self.mtu);
        let begins = Some(Message { first: psn, packets, granted, length });
        let early = Early { granted, payload, first: true, last, current: false, begins };
        self.may_be_early(shared, &early).then_some(early)
    }

    /// True if a packet may be placed early. Of the message that is being received, every packet
    /// but the last may be: everything before the message has been placed, and a program that polls
    /// for the end of the message finds it last. Packets of later messages have to wait, unless the
    /// memory may change in any order.
    fn may_be_early(&self, shared: &Shared, early: &Early) -> bool {
        let target = target(&early.granted, early.payload);
        let current = early.current || shared.is_injected(InjectedBug::PlaceLaterMessages);
        let last = early.last && !shared.is_injected(InjectedBug::PlaceEndEarly);
        let within = current && !last && !self.waits(shared, &target, false);
        within || self.is_relaxed(shared, &target)
    }

    fn take_early(&mut self, shared: &mut Shared, packet: &Packet, early: &Early) -> Verdict {
        let psn = packet.bth.psn;
        let target = match self.overlap(shared, psn, &early.granted, early.payload) {
            Overlap::None => target(&early.granted, early.payload),
            Overlap::Covered => ScatterList::EMPTY,
            Overlap::Unfinished => return self.miss_early(shared, psn),
        };
        let placed = target.length() == 0;
        let pending = Pending {
            links: Links::UNLINKED,
            psn,
            placed,
            missing: false,
            ack_request: packet.bth.ack_request,
            first: early.first,
            last: early.last,
            receive: None,
            status: Status::Success,
            kind: CompletionKind::ReceiveWrite,
            bytes: 0,
            tail: Tail::Nothing,
            solicited: packet.bth.solicited,
            from: Peer::default(),
            resource: None,
        };
        let Some(index) = shared.pending.add(pending) else {
            return shared.drop(DropReason::PendingPool);
        };
        let buffer = &mut self.responder.reorder_buffer;
        if let Some(message) = early.begins {
            buffer.messages.insert(message);
        }
        buffer.insert(psn, Entry::Placed(index));
        shared.counters.placed_early += 1;
        if placed {
            return Verdict::Done;
        }
        let token = self.token(TokenSubject::Request(index));
        let (header, relaxed) = (ScatterList::EMPTY, self.is_relaxed(shared, &target));
        Verdict::Place(Placement { target: Target { bytes: target, header, relaxed }, token })
    }

    /// Finds how the bytes of a packet overlap with those of a later WRITE that was early and has
    /// rightly overwritten them. Early packets that overlap in part are removed, and the peer
    /// retransmits them.
    pub(super) fn overlap(
        &mut self,
        shared: &mut Shared,
        psn: Psn,
        granted: &Granted,
        length: u32,
    ) -> Overlap {
        let buffer = &mut self.responder.reorder_buffer;
        if buffer.count == 0 || length == 0 {
            return Overlap::None;
        }
        let mtu = self.mtu;
        for index in 0..buffer.messages.count() {
            let message = buffer.messages.at(index);
            let Some(touched) = message.touched(psn, granted, length, mtu) else { continue };
            for place in touched {
                let later = message.first.plus(place);
                let Some(record) = early_record(buffer, shared, later) else { continue };
                if !shared.pending[record].placed {
                    return Overlap::Unfinished;
                }
                if message.covers(place, granted, length, mtu) {
                    return Overlap::Covered;
                }
            }
        }
        for index in 0..buffer.messages.count() {
            let message = buffer.messages.at(index);
            let Some(touched) = message.touched(psn, granted, length, mtu) else { continue };
            for place in touched {
                let later = message.first.plus(place);
                if let Some(record) = early_record(buffer, shared, later) {
                    buffer.remove(later);
                    buffer.note_dropped(later);
                    shared.pending.remove(record);
                }
            }
        }
        Overlap::None
    }

    /// Sends the peer one refusal for a missing packet.
    fn report_missing(&mut self, shared: &mut Shared) {
        if !self.responder.reported_missing {
            self.responder.reported_missing = true;
            let missing = self.responder.expected;
            self.responder.nak = Some((missing, Syndrome::Nak(NakCode::PsnSequence)));
            shared.counters.out_of_sequence += 1;
            self.mark_ready(shared);
        }
    }

    /// Accepts early packets that have become next in sequence.
    pub(super) fn absorb_early(&mut self, shared: &mut Shared) {
        let expected = self.responder.expected;
        self.responder.reorder_buffer.messages.forget_before(expected);
        while self.responder.reorder_buffer.count > 0 {
            let expected = self.responder.expected;
            let index = match *self.responder.reorder_buffer.slot(expected) {
                None => break,
                Some(Entry::Placed(index)) => index,
                Some(Entry::Buffered(_)) => {
                    // The buffered packet is next in sequence, and the caller passes it in again.
                    if !self.in_recalling {
                        self.in_recalling = true;
                        shared.recalling.push(self.index);
                    }
                    return;
                }
            };
            self.responder.reorder_buffer.remove(expected);
            if !self.continue_write(shared, index) {
                // A message begins within another one, or continues without having begun.
                shared.pending.remove(index);
                let code = NakCode::InvalidRequest;
                let _ = self.refuse(shared, expected, code, Status::Flushed);
                return;
            }
            self.responder.expected = expected.next();
            self.responder.pending.push_back(&mut shared.pending, index);
        }
        self.report_gaps(shared);
    }

    /// Accepts an early packet of a WRITE that is next in sequence. Returns false if it does not
    /// continue the packet before it.
    fn continue_write(&mut self, shared: &Shared, index: Index<Pending>) -> bool {
        let pending = &shared.pending[index];
        let (mtu, responder) = (self.mtu, &mut self.responder);
        let (granted, left, length) = match (responder.incoming, pending.first) {
            (Incoming::Nothing, true) if pending.last => return true,
            (Incoming::Nothing, true) => {
                match responder.reorder_buffer.messages.with(pending.psn) {
                    Some(message) => (message.granted, message.length, message.length),
                    None => return false,
                }
            }
            (Incoming::Write { granted, left, length }, false) => (granted, left, length),
            _ => return false,
        };
        responder.incoming = match pending.last {
            true => Incoming::Nothing,
            false => {
                let granted = Granted { offset: granted.offset + u64::from(mtu), ..granted };
                Incoming::Write { granted, left: left.saturating_sub(mtu), length }
            }
        };
        true
    }

    /// Reports the packet that is missing now, if no other packet would cause a report.
    fn report_gaps(&mut self, shared: &mut Shared) {
        let Some(option) = shared.profile.out_of_order else { return };
        let expected = self.responder.expected;
        let buffer = &mut self.responder.reorder_buffer;
        if buffer.count == 0 {
            buffer.messages.clear();
        }
        // Packets that were dropped have to be retransmitted ...
        let dropped =
            buffer.count == 0 && buffer.dropped.take().is_some_and(|psn| !psn.is_before(expected));
        // ... and perhaps no more packets are under way that would reveal another gap.
        let late =
            buffer.count > 0 && buffer.highest.distance_from(expected) > option.tolerance as i32;
        if dropped || late {
            self.report_missing(shared);
        }
    }

    /// The place of the buffered packet that is next in sequence, if there is one; the place is
    /// freed.
    pub(crate) fn next_recall(&mut self, shared: &mut Shared) -> Option<u32> {
        let (expected, buffer) = (self.responder.expected, &mut self.responder.reorder_buffer);
        if buffer.count == 0 {
            return None;
        }
        let Some(Entry::Buffered(place)) = *buffer.slot(expected) else { return None };
        buffer.remove(expected);
        shared.buffered.remove(place);
        Some(place.number())
    }
}

/// The record of the packet `psn`, if it was early and was placed.
fn early_record(buffer: &mut ReorderBuffer, shared: &Shared, psn: Psn) -> Option<Index<Pending>> {
    let Some(Entry::Placed(index)) = *buffer.slot(psn) else { return None };
    (shared.pending[index].psn == psn).then_some(index)
}
