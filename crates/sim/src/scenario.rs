//! The complete description of a run, as plain values.

use super::control::ControlSpec;
use super::topology::Network;
use super::traffic::{Flow, Span};
use crate::group::Group;
use crate::program::Program;
use crate::stream::Stream;
use crate::telemetry::HintSpec;
use fairway_sandbox::Policies;
use fairway_ub::Profile;
use fairway_ub::policy::{
    CongestionSpec, Late, LossSpec, NsccParameters, PathSpec, PolicySpec, RepsParameters,
};
use fairway_ub::wire::{Duration, Priority, Route};

/// How a switch chooses among ports that lead to the destination equally well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// By a hash of the flow, its path and the switch. The protocol's path is the entropy.
    #[default]
    Ecmp,
    /// The path is a source route: its digits choose the port at each switch on the way up.
    Source,
    /// Each packet takes a random port, drawn by the switch.
    Spray,
    /// Each packet takes the port with the shortest queue, as this switch sees its own ports now.
    Adaptive,
    /// Dimension by dimension; between groups of a dragonfly, by the link that the path selects.
    Dimension,
    /// As `Dimension`, but by way of a switch that is drawn for every packet (Valiant).
    Valiant,
    /// The packet's first switch compares its own queues toward a drawn switch and toward the
    /// destination, each multiplied by the number of links of that way, and takes the better way
    /// (UGAL-L).
    Ugal,
}

impl Routing {
    /// All variants, with their names in settings.
    pub const NAMES: [(&'static str, Routing); 7] = [
        ("ecmp", Routing::Ecmp),
        ("source", Routing::Source),
        ("spray", Routing::Spray),
        ("adaptive", Routing::Adaptive),
        ("dimension", Routing::Dimension),
        ("valiant", Routing::Valiant),
        ("ugal", Routing::Ugal),
    ];
}

/// When a switch marks packets (ECN).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marking {
    /// Never.
    #[default]
    Off,
    /// When the queue from which the packet leaves, this packet included, holds more than this.
    Threshold {
        /// In bytes.
        bytes: u32,
    },
    /// With a probability that rises from 0 at `low` to `permille` at `high`; always from `high`
    /// on.
    Random {
        /// Queue length, in bytes.
        low: u32,
        /// Queue length, in bytes; above `low`.
        high: u32,
        /// Probability, in thousandths.
        permille: u32,
    },
}

/// Transport protocol of all NICs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stack {
    /// Fairway: any order, over many paths.
    #[default]
    Fairway,
    /// RoCEv2 with one path for each queue pair; go-back-N retransmits everything from a missing
    /// packet on.
    Roce,
    /// RoCEv2 that retransmits missing packets only, with at most one bandwidth-delay product in
    /// flight (IRN).
    RoceIrn,
}

impl Stack {
    /// All variants, with their names in settings.
    pub const NAMES: [(&'static str, Stack); 3] =
        [("fairway", Stack::Fairway), ("roce", Stack::Roce), ("roce-irn", Stack::RoceIrn)];
}

/// Treatment of a data packet for which a queue has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The packet is dropped.
    #[default]
    Drop,
    /// Its payload is cut off, and its header continues with priority.
    Trim,
}

/// Priority flow control: a switch pauses the sender of a link when too many bytes from that link
/// wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pfc {
    /// Bytes above which the sender is paused.
    pub pause_bytes: u32,
    /// Bytes below which the sender is resumed.
    pub resume_bytes: u32,
}

/// A buffer shared by all ports of a switch; each queue may hold a fraction of the free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedBuffer {
    /// Bytes of the buffer for data, for the whole switch.
    pub bytes: u32,
    /// Fraction of the free space that a queue may hold (alpha), in thousandths.
    pub permille: u32,
}

/// Rates that a link may have, in megabits per second.
pub const LINK_MEGABITS: std::ops::RangeInclusive<u64> = 1..=100_000_000;
/// Maximum latency of a link, in picoseconds: one second.
pub const LATENCY_MAX_PS: u64 = 1_000_000_000_000;

/// A change of a link's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Time of the change, in picoseconds.
    pub at_ps: u64,
    /// Port that sends onto the link. The other direction is another link.
    pub link: u32,
    /// New rate in megabits per second; at 0, packets sent are lost.
    pub megabits: u64,
}

/// An increase of a link's latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Time of the change, in picoseconds.
    pub at_ps: u64,
    /// Port that sends onto the link, as in [`Change`].
    pub link: u32,
    /// New latency in picoseconds; not less than the initial one.
    pub latency_ps: u64,
}

