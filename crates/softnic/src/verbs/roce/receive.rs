//! Packets in: their ICRC is checked, the protocol judges them, their payload is put into place.

use fairway_engine::wire::roce::{self, Decoded, Icrc, Network, Operation, Outer};
use fairway_engine::wire::{Ecn, Instant, Qpn};
use fairway_roce::{OwnVerdict, Placement, Received, Verdict};
use std::net::SocketAddr;

use super::device;
use super::device::{Device, Notice};
use super::transmit::{crc32, outer};
use crate::runtime::{execute_due, place, report};
use crate::verbs::letter::{self, Letter};
use crate::verbs::{MANAGEMENT_Q_KEY, ROCE_PORT, SLOTS, roce_port, slot_of};

/// Most packets a turn takes in from one socket: then others have theirs, and answers go out.
pub(super) const BUDGET: usize = 128;

/// Most letters a turn takes in.
const LETTERS: usize = 64;

/// Bytes in front of a datagram in its receive (IBTA vol 1, 11.4.1.2; annex A17.4.5.1).
const IP_HEADER: usize = 40;
const IPV4_HEADER: usize = 20;

/// A packet, as it came.
struct Arrived<'a> {
    source: SocketAddr,
    destination: SocketAddr,
    ecn: Ecn,
    datagram: &'a [u8],
    /// Its likely IP identification: its place in a train.
    identification: u16,
}

impl Device {
    /// Takes in what waits at a socket, till `enough` packets came. How many. A socket that may
    /// have more is marked.
    pub(super) fn receive(&mut self, now: Instant, socket: usize, enough: usize) -> usize {
        let Some(destination) = self.ends.get(socket).copied() else { return 0 };
        let Some(mut buffer) = self.buffer.take() else { return 0 };
        let mut packets = 0;
        loop {
            let arrival = match self.datapath.receive(socket, &mut buffer) {
                Ok(Some(arrival)) => arrival,
                Ok(None) => break,
                Err(error) => {
                    self.note_error(&error);
                    break;
                }
            };
            let (source, ecn) = (SocketAddr::from(*arrival.from()), arrival.ecn());
            for index in 0..arrival.segments() {
                let (datagram, identification) = (arrival.segment(index), index as u16);
                let arrived = Arrived { source, destination, ecn, datagram, identification };
                self.take_in(now, &arrived, false);
            }
            packets += arrival.segments();
            if packets >= enough {
                self.waiting |= 1 << socket;
                break;
            }
        }
        self.buffer = Some(buffer);
        packets
    }

    /// Takes in what other processes have handed over.
    pub(super) fn read_letters(&mut self) {
        let slot = self.slot.clone();
        let mut letter = std::mem::replace(&mut self.letter, Box::new([0; _]));
        for _ in 0..LETTERS {
            let Some(length) = slot.take(&mut letter) else { break };
            self.open_letter(&letter[..length]);
        }
        for index in 0..self.services.len() {
            let service = self.services.get(index).and_then(std::sync::Weak::upgrade);
            let Some(service) = service else { continue };
            // What is left is reported again: who writes without end takes no more than his share.
            for _ in 0..LETTERS {
                let Some(length) = service.take(&mut letter) else { break };
                self.open_letter(&letter[..length]);
            }
        }
        self.letter = letter;
    }

    /// Is it from a carrier of this host? Such an address cannot come from elsewhere: the kernel
    /// drops what pretends so.
    fn is_neighbour(&self, arrived: &Arrived<'_>) -> bool {
        let ports = roce_port(0)..=roce_port((SLOTS - 1) as u8);
        let private = arrived.destination.port() != ROCE_PORT;
        private && ports.contains(&arrived.source.port()) && self.routes.is_own(arrived.source.ip())
    }

