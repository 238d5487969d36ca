//! Sending: packets of one path become one run, and a run one system call.

use fairway_engine::wire::{
    Ack, AckFlags, BYPASS_BYTES, Duration, ECHO_DELAY_UNIT_NS, Instant, MAX_HEADER, Packet, Route,
    SETUP_LEN, encode_setup,
};
use fairway_engine::{ChannelId, LocalRange, Transmit};
use fairway_port::{RawSlice, Sent};

use super::{Bound, Io, RETRY_AFTER, ns};
use crate::clock;
use crate::core::{Channels, Core};
use crate::fidelity::Meter;
use crate::memory::Gone;
use crate::promptness::PROMPT;

/// What set-up messages are padded with.
static ZEROS: [u8; 32 * 1024] = [0; 32 * 1024];

/// Most runs, and most packets, sent in one turn, so that what arrives meanwhile is not left lying.
const RUNS_MAX: u32 = 4;
const PACKETS_MAX: usize = 256;

/// Room for the payloads of unreliable packets that have not left, in bytes: more than go in a
/// turn.
const COPIES_BYTES: usize = 1 << 20;

/// After the kernel could not read a payload, payloads are copied before they are sent for so long:
/// the packets are sent again in that time, and the copy shows whose memory is missing.
const CAREFUL_FOR: Duration = Duration::from_ms(10_000);

/// A packet that is to be sent next.
pub(super) struct Pending {
    bound: Bound,
    header: [u8; SETUP_LEN],
    length: usize,
    payload: RawSlice,
}

/// An acknowledgement that waits for what the application answers: they may leave in one system
/// call, and if not, the answer leaves first. It names no memory.
pub(super) struct Held {
    bound: Bound,
    channel: ChannelId,
    route: Route,
    ack: Ack,
    since: Instant,
}

impl Held {
    /// The packet, which says how long it has waited: peers measure round trips by it.
    fn encode(mut self, now: Instant, channels: &Channels) -> Option<Pending> {
        let units = now.since(self.since).as_ns() / ECHO_DELAY_UNIT_NS;
        let units = u16::try_from(units).unwrap_or(u16::MAX);
        self.ack.echo_delay = self.ack.echo_delay.saturating_add(units);
        let mut header = [0; SETUP_LEN];
        let packet = (&self.route, &Packet::Ack(self.ack));
        let length = channels.encode(self.channel, packet, 0, &mut header)?;
        Some(Pending { bound: self.bound, header, length, payload: RawSlice::EMPTY })
    }
}

/// Whether a payload was copied.
enum Copied {
    Yes,
    /// It is too long, or there is no room.
    No,
    /// Its memory is not there.
    Gone,
}

/// What became of a packet that was to be added to the run.
enum Appended {
    Yes,
    /// It begins the next run.
    Next,
    /// It will never fit.
    Never,
}

impl Core {
    /// Sends what the engine wants to send.
    pub(crate) fn transmit(&mut self, io: &mut Io, now: Instant) {
        self.wants_send = false;
        let mut now = now;
        self.forget_ended(io);
        if self.has_vanished() || !io.begin_sending(now) {
            return self.note(io);
        }
        while self.fill(io, now) {
            // A run takes longer to leave than round trips are measured in: what follows it is
            // sent later, and has to be booked so.
            if !io.send_run(now) {
                break;
            }
            now = clock::now();
            if !io.may_send_more() {
                break;
            }
        }
        self.note(io);
    }

    /// Drops packets that wait to be sent, if memory that they may name was given back since they
    /// were put together: what they carry could be anything by now. To the protocol they are lost.
    pub(crate) fn forget_ended(&mut self, io: &mut Io) {
        if std::mem::replace(&mut io.ends, self.ends) != self.ends {
            io.forget_waiting();
        }
    }

