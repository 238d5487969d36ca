//! An open RDMA NIC: its queue pairs, its registered memory, and what it sends.

mod connected;
mod receive;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::IpAddr;

use super::abi::{
    GRH_BYTES, IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WC_SUCCESS, IBV_WR_SEND, ibv_ah,
    ibv_ah_attr, ibv_comp_channel, ibv_cq, ibv_gid, ibv_global_route, ibv_mr, ibv_send_wr, ibv_sge,
    ibv_wc, wr_ud,
};
use super::device::{self, Gid, OpenPort, RnicChoice};
use super::objects::Objects;
use super::queue_pair::{Parts, QueuePair};
use crate::limits::SEGMENTS_MAX;
use crate::xdp::Mapping;
pub use connected::CONNECTIONS_MAX;
use connected::{Connections, PLACES};
use receive::EMPTY_RECEIVE;

/// Places for packets that arrive, and for packets to send, of all queue pairs together.
const RECEIVES: u32 = 4096;
const SENDS: u32 = 1024;
/// The same of one queue pair at most, and at least where the device offers fewer.
const PLACES_MAX: u32 = 1024;
const PLACES_MIN: u32 = 64;
/// Places are posted again when so many are free.
const REPOST: usize = 16;
/// Completions that are taken in one call.
const BATCH: usize = 32;
/// Maximum number of address handles.
const HANDLES_MAX: usize = 1 << 14;
/// Distance of places in memory, a multiple of a cache line.
const ALIGNMENT: usize = 64;

/// A queue pair of another NIC, as address of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Address of the other NIC.
    pub gid: Gid,
    /// Its local identifier, in InfiniBand networks.
    pub lid: u16,
    /// Number that switches hash to choose a way, below 2^20.
    pub flow: u32,
    /// The byte in IP's headers that has the code point and the congestion bits.
    pub class: u8,
}

/// A packet that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    /// Index of the queue pair at which it has arrived.
    pub queue: usize,
    /// The connection through which it has come; then `queue` is the queue pair of datagrams that
    /// belongs to the same socket.
    pub connection: Option<usize>,
    /// Number of the queue pair that has sent it, or of the connection's own.
    pub source: u32,
    /// Bytes of the payload.
    pub length: usize,
    place: u32,
    has_header: bool,
}

/// An open RDMA NIC with queue pairs of datagrams.
pub struct Rnic {
    port: OpenPort,
    parts: Parts,
    channel: *mut ibv_comp_channel,
    region: *mut ibv_mr,
    memory: Mapping,
    /// Distance of two places.
    stride: usize,
    /// Those of datagrams, and behind them those of connections.
    pairs: Vec<QueuePair>,
    connections: Option<Connections>,
    /// The address of each queue pair, and its index.
    addresses: Vec<(u8, Gid)>,
    handles: HashMap<(u8, Target), *mut ibv_ah>,
    /// Completions of packets that have arrived, and the first that was not handled.
    arrived: Vec<ibv_wc>,
    first: usize,
    requests: Vec<ibv_send_wr>,
    pieces: Vec<ibv_sge>,
}

// SAFETY: the library's objects may be used by any thread; `&mut self` keeps threads apart.
unsafe impl Send for Rnic {}

/// The reason why a train was not sent whole.
#[derive(Debug, PartialEq, Eq)]
pub enum Unsent<E> {
    /// So many packets were sent, and there is no room for others at the moment.
    Full(usize),
    /// So many packets were sent, and the queue pair is out of use.
    Failed(usize),
    /// The caller's function has failed. No packet was sent.
    Fill(E),
}

impl Rnic {
    /// Opens a device and makes a queue pair for each of the `local` addresses of sockets that the
    /// device has. The second value tells which: the index of the queue pair of each address.
    /// `qkey` is what senders have to know.
    ///
    /// # Errors
    /// There is no library, no device, or none with the address; or it refuses. The error says what
    /// to do.
    pub fn open(
        choice: &RnicChoice,
        local: &[IpAddr],
        qkey: u32,
    ) -> io::Result<(Rnic, Vec<Option<usize>>)> {
        Rnic::open_with(choice, local, qkey, false)
    }

