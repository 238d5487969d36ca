//! Packets out: their payload is copied behind their headers, and runs of them to one process go in
//! one call.

use fairway_engine::wire::roce::{self, Deth, Icrc, Operation, Outer, Packet, Syndrome};
use fairway_engine::wire::{Duration, Instant, Qpn};
use fairway_port::{Address, RawSlice, Sent, TRAIN_BYTES_MAX, Train};
use fairway_roce::{Received, Transmit};
use std::net::{IpAddr, SocketAddr};
use std::ptr::NonNull;

use super::device::{Device, address, ns};
use super::routes::Way;
use crate::promptness::PROMPT;
use crate::verbs::letter::MANAGEMENT_BYTES;
use crate::verbs::{CarrierError, MANAGEMENT_Q_KEY, ROCE_PORT, roce_port, slot_of};

#[cfg(test)]
mod tests;

/// A full socket is tried again after this long.
const RETRY_AFTER: Duration = Duration::from_us(50);

/// Most packets a turn sends.
const BUDGET: usize = 512;

/// The run of packets that is being put together.
pub(super) struct Outbox {
    train: Train,
    room: Room,
    bound_for: Option<Bound>,
    /// The packet that begins the next run.
    pending: Option<Transmit>,
    /// What it carries. The operation may be over before there is room, and its bytes be the
    /// application's again: so they are copied at once.
    carried: Vec<u8>,
    /// An acknowledgement, which is short: it ends the run, and can't be in front of anything.
    held: Option<Transmit>,
    /// The socket was full: the train waits.
    retry_at: Option<Instant>,
    /// The kernel cuts the train, and numbers what it cuts (see [`Outbox::identification`]).
    segmentation: bool,
}

/// What became of a packet that was to be added to the run.
enum Pushed {
    Yes,
    /// It does not fit.
    No,
    /// It has no payload to write.
    Unfilled,
}

/// Where a run goes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Bound {
    socket: usize,
    to: Address,
}

/// Bytes that a train names by address, and that are written one packet after the other.
struct Room {
    base: NonNull<u8>,
    used: usize,
}

// SAFETY: it owns its allocation, and bytes have no thread affinity.
unsafe impl Send for Room {}

impl Room {
    const BYTES: usize = TRAIN_BYTES_MAX;

    fn new() -> Room {
        let bytes = vec![0_u8; Self::BYTES].into_boxed_slice();
        Room { base: NonNull::from(Box::leak(bytes)).cast(), used: 0 }
    }

    /// The next `length` bytes.
    ///
    /// # Panics
    /// If there are not so many.
    fn next(&mut self, length: usize) -> &mut [u8] {
        assert!(length <= Self::BYTES - self.used, "a train larger than its room");
        // SAFETY: within the allocation, asserted above, and initialised; packets before it are
        // named by addresses, and no reference to any byte here outlives the borrow of `self`.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(self.used), length) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let bytes = std::ptr::slice_from_raw_parts_mut(self.base.as_ptr(), Self::BYTES);
        // SAFETY: leaked in `new` with this length, and freed only here.
        drop(unsafe { Box::from_raw(bytes) });
    }
}

impl Outbox {
    pub(super) fn new(train: Train, segmentation: bool) -> Outbox {
        let room = Room::new();
        let (bound_for, pending, held, retry_at) = (None, None, None, None);
        let carried = Vec::new();
        Outbox { train, room, bound_for, pending, carried, held, retry_at, segmentation }
    }

    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    fn takes(&self, bound: &Bound, length: usize) -> bool {
        match &self.bound_for {
            None => true,
            Some(other) => other == bound && self.train.check(length).is_ok(),
        }
    }

    /// The IP identification that the next packet of the run will have, which its ICRC covers. An
    /// unconnected socket sends 0 with DF; of a run that the kernel cuts, each has one more than
    /// the one before.
    fn identification(&self) -> u16 {
        match self.segmentation {
            true => self.train.len() as u16,
            false => 0,
        }
    }

    /// Adds a packet; `fill` writes its payload of `payload` bytes, and returns false if there is
    /// none.
    fn push(
        &mut self,
        bound: Bound,
        from: SocketAddr,
        packet: &Packet,
        payload: usize,
        fill: impl FnOnce(&mut [u8]) -> bool,
    ) -> Pushed {
        let outer = outer(from, bound.to.into(), self.identification());
        let length = roce::datagram_len(packet, payload);
        // The header is encoded in a place of its own, because its encoder wants room for the
        // longest, which there need not be behind the last packet of a train.
        let mut header = [0; roce::MAX_HEADER];
        let header_len = roce::encode(packet, payload, &mut header);
        let bytes = self.room.next(length);
        let (head, rest) = bytes.split_at_mut(header_len);
        head.copy_from_slice(&header[..header_len]);
        let (body, tail) = rest.split_at_mut(payload);
        if !fill(body) {
            return Pushed::Unfilled;
        }
        let mut icrc = Icrc::new(&outer, head, length);
        icrc.update_with(|crc| crc32(crc, body));
        tail.copy_from_slice(icrc.trailer(payload).bytes());
        // SAFETY: the room is not written here, nor freed, before the train was sent and cleared.
        let slice = unsafe { RawSlice::new(bytes.as_ptr(), length) };
        if self.train.push(&[], slice).is_err() {
            return Pushed::No;
        }
        self.room.used += length;
        self.bound_for = Some(bound);
        Pushed::Yes
    }

