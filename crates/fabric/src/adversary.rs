//! What the network does to packets: one seeded decision per packet, link and path.

use fairway_device::random::Random;
use fairway_engine::wire::{Duration, Ecn, Instant};
use std::collections::BTreeMap;

/// A thing that goes wrong. Each is counted, so that a test can tell that it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Fault {
    /// A packet vanishes.
    Loss,
    /// A packet arrives twice.
    Duplicate,
    /// A copy of a packet arrives much later.
    LateDuplicate,
    /// A packet is held up, so that others overtake it.
    Delay,
    /// Bits of its headers are flipped.
    CorruptHeader,
    /// Its payload is damaged: the UDP checksum drops it.
    CorruptPayload,
    /// A switch marks it as having met congestion.
    Mark,
    /// It is lost because two nodes cannot reach each other.
    Partition,
    /// It is lost because one path, in one direction, is dead.
    Blackhole,
    /// A node does nothing for a while.
    Pause,
    /// The queue of a node that does nothing is full.
    PauseOverflow,
    /// A node forgets everything and starts again.
    Crash,
    /// Random bytes arrive.
    RandomBytes,
    /// A well-formed packet with random fields arrives from a stranger.
    Stranger,
    /// A packet of the past arrives again.
    Replay,
    /// A packet arrives that only a faulty peer would send.
    Forged,
    /// A payload is put in place late, after other packets have been handled.
    LatePlacement,
    /// What came before something it has to follow is executed when its turn comes.
    Deferred,
    /// A stranger sends what the next packet of a channel may be.
    Intrusion,
    /// A segment is deregistered while it is used.
    Deregister,
    /// A channel is closed in the middle of things.
    Close,
    /// A Jetty is destroyed.
    DestroyJetty,
    /// A Jetty is suspended.
    SuspendJetty,
    /// A Jetty is taken to the error state.
    FailJetty,
    /// A Jetty changes its state because an operation of it has failed.
    JettyFault,
    /// A Jetty leaves a group.
    LeaveGroup,
    /// A group is destroyed.
    DestroyGroup,
    /// Memory that is registered is not there when it is needed.
    MissingMemory,
}

impl Fault {
    /// How many there are.
    pub const COUNT: usize = 28;
    /// All of them, in the order of their numbers.
    pub const ALL: [Fault; Self::COUNT] = [
        Fault::Loss,
        Fault::Duplicate,
        Fault::LateDuplicate,
        Fault::Delay,
        Fault::CorruptHeader,
        Fault::CorruptPayload,
        Fault::Mark,
        Fault::Partition,
        Fault::Blackhole,
        Fault::Pause,
        Fault::PauseOverflow,
        Fault::Crash,
        Fault::RandomBytes,
        Fault::Stranger,
        Fault::Replay,
        Fault::Forged,
        Fault::LatePlacement,
        Fault::Deferred,
        Fault::Intrusion,
        Fault::Deregister,
        Fault::Close,
        Fault::DestroyJetty,
        Fault::SuspendJetty,
        Fault::FailJetty,
        Fault::JettyFault,
        Fault::LeaveGroup,
        Fault::DestroyGroup,
        Fault::MissingMemory,
    ];
}

/// Faults of the network. Chances are in thousandths of packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkFaults {
    /// Packets that vanish.
    pub loss: u32,
    /// Packets that arrive twice.
    pub duplicate: u32,
    /// Packets of which a copy arrives much later.
    pub late_duplicate: u32,
    /// How much later at most.
    pub late: Duration,
    /// Packets that are held up.
    pub delay: u32,
    /// By how much: uniform below this.
    pub delay_by: Duration,
    /// Of those, the ones that are held up ten times as long.
    pub heavy_tail: u32,
    /// Packets whose bits are flipped.
    pub corrupt: u32,
    /// Packets that are marked.
    pub mark: u32,
    /// The shortest time a packet takes.
    pub latency: Duration,
    /// How much slower the slowest path is.
    pub latency_spread: Duration,
}

/// For a while, packets from one node to another are lost: all, or those of one path.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    /// The sender.
    pub from: usize,
    /// The receiver.
    pub to: usize,
    /// The path, or all.
    pub path: Option<u8>,
    /// From when on.
    pub begin: Instant,
    /// Until when.
    pub end: Instant,
}

/// One arrival of a packet, as the network decided.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) after: Duration,
    pub(crate) ecn: Ecn,
    pub(crate) bytes: Vec<u8>,
    /// Its headers were damaged on the way: it must not be taken for a packet.
    pub(crate) damaged: bool,
    /// No NIC has sent it like this.
    pub(crate) hostile: bool,
}

/// One direction between two nodes, one path.
#[derive(Clone, Debug)]
struct Link {
    random: Random,
    latency: Duration,
    /// A path may have fewer faults than the network: its chances are shifted right by this.
    shelter: u32,
}