/// Properties that all switch ports have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSpec {
    /// Room for data at a port, in bytes.
    pub bytes: u32,
    /// Room for control at a port, in bytes.
    pub control_bytes: u32,
    /// Treatment of a data packet that does not fit.
    pub overflow: Overflow,
    /// When data is marked.
    pub marking: Marking,
    /// What switches write into data packets of Fairway; `None` for nothing.
    pub hint: Option<HintSpec>,
    /// Room for data that ports share, instead of `bytes` each.
    pub shared: Option<SharedBuffer>,
    /// Priority flow control, if switches use it.
    pub pfc: Option<Pfc>,
    /// Classes that a port serves by strict priority, that of control included: 2 to 8. With fewer
    /// than 8, neighbouring classes of data are one.
    pub classes: u8,
}

impl QueueSpec {
    /// True if ports tell classes of data from each other.
    #[inline]
    pub(crate) fn has_data_classes(&self) -> bool {
        self.classes > 2
    }
}

/// A scenario: the network, its traffic and its transport.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The network.
    pub network: Network,
    /// Transport of all NICs.
    pub stack: Stack,
    /// Flows to be sent.
    pub flows: Vec<Flow>,
    /// For a trace: the flows of each operation.
    pub spans: Vec<Span>,
    /// How switches choose ports.
    pub routing: Routing,
    /// Properties of switch ports.
    pub queue: QueueSpec,
    /// True if a switch forwards a packet as soon as its first bit arrives and the port is free,
    /// instead of when it has arrived whole. Requires links of one rate.
    pub cut_through: bool,
    /// Payload bytes of a packet.
    pub mtu: u32,
    /// Bytes on the wire around the transport's headers: Ethernet with preamble and gap, IP and
    /// UDP.
    pub frame_bytes: u32,
    /// Bytes of a chunk; `None` for the policy's own choice.
    pub chunk: Option<u32>,
    /// Number of paths of every channel.
    pub paths: u32,
    /// Policies of every channel; `None` for those of [`Self::default_policy`].
    pub policy: Option<Policies>,
    /// Timing of every NIC; `None` for one adapted to this network: see [`Self::timing`].
    pub profile: Option<Profile>,
    /// Packets that a NIC takes from its engine at once when its wire is free. With 1, every packet
    /// is decided when it leaves. More is faster to simulate, and matches a NIC that receives a
    /// chunk at a time.
    pub burst: u32,
    /// Maximum packets in flight per channel; `None` for four bandwidth-delay products.
    pub window_packets: Option<u32>,
    /// Probability that a packet is lost on its host's link, times 2^32.
    pub loss: u32,
    /// Channels of every pair of hosts, which share [`Self::paths`]. A message uses the channel
    /// with the least queued work.
    pub split: u32,
    /// Links that fail, recover, or change their rate.
    pub changes: Vec<Change>,
    /// Links whose latency increases.
    pub delays: Vec<Delay>,
    /// Periods in which hosts take data out of their NICs at a limited rate.
    pub drains: Vec<Drain>,
    /// Receive queue of the hosts of [`Self::drains`].
    pub receive_queue: ReceiveQueue,
    /// Port whose packets are captured, and the maximum number of them.
    pub tap: Option<(u32, usize)>,
    /// Number of peers from which on a host's channels rest, and free their memory, when no message
    /// of theirs is under way and they will send none. Results do not depend on it.
    pub rest_from_peers: u32,
    /// Seed of all random draws.
    pub seed: u64,
    /// Whether to check that every byte of every message is placed exactly once, at its place.
    pub check: bool,
    /// Simulated time at which the run ends even if it is incomplete, in picoseconds.
    pub end_ps: u64,
    /// Program of the hosts' ranks, instead of flows.
    pub program: Option<Program>,
    /// Ranks that call a collective operation, instead of flows.
    pub group: Option<Group>,
    /// Continuous traffic, instead of flows; the run then ends at [`Self::end_ps`].
    pub streams: Vec<Stream>,
    /// Time from which streams and control are measured, in picoseconds.
    pub measure_ps: u64,
    /// Processor of the schedulers; `None` if they run inline with the data path and take no time.
    pub control: Option<ControlSpec>,
}

