//! Time, the network and its faults, and the checks at the end.

use crate::model::Model;
use crate::node::{Access, Node, content};
use crate::plan::{Kind, Random, Relaxed, Traffic, plan};
use fairway_device::Ranges;
use fairway_roce::wire::{Instant, Psn};
use fairway_roce::{LocalRange, Status, Transport};
use std::collections::BTreeMap;

/// Probabilities in 1/1000, per packet, except where a unit is given.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub loss: u64,
    pub duplication: u64,
    pub reordering: u64,
    pub corruption: u64,
    /// Longest duration of a placement in nanoseconds. Placements may overtake each other where any
    /// order is allowed.
    pub placement_ns: u64,
    /// A packet finds no room for the answers that have to be sent before it takes effect.
    pub blocked: u64,
}

impl Faults {
    pub const NONE: Faults = Faults {
        loss: 0,
        duplication: 0,
        reordering: 0,
        corruption: 0,
        placement_ns: 0,
        blocked: 0,
    };

    /// Some of the faults, drawn from a seed.
    pub fn of(seed: u64) -> Faults {
        let mut random = Random(seed ^ 0xfa17);
        let mut some = |most: u64| if random.permille(600) { random.below(most) } else { 0 };
        Faults {
            loss: some(60),
            duplication: some(60),
            reordering: some(60),
            corruption: some(20),
            placement_ns: some(4_000),
            blocked: some(500),
        }
    }
}

enum WorldEvent {
    Arrival { to: usize, bytes: Vec<u8> },
    Placed { at: usize, access: Box<Access> },
    Receives { at: usize },
}

pub struct World {
    pub nodes: [Node; 2],
    pub lost: u64,
    pub corrupted: u64,
    pub fingerprint: u64,
    now: u64,
    events: BTreeMap<(u64, u64), WorldEvent>,
    count: u64,
    wire_free: [u64; 2],
    /// The end of the last placement that was begun, in nanoseconds.
    placing_until: [u64; 2],
    random: Random,
    faults: Faults,
    traffic: Traffic,
    kill_after: Option<u64>,
}

const START: u64 = u64::MAX / 1000 - 50_000_000;
/// Time in nanoseconds at which a run must be over.
const END: u64 = START + 20_000_000_000;

impl World {
    pub fn new(seed: u64, faults: Faults, traffic: Traffic) -> World {
        let mut random = Random(seed);
        let small = random.below(4);
        let mtu = if traffic.patient { 1024 << (small / 2) } else { 256 << small };
        let mut nodes = [0, 1].map(|index| {
            let mut plan = plan(&mut random, &traffic, mtu);
            if traffic.relaxed == Relaxed::Sender && index == 1 {
                plan.clear();
            }
            Node::new(index, &traffic, plan)
        });
        // The first PSNs are near the end of the PSN space, so that they wrap.
        let first = [0, 1].map(|_| Psn::new(0).minus(random.below(300) as u32));
        let pairs = [nodes[0].pair, nodes[1].pair];
        let relaxed = [0, 1].map(|index| traffic.relaxed.includes(index));
        nodes[0].connect(pairs[1], first, mtu, (&traffic, relaxed[0]));
        nodes[1].connect(pairs[0], [first[1], first[0]], mtu, (&traffic, relaxed[1]));
        for index in [0, 1] {
            // The content that READs of the other node find.
            let plan = nodes[1 - index].plan.clone();
            for (id, planned) in plan.iter().enumerate() {
                if planned.kind == Kind::Read && !traffic.overlapping {
                    let (at, length) = (planned.at as usize, planned.length);
                    let bytes = content(1 - index, id, length);
                    nodes[index].memory.0[1][at..at + bytes.len()].copy_from_slice(&bytes);
                }
            }
            if traffic.transport == Transport::Rc {
                nodes[1 - index].model =
                    Some(Model::of(1 - index, &plan, &nodes[index].memory.0[1]));
            }
        }
        let mut world = World {
            nodes,
            lost: 0,
            corrupted: 0,
            fingerprint: 0,
            now: START,
            events: BTreeMap::new(),
            count: 0,
            wire_free: [START; 2],
            placing_until: [START; 2],
            random,
            faults,
            traffic,
            kill_after: None,
        };
        world.at(START, WorldEvent::Receives { at: 0 });
        world.at(START, WorldEvent::Receives { at: 1 });
        world
    }

    /// Makes node 1 fail after this number of packets.
    pub fn kill_after(&mut self, packets: u64) {
        self.kill_after = Some(packets);
    }

