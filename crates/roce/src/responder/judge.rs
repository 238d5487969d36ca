//! Decides whether the next request in sequence is accepted, and where its payload goes (9.7.4.1).

use super::messages::Overlap;
use super::{Incoming, Refusal, Taken, packets, target};
use crate::api::{CompletionKind, RemoteAddress, Status};
use crate::queue_pair::QueuePair;
use crate::resources::{Resource, ResourceKind};
use crate::shared::{Granted, Shared};
use fairway_device::{Rights, ScatterList};
use fairway_wire::Psn;
use fairway_wire::roce::{
    AtomicEth, NakCode, Operation, Packet, Reth, SendFragment, Tail, WriteFragment,
};

impl QueuePair {
    /// Judges the next packet in sequence. A refusal changes nothing, except that a receive may be
    /// used up.
    pub(super) fn judge(
        &mut self,
        shared: &mut Shared,
        packet: &Packet,
        payload: u32,
    ) -> Result<Taken, Refusal> {
        let invalid = Refusal::Nak(NakCode::InvalidRequest);
        let (first, last) = ends(&packet.operation).ok_or(invalid)?;
        if first != (self.responder.incoming == Incoming::Nothing) {
            return Err(invalid);
        }
        // All packets but the last are full, and a last one is not empty (9.7.4.1.6).
        let fits = match (first, last) {
            (_, false) => payload == self.mtu,
            (false, true) => payload > 0 && payload <= self.mtu,
            (true, true) => payload <= self.mtu,
        };
        if !fits {
            return Err(invalid);
        }
        match packet.operation {
            Operation::Send { fragment, .. } => self.judge_send(shared, &fragment, payload),
            Operation::Write { fragment, .. } => {
                self.judge_write(shared, packet.bth.psn, &fragment, payload)
            }
            Operation::ReadRequest(reth) => self.judge_read(shared, packet.bth.psn, &reth),
            Operation::CompareSwap(atomic) => {
                let compare = Some(atomic.compare);
                self.judge_atomic(shared, packet.bth.psn, &atomic, compare)
            }
            Operation::FetchAdd(atomic) => self.judge_atomic(shared, packet.bth.psn, &atomic, None),
            _ => Err(invalid),
        }
    }

    fn judge_send(
        &mut self,
        shared: &mut Shared,
        fragment: &SendFragment,
        payload: u32,
    ) -> Result<Taken, Refusal> {
        let (receive, bytes) = match self.responder.incoming {
            Incoming::Send { receive, bytes } => (receive, bytes),
            Incoming::Nothing => (self.next_receive(shared).ok_or(Refusal::NotReady)?, 0),
            Incoming::Write { .. } => return Err(Refusal::Nak(NakCode::InvalidRequest)),
        };
        let record = shared.receives[receive];
        self.responder.incoming = Incoming::Send { receive, bytes: bytes + payload };
        if payload > 0 && (record.faulty || shared.is_revoked(self.domain, &record.local)) {
            let code = NakCode::RemoteOperational;
            return Err(Refusal::Receive(Status::LocalProtection, code));
        }
        if record.local.length() - bytes < payload {
            return Err(Refusal::Receive(Status::LocalLength, NakCode::InvalidRequest));
        }
        let taken = Taken { target: record.local.slice(bytes, payload), ..Taken::NOTHING };
        let (SendFragment::Last(tail) | SendFragment::Only(tail)) = *fragment else {
            return Ok(taken);
        };
        self.responder.incoming = Incoming::Nothing;
        let (from, bytes) = (self.peer, bytes + payload);
        Ok(Taken { last: true, receive: Some(receive), bytes, tail, from, ..taken })
    }