/// A period in which hosts take data out of their NICs at a limited rate, as one whose memory or
/// bus is busy. Packets without payload are not held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// The host; `None` for all.
    pub host: Option<u32>,
    /// Rate, in megabits of frames per second.
    pub megabits: u64,
    /// Start of the period, in picoseconds.
    pub from_ps: u64,
    /// End of the period, in picoseconds.
    pub until_ps: u64,
}

/// Queue in which data waits for its host. The host signals pressure to its peers while the queue
/// is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveQueue {
    /// Longest length, in bytes of frames. What does not fit is dropped.
    pub bytes: u32,
    /// Length from which the host signals pressure.
    pub press_bytes: u32,
    /// Length at which it ceases to.
    pub relieve_bytes: u32,
}

impl Default for ReceiveQueue {
    /// 512 KiB, with pressure from 128 KiB on, and down to 64 KiB.
    fn default() -> ReceiveQueue {
        ReceiveQueue { bytes: 512 * 1024, press_bytes: 128 * 1024, relieve_bytes: 64 * 1024 }
    }
}

/// Bytes of Ethernet's preamble, header, check and gap (38), IPv4 (20) and UDP (8).
pub const FRAME_BYTES: u32 = 66;

/// Messages up to this many bytes stay on one path. Live contexts have a higher limit, so that more
/// messages leave with one system call; a NIC makes none.
const SMALL_MESSAGE_BYTES: u32 = 8 * 1024;

/// Bytes that an acknowledgement covers, with packets of more than 4 KiB: with fewer
/// acknowledgements a sender would know little of its paths.
const ACKNOWLEDGE_BYTES: u32 = 64 * 1024;

/// Burst of a flow at its dequeue rate. No thread is late here, so that it only has to be as long
/// as the time between two decisions of a scheduler.
const PACING_BURST: Duration = Duration::from_us(4);

impl Scenario {
    /// Makes a scenario of `flows` over `network` with defaults: ECMP, packets of 4 KiB on 256
    /// paths, a path for each, drop-tail queues of one bandwidth-delay product, random marking from
    /// a fifth to four fifths of them, no checks.
    pub fn new(network: Network, flows: Vec<Flow>) -> Scenario {
        let queue = QueueSpec {
            bytes: 0,
            control_bytes: 0,
            overflow: Overflow::Drop,
            marking: Marking::Off,
            hint: None,
            shared: None,
            pfc: None,
            classes: Priority::COUNT,
        };
        let mut scenario = Scenario {
            network,
            stack: Stack::Fairway,
            flows,
            spans: Vec::new(),
            routing: Routing::Ecmp,
            queue,
            cut_through: false,
            mtu: 4096,
            frame_bytes: FRAME_BYTES,
            chunk: Some(4096),
            paths: 256,
            policy: None,
            profile: None,
            burst: 1,
            window_packets: None,
            loss: 0,
            split: 1,
            changes: Vec::new(),
            delays: Vec::new(),
            drains: Vec::new(),
            receive_queue: ReceiveQueue::default(),
            tap: None,
            rest_from_peers: 64,
            seed: 1,
            check: false,
            end_ps: 1_000_000_000_000,
            program: None,
            group: None,
            streams: Vec::new(),
            measure_ps: 0,
            control: None,
        };
        scenario.size_queues();
        scenario
    }

    /// Number of ranks of the program or of the group; 0 without one.
    pub fn ranks(&self) -> u32 {
        let program = self.program.map(|program| program.motif.ranks());
        program.or(self.group.as_ref().map(Group::ranks)).unwrap_or(0)
    }

    /// Sets the queues to one bandwidth-delay product, with marking in proportion.
    pub fn size_queues(&mut self) {
        let bytes = self.bdp_bytes().clamp(8 * u64::from(self.mtu), 1 << 30) as u32;
        let marking = Marking::Random { low: bytes / 5, high: bytes / 5 * 4, permille: 1000 };
        self.queue = QueueSpec { bytes, control_bytes: bytes, marking, ..self.queue };
    }

    /// Round trip of a full packet and a small one over the longest way, without queueing.
    pub fn base_rtt_ps(&self) -> u64 {
        let link = &self.network.links[0];
        let hops = u64::from(self.network.diameter());
        let bytes = u64::from(self.mtu + 2 * self.frame_bytes + 100);
        hops * (2 * link.latency_ps + bytes * 8_000_000 / link.megabits)
    }

    /// Bytes that a link carries in [`Self::base_rtt_ps`].
    pub fn bdp_bytes(&self) -> u64 {
        let megabits = self.network.links[0].megabits;
        (u128::from(self.base_rtt_ps()) * u128::from(megabits) / 8_000_000) as u64
    }

