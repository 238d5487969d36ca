//! The datapath: sends and receives by queue pairs, and passes the rest to the sockets.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ptr::NonNull;

use fairway_port::rnic::{Datagram, Gid, Rnic, RnicChoice, Target, Unsent};
use fairway_port::{
    ATTEND, Address, Arrival, Datapath, Ecn, RawSlice, ReceiveBuffer, SEGMENTS_MAX, Sent, Train,
    UdpPort, Waiter,
};

use super::connections::Connections;
use super::introduction::{BYTES, Introduction, Kind, PAIRS_MAX, Pair, is_introduction};
use super::peers::{Ask, Peers};
use crate::clock;
use crate::clock::ns;
use crate::memory::{Gone, SharedBytes};

/// Maximum number of packets that are dropped in a row before other work is done.
const DROPPED_MAX: u32 = 64;
/// Maximum number of arrivals of introductions in a row.
const INTRODUCTIONS_MAX: u32 = 16;
/// Time after which a failed queue pair is replaced, in nanoseconds.
const REPLACE_NS: u64 = 1_000_000_000;

/// The queue pairs that packets take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RnicService {
    /// Those of datagrams (UD).
    Datagrams,
    /// Also connected ones (UC), one for each pair of sockets, where the peer has them, too.
    Connections,
}

/// UDP sockets, and queue pairs of an RDMA NIC that send and receive their packets.
#[derive(Debug)]
pub struct QueuePairs {
    pub(super) port: UdpPort,
    pub(super) nic: Rnic,
    /// The queue pair of each socket, by index; and the socket of each queue pair.
    queues: Vec<Option<usize>>,
    pub(super) sockets: Vec<usize>,
    qkey: u32,
    pub(super) peers: Peers,
    pub(super) connections: Connections,
    /// Time before which no connection is made, in nanoseconds.
    pub(super) make_at_ns: u64,
    /// The next packet to receive, once its sender is known.
    next: Option<Next>,
    /// A train for introductions.
    pub(super) note: Train,
    /// Time at which failed queue pairs are looked for.
    pub(super) check_at_ns: u64,
    /// Queue pairs that have failed and were not replaced, one bit each.
    failed: u64,
}

/// An open NIC, the queue pair of each socket, and the key that packets to them need.
struct Opened {
    nic: Rnic,
    queues: Vec<Option<usize>>,
    qkey: u32,
}

fn open_nic(port: &UdpPort, choice: &RnicChoice, service: RnicService) -> io::Result<Opened> {
    let local: Vec<IpAddr> = port.local_addrs().iter().take(64).map(SocketAddr::ip).collect();
    let random = clock::random().map_err(io::Error::other)?;
    // Keys above belong to the kernel.
    let qkey = random as u32 & 0x7FFF_FFFF;
    let (nic, queues) = match service {
        RnicService::Datagrams => Rnic::open(choice, &local, qkey)?,
        RnicService::Connections => Rnic::open_connected(choice, &local, qkey)?,
    };
    Ok(Opened { nic, queues, qkey })
}

/// A packet that has arrived.
#[derive(Clone, Copy, Debug)]
struct Next {
    datagram: Datagram,
    socket: usize,
    from: Address,
    ecn: Ecn,
}

impl QueuePairs {
    /// Opens the RDMA NIC that has the address of the first socket, or the chosen one, and makes a
    /// queue pair for each socket at one of its addresses.
    ///
    /// # Errors
    /// There is no verbs library, or no such NIC, or it refuses. The error says what to do. The
    /// sockets are returned with it.
    pub fn open(
        port: UdpPort,
        choice: &RnicChoice,
        service: RnicService,
    ) -> Result<QueuePairs, (io::Error, Box<UdpPort>)> {
        match open_nic(&port, choice, service) {
            Ok(opened) => Ok(QueuePairs::with_nic(port, opened)),
            Err(error) => Err((error, Box::new(port))),
        }
    }

