//! Applies paths' decisions to trains, with as few calls as the decisions allow.
//!
//! Packets that pass are gathered into trains again, in their new order: a train that loses a
//! packet, or in which two change places, still takes one call. Packets that must wait are copied.

use std::collections::VecDeque;
use std::io;

use fairway_wire::Ecn;

use crate::emulate::model::{Decision, ModelCounters, PathModel};
use crate::emulate::pool::{Pool, Route};
use crate::emulate::spec::Spec;
use crate::limits::{REORDER_HOLD_NS, SEGMENTS_MAX, TRAIN_BYTES_MAX};
use crate::memory::RawSlice;
use crate::udp::{Address, Sent, Train, UdpPort};

/// Initial capacity of every lane, in packets. It grows if a path delays more.
const HELD_ROOM: usize = 64;

/// Counters of emulated paths beyond those of their models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShaperCounters {
    /// Sum of the counters of all paths' models.
    pub model: ModelCounters,
    /// Packets dropped because [`crate::HOLDING_BYTES_MAX`] bytes were already delayed.
    pub unheld: u64,
    /// Delayed packets dropped because the port refused them.
    pub refused: u64,
    /// Number of bytes delayed now.
    pub held_bytes: usize,
}

/// A set of paths, created as they are used.
#[derive(Debug)]
pub(super) struct Shaper {
    spec: Spec,
    seed: u64,
    start_ns: u64,
    /// Number of lanes with the same specification: more than one if each direction is a lane.
    lanes_per_path: usize,
    lanes: Vec<Lane>,
    store: Store,
    out: Outgoing,
    /// Nothing is due before this time, which may be too early, never too late.
    next_ns: u64,
}

/// One path in one direction.
#[derive(Debug)]
struct Lane {
    model: PathModel,
    clean: bool,
    offered: u64,
    /// Packets delayed until later ones have passed. Unordered; a few dozen at most.
    held: Vec<Held>,
    /// The smallest `after` of the packets in `held`.
    next_after: u64,
    /// Packets on their way, in order of arrival.
    queue: VecDeque<Travelling>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    /// The packet may go once this number of packets has been offered to the lane …
    after: u64,
    /// … must go at this number …
    before: u64,
    /// … or at this time.
    until_ns: u64,
    travelling: Travelling,
}

#[derive(Clone, Copy, Debug)]
struct Travelling {
    deliver_at_ns: u64,
    parcel: u32,
    copies: u8,
}

/// The pool, and counters of packets that could not be stored or sent.
#[derive(Debug, Default)]
struct Store {
    pool: Pool,
    unheld: u64,
    refused: u64,
    /// Packets for which the kernel had no room, which are sent first.
    blocked: VecDeque<u32>,
}

/// The train that is being gathered.
#[derive(Debug)]
struct Outgoing {
    train: Train,
    route: Option<Route>,
    /// Parcels that contain the train's packets, to be released once it is sent.
    parcels: Vec<u32>,
    error: Option<io::Error>,
}

impl Shaper {
    pub(super) fn new(spec: Spec, seed: u64, start_ns: u64, lanes_per_path: usize) -> Self {
        Shaper {
            spec,
            seed,
            start_ns,
            lanes_per_path,
            lanes: Vec::new(),
            store: Store::default(),
            out: Outgoing {
                train: Train::new(SEGMENTS_MAX),
                route: None,
                parcels: Vec::new(),
                error: None,
            },
            next_ns: u64::MAX,
        }
    }

    /// Sends `train` over lane `lane`.
    pub(super) fn send(
        &mut self,
        now_ns: u64,
        lane: usize,
        port: &mut UdpPort,
        route: (usize, &Address),
        train: &Train,
    ) -> io::Result<Sent> {
        self.open_lanes(lane);
        let lane = &mut self.lanes[lane];
        if lane.clean {
            return port.send(route.0, route.1, train);
        }
        let mut exit = Exit { port, store: &mut self.store, out: &mut self.out };
        let (ecn, dscp) = (train.ecn(), train.dscp());
        let mut route = Route { socket: route.0, to: *route.1, ecn, dscp };
        for index in 0..train.len() {
            let decision = lane.model.offer(now_ns, train.packet_len(index));
            lane.offered += 1;
            let marked = decision.marked && train.ecn() != Ecn::NotCapable;
            route.ecn = if marked { Ecn::Congested } else { train.ecn() };
            let packet = (train.header(index), train.payload(index));
            if decision.copies > 0 {
                let due = lane.take(now_ns, &decision, route, packet, &mut exit);
                self.next_ns = self.next_ns.min(due);
            }
            if lane.next_after <= lane.offered {
                let to_come = train.len() - 1 - index;
                let due = lane.release_passed(now_ns, to_come, train.segment_size(), &mut exit);
                self.next_ns = self.next_ns.min(due);
            }
        }
        let result = exit.finish();
        self.note_blocked();
        result.map(|()| Sent::All)
    }

