//! Handles memory that its owner has taken away without deregistering it: an operation that the
//! caller could not place, execute or gather ends in an error, here and at the peer.

use super::api::{CompletionKind, PlacementToken, Status, TokenSubject, Transmit, Transport};
use super::device::RoceDevice;
use super::queue_pair::QueuePair;
use super::resources::Stage;
use super::responder::Incoming;
use super::shared::Shared;
use crate::work::{Pending, Send};
use fairway_device::pool::Index;
use fairway_wire::Psn;
use fairway_wire::roce::{NakCode, Operation};

impl RoceDevice {
    /// Reports, instead of [`Self::handle_placed`], that the memory no longer exists or cannot be
    /// written. On a connection, the peer's operation ends like one outside a region, and a receive
    /// whose memory is missing completes with [`Status::LocalProtection`]; so does an operation of
    /// this side whose answer could not be placed. Any of the bytes may have been written.
    pub fn handle_unplaced(&mut self, token: PlacementToken) {
        let Some((shared, pair)) = self.pair(token.queue_pair) else { return };
        if pair.life != token.life {
            return;
        }
        match token.subject {
            TokenSubject::Request(index) => pair.request_unplaced(shared, index),
            TokenSubject::Atomic(index) => pair.atomic_not_executed(shared, index),
            TokenSubject::Answer(index) => pair.answer_unplaced(shared, index),
        }
        self.settle_overruns();
    }

    /// Reports that the payload of a packet cannot be gathered, because the memory no longer
    /// exists; the packet was not sent. An operation of this side ends with
    /// [`Status::LocalProtection`] when earlier ones have completed; a READ of the peer is refused.
    /// For a packet of an unreliable service, call this before anything else is polled.
    pub fn handle_ungathered(&mut self, transmit: &Transmit) {
        let Some((shared, pair)) = self.pair(transmit.queue_pair) else { return };
        let psn = transmit.packet.bth.psn;
        match transmit.packet.operation {
            Operation::ReadResponse(_) => pair.read_ungathered(shared, psn),
            _ if pair.transport == Transport::Rc => pair.send_ungathered(shared, psn),
            _ => pair.unreliable_ungathered(shared),
        }
        self.settle_overruns();
    }
}

impl QueuePair {
    fn request_unplaced(&mut self, shared: &mut Shared, index: Index<Pending>) {
        if shared.pending.get(index).is_some() {
            shared.pending[index].missing = true;
            self.finish_pending(shared);
        }
    }

    /// Ends the message of the first pending packet, whose memory is missing: it is refused, and so
    /// are the packets behind it.
    pub(crate) fn end_missing(&mut self, shared: &mut Shared, index: Index<Pending>) {
        let pending = shared.pending[index];
        self.responder.pending.unlink(&mut shared.pending, index);
        shared.pending.remove(index);
        let failed = Shared::empty_receive(self.number, Status::LocalProtection);
        let is_receive = pending.kind == CompletionKind::Receive;
        let into_receive = pending.receive.filter(|_| is_receive);
        if let Some(receive) = into_receive {
            shared.complete_receive(self.receive_queue, receive, failed);
        }
        let other = pending.receive.filter(|_| !is_receive);
        let into_receive = into_receive.is_some();
        if self.transport != Transport::Rc {
            if into_receive {
                return self.fault(shared, Status::LocalProtection);
            }
            if other.is_some() {
                self.responder.spare = other;
            }
            return self.finish_pending(shared);
        }
        if let Some(receive) = other {
            let flushed = Shared::empty_receive(self.number, Status::Flushed);
            shared.complete_receive(self.receive_queue, receive, flushed);
        }
        let within = matches!(self.responder.incoming, Incoming::Send { .. });
        let (code, status) = match (into_receive, within) {
            (true, _) => (NakCode::RemoteOperational, Status::Flushed),
            (false, true) => (NakCode::RemoteOperational, Status::LocalProtection),
            (false, false) => (NakCode::RemoteAccess, Status::Flushed),
        };
        self.break_off_after(shared, pending.psn, code, status);
    }