    fn with_nic(port: UdpPort, opened: Opened) -> QueuePairs {
        let Opened { nic, queues, qkey } = opened;
        let with_queue = queues.iter().enumerate().filter(|(_, queue)| queue.is_some());
        let sockets = with_queue.map(|(socket, _)| socket).collect();
        let note = Train::new(1);
        QueuePairs {
            port,
            nic,
            queues,
            sockets,
            qkey,
            peers: Peers::new(),
            connections: Connections::default(),
            make_at_ns: 0,
            next: None,
            note,
            check_at_ns: 0,
            failed: 0,
        }
    }

    /// Sends a train by the queue pair of a socket. `None`: it has to take the socket.
    fn put(
        &mut self,
        now_ns: u64,
        (socket, queue): (usize, usize),
        to: &Address,
        train: &Train,
    ) -> Option<io::Result<Sent>> {
        let peer = self.peers.towards(now_ns, to)?;
        let ask = peer.ask(now_ns, to.port());
        let is_proven = peer.is_proven(now_ns);
        let longest = peer.packet_max.min(self.nic.packet_max());
        let (number, gid, lid, qkey) = (peer.number(to.port()), peer.gid, peer.lid, peer.qkey);
        let echo = peer.echo;
        if ask != Ask::Nothing {
            self.ask(now_ns, ask, (socket, queue), to);
        }
        let number = number?;
        if !is_proven || train.segment_size() > longest {
            return None;
        }
        // Connections have one code point, and no IP headers in which marks could be seen.
        if self.nic.has_connections()
            && train.dscp() == 0
            && let Some(result) = self.put_connected(now_ns, (socket, queue), to, train, echo)
        {
            return Some(result);
        }
        let (own, _) = self.nic.address(queue)?;
        let class = train.dscp() << 2 | ecn_bits(train.ecn());
        let target = Target { gid, lid, flow: flow(own, number), class };
        let to = (&target, number, qkey);
        let result = self.nic.send(queue, to, train.len(), |index, room| fill(train, index, room));
        if matches!(result, Err(Unsent::Failed(_))) {
            self.check_at_ns = 0;
        }
        self.account(train, result)
    }

    /// Counts what was sent of a train. `None`: nothing was, and the queue pair has failed.
    pub(super) fn account(
        &mut self,
        train: &Train,
        result: Result<(), Unsent<Gone>>,
    ) -> Option<io::Result<Sent>> {
        let sent = match result {
            Ok(()) => train.len(),
            Err(Unsent::Full(sent)) => sent,
            Err(Unsent::Failed(0)) => return None,
            Err(Unsent::Failed(sent)) => sent,
            Err(Unsent::Fill(Gone)) => {
                return Some(Err(io::Error::from_raw_os_error(libc::EFAULT)));
            }
        };
        let is_whole = sent == train.len();
        let bytes = match is_whole {
            true => train.packet_bytes(),
            false => (0..sent).map(|index| train.packet_len(index)).sum(),
        };
        let counters = self.port.counters_mut();
        counters.packets_sent += sent as u64;
        counters.packets_sent_by_rnic += sent as u64;
        counters.bytes_sent += bytes as u64;
        if is_whole {
            return Some(Ok(Sent::All));
        }
        counters.blocked += 1;
        Some(Ok(Sent::Blocked { sent }))
    }

    /// Sends the message that is due to a destination.
    #[cold]
    fn ask(&mut self, now_ns: u64, ask: Ask, (socket, queue): (usize, usize), to: &Address) {
        match ask {
            Ask::Nothing => {}
            Ask::Request => {
                let echo = self.peers.towards(now_ns, to).map_or(0, |peer| peer.echo);
                self.tell(Kind::Request, socket, to, echo);
            }
            Ask::Probe => self.probe(now_ns, queue, to),
        }
    }

    /// Sends a message through a socket.
    fn tell(&mut self, kind: Kind, socket: usize, to: &Address, echo: u64) {
        let receiver = SocketAddr::from(*to).ip();
        let Some(message) = self.message(kind, socket, receiver, (echo, receiver)) else { return };
        self.post(socket, to, &message);
    }