    /// Time in picoseconds in which a full queue empties at the slowest rate that a change or a
    /// drain sets, those of the slowest link and the slowest host added. 0 if none is slower than
    /// the network's links.
    pub(crate) fn slow_queue_ps(&self) -> u64 {
        let usual = self.network.links[0].megabits;
        let time = |slowest: Option<u64>, bytes: u32| match slowest {
            Some(rate) if rate < usual => u64::from(bytes.max(self.mtu)) * 8_000_000 / rate,
            _ => 0,
        };
        let links = self.changes.iter().map(|change| change.megabits).filter(|rate| *rate > 0);
        let hosts = self.drains.iter().map(|drain| drain.megabits);
        // Under PFC queues do not overflow, and have no length of their own.
        let links = if self.queue.pfc.is_none() { links.min() } else { None };
        time(links, self.queue.bytes) + time(hosts.min(), self.receive_queue.bytes)
    }

    /// Bytes that all wires of a host carry in [`Self::base_rtt_ps`].
    fn host_bdp_bytes(&self) -> u64 {
        self.bdp_bytes() * u64::from(self.network.wires())
    }

    /// Returns the policies of channels for which none are given: NSCC, paths that are used again
    /// as they deliver in time, and loss detection by time. NSCC's initial window, which is also
    /// the maximum, is one and a half bandwidth-delay products for all channels of a pair together.
    pub fn default_policy(&self) -> PolicySpec {
        let packet = u64::from(self.mtu + 80);
        let window = (self.host_bdp_bytes() * 3 / 2 / u64::from(self.split)).max(4 * packet);
        PolicySpec {
            congestion: CongestionSpec::Nscc(NsccParameters {
                max_bytes: window,
                initial_bytes: window,
                ..NsccParameters::default()
            }),
            path: PathSpec::Reps(RepsParameters { late: Late::Avoid, ..RepsParameters::default() }),
            loss: LossSpec::Rack,
            ..PolicySpec::default()
        }
    }

    /// Returns the timing of NICs on this network. Hosts are hardware and answer at once, so
    /// time-outs are a few round trips and not the milliseconds that processes need. RoCE's
    /// time-outs do not adapt to measured round trips and are therefore at least a millisecond.
    /// Where `degrade` or `drain` slows a link or a host, a packet may wait for as long as a full
    /// queue takes to empty. The longest time-out covers that, because hosts would otherwise fill
    /// the queue with copies.
    pub fn timing(&self) -> Profile {
        let rtt = Duration::from_ps(self.base_rtt_ps());
        let slow = Duration::from_ps(self.slow_queue_ps());
        let us = Duration::from_us;
        let shortest = if self.stack == Stack::Fairway { us(50) } else { us(1000) };
        Profile::new()
            .timeout_min(rtt.times(4).max(shortest))
            .timeout_max(rtt.times(32).max(us(500)).max(slow.times(2)))
            .timeout_initial(rtt.times(16).max(us(100)))
            .acknowledge_delay(rtt.divided_by(2).max(us(1)))
            .acknowledge_every((ACKNOWLEDGE_BYTES / self.mtu).clamp(2, 16))
            .reorder_tolerance((self.host_bdp_bytes() / u64::from(self.mtu)).max(64) as u32)
            .not_ready_delay(us(10))
            .path_probe(us(500))
            .probe_timeout(rtt.times(2).max(us(50)))
            .pacing_burst(PACING_BURST)
            .small_message_bytes(SMALL_MESSAGE_BYTES)
            .turn_bytes(1)
    }

    /// Number of paths of one of a pair's channels.
    pub(crate) fn paths_each(&self) -> u32 {
        (self.paths / self.split).max(1)
    }

    /// Returns the path of a packet, among all paths of its pair of hosts.
    pub(crate) fn path_of(&self, route: &Route) -> u8 {
        // A host's channels are numbered pair by pair.
        let member = route.source_tpn.value() % (1 << 16) % self.split;
        (member * self.paths_each()) as u8 + route.path
    }

    /// Packets in flight that a channel can track.
    pub(crate) fn window(&self) -> u32 {
        let packets = 4 * self.host_bdp_bytes() / u64::from(self.mtu.max(1));
        let window = self.window_packets.map_or(packets, u64::from);
        (window.clamp(128, 32_768) as u32).next_power_of_two().min(32_768)
    }
}