    fn break_off_after(&mut self, shared: &mut Shared, psn: Psn, code: NakCode, status: Status) {
        let _ = self.refuse(shared, psn, code, status);
        self.responder.broken = true;
        self.drop_broken(shared);
    }

    /// Drops the packets behind a refused one, as soon as no placement is under way for them.
    pub(crate) fn drop_broken(&mut self, shared: &mut Shared) {
        while let Some(index) = self.responder.pending.head() {
            let pending = shared.pending[index];
            if !pending.placed && !pending.missing && pending.resource.is_none() {
                break;
            }
            self.responder.pending.unlink(&mut shared.pending, index);
            shared.pending.remove(index);
            if let Some(receive) = pending.receive {
                let flushed = Shared::empty_receive(self.number, Status::Flushed);
                shared.complete_receive(self.receive_queue, receive, flushed);
            }
        }
        self.mark_ready(shared);
    }

    fn atomic_not_executed(&mut self, shared: &mut Shared, index: Index<Pending>) {
        if self.responder.pending.head() != Some(index) {
            return;
        }
        let pending = shared.pending[index];
        let Some(resource) = self.responder.resources.get(pending.resource) else { return };
        if resource.stage != Stage::Executing {
            return;
        }
        resource.stage = Stage::Answered;
        self.responder.pending.unlink(&mut shared.pending, index);
        shared.pending.remove(index);
        self.break_off_after(shared, pending.psn, NakCode::RemoteAccess, Status::Flushed);
    }

    fn answer_unplaced(&mut self, shared: &mut Shared, index: Index<Send>) {
        if shared.sends.get(index).is_some_and(|send| send.placing > 0) {
            self.fail(shared, index, Status::LocalProtection);
        }
    }

    fn read_ungathered(&mut self, shared: &mut Shared, psn: Psn) {
        self.responder.resources.call_off(psn);
        // The packets behind it may have been refused already.
        if self.responder.nak.is_none_or(|(refused, _)| psn.is_before(refused)) {
            self.break_off_after(shared, psn, NakCode::RemoteAccess, Status::Flushed);
        }
    }

    /// Marks the send as the last to be executed. Earlier ones are retransmitted as far as
    /// necessary.
    fn send_ungathered(&mut self, shared: &mut Shared, psn: Psn) {
        let Some(oldest) = self.requester.oldest else { return };
        let mut first = self.requester.una.minus(shared.sends[oldest].acknowledged);
        let mut next = Some(oldest);
        while let Some(at) = next {
            let send = &shared.sends[at];
            let index = psn.distance_from(first);
            if index >= 0 && (index as u32) < send.packets {
                self.requester.missing = Some(at);
                return self.rewind(shared);
            }
            first = first.plus(send.packets);
            next = send.links.next();
        }
    }

    /// Ends the send of the packet that was polled last.
    fn unreliable_ungathered(&mut self, shared: &mut Shared) {
        if core::mem::take(&mut self.requester.leaving) > 0 {
            self.fail_oldest(shared, Status::LocalProtection);
        }
    }

    pub(crate) fn unreliable_left(&mut self, shared: &mut Shared) {
        let requester = &mut self.requester;
        let packets = core::mem::take(&mut requester.leaving);
        if packets == 0 {
            return;
        }
        let Some(oldest) = requester.oldest else { return };
        let send = &mut shared.sends[oldest];
        send.acknowledged += packets;
        requester.una = requester.cursor_psn;
        if send.acknowledged == send.packets {
            requester.oldest = send.links.next();
            self.complete_ready(shared);
        }
    }

    /// True if memory of a send is missing. The send fails as soon as it is the oldest.
    pub(crate) fn is_missing(&mut self, shared: &mut Shared, index: Index<Send>) -> bool {
        let is_missing = self.requester.missing == Some(index);
        if is_missing && self.requester.oldest == Some(index) {
            self.fail(shared, index, Status::LocalProtection);
        }
        is_missing
    }
}