    /// Sends a probe from a queue pair to that of a destination.
    fn probe(&mut self, now_ns: u64, queue: usize, to: &Address) {
        let socket = self.sockets[queue];
        let Some(peer) = self.peers.towards(now_ns, to) else { return };
        let (Some(number), Some(seen)) = (peer.number(to.port()), peer.seen) else { return };
        let (echo, gid, lid, qkey) = (peer.echo, peer.gid, peer.lid, peer.qkey);
        let receiver = SocketAddr::from(*to).ip();
        let Some(message) = self.message(Kind::Probe, socket, receiver, (echo, seen)) else {
            return;
        };
        let Some((own, _)) = self.nic.address(queue) else { return };
        let target = Target { gid, lid, flow: flow(own, number), class: 0 };
        let bytes = message.to_bytes();
        let fill = |_, room: &mut [u8]| {
            room[..BYTES].copy_from_slice(&bytes);
            Ok::<_, Gone>(BYTES)
        };
        // A probe that is lost is repeated.
        let _ = self.nic.send(queue, (&target, number, qkey), 1, fill);
    }

    /// Returns a message from a socket. `None`: it has no queue pair in use.
    pub(super) fn message(
        &self,
        kind: Kind,
        socket: usize,
        receiver: IpAddr,
        (echo, seen): (u64, IpAddr),
    ) -> Option<Introduction> {
        let (_, gid) = self.nic.address((*self.queues.get(socket)?)?)?;
        let local = self.port.local_addrs();
        let pairs = self.sockets.iter().enumerate().filter_map(|(queue, other)| {
            let is_near = local[*other].ip() == local[socket].ip();
            let (number, _) = self.nic.address(queue).filter(|_| is_near)?;
            Some(Pair { port: local[*other].port(), number })
        });
        Some(Introduction {
            kind,
            nonce: self.peers.nonce(receiver),
            echo,
            seen,
            gid,
            qkey: self.qkey,
            lid: self.nic.lid(),
            packet_max: u16::try_from(self.nic.packet_max()).unwrap_or(u16::MAX),
            pairs: pairs.take(PAIRS_MAX).collect(),
        })
    }

    /// Handles a message that has come through a socket.
    #[cold]
    fn introduced(&mut self, socket: usize, from: &Address, message: &Introduction) {
        let now_ns = ns(clock::now());
        let queue = self.queues.get(socket).copied().flatten();
        match (message.kind, queue) {
            (Kind::Request, _) => self.tell(Kind::Answer, socket, from, message.nonce),
            (Kind::Answer, Some(queue)) => {
                if self.peers.answered(from, message) {
                    self.probe(now_ns, queue, from);
                }
            }
            (Kind::Proof, _) => self.peers.proven(now_ns, from, message),
            (Kind::Connect | Kind::Connected | Kind::Passed, Some(queue)) => {
                self.connection_told(now_ns, (socket, queue), from, message);
            }
            (Kind::Answer | Kind::Connect | Kind::Connected | Kind::Passed, None)
            | (Kind::Probe | Kind::Check, _) => {}
        }
    }