    fn at(&mut self, time: u64, event: WorldEvent) {
        self.count += 1;
        self.events.insert((time, self.count), event);
    }

    fn instant(&self) -> Instant {
        Instant::from_ns(self.now)
    }

    fn is_over(&self) -> bool {
        let first = self.nodes.iter().take(if self.kill_after.is_some() { 1 } else { 2 });
        let mut first = first.peekable();
        if self.kill_after.is_some() {
            return first
                .all(|node| node.next == node.plan.len() && node.host().in_use() == [0; 3]);
        }
        let idle = first.all(|node| {
            let [sends, _, pending] = node.host().in_use();
            node.next == node.plan.len() && sends == 0 && pending == 0
        });
        let arriving =
            self.events.values().any(|event| !matches!(event, WorldEvent::Receives { .. }));
        idle && !arriving
    }

    pub fn run(&mut self) {
        let mut idle_rounds = 0;
        while idle_rounds < 4 {
            for index in 0..2 {
                self.drive(index);
            }
            idle_rounds = if self.is_over() { idle_rounds + 1 } else { 0 };
            let mut next = self.events.first_key_value().map(|(key, _)| key.0);
            for node in &self.nodes {
                // Instants wrap, but the nanoseconds of this test do not. Picoseconds are rounded
                // up, so that no wait ends too early.
                let until =
                    |at: Instant| self.now + at.since(self.instant()).as_ps().div_ceil(1000);
                let timeout = node.driver.poll_timeout().map(until);
                next = [next, timeout].into_iter().flatten().min();
            }
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            assert!(self.now < END, "not over in time: {:?}", self.stuck());
            let now = self.instant();
            for node in &mut self.nodes {
                node.driver.handle_time(now);
            }
            while let Some(entry) = self.events.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let event = entry.remove();
                self.handle_event(event);
            }
        }
    }

    fn stuck(&self) -> Vec<(usize, [u32; 3], usize)> {
        self.nodes
            .iter()
            .map(|node| (node.next, node.host().in_use(), node.received.len()))
            .collect()
    }

    fn handle_event(&mut self, event: WorldEvent) {
        let now = self.instant();
        match event {
            WorldEvent::Receives { at } => {
                let plan = self.nodes[1 - at].plan.clone();
                self.nodes[at].poll(at, &plan, true);
                if !(at == 0
                    && self.kill_after.is_some()
                    && self.nodes[0].next > 0
                    && self.nodes[0].sent.iter().any(|sent| sent.status != Status::Success))
                {
                    self.nodes[at].post_receives(&self.traffic);
                }
                let pause = self.traffic.receive_pause_us * 1000;
                self.at(self.now + pause, WorldEvent::Receives { at });
            }
            WorldEvent::Arrival { to, bytes } => {
                if to == 1 && self.kill_after == Some(0) {
                    return;
                }
                if to == 1 {
                    self.kill_after = self.kill_after.map(|left| left - 1);
                }
                let from = self.nodes[1 - to].outer;
                self.nodes[to].blocked = self.random.permille(self.faults.blocked);
                let access = self.nodes[to].receive(now, &from, &bytes);
                self.answer(to);
                if let Some(access) = access {
                    self.begin(to, access);
                }
                self.execute(to);
            }
            WorldEvent::Placed { at, access } => {
                self.place(at, &access);
                self.execute(at);
            }
        }
    }

    fn place(&mut self, at: usize, access: &Access) {
        let now = self.instant();
        let [first, second] = &mut self.nodes;
        let (node, peer) = if at == 0 { (first, second) } else { (second, first) };
        node.place(now, access, peer.model.as_ref());
    }

    /// Begins a placement, which ends now or later: after all that were begun before it, or if it
    /// is relaxed, after those that it overlaps.
    fn begin(&mut self, at: usize, access: Access) {
        if self.faults.placement_ns == 0 {
            return self.place(at, &access);
        }
        let mut later = self.now + self.random.below(self.faults.placement_ns);
        if let Access::Place { target, .. } = &access
            && target.relaxed
        {
            let bytes = target.ranges();
            let earlier = self.events.iter().filter_map(|(key, event)| match event {
                WorldEvent::Placed { at: other, access } => {
                    let is_other = *other != at || matches!(**access, Access::Atomic(_));
                    (!is_other && overlap(bytes, access.ranges())).then_some(key.0)
                }
                _ => None,
            });
            later = earlier.fold(later, u64::max);
        } else {
            later = later.max(self.placing_until[at]);
            self.placing_until[at] = later;
        }
        self.at(later, WorldEvent::Placed { at, access: Box::new(access) });
    }

    fn execute(&mut self, at: usize) {
        let now = self.instant();
        while let Some(access) = self.nodes[at].due(now) {
            self.answer(at);
            self.begin(at, access);
        }
        self.answer(at);
    }

    /// Sends the answers that had to leave before a packet took effect.
    fn answer(&mut self, at: usize) {
        for answer in std::mem::take(&mut self.nodes[at].answers) {
            self.send(1 - at, answer);
        }
    }

    fn drive(&mut self, index: usize) {
        let now = self.instant();
        let r_key = self.nodes[1 - index].r_key;
        self.nodes[index].post(now, r_key);
        self.execute(index);
        while let Some(transmit) = self.nodes[index].driver.poll_transmit(now) {
            let bytes = self.nodes[index].datagram(&transmit);
            self.fingerprint = self
                .fingerprint
                .wrapping_mul(0x100_0000_01b3)
                .wrapping_add(self.now)
                .wrapping_add(u64::from(transmit.packet.bth.psn.value()) << 8)
                .wrapping_add(bytes.len() as u64);
            self.send(1 - index, bytes);
        }
        let plan = self.nodes[1 - index].plan.clone();
        self.nodes[index].poll(index, &plan, false);
    }

    fn send(&mut self, to: usize, bytes: Vec<u8>) {
        let faults = self.faults;
        let copies = 1 + u64::from(self.random.permille(faults.duplication));
        // The link has a rate of 10 Gb/s and a latency of 2 µs.
        self.wire_free[to] = self.wire_free[to].max(self.now) + bytes.len() as u64 * 8 / 10;
        for _ in 0..copies {
            if self.random.permille(faults.loss) {
                self.lost += 1;
                continue;
            }
            let mut bytes = bytes.clone();
            if self.random.permille(faults.corruption) {
                let bit = self.random.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
                self.corrupted += 1;
            }
            let mut delay = 2_000;
            if self.random.permille(faults.reordering) {
                delay += self.random.below(30_000);
            }
            self.at(self.wire_free[to] + delay, WorldEvent::Arrival { to, bytes });
        }
    }

    pub fn received(&self) -> usize {
        self.nodes.iter().map(|node| node.received.len()).sum()
    }

    /// Number of operations that consume a receive.
    pub fn posted(&self) -> usize {
        let plans = self.nodes.iter().flat_map(|node| &node.plan);
        plans.filter(|planned| planned.takes_receive()).count()
    }

    /// Checks everything that has to be true when all operations are over.
    pub fn check(&self) {
        for index in [0, 1] {
            let node = &self.nodes[index];
            let [sends, receives, pending] = node.host().in_use();
            assert_eq!((sends, pending, node.host().buffered()), (0, 0, 0));
            assert_eq!(u64::from(receives), node.receives_posted - node.received.len() as u64);
            assert!(node.statuses().all(|status| status == Status::Success));
            let ids: Vec<u64> = node.sent.iter().map(|completion| completion.id).collect();
            assert_eq!(node.violations, [""; 0], "memory changes in the order of posting");
            let signaled = (0..).zip(&node.plan).filter(|(_, planned)| planned.signaled);
            let expected: Vec<u64> = signaled.map(|(id, _)| id).collect();
            assert_eq!(ids, expected, "each once, in the order they were posted");
            if self.traffic.transport == Transport::Rc {
                self.check_delivered(index);
            }
        }
        self.check_memory();
    }

    /// Checks the messages that node `index` sent to the other.
    fn check_delivered(&self, index: usize) {
        let (node, peer) = (&self.nodes[index], &self.nodes[1 - index]);
        let takers = node.plan.iter().filter(|planned| planned.takes_receive()).count();
        assert_eq!(peer.received.len(), takers, "every SEND was delivered once");
    }

    /// Checks that the memory of each node is the result of the other's operations, and nothing
    /// else.
    pub fn check_memory(&self) {
        for index in [0, 1] {
            let Some(model) = &self.nodes[index].model else { continue };
            let is = &self.nodes[1 - index].memory.0[1];
            assert!(*is == model.memory, "the peer's memory is what was written, no byte more");
        }
    }
}

/// True if two lists have bytes in common.
fn overlap(one: &[LocalRange], other: &[LocalRange]) -> bool {
    one.iter().any(|one| {
        other.iter().any(|other| {
            one.segment == other.segment
                && one.offset < other.offset + u64::from(other.length)
                && other.offset < one.offset + u64::from(one.length)
        })
    })
}