    /// Puts the next run together. False if there is nothing to send.
    pub(crate) fn fill(&mut self, io: &mut Io, now: Instant) -> bool {
        self.forget_ended(io);
        if std::mem::take(&mut io.unreadable) {
            self.careful_until = Some(now + CAREFUL_FOR);
        }
        self.careful_until = self.careful_until.filter(|until| now.is_before(*until));
        if let Some(first) = io.pending.take() {
            self.append(io, first.bound, &first.header[..first.length], first.payload);
            io.measure(Meter::began_run);
        }
        let outbox = &mut self.engines[io.engine as usize].outbox;
        if io.bound_for.is_some() && !outbox.is_empty() {
            return true;
        }
        if let Some((bound, padded)) = outbox.pop_front() {
            let mut message = [0; SETUP_LEN];
            encode_setup(&padded.setup, &mut message);
            self.append(io, bound, &message, padding(padded.length));
            // It is a run of its own: a link that refuses long packets is to take the short ones.
            return true;
        }
        while io.packets < PACKETS_MAX {
            let Some(transmit) = self.nic.poll_engine(now, io.engine) else { break };
            io.packets += 1;
            let ends = self.channels.get(transmit.channel);
            let ends = ends.and_then(|channel| channel.path(transmit.route.path));
            let (Some(ends), Some(payload)) = (ends, self.memories.gather(&transmit.gather)) else {
                // A channel that ended in this very turn. To the protocol it is a lost packet.
                self.counters.unsendable += 1;
                continue;
            };
            let bound = Bound {
                path: usize::from(transmit.route.path),
                socket: ends.socket,
                to: ends.remote,
            };
            if io.hold(now, bound, &transmit) {
                continue;
            }
            let fits = self.append_packet(io, bound, &transmit, payload);
            if let Packet::Ack(_) = transmit.packet {
                io.measure(|meter| meter.acknowledges(transmit.channel.index(), fits));
            }
            if !fits {
                return true;
            }
        }
        if let Some(held) = io.let_go(now) {
            let channel = held.channel.index();
            if let Some(packet) = held.encode(now, &self.channels) {
                let header = &packet.header[..packet.length];
                let fits = self.append(io, packet.bound, header, packet.payload);
                io.measure(|meter| meter.acknowledges(channel, fits));
                if !fits {
                    return true;
                }
            }
        }
        io.bound_for.is_some()
    }

    /// Adds one packet to the run; see [`Core::append`].
    fn append_packet(
        &mut self,
        io: &mut Io,
        bound: Bound,
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
        match self.copy_word(&transmit.gather, &mut header[length..]) {
            Copied::Yes => {
                let whole = &header[..length + payload.len()];
                return self.append(io, bound, whole, RawSlice::EMPTY);
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
            return self.append(io, bound, &header[..length], payload);
        }
        match self.copy_payload(io, &transmit.gather) {
            Ok(Some(copy)) => self.append(io, bound, &header[..length], copy),
            // Lost, like any packet that the network drops.
            Ok(None) => true,
            Err(Gone) => {
                self.ungathered(transmit);
                true
            }
        }
    }

    /// A packet was not sent, because its payload is not there.
    fn ungathered(&mut self, transmit: &Transmit) {
        self.memories.counters.gone += 1;
        self.changes += 1;
        self.nic.handle_ungathered(transmit);
    }

    /// Copies what is short behind its header. The kernel would copy a word byte by byte as it
    /// likes; here an aligned one is read whole.
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

    /// Copies a payload to where it stays until it has left; `None` if there is no room.
    fn copy_payload(&mut self, io: &mut Io, gather: &LocalRange) -> Result<Option<RawSlice>, Gone> {
        if io.copies.is_empty() {
            io.copies = vec![0; COPIES_BYTES].into();
        }
        let room = io.copies.get_mut(io.copied..io.copied + gather.length as usize);
        let (Some(room), Some(bytes)) = (room, self.memories.source(gather)) else {
            self.counters.unsendable += 1;
            return Ok(None);
        };
        bytes.read(room)?;
        io.copied += room.len();
        // SAFETY: the room lies in `copies`, which is never replaced once it is there, and is not
        // taken anew while a packet that was given it waits to be sent (`reuse_copies`).
        Ok(Some(unsafe { RawSlice::new(room.as_ptr(), room.len()) }))
    }

    /// Adds a packet to the run. False if the run is complete: the packet begins the next one.
    fn append(&mut self, io: &mut Io, bound: Bound, header: &[u8], payload: RawSlice) -> bool {
        match io.append(bound, header, payload) {
            Appended::Yes => true,
            Appended::Never => {
                self.counters.unsendable += 1;
                true
            }
            Appended::Next => {
                let mut room = [0; SETUP_LEN];
                room[..header.len()].copy_from_slice(header);
                let length = header.len();
                io.pending = Some(Pending { bound, header: room, length, payload });
                false
            }
        }
    }
}

/// What a set-up message of `length` bytes is padded with.
fn padding(length: usize) -> RawSlice {
    let zeros = &ZEROS[..length.saturating_sub(SETUP_LEN).min(ZEROS.len())];
    match zeros.is_empty() {
        true => RawSlice::EMPTY,
        // SAFETY: they are there for ever.
        false => unsafe { RawSlice::new(zeros.as_ptr(), zeros.len()) },
    }
}

impl Io {
    /// A turn's sending begins. False if a socket is full.
    pub(crate) fn begin_sending(&mut self, now: Instant) -> bool {
        self.unfinished = false;
        self.reuse_copies();
        (self.runs, self.packets) = (0, 0);
        self.retry_blocked(now)
    }

