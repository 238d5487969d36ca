//! A process on the network that RoCE uses: its addresses and sockets, its slot, packets for other
//! processes of the host, and management datagrams.

use fairway_port::{Arrival, UdpPort};
use fairway_roce::cm;
use fairway_runtime::Destination;
use fairway_ub::wire::roce::{
    self, Decoded, Deth, Icrc, Network as Layer, Operation, Outer, Packet,
};
use fairway_ub::wire::{Ecn, Instant, Qpn};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use super::outside::Notice;
use super::packets::{Pushed, RoceIo, crc32, outer};
use super::routes::{Local, Routes, Way};
use crate::forwarded::{self, FORWARDED_BYTES_MAX, ForwardedDatagram, MANAGEMENT_BYTES};
use crate::slot::{Origin, Service, Slot};
use crate::{MANAGEMENT_Q_KEY, NetworkCounters, ProviderError, ROCE_PORT, roce_port, slot_of};

/// Maximum number of forwarded datagrams that one poll receives from a socket.
const LETTERS: usize = 64;

/// Bytes in front of a datagram in its receive (IBTA vol 1, 11.4.1.2; annex A17.4.5.1).
const IP_HEADER: usize = 40;
const IPV4_HEADER: usize = 20;

/// A packet, as it was received.
#[derive(Clone, Copy)]
pub(super) struct Arrived<'a> {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) ecn: Ecn,
    pub(super) datagram: &'a [u8],
    /// Its likely IP identification: its index in a train.
    pub(super) identification: u16,
}

/// A packet for a queue pair of this process, with a correct ICRC.
pub(super) struct Genuine<'a> {
    /// The number of the sender's address.
    pub(super) source: u64,
    pub(super) arrived: Arrived<'a>,
    pub(super) decoded: Decoded,
}

/// Addresses, slot and forwarding of one process.
pub(crate) struct Network {
    pub(super) routes: Routes,
    slot: Arc<Slot>,
    pub(super) counters: NetworkCounters,
    pub(super) notices: Vec<Notice>,
    services: Vec<Weak<Service>>,
    /// The address to which each socket is bound, by index of the socket.
    ends: Vec<SocketAddr>,
    forwarded: Box<[u8; FORWARDED_BYTES_MAX]>,
}

impl Network {
    /// Creates the state; `ends` are the addresses of the sockets.
    pub(super) fn new(slot: Arc<Slot>, locals: Vec<Local>, ends: Vec<SocketAddr>) -> Network {
        Network {
            routes: Routes::new(locals),
            slot,
            counters: NetworkCounters::default(),
            notices: Vec::with_capacity(64),
            services: Vec::new(),
            ends,
            forwarded: Box::new([0; FORWARDED_BYTES_MAX]),
        }
    }

    /// True if there are notices for which the listener is to be called.
    pub(super) fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    /// Takes the notices for which the listener is to be called.
    pub(super) fn take_notices(&mut self) -> Vec<Notice> {
        match self.notices.is_empty() {
            true => Vec::new(),
            false => std::mem::take(&mut self.notices),
        }
    }

    /// Starts to receive forwarded datagrams for this service.
    pub(super) fn add_service(&mut self, service: &Arc<Service>) {
        self.services.retain(|service| service.strong_count() > 0);
        self.services.push(Arc::downgrade(service));
    }

    // ---- receiving ----

