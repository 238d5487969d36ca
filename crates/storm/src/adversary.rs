//! The faults of the simulated network: one seeded decision per packet, link and path.

use crate::plan::LastPath;
use fairway_device::random::Random;
use fairway_ub::wire::{Cci, Duration, Ecn, Instant};
use std::collections::BTreeMap;

/// Kind of fault. Each occurrence is counted, so that a test can check that the fault was injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Fault {
    /// A packet is lost.
    Loss,
    /// A switch cuts off a packet's payload, and only its headers arrive.
    Trim,
    /// A packet arrives twice.
    Duplicate,
    /// A copy of a packet arrives much later.
    LateDuplicate,
    /// A packet is delayed, so that others overtake it.
    Delay,
    /// Bits of a packet's headers are flipped.
    CorruptHeader,
    /// A packet's payload is damaged, so that the UDP checksum drops it.
    CorruptPayload,
    /// A switch marks a packet as congested (ECN).
    Mark,
    /// A switch writes congestion information into a data packet (NTH CCI).
    Hint,
    /// A packet is lost because two nodes cannot reach each other.
    Partition,
    /// A packet is lost because one path, in one direction, is down.
    Blackhole,
    /// A node is paused for a while.
    Pause,
    /// A packet is lost because the input queue of a paused node is full.
    PauseOverflow,
    /// A node loses all its state and restarts.
    Crash,
    /// A node receives random bytes.
    RandomBytes,
    /// A node receives a well-formed packet with random fields from an unknown sender.
    Stranger,
    /// A node receives a copy of an earlier packet.
    Replay,
    /// A node receives a packet that only a faulty peer would send.
    Forged,
    /// A payload is placed late, after other packets have been handled.
    LatePlacement,
    /// An operation that arrived before one that it has to follow is executed later, in order.
    Deferred,
    /// An unknown sender sends packets with the next sequence numbers of a channel.
    Intrusion,
    /// A segment is deregistered while it is in use.
    Deregister,
    /// A channel is closed while it is in use.
    Close,
    /// A Jetty is destroyed.
    DestroyJetty,
    /// A Jetty is suspended.
    SuspendJetty,
    /// A Jetty is put into the error state.
    FailJetty,
    /// Everything that is under way at a Jetty is ended at once.
    AbortJetty,
    /// A Jetty changes its state because one of its operations has failed.
    JettyFault,
    /// A Jetty leaves a group.
    LeaveGroup,
    /// A group is destroyed.
    DestroyGroup,
    /// Part of registered memory cannot be accessed when it is needed.
    MissingMemory,
    /// A packet is lost, or arrives late, because all paths of its channel have failed.
    DeadChannel,
    /// A channel rests, and forgets what it can do without.
    Rest,
}

impl Fault {
    /// Number of faults.
    pub const COUNT: usize = 33;
    /// All faults, in the order of their numbers.
    pub const ALL: [Fault; Self::COUNT] = [
        Fault::Loss,
        Fault::Trim,
        Fault::Duplicate,
        Fault::LateDuplicate,
        Fault::Delay,
        Fault::CorruptHeader,
        Fault::CorruptPayload,
        Fault::Mark,
        Fault::Hint,
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
        Fault::AbortJetty,
        Fault::JettyFault,
        Fault::LeaveGroup,
        Fault::DestroyGroup,
        Fault::MissingMemory,
        Fault::DeadChannel,
        Fault::Rest,
    ];
}

/// Place of the congestion information in a datagram.
const CCI: std::ops::Range<usize> = 11..13;