    /// Sends the packets that are due by `now_ns`.
    pub(super) fn release_due(&mut self, now_ns: u64, port: &mut UdpPort) -> io::Result<()> {
        if now_ns < self.next_ns {
            return Ok(());
        }
        self.next_ns = u64::MAX;
        let mut exit = Exit { port, store: &mut self.store, out: &mut self.out };
        for _ in 0..exit.store.blocked.len() {
            let Some(parcel) = exit.store.blocked.pop_front() else { break };
            exit.push_parcel(parcel, 1);
        }
        for lane in &mut self.lanes {
            lane.expire(now_ns);
            while let Some(first) = lane.queue.front().copied() {
                if first.deliver_at_ns > now_ns {
                    break;
                }
                lane.queue.pop_front();
                exit.push_parcel(first.parcel, first.copies);
            }
            self.next_ns = self.next_ns.min(lane.next_due());
        }
        let result = exit.finish();
        self.note_blocked();
        result
    }

    /// Time at which [`Shaper::release_due`] should next be called.
    pub(super) fn next_release_ns(&self) -> Option<u64> {
        (self.next_ns != u64::MAX).then_some(self.next_ns)
    }

    pub(super) fn counters(&self) -> ShaperCounters {
        let mut model = ModelCounters::default();
        for lane in &self.lanes {
            model.add(lane.model.counters());
        }
        ShaperCounters {
            model,
            unheld: self.store.unheld,
            refused: self.store.refused,
            held_bytes: self.store.pool.bytes(),
        }
    }

    /// Makes the packets for which the kernel had no room due at once.
    fn note_blocked(&mut self) {
        if !self.store.blocked.is_empty() {
            self.next_ns = 0;
        }
    }

    fn open_lanes(&mut self, lane: usize) {
        while self.lanes.len() <= lane {
            let number = self.lanes.len();
            let (path, direction) = (number / self.lanes_per_path, number % self.lanes_per_path);
            let seed = self.seed.wrapping_add((direction as u64) << 32);
            let model = PathModel::new(&self.spec, seed, path).starting_at(self.start_ns);
            let clean = model.conditions().is_clean();
            self.lanes.push(Lane {
                model,
                clean,
                offered: 0,
                held: Vec::with_capacity(HELD_ROOM),
                next_after: u64::MAX,
                queue: VecDeque::with_capacity(HELD_ROOM),
            });
        }
    }
}

impl Lane {
    /// Accepts a packet: sends it, or stores it. Returns the time at which something is due because
    /// of it.
    fn take(
        &mut self,
        now_ns: u64,
        decision: &Decision,
        route: Route,
        packet: (&[u8], RawSlice),
        exit: &mut Exit<'_>,
    ) -> u64 {
        let Decision { deliver_at_ns, copies, behind, .. } = *decision;
        if behind == 0 && deliver_at_ns <= now_ns && self.queue.is_empty() {
            for _ in 0..copies {
                exit.push(route, packet, None);
            }
            return u64::MAX;
        }
        let Some(parcel) = exit.store.hold(route, packet.0, packet.1) else { return u64::MAX };
        let travelling = Travelling { deliver_at_ns, parcel, copies };
        if behind == 0 {
            return self.enqueue(travelling);
        }
        let after = self.offered + u64::from(behind);
        let before = self.offered + u64::from(self.model.conditions().reorder);
        let until_ns = deliver_at_ns + REORDER_HOLD_NS;
        self.held.push(Held { after, before, until_ns, travelling });
        self.next_after = self.next_after.min(after);
        until_ns
    }

    /// Adds a packet behind those on their way. Returns the time of its arrival.
    fn enqueue(&mut self, mut travelling: Travelling) -> u64 {
        if let Some(last) = self.queue.back() {
            travelling.deliver_at_ns = travelling.deliver_at_ns.max(last.deliver_at_ns);
        }
        self.queue.push_back(travelling);
        travelling.deliver_at_ns
    }

    /// Releases packets that enough others have passed. Returns the time at which something is due
    /// because of that. A packet that may wait longer does so if it would cost a separate call:
    /// `to_come` packets of the current train, of `full_len` bytes, are still to join the outgoing
    /// train.
    fn release_passed(
        &mut self,
        now_ns: u64,
        to_come: usize,
        full_len: usize,
        exit: &mut Exit<'_>,
    ) -> u64 {
        let mut due = u64::MAX;
        let mut index = 0;
        while index < self.held.len() {
            let Held { after, before, travelling, .. } = self.held[index];
            let straight = travelling.deliver_at_ns <= now_ns && self.queue.is_empty();
            let may_wait = straight && before > self.offered;
            if after > self.offered || (may_wait && !exit.takes(travelling, to_come, full_len)) {
                index += 1;
                continue;
            }
            self.held.swap_remove(index);
            if straight {
                exit.push_parcel(travelling.parcel, travelling.copies);
            } else {
                due = due.min(self.enqueue(travelling));
            }
        }
        self.find_next_after();
        due
    }