    /// Returns packet `index` of an arrival, if it is for a queue pair of this process. Packets for
    /// other processes are forwarded, and management datagrams become notices for the listener.
    pub(super) fn receive<'a>(
        &mut self,
        io: &RoceIo,
        socket: usize,
        arrival: &'a Arrival<'_>,
        index: usize,
    ) -> Option<Genuine<'a>> {
        let arrived = Arrived {
            source: SocketAddr::from(*arrival.from()),
            destination: *self.ends.get(socket)?,
            ecn: arrival.ecn(),
            datagram: arrival.segment(index),
            identification: index as u16,
        };
        let is_forwarded = arrived.datagram.first() == Some(&forwarded::PACKET);
        if is_forwarded && self.is_neighbour(&arrived) {
            let inner = self.unwrap(arrived.datagram)?;
            return self.judge(io.sockets.datapath.port(), inner, true);
        }
        self.judge(io.sockets.datapath.port(), arrived, false)
    }

    /// Returns the packet that another process of the host has forwarded.
    fn unwrap<'a>(&mut self, bytes: &'a [u8]) -> Option<Arrived<'a>> {
        match ForwardedDatagram::read(bytes) {
            Some(ForwardedDatagram::Packet { source, destination, ecn, datagram }) => {
                self.counters.forwarded_here += 1;
                let identification = 0;
                Some(Arrived { source, destination, ecn, datagram, identification })
            }
            Some(ForwardedDatagram::Management { .. }) | None => {
                self.counters.malformed += 1;
                None
            }
        }
    }

    /// Checks a packet. `forwarded`: another process has forwarded it.
    fn judge<'a>(
        &mut self,
        port: &UdpPort,
        arrived: Arrived<'a>,
        forwarded: bool,
    ) -> Option<Genuine<'a>> {
        let Arrived { source, destination, datagram, .. } = arrived;
        let Some(queue_pair) = destination_of(datagram) else {
            self.counters.malformed += 1;
            return None;
        };
        let managed = queue_pair.value() == 1;
        if slot_of(queue_pair) != self.slot.number() && !managed {
            match destination.port() == ROCE_PORT && !forwarded {
                true => self.hand_on(port, &arrived, queue_pair),
                false => self.counters.malformed += 1,
            }
            return None;
        }
        let outer = outer(source, destination, arrived.identification);
        if !is_intact(&outer, datagram) {
            self.counters.damaged += 1;
            return None;
        }
        let Ok(decoded) = roce::decode(datagram, datagram.len()) else {
            self.counters.malformed += 1;
            return None;
        };
        if managed {
            self.take_management(&arrived, &decoded, forwarded);
            return None;
        }
        Some(Genuine { source: self.routes.number_of(source.ip()), arrived, decoded })
    }

    /// True if a process that shares RoCE's port with this one has sent the packet from that port.
    /// The kernel lets processes share the port only if they are of one user, and the sockets of a
    /// slot receive packets of this host only ([`UdpPort::keep_to_this_host`]).
    fn is_neighbour(&self, arrived: &Arrived<'_>) -> bool {
        let private = arrived.destination.port() != ROCE_PORT;
        let public = arrived.source.port() == ROCE_PORT;
        private && public && self.routes.public_of(arrived.source.ip()).is_some()
    }

    /// Forwards a packet to another process of this host, from the port at which it arrived to that
    /// process's own socket. This costs one more copy, for packets that the kernel gave to the
    /// wrong process.
    fn hand_on(&mut self, port: &UdpPort, arrived: &Arrived<'_>, queue_pair: Qpn) {
        let Arrived { source, destination, ecn, datagram, .. } = *arrived;
        let forwarded = ForwardedDatagram::Packet { source, destination, ecn, datagram };
        let to = address(destination, roce_port(slot_of(queue_pair)));
        let socket = self.routes.public_of(destination.ip());
        let written = forwarded.write(&mut self.forwarded);
        let (Some(length), Some(socket)) = (written, socket) else {
            self.counters.not_forwarded += 1;
            return;
        };
        match port.send_one(socket, &to, &self.forwarded[..length]) {
            Ok(()) => self.counters.forwarded += 1,
            Err(_) => self.counters.not_forwarded += 1,
        }
    }

    fn take_management(&mut self, arrived: &Arrived<'_>, decoded: &Decoded, forwarded: bool) {
        let payload = &arrived.datagram[decoded.header_len..][..decoded.payload_len];
        match (decoded.packet.operation, <&[u8; 256]>::try_from(payload)) {
            (Operation::Datagram { deth, .. }, Ok(bytes)) if deth.q_key == MANAGEMENT_Q_KEY => {
                let from = arrived.source.ip();
                let (source, bytes) = (self.number_of_sender(from, bytes), Box::new(*bytes));
                self.notices.push(Notice::Management { source, from, bytes, forwarded });
            }
            _ => self.counters.malformed += 1,
        }
    }

    /// Receives the datagrams that other processes have forwarded.
    pub(super) fn read_forwarded(&mut self) {
        let slot = self.slot.clone();
        let mut forwarded = std::mem::replace(&mut self.forwarded, Box::new([0; _]));
        for _ in 0..LETTERS {
            let Some((length, origin)) = slot.take(&mut forwarded) else { break };
            self.open_forwarded(origin, &forwarded[..length]);
        }
        for index in 0..self.services.len() {
            let service = self.services.get(index).and_then(std::sync::Weak::upgrade);
            let Some(service) = service else { continue };
            // The remaining datagrams are reported again, so a process that writes without end gets
            // no more than its share.
            for _ in 0..LETTERS {
                let Some((length, origin)) = service.take(&mut forwarded) else { break };
                self.open_forwarded(origin, &forwarded[..length]);
            }
        }
        self.forwarded = forwarded;
    }

    /// Handles a management datagram of a process of this host. Packets are accepted from RoCE's
    /// port only, because any user may write to this socket.
    fn open_forwarded(&mut self, origin: Origin, bytes: &[u8]) {
        match ForwardedDatagram::read(bytes) {
            Some(ForwardedDatagram::Management { from, bytes })
                if self.may_state(origin, from, bytes) =>
            {
                self.counters.forwarded_here += 1;
                let (source, bytes) = (self.number_of_sender(from, bytes), Box::new(*bytes));
                self.notices.push(Notice::Management { source, from, bytes, forwarded: true });
            }
            Some(_) | None => self.counters.malformed += 1,
        }
    }

    /// True if a process may state that a management datagram came from this address.
    ///
    /// Processes of this process's user, and of the superuser, are trusted. A process of another
    /// user has received nothing from other hosts that is for this process, because it does not
    /// share RoCE's port with it. So it can only be the sender itself: the datagram comes from the
    /// socket of its slot and from an address of this host, and names no id and no queue pair of
    /// another slot.
    fn may_state(&self, origin: Origin, from: IpAddr, bytes: &[u8; MANAGEMENT_BYTES]) -> bool {
        if origin.is_trusted() {
            return true;
        }
        let (Some(slot), Some(claim)) = (origin.slot, cm::claim(bytes)) else { return false };
        let own_id = claim.slot.is_none_or(|named| named == slot);
        let is_own = |number: Qpn| number.value() == 0 || slot_of(number) == slot;
        own_id && claim.queue_pair.is_none_or(is_own) && self.routes.is_of_this_host(from)
    }

    /// Returns the number of an address that has sent a management datagram. The address of a sound
    /// message is kept, so that it can be answered.
    fn number_of_sender(&mut self, from: IpAddr, bytes: &[u8]) -> u64 {
        if cm::claim(bytes).is_some() {
            self.routes.keep_sender(from);
        }
        self.routes.number_of(from)
    }

    /// Time at which forwarded datagrams that another process's full queue refused are to be sent
    /// again.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.slot.retry_at()
    }

    /// Sends them again, if it is time.
    pub(super) fn retry_forwarded(&mut self, now: Instant) {
        self.slot.retry(now);
    }

    // ---- sending ----

    /// Returns the socket and the destination of a packet for this queue pair.
    pub(super) fn bound(
        &mut self,
        to: u64,
        queue_pair: Qpn,
    ) -> Result<(Way, Destination), ProviderError> {
        let way = self.routes.way(to)?;
        let port = match way.here {
            true => roce_port(slot_of(queue_pair)),
            false => ROCE_PORT,
        };
        let to = address(way.to, port);
        Ok((way, Destination::unfilled(0, way.socket, to)))
    }

    /// Sends a management datagram, to another host or to a process of this one.
    pub(super) fn send_management(
        &mut self,
        io: &mut RoceIo,
        now: Instant,
        to: u64,
        bytes: &[u8; MANAGEMENT_BYTES],
    ) -> Result<(), ProviderError> {
        let way = self.routes.way(to)?;
        way.reachable(way.to.ip())?;
        if !way.here {
            return self.send_away(io, now, to, bytes);
        }
        // The process that receives a datagram routes it, and this process may be that one.
        let from = way.from.ip();
        let source = self.number_of_sender(from, bytes);
        let (bytes, forwarded) = (Box::new(*bytes), false);
        self.notices.push(Notice::Management { source, from, bytes, forwarded });
        Ok(())
    }

    fn send_away(
        &mut self,
        io: &mut RoceIo,
        now: Instant,
        to: u64,
        bytes: &[u8; MANAGEMENT_BYTES],
    ) -> Result<(), ProviderError> {
        let (way, bound) = self.bound(to, Qpn::new(1))?;
        let deth = Deth { q_key: MANAGEMENT_Q_KEY, source: Qpn::new(1) };
        let mut packet = Packet {
            bth: Default::default(),
            operation: Operation::Datagram { deth, immediate: None },
        };
        packet.bth.destination = Qpn::new(1);
        let length = roce::datagram_len(&packet, bytes.len());
        let fits = |io: &RoceIo| io.outbox.takes(&bound, length);
        if io.outbox.is_blocked() || (!fits(io) && !io.send_run(now)) {
            // Management datagrams are unreliable: the sender repeats them.
            self.counters.send_errors += 1;
            return Ok(());
        }
        let fill = |out: &mut [u8]| {
            out.copy_from_slice(bytes);
            true
        };
        match super::packets::push(io, bound, way.from, &packet, bytes.len(), fill) {
            Pushed::Yes => {
                io.send_run(now);
            }
            Pushed::No | Pushed::Unfilled => self.counters.send_errors += 1,
        }
        Ok(())
    }
}