    fn open_with(
        choice: &RnicChoice,
        local: &[IpAddr],
        qkey: u32,
        is_connected: bool,
    ) -> io::Result<(Rnic, Vec<Option<usize>>)> {
        let first = local.first().copied().unwrap_or(IpAddr::from([0; 4]));
        let port = device::open(choice, first)?;
        let mut addresses = Vec::new();
        let indices = local.iter().map(|local| {
            let gid = port.port.gid_for(*local)?;
            addresses.push(gid);
            Some(addresses.len() - 1)
        });
        let indices: Vec<Option<usize>> = indices.collect();
        let each = |all: u32| (all / (addresses.len() as u32).next_power_of_two()).max(PLACES_MIN);
        let name = port.port.device.clone();
        let refused = |error: io::Error| refused(error, &name);
        let nic = Objects::make(port, qkey, (2 * SENDS, 2 * RECEIVES)).map_err(refused)?;
        let mut places = (each(SENDS).min(PLACES_MAX), each(RECEIVES).min(PLACES_MAX));
        let pairs = loop {
            match nic.pairs(addresses.len(), places) {
                Ok(pairs) => break pairs,
                Err(error) if places.1 <= PLACES_MIN => return Err(refused(error)),
                Err(_) => places = (places.0.min(places.1 / 2), places.1 / 2),
            }
        };
        let others = if is_connected { PLACES } else { 0 };
        let mut nic = Rnic::with_memory(nic, pairs, addresses, places, others).map_err(refused)?;
        if is_connected {
            let first = nic.pairs.len();
            let start = first * (places.0 + places.1) as usize;
            let connections = Connections::new(&nic.port, &nic.parts, first, start);
            nic.connections = Some(connections.map_err(|error| unconnected(&error, &name))?);
            // A queue pair that is made only shows that the device has its kind.
            let Some((made, _)) = nic.make_connection(0) else {
                return Err(unconnected(&io::Error::last_os_error(), &name));
            };
            nic.close_connection(made);
            nic.post_shared(1);
        }
        for queue in 0..nic.addresses.len() {
            nic.post_free(queue);
        }
        let failed = nic.live().find_map(|pair| pair.failed.clone());
        match failed {
            Some(reason) => Err(refused(io::Error::other(reason))),
            None => Ok((nic, indices)),
        }
    }

    fn with_memory(
        objects: Objects,
        pairs: Vec<QueuePair>,
        addresses: Vec<(u8, Gid)>,
        (sends, receives): (u32, u32),
        others: usize,
    ) -> io::Result<Rnic> {
        let stride = (objects.mtu() + GRH_BYTES).next_multiple_of(ALIGNMENT);
        let bytes = (pairs.len() * (sends + receives) as usize + others) * stride;
        let (port, parts, channel, memory, region) = objects.with_memory(&pairs, bytes)?;
        Ok(Rnic {
            port,
            parts: Parts { sends, receives, ..parts },
            channel,
            region,
            memory,
            stride,
            pairs,
            connections: None,
            addresses,
            handles: HashMap::new(),
            arrived: Vec::with_capacity(BATCH),
            first: 0,
            requests: vec![EMPTY_SEND; SEGMENTS_MAX],
            pieces: vec![ibv_sge::default(); SEGMENTS_MAX],
        })
    }

    /// Largest packet in bytes.
    pub fn packet_max(&self) -> usize {
        self.port.port.mtu
    }