    /// Moves delayed packets whose time is over to those on their way.
    fn expire(&mut self, now_ns: u64) {
        let mut index = 0;
        while index < self.held.len() {
            if self.held[index].until_ns > now_ns {
                index += 1;
                continue;
            }
            let held = self.held.swap_remove(index);
            self.enqueue(held.travelling);
        }
        self.find_next_after();
    }

    fn find_next_after(&mut self) {
        self.next_after = self.held.iter().map(|held| held.after).min().unwrap_or(u64::MAX);
    }

    fn next_due(&self) -> u64 {
        let queued = self.queue.front().map_or(u64::MAX, |first| first.deliver_at_ns);
        self.held.iter().map(|held| held.until_ns).min().unwrap_or(u64::MAX).min(queued)
    }
}

impl Store {
    fn hold(&mut self, route: Route, header: &[u8], payload: RawSlice) -> Option<u32> {
        let parcel = self.pool.store(route, header, payload);
        self.unheld += u64::from(parcel.is_none());
        parcel
    }
}

/// The outgoing side, during one call. The train must be empty when the call ends, because the
/// payload to which it refers is only valid during the call; so errors are stored until
/// [`Exit::finish`].
struct Exit<'a> {
    port: &'a mut UdpPort,
    store: &'a mut Store,
    out: &'a mut Outgoing,
}

impl Exit<'_> {
    /// Adds a packet, after sending the train so far if the packet does not fit. `parcel` is the
    /// packet's stored copy, if it has one; it is released when the packet has been sent.
    fn push(&mut self, route: Route, packet: (&[u8], RawSlice), parcel: Option<u32>) {
        let (header, payload) = packet;
        let len = header.len() + payload.len();
        if !self.joins(route, len) || self.out.train.len() >= self.segments_max() {
            self.flush();
            self.out.route = Some(route);
            self.out.train.set_ecn(route.ecn);
            self.out.train.set_dscp(route.dscp);
        }
        // The packet fits an empty train, because it came from one, or from a receive call that
        // accepts no longer packets.
        if self.out.train.push(header, payload).is_err() {
            self.store.refused += 1;
        }
        self.out.parcels.extend(parcel);
    }

    fn push_parcel(&mut self, number: u32, copies: u8) {
        for copy in 0..copies {
            let parcel = self.store.pool.get(number);
            let route = parcel.route;
            // SAFETY: the parcel's bytes stay where they are until it is released, which happens
            // when the train they are pushed to was sent.
            let bytes = unsafe { RawSlice::new(parcel.bytes.as_ptr(), parcel.bytes.len()) };
            let last = (copy + 1 == copies).then_some(number);
            self.push(route, (&[], bytes), last);
        }
    }

    /// True if a delayed packet can join the train without displacing any of the `to_come` packets
    /// of `full_len` bytes that follow.
    fn takes(&self, travelling: Travelling, to_come: usize, full_len: usize) -> bool {
        let parcel = self.store.pool.get(travelling.parcel);
        let len = parcel.bytes.len();
        let train = &self.out.train;
        let most = self.segments_max().min(TRAIN_BYTES_MAX / full_len.max(len));
        let joins = self.out.route.is_none() || self.joins(parcel.route, len);
        joins
            && train.len() + usize::from(travelling.copies) + to_come <= most
            && (len == full_len || to_come == 0)
    }

    fn joins(&self, route: Route, len: usize) -> bool {
        self.out.route == Some(route) && self.out.train.check(len).is_ok()
    }

    fn segments_max(&self) -> usize {
        self.port.features().segments_max
    }

    /// Sends the train, if there is one. Packets for which the kernel has no room are stored.
    fn flush(&mut self) {
        let Outgoing { train, route, parcels, error } = &mut *self.out;
        let Some(route) = route.take() else { return };
        match self.port.send(route.socket, &route.to, train) {
            Ok(Sent::All) => {}
            Ok(Sent::Blocked { sent }) => {
                for index in sent..train.len() {
                    let parcel = self.store.hold(route, train.header(index), train.payload(index));
                    self.store.blocked.extend(parcel);
                }
            }
            Err(failure) => {
                self.store.refused += train.len() as u64;
                error.get_or_insert(failure);
            }
        }
        train.clear();
        for parcel in parcels.drain(..) {
            self.store.pool.release(parcel);
        }
    }

    /// Sends the last train. Returns the first error since the beginning.
    fn finish(mut self) -> io::Result<()> {
        self.flush();
        self.out.error.take().map_or(Ok(()), Err)
    }
}
