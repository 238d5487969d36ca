//! Builds packets of Unified Bus: their headers, and the payload that the kernel gathers.

use fairway_port::RawSlice;
use fairway_runtime::{Appended, Destination, Gone, Outbox};
use fairway_ub::wire::{
    Ack, AckFlags, BYPASS_BYTES, Duration, ECHO_DELAY_UNIT_NS, Instant, MAX_HEADER, Packet,
    Priority, Route, SETUP_LEN, encode_setup,
};
use fairway_ub::{ChannelId, LocalRange, Transmit};

use super::{Extras, Io};
use crate::core::{Channels, Core};

/// Padding of set-up messages.
static ZEROS: [u8; 32 * 1024] = [0; 32 * 1024];

/// Size of the buffer for payloads of unreliable packets that have not been sent, in bytes: more
/// than one poll sends.
const COPIES_BYTES: usize = 1 << 20;

/// Time for which payloads are copied before they are sent, after the kernel could not read one.
/// The packets are retransmitted in that time, and the copy reveals which memory is missing.
const CAREFUL_FOR: Duration = Duration::from_ms(10_000);

/// A packet that will be sent next.
pub struct Pending {
    bound: Destination,
    class: Priority,
    header: [u8; SETUP_LEN],
    length: usize,
    payload: RawSlice,
}

/// A delayed acknowledgement, which waits for the application's answer: both may leave in one
/// system call, and otherwise the answer leaves first. It refers to no memory.
pub struct Held {
    bound: Destination,
    channel: ChannelId,
    route: Route,
    ack: Ack,
    since: Instant,
}

impl Held {
    /// Encodes the packet to `header`, including the time that it has waited, because peers measure
    /// round trips by it. Returns its length.
    fn encode(
        mut self,
        now: Instant,
        channels: &Channels,
        header: &mut [u8; MAX_HEADER],
    ) -> Option<usize> {
        let units = now.since(self.since).as_ns() / ECHO_DELAY_UNIT_NS;
        let units = u16::try_from(units).unwrap_or(u16::MAX);
        self.ack.echo_delay = self.ack.echo_delay.saturating_add(units);
        channels.encode(self.channel, (&self.route, &Packet::Ack(self.ack)), 0, header)
    }
}

/// Result of an attempt to copy a payload.
enum Copied {
    Yes,
    /// The payload is too long, or there is no room.
    No,
    /// The payload's memory has been unmapped.
    Gone,
}

impl Core {
    /// Drops packets that wait to be sent, if memory to which they may refer was returned since
    /// they were built, because their payload may have changed. The protocol treats them as lost.
    pub(crate) fn forget_ended(&mut self, io: &mut Io) {
        if std::mem::replace(&mut io.own.teardown_epoch, self.teardown_epoch) != self.teardown_epoch
        {
            io.forget_waiting();
        }
    }

    /// Starts to copy payloads before they are sent, for a while, if the kernel could not read one.
    pub(super) fn take_care(&mut self, io: &mut Io, now: Instant) {
        if io.sockets.take_unreadable() {
            self.careful_until = Some(now + CAREFUL_FOR);
        }
        self.careful_until = self.careful_until.filter(|until| now.is_before(*until));
    }

    pub(super) fn append_pending(&mut self, io: &mut Io, first: &Pending) -> bool {
        self.append(io, (first.bound, first.class), &first.header[..first.length], first.payload)
    }

    /// Adds a set-up message. It forms a run by itself, so that a link that refuses long packets
    /// still accepts the short ones.
    pub(super) fn add_setup(&mut self, io: &mut Io) -> bool {
        let outbox = &mut self.engines[io.engine as usize].outbox;
        if io.outbox.has_run() && !outbox.is_empty() {
            return true;
        }
        let Some((bound, padded)) = outbox.pop_front() else { return false };
        let mut message = [0; SETUP_LEN];
        encode_setup(&padded.setup, &mut message);
        let way = (bound, Priority::CONTROL);
        self.append(io, way, &message, padding(padded.length));
        true
    }

