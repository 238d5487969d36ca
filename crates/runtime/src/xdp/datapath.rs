//! The datapath: sends and receives frames, and passes the rest to the sockets.

use std::io;
use std::net::SocketAddr;
use std::ptr::NonNull;

use fairway_port::xdp::frame::{Packet, parse};
use fairway_port::xdp::{Flow, FrameSocket, Interface, Mode, Redirect};
use fairway_port::{
    ATTEND, Address, Arrival, Datapath, RawSlice, ReceiveBuffer, SEGMENTS_MAX, Sent, Train,
    UdpPort, Waiter,
};

use super::ways::{Way, Ways};
use crate::memory::{Gone, SharedBytes};

/// Maximum number of frames that are dropped in a row, because they are damaged or for no socket,
/// before other work is done.
const DROPPED_MAX: u32 = 64;

/// UDP sockets, and AF_XDP sockets that send and receive their packets as whole frames.
#[derive(Debug)]
pub struct Frames {
    port: UdpPort,
    interface: Interface,
    // Dropped before the sockets, so that no frame is redirected to a closed one.
    _redirect: Redirect,
    queues: Vec<Queue>,
    ways: Ways,
    /// Trains of more packets are sent by the sockets.
    packets_max: usize,
    /// Sockets whose packets are redirected, one bit each.
    redirected: u64,
    /// The queue that is received from first.
    first: usize,
}

/// A socket of one queue of the interface.
#[derive(Debug)]
struct Queue {
    socket: FrameSocket,
    /// The next packet to receive, once its frame has been checked, and the UDP socket that it is
    /// for.
    next: Option<(Packet, usize)>,
}

/// Longest train that is sent as frames where the kernel copies each of them, in packets. Longer
/// ones cost less by a socket, which takes them whole.
const COPIED_MAX: usize = 4;

/// The reason why a train was not sent whole.
enum Stopped {
    /// So many packets were sent, and there is no room for others at the moment.
    Full(usize),
    /// The payload's memory is gone.
    Gone,
}

impl Frames {
    /// Opens AF_XDP sockets on all queues of the interface that has the address of the first UDP
    /// socket, and attaches the program that redirects packets to them.
    ///
    /// # Errors
    /// The sockets are bound to no address of one Ethernet interface, another program is attached
    /// to the interface, or this process lacks a capability. The error says what to do.
    pub fn open(port: UdpPort) -> io::Result<Frames> {
        let first = port.local_addrs()[0].ip();
        if first.is_unspecified() {
            return Err(explain(
                io::ErrorKind::InvalidInput.into(),
                "the datapath xdp serves one network interface: bind to its address (--bind)",
            ));
        }
        let interface = Interface::with_address(first)?;
        let name = &interface.name;
        let first_queue =
            FrameSocket::open(interface.index, 0).map_err(|error| refused(error, name))?;
        let mode = first_queue.mode();
        let mut sockets = vec![first_queue];
        for number in 1..interface.queues {
            let opened = FrameSocket::open_as(interface.index, number, mode);
            sockets.push(opened.map_err(|error| refused(error, name))?);
        }
        let redirect =
            Redirect::attach(interface.index, mode).map_err(|error| refused(error, name))?;
        for socket in &sockets {
            redirect.add_socket(socket).map_err(|error| refused(error, name))?;
        }
        let queues = sockets.into_iter().map(|socket| Queue { socket, next: None }).collect();
        let mut redirected = 0;
        for (index, address) in port.local_addrs().iter().enumerate().take(64) {
            let is_here = address.ip() == first
                || Interface::with_address(address.ip())
                    .is_ok_and(|other| other.index == interface.index);
            if is_here {
                redirect.add_address(*address).map_err(|error| refused(error, name))?;
                redirected |= 1 << index;
            }
        }
        let takes_trains = mode == Mode::Copy && port.features().segmentation;
        let packets_max = if takes_trains { COPIED_MAX } else { SEGMENTS_MAX };
        let ways = Ways::new()?;
        Ok(Frames {
            port,
            interface,
            _redirect: redirect,
            queues,
            ways,
            packets_max,
            redirected,
            first: 0,
        })
    }

