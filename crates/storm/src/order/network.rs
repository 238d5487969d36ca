//! Packets in flight, each in the queue of its path.

use super::clock::Clock;
use crate::finding::Finding;
use fairway_ub::wire::{self, Decoded, Ecn, MAX_HEADER};
use fairway_ub::{Received, Transmit};

/// Time at which the payload of a packet was taken from memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) at: u64,
    pub(super) clock: Clock,
}

/// A packet in flight.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    /// Identifies the packet by its sender and its number among the sender's packets.
    pub(super) id: u32,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) received: Received,
    pub(super) payload: Vec<u8>,
    pub(super) gathered: Stamp,
    /// True if the packet is kept until no other step is possible.
    pub(super) slow: bool,
}

/// All packets in flight, in the order in which they were sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Network {
    flights: Vec<Flight>,
}

impl Network {
    pub(super) fn push(&mut self, flight: Flight) {
        self.flights.push(flight);
    }

    /// Removes a packet.
    pub(super) fn take(&mut self, id: u32) -> Flight {
        let at = self.flights.iter().position(|flight| flight.id == id);
        self.flights.remove(at.expect("a packet that is on its way"))
    }

    pub(super) fn flights(&self) -> &[Flight] {
        &self.flights
    }

    /// Returns how many packets of its path packet `id` would overtake.
    pub(super) fn ahead_of(&self, id: u32) -> usize {
        let at = self.flights.iter().position(|flight| flight.id == id).unwrap_or(0);
        let own = &self.flights[at];
        let same = |other: &&Flight| {
            (other.from, other.to, other.received.route.path)
                == (own.from, own.to, own.received.route.path)
                && !other.slow
        };
        self.flights[..at].iter().filter(same).count()
    }
}

/// Encodes and decodes a packet, so that the receiver gets exactly what the bytes contain.
pub(super) fn over_the_wire(transmit: &Transmit, payload: &[u8]) -> Result<Received, Finding> {
    let mut bytes = [0; MAX_HEADER];
    let length = wire::encode(&transmit.route, &transmit.packet, payload.len(), &mut bytes);
    let decoded = wire::decode(&bytes[..length], length + payload.len());
    let Ok(Decoded::Packet { route, packet, header_len }) = decoded else {
        return Err(format!("{:?} arrives as {decoded:?}", transmit.packet).into());
    };
    if (route, packet, header_len) != (transmit.route, transmit.packet, length) {
        return Err(format!("{:?} arrives as {packet:?}", transmit.packet).into());
    }
    Ok(Received { route, packet, payload: payload.len() as u32, ecn: Ecn::Capable, hops: 0 })
}
