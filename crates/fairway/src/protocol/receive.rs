//! Decodes datagrams of Unified Bus, and copies payloads without the lock.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fairway_observe::Meter;
use fairway_port::{Address, Arrival};
use fairway_runtime::{Gone, Parsed, Payload, Placing, SharedBytes, execute_due, report};
use fairway_ub::wire::{Decoded, Instant, Packet};
use fairway_ub::{LocalRange, Placement, PlacementToken, Received};

use super::{Header, Io};
use crate::core::{Channels, Core, Notice};
use crate::setup::Padded;

/// Payloads shorter than this many bytes are copied at once, because that is cheaper than taking
/// the lock again.
const LATE_MIN: u32 = 1024;

/// A payload of the current arrival that is to be copied without the lock.
pub(crate) struct DeferredCopy {
    index: usize,
    header_len: usize,
    payload_len: usize,
    room: SharedBytes<'static>,
    token: PlacementToken,
    /// The result of the copy.
    placed: Result<(), Gone>,
}

/// The payload of packet `index`: `length` bytes behind the header.
fn payload_of<'a>(
    arrival: &'a Arrival<'_>,
    index: usize,
    header_len: usize,
    length: usize,
) -> Payload<'a> {
    let outside = arrival.outside(index).and_then(|packet| {
        let payload = packet.from(header_len).first(length);
        let start = NonNull::new(payload.as_ptr().cast_mut())?;
        // SAFETY: it is there until the datapath is called again, which happens when the arrival
        // has been processed, and this process has no references to it.
        Some(Payload::Outside(unsafe { SharedBytes::new(start, length) }))
    });
    outside.unwrap_or_else(|| Payload::Here(&arrival.segment(index)[header_len..][..length]))
}

impl DeferredCopy {
    pub(crate) fn place(&mut self, arrival: &Arrival<'_>) {
        let payload = payload_of(arrival, self.index, self.header_len, self.payload_len);
        self.placed = payload.place(self.room);
    }
}

impl Core {
    /// Reports a handled packet to the meter. `reported`: acknowledgements that congestion controls
    /// had received before it.
    pub(super) fn measure(&self, meter: &mut Meter, received: &Received, reported: u64) {
        let number = received.route.destination_tpn.value();
        let Some(channel) = self.channels.by_number(number) else { return };
        if matches!(received.packet, Packet::Data(_)) {
            meter.data(channel.id.index());
        }
        if self.nic.counters().acks_reported != reported {
            meter.note_handled(channel.id.index());
        }
    }

    /// Reports to the protocol the payloads that were copied without the lock.
    pub(crate) fn finish_deferred_copies(&mut self, io: &mut Io, now: Instant) {
        for deferred_copies in io.own.deferred_copies.drain(..) {
            let placed = deferred_copies.placed.map(|()| 0);
            report(&mut self.nic, &mut self.memories, now, deferred_copies.token, placed);
            execute_due(&mut self.nic, &mut self.memories, now);
        }
    }

