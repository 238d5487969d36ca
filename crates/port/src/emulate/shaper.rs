//! Applies paths' decisions to trains, with as few calls as the decisions allow.
//!
//! Packets that pass, in their new order, are gathered into trains again: a train that loses a
//! packet or has two of them change places is still one call. What has to wait is copied.

use std::collections::VecDeque;
use std::io;

use fairway_wire::Ecn;

use crate::emulate::model::{Decision, ModelCounters, PathModel};
use crate::emulate::pool::{Pool, Route};
use crate::emulate::spec::Spec;
use crate::limits::{REORDER_HOLD_NS, SEGMENTS_MAX};
use crate::memory::RawSlice;
use crate::udp::{Address, Sent, Train, UdpPort};

/// What emulated paths did, beside what their models counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShaperCounters {
    /// All paths' decisions.
    pub model: ModelCounters,
    /// Packets dropped because [`crate::HOLDING_BYTES_MAX`] were held.
    pub unheld: u64,
    /// Held packets that were dropped because the port refused them.
    pub refused: u64,
    /// Bytes held now.
    pub held_bytes: usize,
}

/// A set of paths, created as they are used.
#[derive(Debug)]
pub(super) struct Shaper {
    spec: Spec,
    seed: u64,
    start_ns: u64,
    /// Lanes with the same specification: more than one where each direction is a lane.
    lanes_per_path: usize,
    lanes: Vec<Lane>,
    store: Store,
    out: Outgoing,
    /// Nothing is due before; may be too early, never too late.
    next_ns: u64,
}

/// One path in one direction.
#[derive(Debug)]
struct Lane {
    model: PathModel,
    clean: bool,
    offered: u64,
    /// Held back for later ones to pass. In no order; a few dozen at most.
    held: Vec<Held>,
    /// The smallest `after` of those held.
    next_after: u64,
    /// On the way, in order of arrival.
    queue: VecDeque<Travelling>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    /// Released once so many packets were offered to the lane …
    after: u64,
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

/// The pool, and what could not go into it or out of it.
#[derive(Debug, Default)]
struct Store {
    pool: Pool,
    unheld: u64,
    refused: u64,
    /// Packets that the kernel had no room for, to be sent first.
    blocked: VecDeque<u32>,
}

/// The train that is being gathered.
#[derive(Debug)]
struct Outgoing {
    train: Train,
    route: Option<Route>,
    /// Parcels that the train's packets are in, to be released once it is sent.
    parcels: Vec<u32>,
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
        if self.lanes[lane].clean {
            return port.send(route.0, route.1, train);
        }
        let mut route = Route {
            socket: route.0,
            to: *route.1,
            ecn: train.ecn(),
        };
        for index in 0..train.len() {
            let lane = &mut self.lanes[lane];
            let decision = lane.model.offer(now_ns, train.packet_len(index));
            lane.offered += 1;
            route.ecn = if decision.marked && train.ecn() != Ecn::NotCapable {
                Ecn::Congested
            } else {
                train.ecn()
            };
            let (header, payload) = (train.header(index), train.payload(index));
            let at_once = decision.behind == 0 && decision.deliver_at_ns <= now_ns;
            if decision.copies > 0 && at_once && lane.queue.is_empty() {
                for _ in 0..decision.copies {
                    self.out
                        .push(port, &mut self.store, route, (header, payload), None)?;
                }
            } else if decision.copies > 0 {
                if let Some(parcel) = self.store.hold(route, header, payload) {
                    let Decision {
                        deliver_at_ns,
                        copies,
                        behind,
                        ..
                    } = decision;
                    let due = lane.take_in(
                        Travelling {
                            deliver_at_ns,
                            parcel,
                            copies,
                        },
                        behind,
                    );
                    self.next_ns = self.next_ns.min(due);
                }
            }
            if lane.next_after <= lane.offered {
                let due = lane.let_go(now_ns, port, &mut self.store, &mut self.out)?;
                self.next_ns = self.next_ns.min(due);
            }
        }
        self.flush(port)?;
        Ok(Sent::All)
    }

    /// Sends what is due by `now_ns`.
    pub(super) fn release_due(&mut self, now_ns: u64, port: &mut UdpPort) -> io::Result<()> {
        if now_ns < self.next_ns {
            return Ok(());
        }
        self.next_ns = u64::MAX;
        for _ in 0..self.store.blocked.len() {
            let Some(parcel) = self.store.blocked.pop_front() else {
                break;
            };
            self.out.push_parcel(port, &mut self.store, parcel, 1)?;
        }
        for lane in &mut self.lanes {
            lane.expire(now_ns);
            while let Some(first) = lane.queue.front().copied() {
                if first.deliver_at_ns > now_ns {
                    break;
                }
                lane.queue.pop_front();
                self.out
                    .push_parcel(port, &mut self.store, first.parcel, first.copies)?;
            }
            self.next_ns = self.next_ns.min(lane.next_due());
        }
        self.flush(port)
    }

    /// When [`Shaper::release_due`] should next be called.
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