/// Fault rates of the network. Probabilities are in thousandths of packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkFaults {
    /// Packets that are lost.
    pub loss: u32,
    /// Of the packets that are lost, those whose headers arrive, if they have a payload.
    pub trim: u32,
    /// Packets that arrive twice.
    pub duplicate: u32,
    /// Packets of which a copy arrives late.
    pub late_duplicate: u32,
    /// Maximum delay of such a copy.
    pub late: Duration,
    /// Packets that are delayed.
    pub delay: u32,
    /// Upper limit of the delay, which is uniform.
    pub delay_by: Duration,
    /// Delayed packets whose delay is ten times as long.
    pub heavy_tail: u32,
    /// Packets whose bits are flipped.
    pub corrupt: u32,
    /// Packets that are marked.
    pub mark: u32,
    /// Data packets into which switches write congestion information.
    pub hint: u32,
    /// Minimum latency of a packet.
    pub latency: Duration,
    /// Maximum additional latency of a path.
    pub latency_spread: Duration,
}

/// A period in which packets from one node to another are lost: all, or those of one path.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    /// Sending node.
    pub from: usize,
    /// Receiving node.
    pub to: usize,
    /// The path, or `None` for all.
    pub path: Option<u8>,
    /// Start of the outage.
    pub begin: Instant,
    /// End of the outage.
    pub end: Instant,
}

/// What happens to the packets of one side of a channel that fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct Damage {
    /// Packets that are lost or late, in thousandths.
    pub held: u32,
    /// Of these, those that are lost, in thousandths.
    pub lost: u32,
    /// Minimum delay of the others, and maximum delay in addition.
    pub late: (Duration, Duration),
}

/// A period in which all paths of one channel of a group fail: its packets are lost or arrive late.
#[derive(Clone, Copy, Debug)]
pub struct ChannelOutage {
    /// The link of the plan.
    pub link: usize,
    /// The channel, by its place in the group.
    pub member: u32,
    /// What happens to the packets of each side of the link.
    pub damage: [Damage; 2],
    /// Start of the outage.
    pub begin: Instant,
    /// End of the outage.
    pub end: Instant,
}

/// Names a channel in the plan: its link, its place in the group, and the side that sends.
pub(crate) type ChannelName = (usize, u32, usize);

/// An arrival of a packet, as decided by the network.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) after: Duration,
    pub(crate) ecn: Ecn,
    pub(crate) bytes: Vec<u8>,
    /// True if the headers were damaged, so that the receiver must not accept the packet.
    pub(crate) damaged: bool,
    /// True if a switch has cut off the payload. The bytes are still those that were sent.
    pub(crate) trimmed: bool,
    /// True if no NIC has sent the packet in this form.
    pub(crate) hostile: bool,
    /// When it arrived, if it has waited since then.
    pub(crate) arrived: Option<Instant>,
}

impl Delivery {
    /// An arrival of a packet as it was sent.
    pub(crate) fn new(after: Duration, bytes: Vec<u8>) -> Delivery {
        let (damaged, trimmed, hostile) = (false, false, false);
        let arrived = None;
        Delivery { after, ecn: Ecn::Capable, bytes, damaged, trimmed, hostile, arrived }
    }
}

/// One path in one direction between two nodes.
#[derive(Clone, Debug)]
struct Link {
    random: Random,
    latency: Duration,
    /// Right shift of the path's fault probabilities, which gives it fewer faults than the network.
    shelter: u32,
}

/// Decides the fate of each packet.
#[derive(Debug)]
pub struct Adversary {
    seed: u64,
    network_faults: NetworkFaults,
    outages: Vec<Outage>,
    channel_outages: Vec<ChannelOutage>,
    /// Notices of dead channels that are lost, in thousandths.
    lost_notices: u32,
    outage_random: Random,
    last_path: Option<LastPath>,
    links: BTreeMap<(usize, usize, u8), Link>,
    healed: bool,
    pub(crate) faults: [u64; Fault::COUNT],
}

impl Adversary {
    /// Makes an adversary with these fault rates and outages.
    pub fn new(seed: u64, network_faults: NetworkFaults, outages: Vec<Outage>) -> Self {
        Adversary {
            seed,
            network_faults,
            outages,
            channel_outages: Vec::new(),
            lost_notices: 0,
            outage_random: Random::fork(seed, 19),
            last_path: None,
            links: BTreeMap::new(),
            healed: false,
            faults: [0; Fault::COUNT],
        }
    }