    /// Name and port number of the device, as `mlx5_0:1`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.port.port.device, self.port.port.number)
    }

    /// Local identifier of an InfiniBand port.
    pub fn lid(&self) -> u16 {
        self.port.port.lid
    }

    /// The number and the address by which peers name a queue pair. `None`: it is out of use.
    pub fn address(&self, queue: usize) -> Option<(u32, Gid)> {
        let pair = &self.pairs[queue];
        pair.failed.is_none().then(|| (pair.number(), self.addresses[queue].1))
    }

    /// Why a queue pair is out of use, if it is.
    pub fn failure(&self, queue: usize) -> Option<&str> {
        self.pairs[queue].failed.as_deref()
    }

    /// Replaces a queue pair that is out of use by a new one, which has another number.
    ///
    /// # Errors
    /// The device refuses.
    pub fn replace(&mut self, queue: usize) -> io::Result<()> {
        let old = &self.pairs[queue];
        let new = QueuePair::new(&self.port, &self.parts, old.generation.wrapping_add(1))?;
        old.destroy(&self.port);
        self.pairs[queue] = new;
        self.post_free(queue);
        match &self.pairs[queue].failed {
            None => Ok(()),
            Some(reason) => Err(io::Error::other(reason.clone())),
        }
    }

    /// Sends `count` packets to queue pair `number` of the target, by one call of the library.
    /// `fill` writes packet `index` to the room that it gets, and returns its length.
    ///
    /// # Errors
    /// Not all packets were sent.
    ///
    /// # Panics
    /// There are more than [`SEGMENTS_MAX`] packets.
    pub fn send<E>(
        &mut self,
        queue: usize,
        (target, number, qkey): (&Target, u32, u32),
        count: usize,
        fill: impl FnMut(usize, &mut [u8]) -> Result<usize, E>,
    ) -> Result<(), Unsent<E>> {
        if self.pairs[queue].failed.is_some() {
            return Err(Unsent::Failed(0));
        }
        let Some(ah) = self.handle(queue, target) else { return Err(Unsent::Failed(0)) };
        let to = wr_ud { ah, remote_qpn: number, remote_qkey: qkey, rest: [0; 2] };
        self.send_from(queue, to, count, fill)
    }

    /// Sends packets from any queue pair; those of datagrams need an address.
    fn send_from<E>(
        &mut self,
        queue: usize,
        to: wr_ud,
        count: usize,
        mut fill: impl FnMut(usize, &mut [u8]) -> Result<usize, E>,
    ) -> Result<(), Unsent<E>> {
        assert!(count <= SEGMENTS_MAX, "{count} packets");
        if self.pairs[queue].room() < count {
            self.take_reports();
        }
        if self.pairs[queue].failed.is_some() {
            return Err(Unsent::Failed(0));
        }
        let fitting = count.min(self.pairs[queue].room());
        for index in 0..fitting {
            let (number_of, place, is_reported) = self.pairs[queue].next(index);
            let at = self.send_place(queue, place);
            // SAFETY: the place lies within the memory, and the device has sent what was there
            // before, so that nothing else refers to it.
            let room = unsafe {
                std::slice::from_raw_parts_mut(self.memory.at(at, self.stride), self.stride)
            };
            let length = fill(index, room).map_err(Unsent::Fill)?;
            let is_inline = length <= self.pairs[queue].inline_max;
            self.pieces[index] = self.piece(at, length);
            let inline = if is_inline { IBV_SEND_INLINE } else { 0 };
            let reported = if is_reported { IBV_SEND_SIGNALED } else { 0 };
            self.requests[index] = ibv_send_wr {
                wr_id: self.id(queue, number_of),
                num_sge: 1,
                send_flags: inline | reported,
                ud: to,
                ..EMPTY_SEND
            };
        }
        let posted = self.post(queue, fitting);
        self.pairs[queue].has_posted(posted);
        match posted {
            _ if self.pairs[queue].failed.is_some() => Err(Unsent::Failed(posted)),
            posted if posted == count => Ok(()),
            posted => Err(Unsent::Full(posted)),
        }
    }

    /// Passes the first `count` requests to the device, and returns how many it has taken.
    fn post(&mut self, queue: usize, count: usize) -> usize {
        if count == 0 {
            return 0;
        }
        let (requests, pieces) = (self.requests.as_mut_ptr(), self.pieces.as_mut_ptr());
        for index in 0..count {
            // SAFETY: both lists have so many elements. All accesses go through these pointers
            // until the call below has returned.
            unsafe {
                let request = requests.add(index);
                (*request).sg_list = pieces.add(index);
                if index + 1 < count {
                    (*request).next = requests.add(index + 1);
                }
            }
        }
        let mut bad = std::ptr::null_mut();
        let qp = self.pairs[queue].qp;
        // SAFETY: the queue pair is this value's own, its context has the function, and the
        // requests outlive the call. Their memory is registered and unchanged until it is reported.
        let status = unsafe { ((*(*qp).context).ops.post_send)(qp, requests, &mut bad) };
        if status == 0 {
            return count;
        }
        // The list is taken up to the first request that is refused.
        let taken = (bad as usize).saturating_sub(requests as usize) / size_of::<ibv_send_wr>();
        let taken = if bad.is_null() { 0 } else { taken.min(count) };
        if status != libc::ENOMEM && status != libc::EAGAIN {
            let error = io::Error::from_raw_os_error(status);
            self.pairs[queue].failed = Some(format!("the device takes no packets: {error}"));
        }
        taken
    }

    /// Takes the reports of packets that have been sent.
    fn take_reports(&mut self) {
        let mut reports = [ibv_wc::default(); BATCH];
        loop {
            let count = poll(self.parts.send_cq, &mut reports);
            for report in &reports[..count] {
                let (queue, generation, number) = parts_of(report.wr_id);
                let Some(pair) = self.pairs.get_mut(queue) else { continue };
                if pair.generation != generation {
                    continue;
                }
                if report.status == IBV_WC_SUCCESS {
                    pair.has_sent(number);
                } else {
                    fail(pair, "a packet could not be sent", report.status);
                }
            }
            if count < BATCH {
                return;
            }
        }
    }

    /// Returns the address handle of a target.
    fn handle(&mut self, queue: usize, target: &Target) -> Option<*mut ibv_ah> {
        let index = self.addresses[queue].0;
        if let Some(handle) = self.handles.get(&(index, *target)) {
            return Some(*handle);
        }
        if self.handles.len() >= HANDLES_MAX {
            return None;
        }
        let mut attributes = self.attributes_of(index, target);
        // SAFETY: objects of the open device; the attributes outlive the call.
        let handle = unsafe { (self.port.library.create_ah)(self.parts.pd, &mut attributes) };
        if handle.is_null() {
            return None;
        }
        self.handles.insert((index, *target), handle);
        Some(handle)
    }

    /// The way from the NIC's address of this index to a target.
    fn attributes_of(&self, index: u8, target: &Target) -> ibv_ah_attr {
        ibv_ah_attr {
            grh: ibv_global_route {
                dgid: ibv_gid::new(target.gid),
                flow_label: target.flow & 0xF_FFFF,
                sgid_index: index,
                hop_limit: 64,
                traffic_class: target.class,
            },
            dlid: target.lid,
            is_global: 1,
            port_num: self.port.port.number,
            ..ibv_ah_attr::default()
        }
    }

    /// True if packets can be sent to a target from a queue pair.
    pub fn reaches(&mut self, queue: usize, target: &Target) -> bool {
        self.pairs[queue].failed.is_none() && self.handle(queue, target).is_some()
    }

    fn id(&self, queue: usize, number: u32) -> u64 {
        let generation = u64::from(self.pairs[queue].generation);
        generation << 48 | (queue as u64) << 32 | u64::from(number)
    }

    fn piece(&self, at: usize, length: usize) -> ibv_sge {
        // SAFETY: the region lives as long as this value.
        let lkey = unsafe { (*self.region).lkey };
        ibv_sge { addr: self.memory.at(at, length) as u64, length: length as u32, lkey }
    }

    fn send_place(&self, queue: usize, place: u32) -> usize {
        let of_connection = |all: &Connections| all.send_place(queue, place);
        if let Some(place) = self.connections.as_ref().and_then(of_connection) {
            return place * self.stride;
        }
        let receives = self.addresses.len() * self.parts.receives as usize;
        (receives + queue * self.parts.sends as usize + place as usize) * self.stride
    }
}

