//! One host of the world: its NIC and its surroundings.

use crate::adversary::{ChannelName, Delivery};
use crate::operation::Missed;
use fairway_device::drive::{self, AccessOf, Driver, OutcomeOf, OutputOf};
use fairway_ub::control::CongestionProcessor;
use fairway_ub::policy::PolicySpec;
use fairway_ub::wire::{Cci, Cna, Duration, Instant, Msn, Psn, Tpn};
use fairway_ub::{ChannelId, CompletionQueueId, DropReason, LocalRange, Received, UbDevice};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;

/// Settings of a world, apart from the faults of its network.
#[derive(Clone, Copy, Debug)]
pub struct WorldConfig {
    /// Maximum number of packets that a NIC sends before its inputs are handled again.
    pub burst: u32,
    /// Time a byte takes on a node's wire.
    pub byte_time: Duration,
    /// Maximum delay from an input to a NIC's outputs, so that several inputs are handled before
    /// them.
    pub turn_delay: Duration,
    /// Payloads that are placed late, in thousandths.
    pub late_placement: u32,
    /// Maximum delay of late placement.
    pub placement_delay: Duration,
    /// Data packets, in thousandths, before which an unknown sender sends packets with the next
    /// sequence numbers.
    pub intrusion: u32,
    /// Maximum number of packets that such a packet is ahead.
    pub intrusion_ahead: u32,
    /// True if some senders request credit. If none does, peers grant some without a request.
    pub spends_credit: bool,
    /// Maximum number of packets that wait at a paused node; further ones are lost.
    pub inbox: usize,
    /// True if hosts know how long packets have waited at a paused node.
    pub knows_waits: bool,
    /// The protocol's own audit runs after every this many packets.
    pub audit_every: u64,
}

impl Default for WorldConfig {
    fn default() -> Self {
        WorldConfig {
            burst: 16,
            byte_time: Duration::from_ps(80),
            turn_delay: Duration::ZERO,
            late_placement: 0,
            placement_delay: Duration::ZERO,
            intrusion: 0,
            intrusion_ahead: 4,
            spends_credit: false,
            inbox: 1024,
            knows_waits: false,
            audit_every: 64,
        }
    }
}

/// Output of a NIC for its application.
pub(crate) type Output = OutputOf<UbDevice>;

/// Result of handling a packet.
pub(crate) type Outcome = OutcomeOf<UbDevice, Payload>;

/// A memory access that a NIC requests.
pub(crate) type Access = AccessOf<UbDevice, Payload>;

/// The payload of a packet.
pub(crate) struct Payload(pub(crate) Vec<u8>);

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// A memory access that has not been carried out yet.
#[derive(Debug)]
pub(crate) struct Late {
    pub(crate) id: u64,
    pub(crate) access: Access,
    pub(crate) channel: ChannelId,
    /// The message that the payload belongs to, for the case that its place is missing.
    pub(crate) missed: Option<Missed>,
}

impl Late {
    /// Range of memory that the access changes.
    pub(crate) fn target(&self) -> LocalRange {
        match &self.access {
            drive::Access::Place { target, .. } | drive::Access::Copy { to: target, .. } => *target,
            drive::Access::Atomic(atomic) => atomic.target,
            drive::Access::Store { .. } => unreachable!("the engine has no values to store"),
        }
    }
}

/// The parameters of a channel.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) leader: Option<ChannelId>,
    pub(crate) engine: u32,
    pub(crate) remote: Cna,
    pub(crate) remote_tpn: Tpn,
    pub(crate) first_psn: Psn,
    pub(crate) remote_first_psn: Psn,
    pub(crate) first_message: Msn,
    /// True if the channel's group goes on without it when it is dead.
    pub(crate) retires: bool,
    /// True if data packets may carry acknowledgements.
    pub(crate) carried_acks: bool,
    pub(crate) mtu: u32,
    pub(crate) paths: u32,
    pub(crate) remote_window: u32,
    pub(crate) remote_message_slots: u32,
    pub(crate) remote_read_slots: u32,
    pub(crate) policy: PolicySpec,
}

/// A node's record of one of its channels.
#[derive(Clone, Debug)]
pub(crate) struct ChannelNote {
    pub(crate) id: ChannelId,
    /// First channel of its group. The NIC identifies all channels of the group by it.
    pub(crate) leader: ChannelId,
    /// First channel of the peer's group.
    pub(crate) peer_leader: ChannelId,
    pub(crate) peer: usize,
    /// The channel in the plan.
    pub(crate) name: ChannelName,
    /// True if its group goes on without a dead channel.
    /// What both sides agreed on, to open the channel again after a rest.
    pub(crate) terms: Terms,
    /// Time at which the channel was opened, or opened again after a rest.
    pub(crate) awake_since: Instant,
    /// Incarnation of the peer that the channel leads to.
    pub(crate) peer_incarnation: u32,
    /// Time at which a packet of the channel was last accepted.
    pub(crate) last_received_at: Instant,
    pub(crate) last_data: Option<Received>,
    /// The worst congestion information of the data packets since the last acknowledgement.
    pub(crate) cci: Cci,
    /// Sequence numbers whose packet, or a void in its place, was accepted.
    pub(crate) taken: BTreeSet<u32>,
    /// Numbers of the datagrams that were accepted.
    pub(crate) datagrams: BTreeSet<u64>,
}

/// One host: a NIC and its surroundings.
pub(crate) struct Node {
    pub(crate) driver: Option<Driver<UbDevice, Payload>>,
    /// Runs the NIC's congestion controllers, if they run apart from the data path.
    pub(crate) controllers: Option<CongestionProcessor>,
    pub(crate) incarnation: u32,
    pub(crate) queues: Vec<CompletionQueueId>,
    pub(crate) channels: Vec<Option<ChannelNote>>,
    pub(crate) outputs: VecDeque<Output>,
    /// Drop counters of earlier incarnations.
    pub(crate) drops: [u64; DropReason::COUNT],
    pub(crate) paused: bool,
    /// Time at which the last pause ended.
    pub(crate) resumed: Instant,
    pub(crate) inbox: VecDeque<Delivery>,
    pub(crate) late: Vec<Late>,
    pub(crate) turn_at: Option<Instant>,
    pub(crate) wire_free: Instant,
}

impl Node {
    /// The NIC, unless the node has crashed.
    pub(crate) fn nic(&self) -> Option<&UbDevice> {
        self.driver.as_ref().map(Driver::device)
    }

    /// The NIC, unless the node has crashed.
    pub(crate) fn nic_mut(&mut self) -> Option<&mut UbDevice> {
        self.driver.as_mut().map(Driver::device_mut)
    }

    /// Makes a host whose NIC has not started.
    pub(crate) fn absent() -> Self {
        Node {
            driver: None,
            controllers: None,
            incarnation: 0,
            queues: Vec::new(),
            channels: Vec::new(),
            outputs: VecDeque::new(),
            drops: [0; DropReason::COUNT],
            paused: false,
            resumed: Instant::ZERO,
            inbox: VecDeque::new(),
            late: Vec::new(),
            turn_at: None,
            wire_free: Instant::ZERO,
        }
    }
}
