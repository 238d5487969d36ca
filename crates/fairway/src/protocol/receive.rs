//! Reading datagrams of Unified Bus, and payloads that are placed without the lock.

use fairway_engine::wire::{Decoded, Instant, Packet};
use fairway_engine::{LocalRange, Placement, PlacementToken, Received};
use fairway_observe::Meter;
use fairway_port::{Address, Arrival};
use fairway_runtime::{Gone, Parsed, Placing, SharedBytes, execute_due, report};

use super::{Header, Io};
use crate::core::{Channels, Core};
use crate::setup::Padded;

/// Payloads shorter than this are copied at once: that is cheaper than taking the lock again.
const LATE_MIN: u32 = 1024;

/// A payload of the arrival at hand that is to be copied without the lock.
pub(crate) struct DeferredCopy {
    index: usize,
    header_len: usize,
    room: SharedBytes<'static>,
    token: PlacementToken,
    /// What came of it.
    placed: Result<(), Gone>,
}

impl DeferredCopy {
    pub(crate) fn place(&mut self, arrival: &Arrival<'_>) {
        self.placed = self.room.write(&arrival.segment(self.index)[self.header_len..]);
    }
}

impl Core {
    /// Reports a handled packet to the meter. `reported`: acknowledgements that congestion controls
    /// had received before it.
    pub(super) fn measure(&self, meter: &mut Meter, received: &Received, reported: u64) {
        let number = received.route.destination_tpn.value();
        let Some(channel) = self.channels.by_number(number) else { return };
        match received.packet {
            Packet::Data(_) => meter.data(channel.id.index()),
            Packet::Ack(_) if self.nic.counters().acks_reported != reported => {
                meter.note_handled(channel.id.index());
            }
            _ => {}
        }
    }

    /// Tells the engine of payloads that were put in place without the lock.
    pub(crate) fn finish_deferred_copies(&mut self, io: &mut Io, now: Instant) {
        for deferred_copies in io.own.deferred_copies.drain(..) {
            let placed = deferred_copies.placed.map(|()| 0);
            report(&mut self.nic, &mut self.memories, now, deferred_copies.token, placed);
            execute_due(&mut self.nic, &mut self.memories, now);
        }
    }

    /// Reads and proves the header of packet `index`. `None` if it is not for the engine.
    pub(super) fn read_datagram<'a>(
        &mut self,
        io: &mut Io,
        socket: usize,
        arrival: &'a Arrival<'_>,
        index: usize,
    ) -> Option<Parsed<'a, Core>> {
        let bytes = arrival.segment(index);
        let decoded = self.channels.decode(bytes, bytes.len());
        let (route, packet, header_len) = match decoded {
            Ok(Decoded::Packet { route, packet, header_len }) => (route, packet, header_len),
            Ok(Decoded::Setup(setup)) => {
                // More than fit are lost; they are repeated.
                if io.own.setups.len() < io.own.setups.capacity() {
                    io.own.setups.push((
                        socket,
                        *arrival.from(),
                        Padded { setup, length: bytes.len() },
                    ));
                }
                return None;
            }
            Err(_) => {
                self.counters.undecodable += 1;
                return None;
            }
        };
        let payload = (bytes.len() - header_len) as u32;
        let received = Received { route, packet, payload, ecn: arrival.ecn() };
        let right_source =
            source_is_right(&self.channels, &received, arrival.from(), (io.engine, socket));
        if !right_source {
            self.counters.wrong_source += 1;
            return None;
        }
        let payload = &bytes[header_len..];
        Some(Parsed { received, payload, context: Header { index, length: header_len } })
    }

    /// A peer has used a wrong key: it is counted for its address.
    pub(super) fn note_guess(&mut self, now: Instant, received: &Received) {
        let number = received.route.destination_tpn.value();
        let Some(channel) = self.channels.by_number(number) else { return };
        let leader = channel.peer.channel;
        if !self.connecting.guesses.note(now, channel.peer.address.ip())
            && !self.guessers.contains(&leader)
        {
            self.guessers.push(leader);
        }
    }

    /// Does a peer say that it closes, or has closed, a connection that there is?
    pub(super) fn closes(&self, received: &Received) -> bool {
        let route = &received.route;
        matches!(received.packet, Packet::Close(_))
            && self.channels.by_number(route.destination_tpn.value()).is_some_and(|channel| {
                channel.remote_tpn == route.source_tpn
                    && channel.peer.incarnation == route.source.value()
                    && self.nic.is_open(channel.id)
            })
    }

    /// Notes where a payload is to be copied when the lock has been released, if it may be.
    pub(super) fn place_late(
        &mut self,
        deferred_copies: &mut Vec<DeferredCopy>,
        placement: &Placement,
        header: &Header,
    ) -> Placing {
        let Placement { target, token } = *placement;
        // Without room for any, nothing is.
        let is_simple = target.length >= LATE_MIN && !self.memories.is_redirected(target.segment);
        if !is_simple || deferred_copies.len() >= deferred_copies.capacity() {
            return Placing::Now;
        }
        self.memories.counters.placed += 1;
        self.memories.counters.bytes += u64::from(target.length);
        // SAFETY: the memory is lent to this copy: it leaves the table, which keeps it mapped, only
        // when none is lent (`engines.rs`).
        let room = unsafe { self.room_for(&target).detach() };
        let (index, header_len) = (header.index, header.length);
        deferred_copies.push(DeferredCopy { index, header_len, room, token, placed: Ok(()) });
        Placing::Later
    }

    fn room_for(&self, target: &LocalRange) -> SharedBytes<'_> {
        self.memories.room(target).expect("the engine places payload into registered memory")
    }
}

/// Does the packet come from where its path begins? Packets of unknown channels and paths are the
/// engine's to count.
fn source_is_right(
    channels: &Channels,
    received: &Received,
    from: &Address,
    (engine, socket): (u32, usize),
) -> bool {
    let Some(channel) = channels.by_number(received.route.destination_tpn.value()) else {
        return true;
    };
    match channel.path(received.route.path) {
        None => true,
        Some(ends) => ends.remote == *from && ends.socket == socket && channel.engine == engine,
    }
}