impl fmt::Debug for Rnic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rnic").field("port", &self.port.port).finish_non_exhaustive()
    }
}

impl Drop for Rnic {
    fn drop(&mut self) {
        let library = self.port.library;
        for pair in self.live() {
            pair.destroy(&self.port);
        }
        if let Some(connections) = &self.connections {
            // SAFETY: this value's own queue, whose queue pairs are destroyed.
            unsafe { (library.destroy_srq)(connections.srq) };
        }
        // SAFETY: this value's own objects, each destroyed before those that it was made with. No
        // queue pair is left that could use the handles or the memory.
        unsafe {
            for handle in self.handles.values() {
                (library.destroy_ah)(*handle);
            }
            (library.dereg_mr)(self.region);
        }
        Objects::release(&self.port, &self.parts, self.channel);
    }
}

/// The address in requests of connections, which need none.
const NOWHERE: wr_ud =
    wr_ud { ah: std::ptr::null_mut(), remote_qpn: 0, remote_qkey: 0, rest: [0; 2] };

const EMPTY_SEND: ibv_send_wr = ibv_send_wr {
    wr_id: 0,
    next: std::ptr::null_mut(),
    sg_list: std::ptr::null_mut(),
    num_sge: 0,
    opcode: IBV_WR_SEND,
    send_flags: 0,
    imm_data: 0,
    ud: NOWHERE,
    remote_srqn: 0,
    tail: [0; 6],
};

fn parts_of(id: u64) -> (usize, u16, u32) {
    ((id >> 32) as u16 as usize, (id >> 48) as u16, id as u32)
}

/// Takes completions, and returns their number.
fn poll(cq: *mut ibv_cq, room: &mut [ibv_wc; BATCH]) -> usize {
    // SAFETY: a queue of an open device, whose context has the function; as many completions are
    // written as there is room for.
    let count =
        unsafe { ((*(*cq).context).ops.poll_cq)(cq, BATCH as libc::c_int, room.as_mut_ptr()) };
    usize::try_from(count).unwrap_or(0).min(BATCH)
}

#[cold]
fn fail(pair: &mut QueuePair, what: &str, status: i32) {
    pair.failed.get_or_insert_with(|| format!("{what} (completion status {status})"));
}

#[cold]
fn unconnected(error: &io::Error, device: &str) -> io::Error {
    let text = format!(
        "the RDMA device {device} offers no connections (UC) with a shared receive queue: {error}: \
         use the datapath rdma"
    );
    io::Error::new(error.kind(), text)
}

#[cold]
fn refused(error: io::Error, device: &str) -> io::Error {
    let remedy = match error.raw_os_error() {
        Some(libc::ENOMEM | libc::EAGAIN) => {
            "raise the limit of locked memory (ulimit -l), of which it needs up to 22 MiB for each \
             engine (43 MiB with connections), or add the capability CAP_IPC_LOCK"
        }
        Some(libc::EPERM | libc::EACCES) => "let this process open /dev/infiniband/uverbs*",
        _ => "use the datapath udp",
    };
    let text = format!("the RDMA device {device} cannot be used: {error}: {remedy}");
    io::Error::new(error.kind(), text)
}