impl Arrived<'_> {
    /// Returns the IP header, as far as a socket shows it: the first bytes of a datagram's receive.
    pub(super) fn ip_header(&self) -> [u8; IP_HEADER] {
        let mut bytes = [0; IP_HEADER];
        let datagram = (8 + self.datagram.len()) as u16;
        let traffic = match self.ecn {
            Ecn::NotCapable => 0,
            Ecn::Capable => 0b10,
            Ecn::Congested => 0b11,
        };
        const UDP: u8 = 17;
        /// The hop limit or time to live, which a socket does not show.
        const HOPS: u8 = 64;
        match (self.source, self.destination) {
            (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
                let header = &mut bytes[IP_HEADER - IPV4_HEADER..];
                header[0] = 0x45;
                header[1] = traffic;
                header[2..4].copy_from_slice(&(IPV4_HEADER as u16 + datagram).to_be_bytes());
                header[6] = 0x40;
                (header[8], header[9]) = (HOPS, UDP);
                header[12..16].copy_from_slice(&source.ip().octets());
                header[16..20].copy_from_slice(&destination.ip().octets());
                let sum = header.chunks_exact(2).fold(0_u32, |sum, pair| {
                    sum + u32::from(u16::from_be_bytes([pair[0], pair[1]]))
                });
                // Programs distinguish the two kinds of header by this checksum.
                let folded = (sum & 0xffff) + (sum >> 16);
                let folded = (folded & 0xffff) + (folded >> 16);
                header[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
            }
            (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
                bytes[0] = 0x60 | traffic >> 4;
                bytes[1] = traffic << 4;
                bytes[4..6].copy_from_slice(&datagram.to_be_bytes());
                (bytes[6], bytes[7]) = (UDP, HOPS);
                bytes[8..24].copy_from_slice(&source.ip().octets());
                bytes[24..].copy_from_slice(&destination.ip().octets());
            }
            _ => {}
        }
        bytes
    }
}

/// Returns the queue pair of a packet, if the datagram is long enough to be one.
fn destination_of(datagram: &[u8]) -> Option<Qpn> {
    let word = datagram.get(4..8)?.first_chunk::<4>()?;
    Some(Qpn::new(u32::from_be_bytes(*word) & 0xff_ffff))
}

/// True if the ICRC is correct. Over IPv4 it covers the identification, which a socket does not
/// show.
fn is_intact(outer: &Outer, datagram: &[u8]) -> bool {
    match outer.network {
        Layer::V4 { .. } => Icrc::identification_with(outer, datagram, crc32).is_some(),
        Layer::V6 { .. } => Icrc::verify_with(outer, datagram, crc32),
    }
}

/// Returns the address with another port, in the type of the port crate.
fn address(of: SocketAddr, port: u16) -> fairway_port::Address {
    let mut of = of;
    of.set_port(port);
    of.into()
}