    /// Adds a packet of the protocol. Returns false if the run is complete.
    pub(super) fn add_packet(&mut self, io: &mut Io, now: Instant, transmit: &Transmit) -> bool {
        let channel = self.channels.get(transmit.channel);
        let ends = channel.and_then(|channel| {
            channel.path(transmit.route.path).map(|ends| (ends, channel.fills))
        });
        let payload = self.memories.gather(&transmit.gather);
        let (Some((ends, fills)), Some(payload)) = (ends, payload) else {
            // The channel ended during this poll. The protocol treats the packet as lost.
            self.counters.unsendable += 1;
            return true;
        };
        let path = usize::from(transmit.route.path);
        let bound = Destination { path, socket: ends.socket, to: ends.remote, fills };
        if hold(&mut io.outbox, now, bound, transmit) {
            return true;
        }
        let fits = self.append_packet(io, bound, transmit, payload);
        if let Packet::Ack(_) = transmit.packet {
            io.own.measure(|meter| meter.acknowledges(transmit.channel.index(), fits));
        }
        fits
    }

    /// Adds a delayed acknowledgement. Returns false if the run is complete.
    pub(super) fn append_held(&mut self, io: &mut Io, now: Instant, held: Held) -> bool {
        let (channel, way) = (held.channel.index(), (held.bound, held.route.priority));
        let mut header = [0; MAX_HEADER];
        let Some(length) = held.encode(now, &self.channels, &mut header) else { return true };
        let fits = self.append(io, way, &header[..length], RawSlice::EMPTY);
        io.own.measure(|meter| meter.acknowledges(channel, fits));
        fits
    }

    /// Adds one packet to the run; see [`Core::append`].
    fn append_packet(
        &mut self,
        io: &mut Io,
        bound: Destination,
        transmit: &Transmit,
        payload: RawSlice,
    ) -> bool {
        let mut header = [0; MAX_HEADER];
        let packet = (&transmit.route, &transmit.packet);
        let encoded = self.channels.encode(transmit.channel, packet, payload.len(), &mut header);
        let Some(length) = encoded else {
            self.counters.unsendable += 1;
            return true;
        };
        let way = (bound, transmit.route.priority);
        match self.copy_word(&transmit.gather, &mut header[length..]) {
            Copied::Yes => {
                let whole = &header[..length + payload.len()];
                return self.append(io, way, whole, RawSlice::EMPTY);
            }
            Copied::Gone => {
                self.ungathered(transmit);
                return true;
            }
            Copied::No => {}
        }
        let is_datagram = matches!(transmit.packet, Packet::Datagram(_));
        let copies = is_datagram || self.careful_until.is_some();
        if !copies || transmit.gather.length == 0 {
            return self.append(io, way, &header[..length], payload);
        }
        match self.copy_payload(io, &transmit.gather) {
            Ok(Some(copy)) => self.append(io, way, &header[..length], copy),
            // The packet is lost, like any packet that the network drops.
            Ok(None) => true,
            Err(Gone) => {
                self.ungathered(transmit);
                true
            }
        }
    }

    /// Records that a packet was not sent, because its payload's memory is gone.
    fn ungathered(&mut self, transmit: &Transmit) {
        self.memories.counters.gone += 1;
        self.changes += 1;
        self.nic.handle_ungathered(transmit);
    }

    /// Copies a short payload behind its header. The kernel might copy a word byte by byte; this
    /// copy reads an aligned word in one access.
    fn copy_word(&self, gather: &LocalRange, room: &mut [u8]) -> Copied {
        let length = gather.length as usize;
        if !(1..=BYPASS_BYTES as usize).contains(&length) || length > room.len() {
            return Copied::No;
        }
        let Some(bytes) = self.memories.source(gather) else { return Copied::No };
        match bytes.read(&mut room[..length]) {
            Ok(()) => Copied::Yes,
            Err(Gone) => Copied::Gone,
        }
    }