    /// Sends a train as frames.
    fn put(&mut self, socket: usize, flow: &Flow, train: &Train) -> io::Result<Sent> {
        let count = self.queues.len();
        let queue = &mut self.queues[socket % count].socket;
        let stopped = push(queue, flow, train).err();
        let calls = queue.flush()?;
        let sent = match stopped {
            None => train.len(),
            Some(Stopped::Full(sent)) => sent,
            Some(Stopped::Gone) => return Err(io::Error::from_raw_os_error(libc::EFAULT)),
        };
        let bytes: usize = match stopped {
            None => train.packet_bytes(),
            Some(_) => (0..sent).map(|index| train.packet_len(index)).sum(),
        };
        let counters = self.port.counters_mut();
        counters.send_calls += u64::from(calls);
        counters.packets_sent += sent as u64;
        counters.packets_sent_as_frames += sent as u64;
        counters.bytes_sent += bytes as u64;
        if stopped.is_some() {
            counters.blocked += 1;
            return Ok(Sent::Blocked { sent });
        }
        Ok(Sent::All)
    }

    /// Returns the UDP socket that a queue's next packet is for, if there is a packet.
    #[inline]
    fn look(&mut self, queue: usize) -> Option<usize> {
        let Queue { socket, next } = &mut self.queues[queue];
        if let Some((_, number)) = next {
            return Some(*number);
        }
        for _ in 0..DROPPED_MAX {
            let frame = socket.peek()?;
            let found = parse(frame).and_then(|packet| {
                let to = SocketAddr::from(packet.to);
                let mut all = self.port.local_addrs().iter();
                all.position(|local| is_same(local, &to)).map(|number| (packet, number))
            });
            match found {
                Some((packet, number)) => {
                    let from = with_scope(packet.from, self.interface.index);
                    *next = Some((Packet { from, ..packet }, number));
                    return Some(number);
                }
                None => {
                    socket.pop();
                    self.port.counters_mut().frames_dropped += 1;
                }
            }
        }
        None
    }

    /// Takes the next packets of a queue as one arrival: those that the kernel would coalesce.
    fn take<'b>(&mut self, queue: usize, buffer: &'b mut ReceiveBuffer) -> Option<Arrival<'b>> {
        let (first, number) = self.queues[queue].next?;
        if let Some(cut_from) = first.cut_from {
            return self.take_cut(queue, cut_from, buffer);
        }
        let (mut bytes, mut packets) = (0, 0);
        loop {
            let Queue { socket, next } = &mut self.queues[queue];
            let (packet, _) = next.take()?;
            let payload = socket.peek()?.get(packet.start..packet.start + packet.length)?;
            buffer.room_for(bytes + packet.length)[bytes..].copy_from_slice(payload);
            socket.pop();
            bytes += packet.length;
            packets += 1;
            let is_last = packet.length < first.length || packet.length == 0;
            if is_last || packets == SEGMENTS_MAX || self.look(queue) != Some(number) {
                break;
            }
            let joins = |(packet, _): &(Packet, usize)| {
                packet.cut_from.is_none()
                    && packet.from == first.from
                    && packet.ecn == first.ecn
                    && (1..=first.length).contains(&packet.length)
                    && bytes + packet.length <= ReceiveBuffer::CAPACITY
            };
            if !self.queues[queue].next.as_ref().is_some_and(joins) {
                break;
            }
        }
        let counters = self.port.counters_mut();
        counters.packets_received += packets as u64;
        counters.packets_received_as_frames += packets as u64;
        counters.bytes_received += bytes as u64;
        Some(buffer.holding(first.from, first.ecn, bytes, first.length))
    }

    /// Takes the next packet of a queue, whose end a switch has cut off.
    fn take_cut<'b>(
        &mut self,
        queue: usize,
        cut_from: usize,
        buffer: &'b mut ReceiveBuffer,
    ) -> Option<Arrival<'b>> {
        let Queue { socket, next } = &mut self.queues[queue];
        let (packet, _) = next.take()?;
        let payload = socket.peek()?.get(packet.start..packet.start + packet.length)?;
        buffer.room_for(packet.length).copy_from_slice(payload);
        socket.pop();
        let counters = self.port.counters_mut();
        counters.packets_received += 1;
        counters.packets_received_as_frames += 1;
        counters.packets_received_cut += 1;
        counters.bytes_received += packet.length as u64;
        Some(buffer.holding_cut(packet.from, packet.ecn, packet.length, cut_from))
    }
}

