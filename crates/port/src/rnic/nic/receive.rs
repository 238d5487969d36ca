//! What arrives at a NIC's queue pairs, and the places to which it is written.

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use super::super::abi::{GRH_BYTES, IBV_WC_GRH, IBV_WC_SUCCESS, ibv_recv_wr, ibv_sge, ibv_wc};
use super::super::device::{Gid, ip_of};
use super::connected::SHARED;
use super::{BATCH, Datagram, REPOST, Rnic, fail, parts_of, poll};

pub(super) const EMPTY_RECEIVE: ibv_recv_wr =
    ibv_recv_wr { wr_id: 0, next: std::ptr::null_mut(), sg_list: std::ptr::null_mut(), num_sge: 0 };

impl Rnic {
    /// Returns the next packet that has arrived, if there is one. It stays the next until
    /// [`Rnic::pop`].
    pub fn peek(&mut self) -> Option<Datagram> {
        loop {
            if self.first == self.arrived.len() {
                let mut batch = [ibv_wc::default(); BATCH];
                let count = poll(self.parts.receive_cq, &mut batch);
                self.first = 0;
                self.arrived.clear();
                self.arrived.extend_from_slice(&batch[..count]);
                if count == 0 {
                    return None;
                }
            }
            let completion = self.arrived[self.first];
            let (queue, generation, place) = parts_of(completion.wr_id);
            if queue == SHARED {
                match self.shared(&completion, place) {
                    Some(datagram) => return Some(datagram),
                    None => {
                        self.first += 1;
                        self.release_shared(place);
                        continue;
                    }
                }
            }
            let pair = self.pairs.get_mut(queue).filter(|pair| pair.generation == generation);
            let length = (completion.byte_len as usize).checked_sub(GRH_BYTES);
            match (pair, length) {
                (Some(_), Some(length))
                    if completion.status == IBV_WC_SUCCESS && length <= self.port.port.mtu =>
                {
                    let has_header = completion.wc_flags & IBV_WC_GRH != 0;
                    let source = completion.src_qp;
                    let connection = None;
                    return Some(Datagram { queue, connection, source, length, place, has_header });
                }
                (Some(pair), _) => {
                    pair.free.push(place);
                    if completion.status != IBV_WC_SUCCESS {
                        fail(pair, "packets cannot be received", completion.status);
                    }
                }
                (None, _) => {}
            }
            self.first += 1;
        }
    }

    /// Payload of a packet that [`Rnic::peek`] has returned, until [`Rnic::pop`].
    pub fn payload(&self, datagram: &Datagram) -> &[u8] {
        let before = if datagram.connection.is_some() { 0 } else { GRH_BYTES };
        self.received(datagram, before, datagram.length)
    }

    /// The address from which a packet has come, and the byte of IP's header that has the code
    /// point and the congestion bits. `None`: the device does not tell.
    pub fn origin(&self, datagram: &Datagram) -> Option<(Gid, u8)> {
        if !datagram.has_header {
            return None;
        }
        let header = self.received(datagram, 0, GRH_BYTES);
        let own = &self.addresses[datagram.queue].1;
        if self.port.port.is_ethernet && ip_of(own).is_ipv4() {
            let source: [u8; 4] = header[32..36].try_into().ok()?;
            let gid = IpAddr::from(source);
            let IpAddr::V4(v4) = gid else { return None };
            return Some((v4.to_ipv6_mapped().octets(), header[21]));
        }
        let class = header[0] << 4 | header[1] >> 4;
        Some((header[8..24].try_into().ok()?, class))
    }

    /// Releases the packet that [`Rnic::peek`] has returned.
    pub fn pop(&mut self) {
        let Some(completion) = self.arrived.get(self.first) else { return };
        let (queue, _, place) = parts_of(completion.wr_id);
        self.first += 1;
        if queue == SHARED {
            return self.release_shared(place);
        }
        self.pairs[queue].free.push(place);
        if self.pairs[queue].free.len() >= REPOST {
            self.post_free(queue);
        }
    }

