//! The receiving side of the unreliable services. Senders get no answers: an incomplete UC message
//! is dropped (9.8.2.2), and so is a datagram that cannot be delivered (9.8.3.2). A datagram that
//! is too long for its receive fails that receive, as with adapters, and the queue pair goes on.

use super::judge::ends;
use super::{Incoming, Refusal, Taken};
use crate::api::{DropReason, Peer, Received, Status, Verdict};
use crate::queue_pair::QueuePair;
use crate::shared::Shared;
use fairway_wire::roce::{Deth, Tail};

/// Bytes in front of a datagram in its receive: room for an IPv6 header, or an IPv4 header in the
/// last 20 bytes.
const IP_HEADER: u32 = 40;

impl QueuePair {
    /// Handles a request of the peer over UC.
    pub(crate) fn handle_unreliable(
        &mut self,
        shared: &mut Shared,
        received: &Received,
    ) -> Verdict {
        let packet = &received.packet;
        let psn = packet.bth.psn;
        let begins = ends(&packet.operation).is_some_and(|(first, _)| first);
        if psn != self.responder.expected
            || (begins && self.responder.incoming != Incoming::Nothing)
        {
            // A packet was lost. Receiving continues with the next message.
            self.break_off(shared);
        }
        self.responder.expected = psn.next();
        if shared.pending.is_exhausted() {
            self.break_off(shared);
            return shared.drop(DropReason::PendingPool);
        }
        match self.judge(shared, packet, received.payload) {
            Ok(taken) => self.take(shared, &packet.bth, &taken),
            Err(Refusal::Receive(Status::LocalProtection, _)) => self.end_unusable(shared),
            Err(_) => {
                self.break_off(shared);
                shared.drop(DropReason::Broken)
            }
        }
    }

    /// Breaks off the message that is being received; the next message uses its receive.
    fn break_off(&mut self, shared: &mut Shared) {
        let incoming = core::mem::replace(&mut self.responder.incoming, Incoming::Nothing);
        if incoming != Incoming::Nothing {
            shared.counters.drops[DropReason::Broken as usize] += 1;
        }
        if let Incoming::Send { receive, .. } = incoming {
            self.responder.spare = Some(receive);
        }
    }

    /// Ends the queue pair, because the memory of the receive may not be used and would block every
    /// message.
    fn end_unusable(&mut self, shared: &mut Shared) -> Verdict {
        let incoming = core::mem::replace(&mut self.responder.incoming, Incoming::Nothing);
        if let Incoming::Send { receive, .. } = incoming {
            let failed = Shared::empty_receive(self.number, Status::LocalProtection);
            shared.complete_receive(self.receive_queue, receive, failed);
        }
        self.fault(shared, Status::LocalProtection);
        shared.drop(DropReason::Refused)
    }

    /// Handles a datagram.
    pub(crate) fn handle_datagram(
        &mut self,
        shared: &mut Shared,
        received: &Received,
        deth: &Deth,
        immediate: Option<u32>,
    ) -> Verdict {
        if deth.q_key != self.q_key {
            return shared.drop(DropReason::QueueKey);
        }
        if received.payload > self.mtu {
            return shared.drop(DropReason::Malformed);
        }
        if shared.pending.is_exhausted() {
            return shared.drop(DropReason::PendingPool);
        }
        let Some(receive) = self.next_receive(shared) else {
            return shared.drop(DropReason::NotReady);
        };
        let record = shared.receives[receive];
        let bytes = IP_HEADER + received.payload;
        if record.faulty || shared.is_revoked(self.domain, &record.local) {
            let failed = Shared::empty_receive(self.number, Status::LocalProtection);
            shared.complete_receive(self.receive_queue, receive, failed);
            self.fault(shared, Status::LocalProtection);
            return shared.drop(DropReason::Refused);
        }
        if record.local.length() < bytes {
            // The receive fails in its turn, so that its program does not wait for it.
            let status = Status::LocalLength;
            let taken = Taken { last: true, receive: Some(receive), status, ..Taken::NOTHING };
            self.take(shared, &received.packet.bth, &taken);
            return shared.drop(DropReason::Malformed);
        }
        let taken = Taken {
            target: record.local.slice(IP_HEADER, received.payload),
            header: record.local.slice(0, IP_HEADER),
            last: true,
            receive: Some(receive),
            bytes,
            tail: immediate.map_or(Tail::Nothing, Tail::Immediate),
            from: Peer { address: received.source, queue_pair: deth.source },
            ..Taken::NOTHING
        };
        self.take(shared, &received.packet.bth, &taken)
    }
}
