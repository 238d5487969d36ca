//! Connected queue pairs (UC) of a NIC: each sends to one queue pair of another NIC, and receives
//! from it only. Packets that arrive share their places (a shared receive queue), so each
//! connection takes memory only for what it may send.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;

use super::super::abi::{ibv_recv_wr, ibv_sge, ibv_srq};
use super::super::device::{OpenPort, RnicChoice};
use super::super::queue_pair::{Parts, QueuePair};
use super::{EMPTY_RECEIVE, NOWHERE, REPOST, Rnic, Target, Unsent, fail};

/// Maximum number of connections of a NIC.
pub const CONNECTIONS_MAX: usize = 64;
/// Places for packets to send of each connection, and for packets that arrive of all together.
const SENDS: u32 = 64;
const RECEIVES: u32 = 1024;
/// In the id of a receive request: a place that all connections share.
pub(super) const SHARED: usize = 0xFFFF;

/// The connections of a NIC.
#[derive(Debug)]
pub(super) struct Connections {
    pub(super) srq: *mut ibv_srq,
    /// Index of the first connection among the queue pairs, and that of its places in memory.
    first: usize,
    start: usize,
    /// For each connection the queue pair of datagrams that belongs to the same socket, or that the
    /// connection is closed.
    owners: Vec<Option<usize>>,
    /// The connection of each queue pair, by the number of the latter.
    by_number: HashMap<u32, usize>,
    /// Places from which packets have been taken, and which are not posted again.
    free: Vec<u32>,
}

/// Number of places that connections need.
pub(super) const PLACES: usize = RECEIVES as usize + CONNECTIONS_MAX * SENDS as usize;

impl Connections {
    /// Creates the shared receive queue. The places begin at `start`.
    pub(super) fn new(
        port: &OpenPort,
        parts: &Parts,
        first: usize,
        start: usize,
    ) -> io::Result<Self> {
        let srq = QueuePair::shared_receives(port, parts, RECEIVES)?;
        let free = (0..RECEIVES).collect();
        let (owners, by_number) = (Vec::new(), HashMap::new());
        Ok(Connections { srq, first, start, owners, by_number, free })
    }

    /// Index of the connection that has this queue pair, and its owner.
    pub(super) fn find(&self, number: u32) -> Option<(usize, usize)> {
        let connection = *self.by_number.get(&number)?;
        Some((connection, self.owners[connection]?))
    }

    pub(super) fn receive_place(&self, place: u32) -> usize {
        self.start + place as usize
    }

    /// The place of a packet to send of queue pair `index`. `None`: it is no connection.
    pub(super) fn send_place(&self, index: usize, place: u32) -> Option<usize> {
        let connection = index.checked_sub(self.first)?;
        Some(self.start + RECEIVES as usize + connection * SENDS as usize + place as usize)
    }
}

impl Rnic {
    /// As [`Rnic::open`], with connections.
    ///
    /// # Errors
    /// As [`Rnic::open`]; or the device has no connected queue pairs.
    pub fn open_connected(
        choice: &RnicChoice,
        local: &[IpAddr],
        qkey: u32,
    ) -> io::Result<(Rnic, Vec<Option<usize>>)> {
        Rnic::open_with(choice, local, qkey, true)
    }

    /// True if the NIC was opened with connections.
    pub fn has_connections(&self) -> bool {
        self.connections.is_some()
    }

    /// Makes a queue pair for a connection of the socket of queue pair `owner`. Returns its index
    /// and its number, by which the peer names it. `None`: there are [`CONNECTIONS_MAX`], or the
    /// device refuses.
    pub fn make_connection(&mut self, owner: usize) -> Option<(usize, u32)> {
        let state = self.connections.as_mut()?;
        let closed = state.owners.iter().position(Option::is_none);
        let index = closed.unwrap_or(state.owners.len());
        if index >= CONNECTIONS_MAX {
            return None;
        }
        let at = state.first + index;
        let generation = self.pairs.get(at).map_or(0, |old| old.generation.wrapping_add(1));
        let parts = Parts { sends: SENDS, receives: 0, ..self.parts };
        let pair = QueuePair::unready(&self.port, &parts, state.srq, generation).ok()?;
        let number = pair.number();
        state.by_number.insert(number, index);
        if closed.is_some() {
            // Its queue pair was destroyed when it was closed.
            state.owners[index] = Some(owner);
            self.pairs[at] = pair;
        } else {
            state.owners.push(Some(owner));
            self.pairs.push(pair);
        }
        Some((index, number))
    }