    /// Copies a payload to a buffer where it stays until it has been sent. Returns `None` if there
    /// is no room.
    fn copy_payload(&mut self, io: &mut Io, gather: &LocalRange) -> Result<Option<RawSlice>, Gone> {
        if io.own.copies.is_empty() {
            io.own.copies = vec![0; COPIES_BYTES].into();
        }
        let room = io.own.copies.get_mut(io.own.copied..io.own.copied + gather.length as usize);
        let (Some(room), Some(bytes)) = (room, self.memories.source(gather)) else {
            self.counters.unsendable += 1;
            return Ok(None);
        };
        bytes.read(room)?;
        io.own.copied += room.len();
        // SAFETY: the room lies in `copies`, which is never replaced once it is there, and is not
        // taken anew while a packet that was given it waits to be sent (`reuse_copies`).
        Ok(Some(unsafe { RawSlice::new(room.as_ptr(), room.len()) }))
    }

    /// Adds a packet to the run. False if the run is complete: the packet begins the next one.
    fn append(
        &mut self,
        io: &mut Io,
        (bound, class): (Destination, Priority),
        header: &[u8],
        payload: RawSlice,
    ) -> bool {
        match io.append(bound, class, header, payload) {
            Appended::Yes => true,
            Appended::Never => {
                self.counters.unsendable += 1;
                true
            }
            Appended::Next => {
                let mut room = [0; SETUP_LEN];
                room[..header.len()].copy_from_slice(header);
                let length = header.len();
                io.outbox.pending = Some(Pending { bound, class, header: room, length, payload });
                false
            }
        }
    }
}

/// Returns the padding of a set-up message of `length` bytes.
fn padding(length: usize) -> RawSlice {
    let zeros = &ZEROS[..length.saturating_sub(SETUP_LEN).min(ZEROS.len())];
    match zeros.is_empty() {
        true => RawSlice::EMPTY,
        // SAFETY: they are there for ever.
        false => unsafe { RawSlice::new(zeros.as_ptr(), zeros.len()) },
    }
}

/// Delays a plain acknowledgement, if it may wait. Any delayed one of the same channel is dropped
/// first, because the packet that the protocol sends now covers it.
fn hold(
    outbox: &mut Outbox<Extras>,
    now: Instant,
    bound: Destination,
    transmit: &Transmit,
) -> bool {
    let Packet::Ack(ack) = transmit.packet else { return false };
    let channel = transmit.channel;
    outbox.held.take_if(|held| held.channel == channel);
    let urgent = AckFlags::REQUEST.bits() | AckFlags::SELECTIVE.bits();
    // A later acknowledgement covers an earlier one, but not its reports of paths.
    let urgent = ack.flags.bits() & urgent != 0 || !ack.paths.is_empty();
    if !outbox.may_hold_ack || outbox.held.is_some() || urgent {
        return false;
    }
    outbox.held = Some(Held { bound, channel, route: transmit.route, ack, since: now });
    true
}

impl Extras {
    /// Frees the buffer for payloads of unreliable packets, because only the pending packet still
    /// waits to be sent; its payload moves to the front.
    pub(super) fn reuse_copies(&mut self, pending: Option<&mut Pending>) {
        if self.copied == 0 {
            return;
        }
        self.copied = 0;
        let start = self.copies.as_ptr() as usize;
        let Some(pending) = pending else { return };
        let length = pending.payload.len();
        let at = (pending.payload.as_ptr() as usize).wrapping_sub(start);
        if length > 0 && at < self.copies.len() {
            self.copies.copy_within(at..at + length, 0);
            // SAFETY: as in `copy_payload`.
            pending.payload = unsafe { RawSlice::new(self.copies.as_ptr(), length) };
            self.copied = length;
        }
    }
}
