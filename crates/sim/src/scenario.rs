//! Everything that a run is made from, as plain values.

use super::control::ControlSpec;
use super::topology::Network;
use super::traffic::{Flow, Span};
use crate::program::Program;
use crate::stream::Stream;
use fairway_engine::Profile;
use fairway_engine::policy::{CongestionSpec, PolicySpec, SwiftParameters};
use fairway_engine::wire::{Duration, Route};
use fairway_sandbox::Policies;

/// How a switch chooses among ports that lead on equally well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// By a hash of the flow, its path and the switch. The engine's path is the entropy.
    #[default]
    Ecmp,
    /// The path is a source route: its digits choose the port at each switch on the way up.
    Source,
    /// Every packet at random, drawn by the switch.
    Spray,
    /// Every packet to the port with the shortest queue, as this switch sees its own ports now.
    Adaptive,
    /// Dimension by dimension; between groups of a dragonfly by the link that the path names.
    Dimension,
    /// As `Dimension`, but first to a switch that is drawn for every packet (Valiant).
    Valiant,
    /// The packet's first switch compares its own queues toward a drawn switch and toward the
    /// destination, each times the links of that way, and takes the better way (UGAL-L).
    Ugal,
}

impl Routing {
    /// All of them, with the names by which they are chosen.
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

/// When a switch marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marking {
    /// Never.
    #[default]
    Off,
    /// When the queue a packet leaves holds more than this, the packet included.
    Threshold {
        /// In bytes.
        bytes: u32,
    },
    /// With a probability that rises from nothing at `low` to `permille` at `high`, and always from
    /// there on.
    Random {
        /// In bytes.
        low: u32,
        /// In bytes; above `low`.
        high: u32,
        /// In thousandths.
        permille: u32,
    },
}

/// What NICs speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stack {
    /// Fairway, in any order over many paths.
    #[default]
    Fairway,
    /// RoCEv2, one path for a queue pair; whatever comes behind a missing packet is sent again.
    Roce,
    /// RoCEv2, where only what is missing is sent again, and never more is under way than a
    /// bandwidth-delay product (IRN).
    RoceIrn,
}

impl Stack {
    /// All of them, with the names by which they are chosen.
    pub const NAMES: [(&'static str, Stack); 3] =
        [("fairway", Stack::Fairway), ("roce", Stack::Roce), ("roce-irn", Stack::RoceIrn)];
}

/// What becomes of data for which a queue has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// It is lost.
    #[default]
    Drop,
    /// Its payload is cut off, and the header goes first.
    Trim,
}

/// Priority flow control: data waits at the sender when too much of what came by a link waits here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pfc {
    /// The sender is told to wait when more bytes than this wait,
    pub pause_bytes: u32,
    /// and to go on when fewer than this do.
    pub resume_bytes: u32,
}

/// A buffer that all ports of a switch share: a queue may take a share of what is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedBuffer {
    /// Of the whole switch, for data.
    pub bytes: u32,
    /// What a queue may hold, in thousandths of what is free (alpha).
    pub permille: u32,
}

/// Megabits per second that a link may have.
pub const LINK_MEGABITS: std::ops::RangeInclusive<u64> = 1..=100_000_000;
/// The longest that a link may take, in picoseconds: a second.
pub const LATENCY_MAX_PS: u64 = 1_000_000_000_000;

/// A link changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When, in picoseconds.
    pub at_ps: u64,
    /// Which: the port that sends onto it. The other direction is another link.
    pub link: u32,
    /// Its new rate in megabits per second; 0: what is sent is lost.
    pub megabits: u64,
}

/// A link takes longer from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// When, in picoseconds.
    pub at_ps: u64,
    /// Which, as in [`Change`].
    pub link: u32,
    /// Its latency in picoseconds: not less than it had at first.
    pub latency_ps: u64,
}

/// What all switch ports are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSpec {
    /// Room for data at a port, in bytes.
    pub bytes: u32,
    /// Room for control at a port, in bytes.
    pub control_bytes: u32,
    /// What becomes of what does not fit.
    pub overflow: Overflow,
    /// When data is marked.
    pub marking: Marking,
    /// Room for data that ports share, instead of `bytes` each.
    pub shared: Option<SharedBuffer>,
    /// Pauses.
    pub pfc: Option<Pfc>,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The network.
    pub network: Network,
    /// What all NICs speak.
    pub stack: Stack,
    /// What is sent.
    pub flows: Vec<Flow>,
    /// Of a trace: which flows its operations are.
    pub spans: Vec<Span>,
    /// How switches choose.
    pub routing: Routing,
    /// What switches are like.
    pub queue: QueueSpec,
    /// A switch sends a packet on as soon as it begins to come, if the port is free, and not when
    /// it has come whole. For links of one rate.
    pub cut_through: bool,
    /// Payload bytes of a packet.
    pub mtu: u32,
    /// Bytes on the wire around our headers: Ethernet with preamble and gap, IP and UDP.
    pub frame_bytes: u32,
    /// Bytes of a chunk, if not the policy's own choice.
    pub chunk: Option<u32>,
    /// Paths of every channel.
    pub paths: u32,
    /// The policies of every channel; without, Swift for this network: see [`Self::swift`].
    pub policy: Option<Policies>,
    /// Timing of every NIC; without, one for this network: see [`Self::timing`].
    pub profile: Option<Profile>,
    /// Packets that a NIC takes from its engine at once when its wire is free: 1 decides for each
    /// packet when it leaves; more is faster to simulate, and is what a NIC does that is handed a
    /// chunk at a time.
    pub burst: u32,
    /// Packets in flight per channel; without, four bandwidth-delay products.
    pub window_packets: Option<u32>,
    /// Chance that a packet is lost on its host's link, times 2^32.
    pub loss: u32,
    /// Channels of every pair of hosts, which share [`Self::paths`]: a message goes by the one that
    /// has the least to do.
    pub split: u32,
    /// Links that fail, come back, or get slower.
    pub changes: Vec<Change>,
    /// Links that take longer.
    pub delays: Vec<Delay>,
    /// A port whose packets are kept, as many as the number says: for a capture.
    pub tap: Option<(u32, usize)>,
    /// Everything that is drawn at random is drawn from it.
    pub seed: u64,
    /// Check that every byte of every message is placed exactly once, and where it belongs.
    pub check: bool,
    /// Give up at this simulated time, in picoseconds.
    pub end_ps: u64,
    /// What ranks on the hosts do, instead of flows.
    pub program: Option<Program>,
    /// What hosts send on and on, instead of flows: then a run ends at [`Self::end_ps`].
    pub streams: Vec<Stream>,
    /// From when on streams and control are measured, in picoseconds.
    pub measure_ps: u64,
    /// What schedulers run on; without, they run in line with the data path and take no time.
    pub control: Option<ControlSpec>,
}