    /// A packet that a neighbour has handed over.
    fn unwrap(&mut self, now: Instant, bytes: &[u8]) {
        match Letter::read(bytes) {
            Some(Letter::Packet { source, destination, ecn, datagram }) => {
                self.counters.handed_over += 1;
                let identification = 0;
                let arrived = Arrived { source, destination, ecn, datagram, identification };
                self.take_in(now, &arrived, true);
            }
            Some(Letter::Management { .. }) | None => self.counters.malformed += 1,
        }
    }

    /// A management datagram of whoever is on this host. Packets come by the carriers' own ports
    /// only: any user may write here.
    fn open_letter(&mut self, bytes: &[u8]) {
        match Letter::read(bytes) {
            Some(Letter::Management { from, bytes }) => {
                self.counters.handed_over += 1;
                if let Some(source) = self.number_of(from) {
                    let (bytes, handed) = (Box::new(*bytes), true);
                    self.notices.push(Notice::Management { source, from, bytes, handed });
                }
            }
            Some(Letter::Packet { .. }) | None => self.counters.malformed += 1,
        }
    }

    /// Takes in a packet; `handed`: another process has handed it over.
    fn take_in(&mut self, now: Instant, arrived: &Arrived<'_>, handed: bool) {
        let Arrived { source, destination, datagram, .. } = *arrived;
        if datagram.first() == Some(&letter::PACKET) && !handed && self.is_neighbour(arrived) {
            return self.unwrap(now, datagram);
        }
        let Some(queue_pair) = destination_of(datagram) else {
            self.counters.malformed += 1;
            return;
        };
        let managed = queue_pair.value() == 1;
        if slot_of(queue_pair) != self.slot.number() && !managed {
            match destination.port() == ROCE_PORT && !handed {
                true => self.hand_on(arrived, queue_pair),
                false => self.counters.malformed += 1,
            }
            return;
        }
        let outer = outer(source, destination, arrived.identification);
        if !is_intact(&outer, datagram) {
            self.counters.damaged += 1;
            return;
        }
        let Ok(decoded) = roce::decode(datagram, datagram.len()) else {
            self.counters.malformed += 1;
            return;
        };
        let Some(number) = self.number_of(source.ip()) else {
            self.counters.unroutable += 1;
            return;
        };
        match managed {
            true => self.take_management(number, arrived, &decoded, handed),
            false => self.judge(now, number, arrived, &decoded),
        }
    }

    /// It is for another process of this host, whose own socket takes it: one more copy, for those
    /// that the kernel gave to the wrong process.
    fn hand_on(&mut self, arrived: &Arrived<'_>, queue_pair: Qpn) {
        let Arrived { source, destination, ecn, datagram, .. } = *arrived;
        let letter = Letter::Packet { source, destination, ecn, datagram };
        let to = device::address(destination, roce_port(slot_of(queue_pair)));
        let socket = self.routes.private_of(destination.ip());
        let written = letter.write(&mut self.letter);
        let (Some(length), Some(socket)) = (written, socket) else {
            self.counters.not_handed_on += 1;
            return;
        };
        match self.datapath.port().send_one(socket, &to, &self.letter[..length]) {
            Ok(()) => self.counters.handed_on += 1,
            Err(_) => self.counters.not_handed_on += 1,
        }
    }

    fn take_management(
        &mut self,
        source: u64,
        arrived: &Arrived<'_>,
        decoded: &Decoded,
        handed: bool,
    ) {
        let payload = &arrived.datagram[decoded.header_len..][..decoded.payload_len];
        match (decoded.packet.operation, <&[u8; 256]>::try_from(payload)) {
            (Operation::Datagram { deth, .. }, Ok(bytes)) if deth.q_key == MANAGEMENT_Q_KEY => {
                let (from, bytes) = (arrived.source.ip(), Box::new(*bytes));
                self.notices.push(Notice::Management { source, from, bytes, handed });
            }
            _ => self.counters.malformed += 1,
        }
    }