    fn judge_write(
        &mut self,
        shared: &mut Shared,
        psn: Psn,
        fragment: &WriteFragment,
        payload: u32,
    ) -> Result<Taken, Refusal> {
        let invalid = Refusal::Nak(NakCode::InvalidRequest);
        let (granted, left, length) = match (*fragment, self.responder.incoming) {
            (WriteFragment::First(reth) | WriteFragment::Only(reth, _), _) => {
                let remote = RemoteAddress { address: reth.address, r_key: reth.r_key };
                if !self.rights.contains(Rights::WRITE) {
                    return Err(invalid);
                }
                let granted = shared.check(self.domain, &remote, reth.length, Rights::WRITE);
                (granted.map_err(Refusal::Nak)?, reth.length, reth.length)
            }
            (_, Incoming::Write { granted, left, length }) => (granted, left, length),
            (_, Incoming::Nothing | Incoming::Send { .. }) => return Err(invalid),
        };
        if !shared.is_current(&granted) {
            return Err(Refusal::Nak(NakCode::RemoteAccess));
        }
        let (ends, immediate) = match *fragment {
            WriteFragment::Last(immediate) | WriteFragment::Only(_, immediate) => (true, immediate),
            WriteFragment::First(_) | WriteFragment::Middle => (false, None),
        };
        // The packet must bring the number of bytes that RETH announced.
        if payload > left || (payload == left) != ends {
            return Err(invalid);
        }
        let target = match self.overlap(shared, psn, &granted, payload) {
            Overlap::None => target(&granted, payload),
            Overlap::Covered => ScatterList::EMPTY,
            Overlap::Unfinished => return Err(Refusal::Later),
        };
        if !ends {
            let granted = Granted { offset: granted.offset + u64::from(payload), ..granted };
            self.responder.incoming = Incoming::Write { granted, left: left - payload, length };
            return Ok(Taken { target, ..Taken::NOTHING });
        }
        let mut taken = Taken { target, last: true, ..Taken::NOTHING };
        if let Some(immediate) = immediate {
            taken.receive = Some(self.next_receive(shared).ok_or(Refusal::NotReady)?);
            taken.kind = CompletionKind::ReceiveWrite;
            (taken.bytes, taken.tail, taken.from) = (length, Tail::Immediate(immediate), self.peer);
        }
        self.responder.incoming = Incoming::Nothing;
        Ok(taken)
    }

    fn judge_read(
        &mut self,
        shared: &mut Shared,
        first: Psn,
        reth: &Reth,
    ) -> Result<Taken, Refusal> {
        let remote = RemoteAddress { address: reth.address, r_key: reth.r_key };
        let room = self.responder.resources.has_room();
        if !self.rights.contains(Rights::READ) || !room || reth.length > 1 << 31 {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        let granted = shared.check(self.domain, &remote, reth.length, Rights::READ);
        let granted = granted.map_err(Refusal::Nak)?;
        let packets = packets(reth.length, self.mtu);
        // The READ's answer has these PSNs, so no request can have them.
        if self.responder.reorder_buffer.is_within(first, packets) {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        let kind = ResourceKind::Read { granted, length: reth.length, from: 0 };
        let resource = Resource::new(first, packets, kind);
        let resource = Some(self.responder.resources.insert(resource));
        Ok(Taken { psns: packets, last: true, resource, ..Taken::NOTHING })
    }

    fn judge_atomic(
        &mut self,
        shared: &mut Shared,
        first: Psn,
        atomic: &AtomicEth,
        compare: Option<u64>,
    ) -> Result<Taken, Refusal> {
        let remote = RemoteAddress { address: atomic.address, r_key: atomic.r_key };
        let room = self.responder.resources.has_room();
        if !self.rights.contains(Rights::ATOMIC) || !room || !atomic.address.is_multiple_of(8) {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        let granted = shared.check(self.domain, &remote, 8, Rights::ATOMIC);
        let granted = granted.map_err(Refusal::Nak)?;
        let operand = atomic.swap_or_add;
        let kind = ResourceKind::Atomic { granted, compare, operand, old: 0 };
        let resource = Resource::new(first, 1, kind);
        let resource = Some(self.responder.resources.insert(resource));
        Ok(Taken { last: true, resource, ..Taken::NOTHING })
    }
}

/// Whether a request begins a message, and whether it ends one; `None` if the packet is not a
/// request of a connection.
pub(super) fn ends(operation: &Operation) -> Option<(bool, bool)> {
    match operation {
        Operation::Send { fragment, .. } => Some(match fragment {
            SendFragment::First => (true, false),
            SendFragment::Middle => (false, false),
            SendFragment::Last(_) => (false, true),
            SendFragment::Only(_) => (true, true),
        }),
        Operation::Write { fragment, .. } => Some(match fragment {
            WriteFragment::First(_) => (true, false),
            WriteFragment::Middle => (false, false),
            WriteFragment::Last(_) => (false, true),
            WriteFragment::Only(..) => (true, true),
        }),
        Operation::ReadRequest(_) | Operation::CompareSwap(_) | Operation::FetchAdd(_) => {
            Some((true, true))
        }
        _ => None,
    }
}