    /// Can this acknowledgement be the one that is held?
    fn may_hold(&self, transmit: &Transmit) -> bool {
        self.held.as_ref().is_none_or(|held| held.queue_pair == transmit.queue_pair)
    }

    /// Holds an acknowledgement; it covers whatever an older one of the same queue pair did.
    fn hold(&mut self, transmit: Transmit) {
        let psn = transmit.packet.bth.psn;
        if self.held.as_ref().is_none_or(|held| held.packet.bth.psn.is_before(psn)) {
            self.held = Some(transmit);
        }
    }

    fn clear(&mut self) {
        self.train.clear();
        self.room.used = 0;
        self.bound_for = None;
        self.retry_at = None;
    }
}

impl Device {
    /// Sends what is to be sent, as far as there is room.
    pub(super) fn transmit(&mut self, now: Instant) {
        self.transmit_with(now, false);
    }

    /// The same; but a lone acknowledgement waits, if it may, for an answer of the application's:
    /// they leave in one system call.
    pub(super) fn transmit_with(&mut self, now: Instant, waits: bool) {
        if self.outbox.retry_at.is_some_and(|at| now.is_before(at)) {
            return;
        }
        if self.outbox.retry_at.is_some() && !self.flush(now) {
            return;
        }
        for _ in 0..BUDGET {
            let waited = self.outbox.pending.take();
            let carried = waited.map(|_| std::mem::take(&mut self.outbox.carried));
            let Some(transmit) = waited.or_else(|| self.host.poll_transmit(now)) else {
                if waits && self.outbox.bound_for.is_none() && self.outbox.held.is_some() {
                    self.owed_until.get_or_insert(now + PROMPT);
                } else {
                    self.flush(now);
                }
                return;
            };
            if is_acknowledgement(&transmit.packet) && self.outbox.may_hold(&transmit) {
                self.outbox.hold(transmit);
            } else if !self.send(now, &transmit, carried.as_deref()) {
                self.put_off(transmit, carried);
                return;
            }
        }
        self.unfinished = true;
        self.flush(now);
    }

    /// Adds a packet to the run, after sending the run so far if it does not belong to it. False if
    /// the socket is full.
    fn send(&mut self, now: Instant, transmit: &Transmit, carried: Option<&[u8]>) -> bool {
        let Transmit { to, packet, gather, .. } = transmit;
        let payload = gather.length() as usize;
        let Ok((way, bound)) = self.bound(*to, packet.bth.destination) else {
            self.counters.unroutable += 1;
            return true;
        };
        if !self.outbox.takes(&bound, roce::datagram_len(packet, payload)) && !self.flush(now) {
            return false;
        }
        self.push(way, bound, transmit, carried);
        true
    }

    /// Makes the answers that read what a packet which has arrived is about to change, as far as
    /// there is room. If there is not, the protocol has the packet sent again.
    pub(super) fn answer_before(&mut self, now: Instant, received: &Received) {
        while self.outbox.retry_at.is_none()
            && self.outbox.pending.is_none()
            && let Some(transmit) = self.host.poll_answer(received)
        {
            if !self.send(now, &transmit, None) {
                self.put_off(transmit, None);
            }
        }
    }

    /// A packet waits for room, with what it carries.
    fn put_off(&mut self, transmit: Transmit, carried: Option<Vec<u8>>) {
        let carried = carried.or_else(|| {
            let mut bytes = vec![0; transmit.gather.length() as usize];
            self.memories.gather_into(&transmit.gather, &mut bytes).then_some(bytes)
        });
        match carried {
            Some(carried) => {
                (self.outbox.pending, self.outbox.carried) = (Some(transmit), carried);
            }
            None => self.ungathered(&transmit),
        }
    }

    /// A packet is not sent, because what it is to carry is not there.
    fn ungathered(&mut self, transmit: &Transmit) {
        self.counters.send_errors += 1;
        self.memories.counters.gone += 1;
        self.host.handle_ungathered(transmit);
    }