    /// Handles a message that has come from a queue pair of this address.
    #[cold]
    fn probed(&mut self, socket: usize, source: (Gid, u32), message: &Introduction) {
        let scope = match self.port.local_addrs()[socket] {
            SocketAddr::V6(v6) => v6.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        if message.kind == Kind::Probe
            && let Some(address) = self.peers.probed(source, message, scope)
        {
            self.tell(Kind::Proof, socket, &address, message.nonce);
        }
    }

    /// Looks at the next packet, and handles those that are not for the protocol.
    fn look(&mut self) -> Option<usize> {
        if let Some(next) = &self.next {
            return Some(next.socket);
        }
        for _ in 0..DROPPED_MAX {
            let datagram = self.nic.peek()?;
            let socket = self.sockets[datagram.queue];
            let payload = self.nic.payload(&datagram);
            if let Some(ends) = datagram.connection.and_then(|index| self.connections.ends(index)) {
                if !is_introduction(payload) {
                    let (from, ecn) = (ends.1, Ecn::NotCapable);
                    self.next = Some(Next { datagram, socket, from, ecn });
                    return Some(socket);
                }
                let message = Introduction::from_bytes(payload);
                self.nic.pop();
                if let Some(message) = message {
                    self.connection_checked(ns(clock::now()), &ends, &message);
                }
                continue;
            }
            if let Some((gid, class)) = self.nic.origin(&datagram) {
                if is_introduction(payload) {
                    let message = Introduction::from_bytes(payload);
                    self.nic.pop();
                    if let Some(message) = message {
                        self.probed(socket, (gid, datagram.source), &message);
                    }
                    continue;
                }
                if let Some(from) = self.peers.source(gid, datagram.source) {
                    self.next = Some(Next { datagram, socket, from, ecn: ecn_of(class) });
                    return Some(socket);
                }
            }
            self.nic.pop();
            self.port.counters_mut().rnic_packets_dropped += 1;
        }
        None
    }

    /// Takes the next packets as one arrival: those that the kernel would coalesce.
    fn take<'b>(&mut self, buffer: &'b mut ReceiveBuffer) -> Option<Arrival<'b>> {
        let first = self.next?;
        let (mut bytes, mut packets) = (0, 0);
        while let Some(Next { datagram, .. }) = self.next.take() {
            let payload = self.nic.payload(&datagram);
            buffer.room_for(bytes + payload.len())[bytes..].copy_from_slice(payload);
            bytes += datagram.length;
            packets += 1;
            self.nic.pop();
            let is_last = datagram.length < first.datagram.length || datagram.length == 0;
            if is_last || packets == SEGMENTS_MAX || self.look() != Some(first.socket) {
                break;
            }
            let joins = |next: &Next| {
                next.from == first.from
                    && next.ecn == first.ecn
                    && (1..=first.datagram.length).contains(&next.datagram.length)
                    && bytes + next.datagram.length <= ReceiveBuffer::CAPACITY
            };
            if !self.next.as_ref().is_some_and(joins) {
                break;
            }
        }
        let counters = self.port.counters_mut();
        counters.packets_received += packets as u64;
        counters.packets_received_by_rnic += packets as u64;
        counters.bytes_received += bytes as u64;
        Some(buffer.holding(first.from, first.ecn, bytes, first.datagram.length))
    }

    /// Replaces queue pairs that have failed.
    ///
    /// # Errors
    /// A queue pair has failed since the last call. The error says why.
    #[cold]
    fn check(&mut self, now_ns: u64) -> io::Result<()> {
        self.check_at_ns = now_ns + REPLACE_NS;
        for queue in 0..self.sockets.len() {
            let Some(reason) = self.nic.failure(queue).map(str::to_owned) else { continue };
            if self.failed & 1 << queue == 0 {
                self.failed |= 1 << queue;
                self.port.counters_mut().queue_pairs_failed += 1;
                let text = format!(
                    "queue pair {queue} of the RDMA device {} has failed, and its packets take \
                     UDP for a second: {reason}",
                    self.nic.name()
                );
                return Err(io::Error::other(text));
            }
            if self.nic.replace(queue).is_ok() {
                self.failed &= !(1 << queue);
                self.peers.introduce_again();
            }
        }
        if let Some(reason) = self.close_failed() {
            self.port.counters_mut().queue_pairs_failed += 1;
            let text = format!(
                "a connection of the RDMA device {} has failed, and is made again: {reason}",
                self.nic.name()
            );
            return Err(io::Error::other(text));
        }
        Ok(())
    }
}