/// Pushes the packets of a train.
fn push(queue: &mut FrameSocket, flow: &Flow, train: &Train) -> Result<(), Stopped> {
    let headers = flow.header_bytes();
    for index in 0..train.len() {
        let length = headers + train.packet_len(index);
        let pushed = queue.push(length, |frame| {
            let header = train.header(index);
            let place = headers + header.len();
            frame[headers..place].copy_from_slice(header);
            // SAFETY: the train's owner promised that the payload stays the application's while it
            // is in the train.
            unsafe { copy_payload(&mut frame[place..], train.payload(index))? };
            flow.complete(frame, train.dscp(), train.ecn());
            Ok::<_, Gone>(())
        });
        match pushed {
            Ok(true) => {}
            Ok(false) => return Err(Stopped::Full(index)),
            Err(Gone) => return Err(Stopped::Gone),
        }
    }
    Ok(())
}

/// # Safety
/// The payload is the application's memory, mapped or not, until the call returns.
unsafe fn copy_payload(room: &mut [u8], payload: RawSlice) -> Result<(), Gone> {
    let Some(start) = NonNull::new(payload.as_ptr().cast_mut()) else { return Ok(()) };
    // SAFETY: as the caller says.
    unsafe { SharedBytes::new(start, payload.len()) }.read(room)
}

/// True if both addresses are the same, whatever the scope of a link-local one.
fn is_same(one: &SocketAddr, other: &SocketAddr) -> bool {
    one.port() == other.port() && one.ip() == other.ip()
}

/// Returns an address with the interface that belongs to a link-local one.
fn with_scope(address: Address, interface: u32) -> Address {
    match SocketAddr::from(address) {
        SocketAddr::V6(mut v6) if v6.ip().is_unicast_link_local() => {
            v6.set_scope_id(interface);
            SocketAddr::from(v6).into()
        }
        _ => address,
    }
}

#[cold]
fn refused(error: io::Error, interface: &str) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => explain(
            error,
            "the datapath xdp needs the capabilities CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF: run \
             the program as root, or give it these (setcap cap_net_raw,cap_net_admin,cap_bpf=ep)",
        ),
        Some(libc::ENOBUFS | libc::ENOMEM) => explain(
            error,
            "the datapath xdp needs 16 MiB of locked memory for each queue of the interface: raise \
             the limit (ulimit -l), or add the capability CAP_IPC_LOCK",
        ),
        Some(libc::EBUSY | libc::EEXIST) => explain(
            error,
            &format!(
                "another program handles the frames of {interface}, perhaps another context: only \
                 one can (`ip link show {interface}` names it); use the datapath udp"
            ),
        ),
        _ => explain(
            error,
            &format!("the interface {interface} cannot be used: use the datapath udp"),
        ),
    }
}

fn explain(error: io::Error, what: &str) -> io::Error {
    match error.raw_os_error() {
        Some(_) => io::Error::new(error.kind(), format!("{error}: {what}")),
        None => io::Error::new(error.kind(), what.to_owned()),
    }
}

impl Datapath for Frames {
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
        let local = self.port.local_addrs()[socket];
        if socket < 64 && self.redirected & 1 << socket != 0 && !train.is_empty() {
            let way = self.ways.of(now_ns, &self.interface, (socket, local), to);
            if let Way::Frames(flow) = way
                && train.segment_size() <= flow.payload_max()
                && train.len() <= self.packets_max
            {
                let flow = flow.clone();
                return self.put(socket, &flow, train);
            }
        }
        self.port.send(socket, to, train)
    }

    fn waiter(&self) -> io::Result<Waiter> {
        let waiter = self.port.waiter()?;
        for queue in &self.queues {
            waiter.watch(queue.socket.fd(), ATTEND)?;
        }
        Ok(waiter)
    }

    fn has_other_descriptors(&self) -> bool {
        true
    }

    #[inline]
    fn ready(&mut self) -> Option<u64> {
        let mut ready = 0;
        for queue in 0..self.queues.len() {
            if let Some(socket) = self.look(queue) {
                ready |= 1 << socket;
            }
        }
        Some(ready)
    }

    fn receive_ready<'b>(
        &mut self,
        socket: usize,
        buffer: &'b mut ReceiveBuffer,
    ) -> Option<Arrival<'b>> {
        let count = self.queues.len();
        let mut order = (0..count).map(|step| (self.first + step) % count);
        let queue =
            order.find(|queue| self.queues[*queue].next.is_some_and(|(_, to)| to == socket));
        // Some other packet may have been looked at before; `ready` has found one for `socket`.
        let queue = queue?;
        self.first = (queue + 1) % count;
        self.take(queue, buffer)
    }
}
