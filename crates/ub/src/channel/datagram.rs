//! Unreliable packets (mode UNO): delivered if possible, and otherwise dropped without notice; but
//! a message that is too long for its receive may fail that (`UbDevice::fail_short_receives`). They
//! pass no gate, take no sequence number and are not acknowledged.

use super::Channel;
use crate::api::{Completion, DropReason, LocalRange, Received, Rights, SegmentId, Status};
use crate::arrival::{Arrival, ArrivalKind};
use crate::counters::Counters;
use crate::injected_bug::InjectedBug;
use crate::placement::{Placement, PlacementToken, Purpose, Verdict};
use crate::pool::Index;
use crate::shared::Shared;
use fairway_wire::{Data, Datagram, Msn, Operation, Order, Psn, Refusal};

impl Channel {
    pub(crate) fn handle_datagram(
        &mut self,
        shared: &mut Shared,
        datagram: &Datagram,
        received: &Received,
    ) -> Verdict {
        let Some(datagrams) = &mut self.datagrams else {
            return shared.counters.drop(DropReason::NotAgreed);
        };
        let data = as_data(datagram);
        let payload = received.payload;
        let length = match datagram.operation {
            Operation::Write { access } | Operation::WriteImmediate { access, .. } => access.length,
            Operation::Send { length, .. } | Operation::SendImmediate { length, .. } => length,
            _ => return shared.counters.drop(DropReason::Malformed),
        };
        if length != payload || payload > self.mtu {
            return shared.counters.drop(DropReason::Malformed);
        }
        if !datagrams.accept(datagram.number) && !shared.is_injected(InjectedBug::RepeatDatagrams) {
            return shared.counters.drop(DropReason::Duplicate);
        }
        let (target, purpose) = if let Operation::Write { access } = datagram.operation {
            match shared.segments.check(&access, Rights::WRITE) {
                Ok((_, target)) => (target, Purpose::DatagramWrite),
                Err(_) => return self.lose_refused(shared, datagram),
            }
        } else {
            let mut arrival = match self.admit_message(shared, &data, length) {
                Ok(arrival) => arrival,
                Err(refusal) => {
                    if refusal == Refusal::Length {
                        self.fail_short_receive(shared, &data);
                    }
                    return self.lose_refused(shared, datagram);
                }
            };
            let target = LocalRange {
                segment: SegmentId::new(arrival.segment),
                offset: arrival.offset,
                length,
            };
            arrival.is_datagram = true;
            let Some(index) = shared.arrivals.add(arrival) else {
                if let Some(receive) = arrival.receive {
                    shared.jetties.return_receive(arrival.jetty, receive);
                }
                return self.lose(&mut shared.counters);
            };
            (target, Purpose::Datagram(index))
        };
        shared.counters.datagrams_received += 1;
        let token = PlacementToken {
            channel: self.id,
            psn: data.psn,
            message: data.message,
            purpose,
            bytes: payload,
            ack_request: false,
            retry: false,
        };
        if payload == 0 {
            if let Purpose::Datagram(arrival) = purpose {
                self.end_datagram(shared, arrival, token.message, Status::Success);
            }
            return Verdict::Done;
        }
        Verdict::Place(Placement { target, token })
    }

    /// Fails the receive for which a message is too long, if that is wanted.
    fn fail_short_receive(&self, shared: &mut Shared, data: &Data) {
        let (Operation::Send { target, .. } | Operation::SendImmediate { target, .. }) =
            data.operation
        else {
            return;
        };
        let Some(receive) = shared.jetties.take_short_receive(target.jetty) else { return };
        let (jetty, kind) = (target.jetty, ArrivalKind::Send);
        let arrival = Arrival { jetty, kind, ..Arrival::refused(*data, self.index()) };
        let status = Status::RemoteLength;
        let completion = Completion { status, bytes: 0, ..self.receive_completion(&arrival) };
        shared.complete_receive(receive, completion);
    }

    fn lose_refused(&mut self, shared: &mut Shared, datagram: &Datagram) -> Verdict {
        self.note_refused_key(shared, &datagram.operation);
        self.lose(&mut shared.counters)
    }

    fn lose(&self, counters: &mut Counters) -> Verdict {
        counters.datagrams_lost += 1;
        Verdict::Done
    }

    /// Ends an unreliable message whose payload is in place, or could not be placed.
    pub(crate) fn end_datagram(
        &mut self,
        shared: &mut Shared,
        index: Index<Arrival>,
        message: Msn,
        status: Status,
    ) {
        let Some(&arrival) = shared.arrivals.get(index) else { return };
        let is_it =
            arrival.channel == Some(self.index()) && !arrival.has_slot && arrival.is_datagram;
        if is_it && arrival.message == message {
            let completion = Completion { status, ..self.receive_completion(&arrival) };
            if let Some(receive) = arrival.receive {
                shared.complete_receive(receive, completion);
            }
            shared.arrivals.free(index);
        }
    }
}

/// The request in the form of a data packet.
fn as_data(datagram: &Datagram) -> Data {
    Data {
        psn: Psn::default(),
        message: Msn::new(u32::from(datagram.transaction)),
        index: 0,
        jetty: datagram.jetty,
        transaction: datagram.transaction,
        slot: 0,
        ack_request: false,
        retry: false,
        last: true,
        carried: None,
        order: Order::NONE,
        operation: datagram.operation,
    }
}