/// Writes a packet of a train to its place.
pub(super) fn fill(train: &Train, index: usize, room: &mut [u8]) -> Result<usize, Gone> {
    let header = train.header(index);
    let length = train.packet_len(index);
    room[..header.len()].copy_from_slice(header);
    // SAFETY: the train's owner promised that the payload stays the application's while it is in
    // the train.
    unsafe { copy_payload(&mut room[header.len()..length], train.payload(index))? };
    Ok(length)
}

/// # Safety
/// The payload is the application's memory, mapped or not, until the call returns.
unsafe fn copy_payload(room: &mut [u8], payload: RawSlice) -> Result<(), Gone> {
    let Some(start) = NonNull::new(payload.as_ptr().cast_mut()) else { return Ok(()) };
    // SAFETY: as the caller says.
    unsafe { SharedBytes::new(start, payload.len()) }.read(room)
}

/// A number that is the same for all packets from one queue pair to another, below 2^20.
pub(super) fn flow(own: u32, other: u32) -> u32 {
    let mixed = (u64::from(own) << 32 | u64::from(other)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 44) as u32 | 1
}

fn ecn_bits(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotCapable => 0,
        Ecn::Capable => 2,
        Ecn::Congested => 3,
    }
}

fn ecn_of(class: u8) -> Ecn {
    match class & 3 {
        0 => Ecn::NotCapable,
        3 => Ecn::Congested,
        _ => Ecn::Capable,
    }
}

impl Datapath for QueuePairs {
    fn port(&self) -> &UdpPort {
        &self.port
    }

    fn port_mut(&mut self) -> &mut UdpPort {
        &mut self.port
    }

    fn transmit(
        &mut self,
        now_ns: u64,
        _path: usize,
        socket: usize,
        to: &Address,
        train: &Train,
    ) -> io::Result<Sent> {
        if now_ns >= self.check_at_ns {
            self.check(now_ns)?;
        }
        if !train.is_empty()
            && let Some(queue) = self.queues.get(socket).copied().flatten()
            && let Some(result) = self.put(now_ns, (socket, queue), to, train)
        {
            return result;
        }
        self.port.send(socket, to, train)
    }

    fn receive<'b>(
        &mut self,
        socket: usize,
        buffer: &'b mut ReceiveBuffer,
    ) -> io::Result<Option<Arrival<'b>>> {
        for _ in 0..INTRODUCTIONS_MAX {
            let Some(arrival) = self.port.receive(socket, &mut *buffer)? else { return Ok(None) };
            let (from, ecn) = (*arrival.from(), arrival.ecn());
            let (length, segment_size) = (arrival.len(), arrival.segment_size());
            let segments = (0..arrival.segments()).map(|index| arrival.segment(index));
            let found = segments.filter(|segment| is_introduction(segment));
            let found: Vec<Option<Introduction>> = found.map(Introduction::from_bytes).collect();
            let are_all = found.len() == arrival.segments();
            for message in found.iter().flatten() {
                self.introduced(socket, &from, message);
            }
            if !are_all {
                // The protocol drops introductions among packets, because they are no packets.
                return Ok(Some(buffer.holding(from, ecn, length, segment_size)));
            }
        }
        Ok(None)
    }

    fn waiter(&self) -> io::Result<Waiter> {
        let waiter = self.port.waiter()?;
        waiter.watch(self.nic.fd(), ATTEND)?;
        Ok(waiter)
    }

    fn attend(&mut self) {
        self.nic.silence();
    }

    fn has_other_descriptors(&self) -> bool {
        true
    }

    fn packet_max(&self) -> Option<usize> {
        Some(self.nic.packet_max())
    }

    #[inline]
    fn ready(&mut self) -> Option<u64> {
        Some(self.look().map_or(0, |socket| 1 << socket))
    }

    fn receive_ready<'b>(
        &mut self,
        socket: usize,
        buffer: &'b mut ReceiveBuffer,
    ) -> Option<Arrival<'b>> {
        if self.look() != Some(socket) {
            return None;
        }
        self.take(buffer)
    }

    fn arm(&mut self) -> bool {
        self.nic.arm();
        self.look().is_some()
    }
}