    fn flush(&mut self, port: &mut UdpPort) -> io::Result<()> {
        let result = self.out.flush(port, &mut self.store);
        if !self.store.blocked.is_empty() {
            self.next_ns = 0;
        }
        result
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
                held: Vec::new(),
                next_after: u64::MAX,
                queue: VecDeque::new(),
            });
        }
    }
}

impl Lane {
    /// Keeps a packet; when something is due because of it.
    fn take_in(&mut self, travelling: Travelling, behind: u32) -> u64 {
        if behind == 0 {
            return self.enqueue(travelling);
        }
        let after = self.offered + u64::from(behind);
        let until_ns = travelling.deliver_at_ns + REORDER_HOLD_NS;
        self.held.push(Held {
            after,
            until_ns,
            travelling,
        });
        self.next_after = self.next_after.min(after);
        until_ns
    }

    /// Puts a packet behind those on the way; when it arrives.
    fn enqueue(&mut self, mut travelling: Travelling) -> u64 {
        if let Some(last) = self.queue.back() {
            travelling.deliver_at_ns = travelling.deliver_at_ns.max(last.deliver_at_ns);
        }
        self.queue.push_back(travelling);
        travelling.deliver_at_ns
    }

    /// Lets those go that enough others have passed; when something is due because of it.
    fn let_go(
        &mut self,
        now_ns: u64,
        port: &mut UdpPort,
        store: &mut Store,
        out: &mut Outgoing,
    ) -> io::Result<u64> {
        let mut due = u64::MAX;
        let mut index = 0;
        while index < self.held.len() {
            if self.held[index].after > self.offered {
                index += 1;
                continue;
            }
            let travelling = self.held.swap_remove(index).travelling;
            if travelling.deliver_at_ns <= now_ns && self.queue.is_empty() {
                out.push_parcel(port, store, travelling.parcel, travelling.copies)?;
            } else {
                due = due.min(self.enqueue(travelling));
            }
        }
        self.next_after = self
            .held
            .iter()
            .map(|held| held.after)
            .min()
            .unwrap_or(u64::MAX);
        Ok(due)
    }

    /// Sends those on their way that were held long enough.
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
        self.next_after = self
            .held
            .iter()
            .map(|held| held.after)
            .min()
            .unwrap_or(u64::MAX);
    }

    fn next_due(&self) -> u64 {
        let queued = self
            .queue
            .front()
            .map_or(u64::MAX, |first| first.deliver_at_ns);
        self.held
            .iter()
            .map(|held| held.until_ns)
            .min()
            .unwrap_or(u64::MAX)
            .min(queued)
    }
}

impl Store {
    fn hold(&mut self, route: Route, header: &[u8], payload: RawSlice) -> Option<u32> {
        let parcel = self.pool.store(route, header, payload);
        self.unheld += u64::from(parcel.is_none());
        parcel
    }
}

impl Outgoing {
    /// Adds a packet, after sending the train so far if it can't take this one. `parcel` is where
    /// the packet's bytes are, if they are ours; it is released when they are sent.
    fn push(
        &mut self,
        port: &mut UdpPort,
        store: &mut Store,
        route: Route,
        packet: (&[u8], RawSlice),
        parcel: Option<u32>,
    ) -> io::Result<()> {
        let (header, payload) = packet;
        let fits = self.route == Some(route)
            && self.train.len() < port.features().segments_max
            && self.train.check(header.len() + payload.len()).is_ok();
        let mut result = Ok(());
        if !fits {
            result = self.flush(port, store);
            self.route = Some(route);
            self.train.set_ecn(route.ecn);
        }
        // Fits an empty train: it came from one, or from a receive call that takes no more.
        if self.train.push(header, payload).is_err() {
            store.refused += 1;
        }
        self.parcels.extend(parcel);
        result
    }

    fn push_parcel(
        &mut self,
        port: &mut UdpPort,
        store: &mut Store,
        number: u32,
        copies: u8,
    ) -> io::Result<()> {
        let mut result = Ok(());
        for copy in 0..copies {
            let parcel = store.pool.get(number);
            let route = parcel.route;
            // SAFETY: the parcel's bytes stay where they are until it is released, which happens
            // when the train they are pushed to was sent.
            let bytes = unsafe { RawSlice::new(parcel.bytes.as_ptr(), parcel.bytes.len()) };
            let last = (copy + 1 == copies).then_some(number);
            let pushed = self.push(port, store, route, (&[], bytes), last);
            result = result.and(pushed);
        }
        result
    }

    /// Sends the train, if there is one. What the kernel has no room for is kept.
    fn flush(&mut self, port: &mut UdpPort, store: &mut Store) -> io::Result<()> {
        let Some(route) = self.route.take() else {
            return Ok(());
        };
        let result = port.send(route.socket, &route.to, &self.train);
        if let Ok(Sent::Blocked { sent }) = result {
            for index in sent..self.train.len() {
                let (header, payload) = (self.train.header(index), self.train.payload(index));
                let parcel = store.hold(route, header, payload);
                store.blocked.extend(parcel);
            }
        }
        store.refused += if result.is_err() {
            self.train.len() as u64
        } else {
            0
        };
        self.train.clear();
        for parcel in self.parcels.drain(..) {
            store.pool.release(parcel);
        }
        result.map(|_| ())
    }
}