    /// Holds a plain acknowledgement, if one may wait. One of the same channel that was held is
    /// covered by whatever the engine says now.
    fn hold(&mut self, now: Instant, bound: Bound, transmit: &Transmit) -> bool {
        let Packet::Ack(ack) = transmit.packet else { return false };
        let channel = transmit.channel;
        self.held.take_if(|held| held.channel == channel);
        let urgent = AckFlags::REQUEST.bits() | AckFlags::SELECTIVE.bits();
        if !self.patient || self.held.is_some() || ack.flags.bits() & urgent != 0 {
            return false;
        }
        self.held = Some(Held { bound, channel, route: transmit.route, ack, since: now });
        true
    }

    /// The acknowledgement that was held, unless it may go on waiting.
    fn let_go(&mut self, now: Instant) -> Option<Held> {
        let lone = self.bound_for.is_none() && self.runs == 0;
        if self.patient && lone && self.held.is_some() {
            self.owed_until.get_or_insert(now + PROMPT);
            return None;
        }
        self.owed_until = None;
        self.held.take()
    }

    /// Does something if delays are measured.
    fn measure(&mut self, note: impl FnOnce(&mut Meter)) {
        if let Some(meter) = &mut self.meter {
            note(meter);
        }
    }

    /// When a call that sends begins, if that is of interest.
    fn call_begins(&self) -> u64 {
        self.meter.as_ref().map_or(0, |_| clock::real_ns())
    }

    /// Drops what waits to be sent.
    fn forget_waiting(&mut self) {
        self.measure(Meter::dropped);
        self.pending = None;
        if self.bound_for.take().is_some() {
            self.train.clear();
        }
        if self.blocked_for.take().is_some() {
            self.blocked.clear();
        }
    }

    /// Makes the room for payloads of unreliable packets free again, if none but the pending one
    /// waits to be sent: that one's moves to the front.
    fn reuse_copies(&mut self) {
        if self.copied == 0 || self.bound_for.is_some() || self.blocked_for.is_some() {
            return;
        }
        self.copied = 0;
        let start = self.copies.as_ptr() as usize;
        let Some(pending) = &mut self.pending else { return };
        let length = pending.payload.len();
        let at = (pending.payload.as_ptr() as usize).wrapping_sub(start);
        if length > 0 && at < self.copies.len() {
            self.copies.copy_within(at..at + length, 0);
            // SAFETY: as in `copy_payload`.
            pending.payload = unsafe { RawSlice::new(self.copies.as_ptr(), length) };
            self.copied = length;
        }
    }

    /// May another run go in this turn?
    pub(crate) fn may_send_more(&mut self) -> bool {
        self.unfinished |= self.runs >= RUNS_MAX || self.packets >= PACKETS_MAX;
        !self.unfinished
    }

    fn append(&mut self, bound: Bound, header: &[u8], payload: RawSlice) -> Appended {
        if self.bound_for.is_some_and(|other| other != bound) {
            return Appended::Next;
        }
        match self.train.push(header, payload) {
            Ok(()) => {
                self.bound_for = Some(bound);
                Appended::Yes
            }
            Err(_) if self.train.is_empty() => Appended::Never,
            Err(_) => Appended::Next,
        }
    }

    /// Sends the run. False if the socket is full: the run is then set aside.
    pub(crate) fn send_run(&mut self, now: Instant) -> bool {
        let Some(bound) = self.bound_for.take() else { return true };
        self.runs += 1;
        let begun = self.call_begins();
        let sent =
            self.datapath.transmit(ns(now), bound.path, bound.socket, &bound.to, &self.train);
        match sent {
            Ok(Sent::All) => {
                self.train.clear();
                self.measure(|meter| meter.left(begun));
            }
            Ok(Sent::Blocked { sent }) => {
                self.train.skip(sent);
                std::mem::swap(&mut self.train, &mut self.blocked);
                self.blocked_for = Some(bound);
                self.retry_at = now + RETRY_AFTER;
                return false;
            }
            Err(error) => {
                self.train.clear();
                self.trouble(&error);
            }
        }
        true
    }

    /// Tries again to send what a full socket did not take. False if it is still full.
    fn retry_blocked(&mut self, now: Instant) -> bool {
        let Some(bound) = self.blocked_for else { return true };
        if now.is_before(self.retry_at) {
            return false;
        }
        let begun = self.call_begins();
        let sent =
            self.datapath.transmit(ns(now), bound.path, bound.socket, &bound.to, &self.blocked);
        match sent {
            Ok(Sent::All) => self.measure(|meter| meter.left(begun)),
            Ok(Sent::Blocked { sent }) => {
                self.blocked.skip(sent);
                self.retry_at = now + RETRY_AFTER;
                return false;
            }
            Err(error) => self.trouble(&error),
        }
        self.blocked.clear();
        self.blocked_for = None;
        true
    }
}