/// Ethernet's preamble, header, check and gap (38), IPv4 (20) and UDP (8).
pub const FRAME_BYTES: u32 = 66;

impl Scenario {
    /// `flows` over `network`, everything else as usual: ECMP, packets of 4 KiB in chunks of
    /// 32 KiB on 256 paths, drop-tail queues of one bandwidth-delay product, random marking from a
    /// fifth to four fifths of them, no checks.
    pub fn new(network: Network, flows: Vec<Flow>) -> Scenario {
        let queue = QueueSpec {
            bytes: 0,
            control_bytes: 0,
            overflow: Overflow::Drop,
            marking: Marking::Off,
            shared: None,
            pfc: None,
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
            chunk: Some(32 * 1024),
            paths: 256,
            policy: None,
            profile: None,
            burst: 1,
            window_packets: None,
            loss: 0,
            split: 1,
            changes: Vec::new(),
            delays: Vec::new(),
            tap: None,
            seed: 1,
            check: false,
            end_ps: 1_000_000_000_000,
            program: None,
            streams: Vec::new(),
            measure_ps: 0,
            control: None,
        };
        scenario.size_queues();
        scenario
    }

    /// Sets the queues to one bandwidth-delay product, with the marking that goes with it.
    pub fn size_queues(&mut self) {
        let bytes = self.bdp_bytes().clamp(8 * u64::from(self.mtu), 1 << 30) as u32;
        let marking = Marking::Random { low: bytes / 5, high: bytes / 5 * 4, permille: 1000 };
        self.queue = QueueSpec { bytes, control_bytes: bytes, marking, ..self.queue };
    }

    /// The round trip of a full packet and a small one over the longest way, without queues.
    pub fn base_rtt_ps(&self) -> u64 {
        let link = &self.network.links[0];
        let hops = u64::from(self.network.diameter());
        let bytes = u64::from(self.mtu + 2 * self.frame_bytes + 100);
        hops * (2 * link.latency_ps + bytes * 8_000_000 / link.megabits)
    }

    /// What a link carries in [`Self::base_rtt_ps`].
    pub fn bdp_bytes(&self) -> u64 {
        let megabits = self.network.links[0].megabits;
        (u128::from(self.base_rtt_ps()) * u128::from(megabits) / 8_000_000) as u64
    }

    /// What all wires of a host carry in [`Self::base_rtt_ps`].
    fn host_bdp_bytes(&self) -> u64 {
        self.bdp_bytes() * u64::from(self.network.wires())
    }

    /// Swift, for this network: it aims at a queue of three quarters of the round trip, from a
    /// window of one and a half bandwidth-delay products, which it never passes, for all channels
    /// of a pair together.
    pub fn swift(&self) -> PolicySpec {
        let (rtt, bdp) = (self.base_rtt_ps(), self.host_bdp_bytes());
        let packet = u64::from(self.mtu + 80);
        let window = (bdp * 3 / 2 / u64::from(self.split)).max(4 * packet);
        let congestion = CongestionSpec::Swift(SwiftParameters {
            target: Duration::from_ps(rtt / 4 * 7),
            range: Duration::from_ps(rtt / 2),
            increase_bytes: 4 * packet,
            min_bytes: 2 * packet,
            max_bytes: window,
            initial_bytes: window,
            tolerated_loss_permille: 5,
            ..SwiftParameters::default()
        });
        PolicySpec { congestion, ..PolicySpec::default() }
    }

    /// The timing of NICs on this network: hosts are hardware and answer at once, so time-outs are
    /// some round trips, and not the milliseconds that processes need. Those of RoCE do not follow
    /// what they see of round trips, and so are a millisecond at least.
    pub fn timing(&self) -> Profile {
        let rtt = Duration::from_ps(self.base_rtt_ps());
        let us = Duration::from_us;
        let shortest = if self.stack == Stack::Fairway { us(50) } else { us(1000) };
        Profile::new()
            .timeout_min(rtt.times(8).max(shortest))
            .timeout_max(rtt.times(800).max(us(5000)))
            .timeout_initial(rtt.times(16).max(us(100)))
            .acknowledge_delay(rtt.divided_by(2).max(us(1)))
            .acknowledge_every(16)
            .reorder_tolerance((self.host_bdp_bytes() / u64::from(self.mtu)).max(64) as u32)
            .not_ready_delay(us(10))
            .path_probe(us(500))
    }

    /// Paths of one of a pair's channels.
    pub(crate) fn paths_each(&self) -> u32 {
        (self.paths / self.split).max(1)
    }

    /// The path of a packet, among all of its pair of hosts.
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