    /// `carried`: its payload, if that is not where it says any more.
    fn push(&mut self, way: Way, bound: Bound, transmit: &Transmit, carried: Option<&[u8]>) {
        let Transmit { packet, gather, .. } = transmit;
        let payload = gather.length() as usize;
        let Device { outbox, memories, counters, .. } = self;
        let fill = |bytes: &mut [u8]| match carried {
            Some(carried) => {
                bytes.copy_from_slice(carried);
                true
            }
            None => memories.gather_into(gather, bytes),
        };
        match outbox.push(bound, way.from, packet, payload, fill) {
            Pushed::Yes => {}
            Pushed::No => counters.send_errors += 1,
            Pushed::Unfilled => self.ungathered(transmit),
        }
    }

    /// Adds the acknowledgement that was held, if it fits.
    fn push_held(&mut self) {
        let Some(transmit) = self.outbox.held else { return };
        match self.bound(transmit.to, transmit.packet.bth.destination) {
            Ok((way, bound)) => {
                if self.outbox.takes(&bound, roce::datagram_len(&transmit.packet, 0)) {
                    self.outbox.held = None;
                    self.push(way, bound, &transmit, None);
                }
            }
            Err(_) => {
                self.outbox.held = None;
                self.counters.unroutable += 1;
            }
        }
    }

    /// Which socket a packet for this queue pair leaves from, and where it goes.
    fn bound(&mut self, to: u64, queue_pair: Qpn) -> Result<(Way, Bound), CarrierError> {
        let way = self.routes.way(to)?;
        let port = match way.here {
            true => roce_port(slot_of(queue_pair)),
            false => ROCE_PORT,
        };
        Ok((way, Bound { socket: way.socket, to: address(way.to, port) }))
    }

    /// Sends a management datagram to another host.
    pub(super) fn send_management(
        &mut self,
        now: Instant,
        to: u64,
        bytes: &[u8; MANAGEMENT_BYTES],
    ) -> Result<(), CarrierError> {
        let (way, bound) = self.bound(to, Qpn::new(1))?;
        let deth = Deth { q_key: MANAGEMENT_Q_KEY, source: Qpn::new(1) };
        let mut packet = Packet {
            bth: Default::default(),
            operation: Operation::Datagram { deth, immediate: None },
        };
        packet.bth.destination = Qpn::new(1);
        let length = roce::datagram_len(&packet, bytes.len());
        if !self.outbox.takes(&bound, length) && !self.flush(now) {
            // It is a datagram: who sent it sends it again.
            self.counters.send_errors += 1;
            return Ok(());
        }
        let fill = |out: &mut [u8]| {
            out.copy_from_slice(bytes);
            true
        };
        self.outbox.push(bound, way.from, &packet, bytes.len(), fill);
        self.flush(now);
        Ok(())
    }

    /// Sends the run, and the acknowledgement that was held. False if the socket is full; then they
    /// wait.
    fn flush(&mut self, now: Instant) -> bool {
        self.owed_until = None;
        self.push_held();
        if !self.flush_run(now) {
            return false;
        }
        if self.outbox.held.is_none() {
            return true;
        }
        // It goes to somebody else.
        self.push_held();
        self.flush_run(now)
    }

    fn flush_run(&mut self, now: Instant) -> bool {
        let Outbox { train, bound_for, retry_at, .. } = &mut self.outbox;
        let Some(Bound { socket, to }) = *bound_for else { return true };
        match self.datapath.transmit(ns(now), 0, socket, &to, train) {
            Ok(Sent::All) => {}
            Ok(Sent::Blocked { sent }) => {
                train.skip(sent);
                *retry_at = Some(now + RETRY_AFTER);
                return false;
            }
            Err(error) => self.note_error(&error),
        }
        // A kernel that turns out not to cut trains numbers nothing. What went before it was known
        // is lost for those who look at the number, and comes again.
        if self.outbox.segmentation && !self.datapath.port().features().segmentation {
            self.outbox.segmentation = false;
        }
        self.outbox.clear();
        true
    }
}

fn is_acknowledgement(packet: &Packet) -> bool {
    let Operation::Acknowledge(aeth) = packet.operation else { return false };
    matches!(aeth.syndrome, Syndrome::Ack(_))
}

/// The CRC-32 of what has `crc`, and `bytes` behind it; by the CPU's own instructions where it has
/// any.
pub(super) fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(crc);
    hasher.update(bytes);
    hasher.finalize()
}

/// What lies around a packet on the wire, as far as the ICRC covers it.
pub(super) fn outer(from: SocketAddr, to: SocketAddr, identification: u16) -> Outer {
    let port = from.port();
    let mut outer = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => Outer::v4(from.octets(), to.octets(), port),
        (from, to) => Outer::v6(octets(from), octets(to), port),
    };
    if let roce::Network::V4 { identification: number, .. } = &mut outer.network {
        *number = identification;
    }
    outer.destination_port = to.port();
    outer
}

fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}