/// Decides the fate of packets.
#[derive(Debug)]
pub struct Adversary {
    seed: u64,
    network_faults: NetworkFaults,
    outages: Vec<Outage>,
    links: BTreeMap<(usize, usize, u8), Link>,
    healed: bool,
    pub(crate) faults: [u64; Fault::COUNT],
}

impl Adversary {
    /// Makes `network_faults`, and the `outages`.
    pub fn new(seed: u64, network_faults: NetworkFaults, outages: Vec<Outage>) -> Self {
        Adversary {
            seed,
            network_faults,
            outages,
            links: BTreeMap::new(),
            healed: false,
            faults: [0; Fault::COUNT],
        }
    }

    /// From now on nothing goes wrong any more.
    pub fn heal(&mut self) {
        self.healed = true;
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.healed
    }

    pub(crate) fn count(&mut self, fault: Fault) {
        self.faults[fault as usize] += 1;
    }

    /// What becomes of `bytes` (of which `header` are headers), sent at `now`.
    pub(crate) fn fate(
        &mut self,
        now: Instant,
        way: (usize, usize, u8),
        bytes: Vec<u8>,
        header: usize,
    ) -> Vec<Delivery> {
        let network_faults = self.network_faults;
        let link = self.link(way);
        let (latency, shelter) = (link.latency, link.shelter);
        let fine =
            Delivery { after: latency, ecn: Ecn::Capable, bytes, damaged: false, hostile: false };
        if self.healed {
            return vec![fine];
        }
        if let Some(fault) = self.outage(now, way) {
            self.count(fault);
            return Vec::new();
        }
        let mut random = self.link(way).random.clone();
        let mut happens = |chance: u32| random.chance(chance >> shelter);
        let (lost, twice, late) = (
            happens(network_faults.loss),
            happens(network_faults.duplicate),
            happens(network_faults.late_duplicate),
        );
        let (held, corrupt, marked) = (
            happens(network_faults.delay),
            happens(network_faults.corrupt),
            happens(network_faults.mark),
        );
        let mut deliveries = Vec::new();
        if lost {
            self.count(Fault::Loss);
        } else {
            deliveries.push(fine.clone());
        }
        if twice {
            self.count(Fault::Duplicate);
            let by = random.below(network_faults.delay_by.as_ps() + 1_000_000);
            let after = latency.saturating_add(Duration::from_ps(by));
            deliveries.push(Delivery { after, ..fine.clone() });
        }
        if late {
            self.count(Fault::LateDuplicate);
            let by = random.below(network_faults.late.as_ps() + 1);
            let after = latency.saturating_add(Duration::from_ps(by));
            deliveries.push(Delivery { after, ..fine });
        }
        if let Some(first) = deliveries.first_mut() {
            if held {
                self.count(Fault::Delay);
                let by = Duration::from_ps(random.below(network_faults.delay_by.as_ps() + 1));
                let factor = if random.chance(network_faults.heavy_tail) { 10 } else { 1 };
                first.after = first.after.saturating_add(by.times(factor));
            }
            if marked {
                self.count(Fault::Mark);
                first.ecn = Ecn::Congested;
            }
            if corrupt && !self.damage(first, header, &mut random) {
                deliveries.remove(0);
            }
        }
        self.link(way).random = random;
        deliveries
    }

    /// Flips bits; false if the packet does not survive that.
    fn damage(&mut self, delivery: &mut Delivery, header: usize, random: &mut Random) -> bool {
        if delivery.bytes.len() > header && random.chance(500) {
            self.count(Fault::CorruptPayload);
            return false;
        }
        self.count(Fault::CorruptHeader);
        let whole = delivery.bytes.clone();
        while delivery.bytes == whole {
            for _ in 0..random.range(1, 4) {
                let bit = random.below(header as u64 * 8) as usize;
                delivery.bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        delivery.damaged = true;
        true
    }

    fn outage(&self, now: Instant, way: (usize, usize, u8)) -> Option<Fault> {
        let (from, to, path) = way;
        let hit = self.outages.iter().find(|outage| {
            outage.from == from
                && outage.to == to
                && outage.path.is_none_or(|dead| dead == path)
                && now.is_at_or_after(outage.begin)
                && now.is_before(outage.end)
        })?;
        Some(if hit.path.is_some() { Fault::Blackhole } else { Fault::Partition })
    }

    fn link(&mut self, way: (usize, usize, u8)) -> &mut Link {
        let (seed, network_faults) = (self.seed, self.network_faults);
        self.links.entry(way).or_insert_with(|| {
            let (from, to, path) = way;
            let part = (from as u64) << 32 | (to as u64) << 16 | u64::from(path);
            let mut random = Random::fork(seed, part);
            let spread = random.below(network_faults.latency_spread.as_ps() + 1);
            let latency = network_faults.latency.saturating_add(Duration::from_ps(spread));
            let shelter = random.pick(&[0, 0, 0, 1, 2, 10]);
            Link { random, latency, shelter }
        })
    }
}