    /// Decodes and authenticates the header of packet `index`. Returns `None` if it is not for the
    /// engine.
    pub(super) fn read_datagram<'a>(
        &mut self,
        io: &mut Io,
        socket: usize,
        arrival: &'a Arrival<'_>,
        index: usize,
    ) -> Option<Parsed<'a, Core>> {
        let datagram = arrival.segment(index);
        let decoded = match arrival.outside(index) {
            None => self.channels.decode(datagram),
            Some(whole) => {
                let decoded = self.channels.decode_unfilled(datagram, whole.len());
                decoded.map(|decoded| (decoded, whole.len()))
            }
        };
        let (route, packet, header_len, length) = match decoded {
            Ok((Decoded::Packet { route, packet, header_len }, length)) => {
                (route, packet, header_len, length)
            }
            Ok((Decoded::Setup(setup), length)) => {
                // Messages that do not fit are dropped; the set-up protocol repeats them.
                if io.own.setups.len() < io.own.setups.capacity() {
                    io.own.setups.push((socket, *arrival.from(), Padded { setup, length }));
                }
                return None;
            }
            Err(_) => {
                self.counters.undecodable += 1;
                return None;
            }
        };
        let payload_len = length - header_len;
        let payload = payload_len as u32;
        let received = Received { route, packet, payload, ecn: arrival.ecn(), hops: 0 };
        let right_source =
            source_is_right(&self.channels, &received, arrival.from(), (io.engine, socket));
        if !right_source {
            self.counters.wrong_source += 1;
            return None;
        }
        if !self.connecting.unproven.is_empty() {
            self.note_proof(&received, arrival.from());
        }
        let payload = payload_of(arrival, index, header_len, payload_len);
        Some(Parsed { received, payload, context: Header { index, length: header_len } })
    }

    /// Passes the headers of a data packet to the engine: a switch has cut off the end of its
    /// `cut_from` bytes.
    ///
    /// Nothing but these headers proves what was sent. Their check covers the number of payload
    /// bytes, which the length in UDP's header gives, so they are as hard to forge as those of a
    /// whole packet. Of all that may be cut only data is of use: a padded set-up message whose
    /// padding is missing proves no path.
    pub(super) fn handle_trimmed(
        &mut self,
        io: &Io,
        now: Instant,
        socket: usize,
        arrival: &Arrival<'_>,
        cut_from: usize,
    ) {
        let bytes = arrival.segment(0);
        let Ok(Decoded::Packet { route, packet: packet @ Packet::Data(_), header_len }) =
            self.channels.decode_unfilled(bytes, cut_from)
        else {
            self.counters.undecodable += 1;
            return;
        };
        let payload = (cut_from - header_len) as u32;
        let received = Received { route, packet, payload, ecn: arrival.ecn(), hops: 0 };
        let ends = (io.engine, socket);
        if !source_is_right(&self.channels, &received, arrival.from(), ends) {
            self.counters.wrong_source += 1;
            return;
        }
        self.nic.handle_trimmed(now, &received);
    }

    /// Counts a wrong key that a peer has used, for the peer's address.
    pub(super) fn note_guess(&mut self, now: Instant, received: &Received) {
        let number = received.route.destination_tpn.value();
        let Some(channel) = self.channels.by_number(number) else { return };
        let leader = channel.peer.channel;
        if !self.connecting.guesses.note(now, channel.peer.named.ip())
            && !self.guessers.contains(&leader)
        {
            self.guessers.push(leader);
        }
    }

    /// Notes that a packet has come from one of the addresses that its sender names as its own, and
    /// whether from the first of them.
    #[cold]
    fn note_proof(&mut self, received: &Received, from: &Address) {
        let number = received.route.destination_tpn.value();
        let Some(channel) = self.channels.by_number(number) else { return };
        let was_received = channel.peer.was_received.load(Ordering::Acquire);
        let was_proven = channel.peer.is_proven();
        if was_received && was_proven {
            return;
        }
        channel.peer.was_received.store(true, Ordering::Release);
        if !was_proven && Address::from(channel.peer.named) != *from {
            return;
        }
        let peer = channel.peer.clone();
        self.connecting.unproven.retain(|other| !Arc::ptr_eq(other, &peer));
        peer.is_proven.store(true, Ordering::Release);
        if self.tenant.is_some() && !was_proven {
            self.notice(Notice::Connected(peer));
        }
    }

    /// True if the packet reports that a peer closes, or has closed, an existing connection.
    pub(super) fn closes(&self, received: &Received) -> bool {
        let route = &received.route;
        matches!(received.packet, Packet::Close(_))
            && self.channels.by_number(route.destination_tpn.value()).is_some_and(|channel| {
                channel.remote_tpn == route.source_tpn
                    && channel.peer.incarnation == route.source.value()
                    && self.nic.is_open(channel.id)
            })
    }

    /// Schedules a payload to be copied after the lock has been released, if that is allowed.
    pub(super) fn place_late(
        &mut self,
        deferred_copies: &mut Vec<DeferredCopy>,
        placement: &Placement,
        header: &Header,
    ) -> Placing {
        let Placement { target, token } = *placement;
        // Without capacity nothing is deferred.
        let is_simple = target.length >= LATE_MIN && !self.memories.is_redirected(target.segment);
        if !is_simple || deferred_copies.len() >= deferred_copies.capacity() {
            return Placing::Now;
        }
        self.memories.counters.placed += 1;
        self.memories.counters.bytes += u64::from(target.length);
        // SAFETY: the memory is lent to this copy: it leaves the table, which keeps it mapped, only
        // when none is lent (`engines.rs`).
        let room = unsafe { self.room_for(&target).detach() };
        deferred_copies.push(DeferredCopy {
            index: header.index,
            header_len: header.length,
            payload_len: target.length as usize,
            room,
            token,
            placed: Ok(()),
        });
        Placing::Later
    }

    fn room_for(&self, target: &LocalRange) -> SharedBytes<'_> {
        self.memories.room(target).expect("the engine places payload into registered memory")
    }
}

/// True if the packet comes from the remote end of its path. Packets of unknown channels and paths
/// pass, because the protocol counts them.
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