    /// Lets channels fail.
    pub fn with_channel_outages(mut self, outages: Vec<ChannelOutage>, lost_notices: u32) -> Self {
        (self.channel_outages, self.lost_notices) = (outages, lost_notices);
        self
    }

    /// Lets all paths but one fail for good.
    pub(crate) fn with_last_path(mut self, last_path: Option<LastPath>) -> Self {
        self.last_path = last_path;
        self
    }

    /// Stops all faults from now on, except that paths which have failed for good stay dead.
    pub fn heal(&mut self) {
        self.healed = true;
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.healed
    }

    pub(crate) fn count(&mut self, fault: Fault) {
        self.faults[fault as usize] += 1;
    }

    /// Returns the arrivals of a packet of `bytes` (the first `header` of them headers), sent at
    /// `now`.
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
        let can_be_trimmed = network_faults.trim > 0 && bytes.len() > header;
        let fine = Delivery::new(latency, bytes);
        if let Some(fault) = self.outage(now, way) {
            self.count(fault);
            return Vec::new();
        }
        if self.healed {
            return vec![fine];
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
        if lost && can_be_trimmed && random.chance(network_faults.trim) {
            self.count(Fault::Trim);
            deliveries.push(Delivery { trimmed: true, ..fine.clone() });
        } else if lost {
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

    /// True if the network loses a notice that a channel is dead.
    pub(crate) fn loses_notice(&mut self) -> bool {
        let loses =
            !self.healed && self.lost_notices > 0 && self.outage_random.chance(self.lost_notices);
        if loses {
            self.count(Fault::Loss);
        }
        loses
    }

    /// The arrivals of a packet whose channel has failed; `None` if the channel works.
    pub(crate) fn fate_of_channel(
        &mut self,
        now: Instant,
        (link, member, side): ChannelName,
        bytes: &[u8],
    ) -> Option<Vec<Delivery>> {
        let is_it = |outage: &&ChannelOutage| {
            (outage.link, outage.member) == (link, member)
                && now.is_at_or_after(outage.begin)
                && now.is_before(outage.end)
        };
        let outage = *self.channel_outages.iter().find(is_it).filter(|_| !self.healed)?;
        let Damage { held, lost, late: (least, more) } = outage.damage[side];
        let random = &mut self.outage_random;
        if !random.chance(held) {
            return None;
        }
        let is_lost = random.chance(lost);
        let after = least.saturating_add(Duration::from_ps(random.below(more.as_ps() + 1)));
        self.count(Fault::DeadChannel);
        if is_lost {
            return Some(Vec::new());
        }
        Some(vec![Delivery::new(after, bytes.to_vec())])
    }

    /// Has the switches of a way write congestion information into a data packet. The header check
    /// leaves the field out.
    pub(crate) fn write_hint(&mut self, way: (usize, usize, u8), bytes: &mut [u8]) {
        let permille = self.network_faults.hint;
        if self.healed || permille == 0 {
            return;
        }
        let random = &mut self.link(way).random;
        if !random.chance(permille) {
            return;
        }
        let hint = random.below(256) as u8;
        let hint = random.pick(&[0, 1, Cci::AT_THRESHOLD, 255, 255, hint]);
        let cci = if random.chance(400) { Cci::congested(hint) } else { Cci::increase(hint) };
        bytes[CCI].copy_from_slice(&cci.bits().to_be_bytes());
        self.count(Fault::Hint);
    }

    /// Flips bits. Returns false if the damage makes the UDP checksum drop the packet.
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
        // The check leaves out what switches may write.
        let checked = |bytes: &[u8]| [&bytes[..CCI.start], &bytes[CCI.end..]].concat();
        delivery.damaged = checked(&delivery.bytes) != checked(&whole);
        true
    }

    fn outage(&self, now: Instant, way: (usize, usize, u8)) -> Option<Fault> {
        let (from, to, path) = way;
        if self.last_path.is_some_and(|last| last.is_dead(path, now)) {
            return Some(Fault::Blackhole);
        }
        if self.healed {
            return None;
        }
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