    /// Requests that the next packet that arrives make [`Rnic::fd`] readable.
    pub fn arm(&mut self) {
        let cq = self.parts.receive_cq;
        // SAFETY: this value's own queue, whose context has the function.
        unsafe { ((*(*cq).context).ops.req_notify_cq)(cq, 0) };
    }

    /// Makes [`Rnic::fd`] unreadable.
    pub fn silence(&mut self) {
        loop {
            let (mut cq, mut of) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: this value's own channel, whose descriptor does not wait.
            if unsafe { (self.port.library.get_cq_event)(self.channel, &mut cq, &mut of) } != 0 {
                return;
            }
            // SAFETY: the queue whose event was just taken.
            unsafe { (self.port.library.ack_cq_events)(cq, 1) };
        }
    }

    /// Descriptor that is readable when a packet has arrived after [`Rnic::arm`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel keeps its descriptor open, and lives as long as this value.
        unsafe { BorrowedFd::borrow_raw((*self.channel).fd) }
    }

    /// The packet at a place that connections share. `None`: it is not to be used.
    fn shared(&mut self, completion: &ibv_wc, place: u32) -> Option<Datagram> {
        let (connection, queue) = self.connections.as_ref()?.find(completion.qp_num)?;
        let length = completion.byte_len as usize;
        if completion.status != IBV_WC_SUCCESS {
            self.fail_connection(connection, completion.status);
            return None;
        }
        let source = completion.qp_num;
        let connection = Some(connection);
        let datagram = Datagram { queue, connection, source, length, place, has_header: false };
        (length <= self.port.port.mtu).then_some(datagram)
    }

    /// Posts all free places of a queue pair, by one call of the library.
    pub(super) fn post_free(&mut self, queue: usize) {
        let mut free = std::mem::take(&mut self.pairs[queue].free);
        if self.pairs[queue].failed.is_some() {
            self.pairs[queue].free = free;
            return;
        }
        let place_bytes = self.port.port.mtu + GRH_BYTES;
        let mut pieces: [ibv_sge; REPOST] = [ibv_sge::default(); REPOST];
        for chunk in free.chunks(REPOST) {
            let mut next = std::ptr::null_mut();
            let mut requests = [const { EMPTY_RECEIVE }; REPOST];
            for (index, place) in chunk.iter().enumerate().rev() {
                pieces[index] = self.piece(self.receive_place(queue, *place), place_bytes);
                let sg_list = &raw mut pieces[index];
                let wr_id = self.id(queue, *place);
                requests[index] = ibv_recv_wr { wr_id, next, sg_list, num_sge: 1 };
                next = &raw mut requests[index];
            }
            let mut bad = std::ptr::null_mut();
            let qp = self.pairs[queue].qp;
            // SAFETY: as in `post`; the places are free, so nothing refers to their memory.
            let status = unsafe { ((*(*qp).context).ops.post_recv)(qp, next, &mut bad) };
            if status != 0 {
                let error = io::Error::from_raw_os_error(status);
                let reason = format!("the device takes no receives: {error}");
                self.pairs[queue].failed = Some(reason);
                break;
            }
        }
        free.clear();
        self.pairs[queue].free = free;
    }

    fn receive_place(&self, queue: usize, place: u32) -> usize {
        (queue * self.parts.receives as usize + place as usize) * self.stride
    }

    /// Returns bytes of a place at which a packet has arrived.
    fn received(&self, datagram: &Datagram, from: usize, length: usize) -> &[u8] {
        let connections = self.connections.as_ref().filter(|_| datagram.connection.is_some());
        let at = match connections {
            Some(connections) => connections.receive_place(datagram.place) * self.stride,
            None => self.receive_place(datagram.queue, datagram.place),
        } + from;
        // SAFETY: within the memory; the device has filled the place and leaves it alone until it
        // is posted again, which takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.memory.at(at, length), length) }
    }
}