    /// The protocol says what becomes of it, and of those that were kept for it.
    fn judge(&mut self, now: Instant, source: u64, arrived: &Arrived<'_>, decoded: &Decoded) {
        let payload = &arrived.datagram[decoded.header_len..][..decoded.payload_len];
        let received = Received {
            source,
            packet: decoded.packet,
            payload: payload.len() as u32,
            ecn: arrived.ecn,
        };
        self.answer_before(now, &received);
        let verdict = self.host.handle_packet(now, &received);
        self.carry_out(now, &verdict, &received, payload, Some(arrived));
        while let Some(place) = self.host.poll_recall() {
            let Some((received, bytes)) = self.kept.take(place) else { continue };
            self.answer_before(now, &received);
            let verdict = self.host.handle_packet(now, &received);
            self.carry_out(now, &verdict, &received, &bytes, None);
            self.kept.restore(place, bytes);
        }
    }

    fn carry_out(
        &mut self,
        now: Instant,
        verdict: &Verdict,
        received: &Received,
        payload: &[u8],
        arrived: Option<&Arrived<'_>>,
    ) {
        let Device { host, memories, kept, .. } = self;
        match *verdict {
            Verdict::Place(Placement { target, token }) => {
                let arrived = arrived.filter(|_| target.header.length() > 0);
                let head = arrived.map_or(Ok(()), |arrived| {
                    memories.scatter(&target.header, &ip_header(arrived))
                });
                match head {
                    Ok(()) => {
                        return place(host, memories, now, Placement { target, token }, payload);
                    }
                    Err(gone) => report(host, memories, now, token, Err(gone)),
                }
            }
            Verdict::Own(OwnVerdict::Store { target, value, token }) => {
                let placed = memories.scatter(&target, &value.to_ne_bytes());
                report(host, memories, now, token, placed.map(|()| 0));
            }
            Verdict::Own(OwnVerdict::Keep { place }) => kept.put(place, received, payload),
            Verdict::Done | Verdict::Drop(_) => {}
        }
        execute_due(host, memories, now);
    }
}

/// The queue pair a packet is for, if it is long enough to be one.
fn destination_of(datagram: &[u8]) -> Option<Qpn> {
    let word = datagram.get(4..8)?.first_chunk::<4>()?;
    Some(Qpn::new(u32::from_be_bytes(*word) & 0xff_ffff))
}

/// Over IPv4 the identification is one that the ICRC covers and a socket does not show.
fn is_intact(outer: &Outer, datagram: &[u8]) -> bool {
    match outer.network {
        Network::V4 { .. } => Icrc::identification_with(outer, datagram, crc32).is_some(),
        Network::V6 { .. } => Icrc::verify_with(outer, datagram, crc32),
    }
}

/// The IP header of a packet, as far as a socket shows it: what a datagram's receive begins with.
fn ip_header(arrived: &Arrived<'_>) -> [u8; IP_HEADER] {
    let mut bytes = [0; IP_HEADER];
    let datagram = (8 + arrived.datagram.len()) as u16;
    let traffic = match arrived.ecn {
        Ecn::NotCapable => 0,
        Ecn::Capable => 0b10,
        Ecn::Congested => 0b11,
    };
    const UDP: u8 = 17;
    /// What is left of the hops, which is not known.
    const HOPS: u8 = 64;
    match (arrived.source, arrived.destination) {
        (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
            let header = &mut bytes[IP_HEADER - IPV4_HEADER..];
            header[0] = 0x45;
            header[1] = traffic;
            header[2..4].copy_from_slice(&(IPV4_HEADER as u16 + datagram).to_be_bytes());
            header[6] = 0x40;
            (header[8], header[9]) = (HOPS, UDP);
            header[12..16].copy_from_slice(&source.ip().octets());
            header[16..20].copy_from_slice(&destination.ip().octets());
            let sum = header
                .chunks_exact(2)
                .fold(0_u32, |sum, pair| sum + u32::from(u16::from_be_bytes([pair[0], pair[1]])));
            // Programs tell the two kinds of header apart by this sum.
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