    /// Connects a queue pair with queue pair `number` of the target, whose packets are at most
    /// `packet_max` bytes long. Also changes an existing connection.
    ///
    /// # Errors
    /// The device refuses.
    pub fn connect(
        &mut self,
        connection: usize,
        (target, number): (&Target, u32),
        packet_max: usize,
    ) -> io::Result<()> {
        let Some((at, owner)) = self.connection(connection) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let gid_index = self.addresses[owner].0;
        let attributes = self.attributes_of(gid_index, target);
        let packet_max = packet_max.min(self.port.port.mtu);
        self.pairs[at].connect(&self.port, (attributes, number), packet_max)
    }

    /// Closes a connection, whose queue pair is destroyed.
    pub fn close_connection(&mut self, connection: usize) {
        let Some((at, _)) = self.connection(connection) else { return };
        let number = self.pairs[at].number();
        self.pairs[at].destroy(&self.port);
        self.pairs[at].failed = Some("closed".to_owned());
        if let Some(state) = self.connections.as_mut() {
            state.owners[connection] = None;
            state.by_number.remove(&number);
        }
    }

    /// Why a connection is out of use, if it is.
    pub fn connection_failure(&self, connection: usize) -> Option<&str> {
        let (at, _) = self.connection(connection)?;
        self.pairs[at].failed.as_deref()
    }

    /// As [`Rnic::send`], through a connection.
    ///
    /// # Errors
    /// Not all packets were sent.
    ///
    /// # Panics
    /// There are more than [`crate::SEGMENTS_MAX`] packets.
    pub fn send_connected<E>(
        &mut self,
        connection: usize,
        count: usize,
        fill: impl FnMut(usize, &mut [u8]) -> Result<usize, E>,
    ) -> Result<(), Unsent<E>> {
        let Some((at, _)) = self.connection(connection) else { return Err(Unsent::Failed(0)) };
        self.send_from(at, NOWHERE, count, fill)
    }

    pub(super) fn fail_connection(&mut self, connection: usize, status: i32) {
        if let Some((at, _)) = self.connection(connection) {
            fail(&mut self.pairs[at], "packets cannot be received", status);
        }
    }

    /// Index of an open connection's queue pair, and its owner.
    fn connection(&self, connection: usize) -> Option<(usize, usize)> {
        let state = self.connections.as_ref()?;
        let owner = (*state.owners.get(connection)?)?;
        Some((state.first + connection, owner))
    }

    /// Queue pairs that are to be destroyed: all but those of closed connections.
    pub(super) fn live(&self) -> impl Iterator<Item = &QueuePair> {
        let owners = self.connections.as_ref().map_or(&[][..], |state| &state.owners);
        let first = self.pairs.len() - owners.len();
        let is_closed = move |at: usize| at >= first && owners[at - first].is_none();
        self.pairs.iter().enumerate().filter(move |(at, _)| !is_closed(*at)).map(|(_, pair)| pair)
    }

    /// Gives back a place that connections share, and posts places when enough are free.
    pub(super) fn release_shared(&mut self, place: u32) {
        if let Some(state) = self.connections.as_mut() {
            state.free.push(place);
        }
        self.post_shared(REPOST);
    }

    /// Posts the free places of connections if there are so many.
    pub(super) fn post_shared(&mut self, least: usize) {
        let Some(state) = self.connections.as_mut().filter(|state| state.free.len() >= least)
        else {
            return;
        };
        let free = std::mem::take(&mut state.free);
        let (srq, start) = (state.srq, state.start);
        let mut left = Vec::new();
        for chunk in free.chunks(REPOST) {
            let mut pieces: [ibv_sge; REPOST] = [ibv_sge::default(); REPOST];
            let mut requests = [const { EMPTY_RECEIVE }; REPOST];
            let mut next = std::ptr::null_mut();
            for (index, place) in chunk.iter().enumerate().rev() {
                let at = (start + *place as usize) * self.stride;
                pieces[index] = self.piece(at, self.port.port.mtu);
                let wr_id = (SHARED as u64) << 32 | u64::from(*place);
                let sg_list = &raw mut pieces[index];
                requests[index] = ibv_recv_wr { wr_id, next, sg_list, num_sge: 1 };
                next = &raw mut requests[index];
            }
            let mut bad = std::ptr::null_mut();
            // SAFETY: the queue is this value's own, and its context has the function; the requests
            // outlive the call, and their places are free, so nothing refers to their memory.
            let status = unsafe { ((*(*srq).context).ops.post_srq_recv)(srq, next, &raw mut bad) };
            if status != 0 {
                // The places from the refused one on are posted later.
                let bad = if bad.is_null() { next } else { bad };
                let taken = (bad as usize - next as usize) / size_of::<ibv_recv_wr>();
                left.extend_from_slice(&chunk[taken.min(chunk.len())..]);
            }
        }
        if let Some(state) = self.connections.as_mut() {
            state.free = left;
        }
    }
}
