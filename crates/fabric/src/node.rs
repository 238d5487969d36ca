//! One host of the world: its NIC, and what surrounds it.

use crate::adversary::Delivery;
use crate::operation::Missed;
use fairway_device::drive::{self, AccessOf, Driver, OutcomeOf, OutputOf};
use fairway_engine::control::CongestionProcessor;
use fairway_engine::wire::{Duration, Instant};
use fairway_engine::{ChannelId, CompletionQueueId, DropReason, LocalRange, Nic, Received};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;

/// Settings of a world, apart from the faults of its network.
#[derive(Clone, Copy, Debug)]
pub struct WorldConfig {
    /// Packets a NIC sends at most before its inputs are looked at again.
    pub burst: u32,
    /// Time a byte takes on a node's wire.
    pub byte_time: Duration,
    /// A NIC's outputs wait up to this long after an input, so that several inputs come first.
    pub turn_delay: Duration,
    /// Payloads, in thousandths, that are put in place late.
    pub late_placement: u32,
    /// How late at most.
    pub placement_delay: Duration,
    /// Data packets, in thousandths, before which a stranger sends what may be the next ones.
    pub intrusion: u32,
    /// How many packets ahead it is at most.
    pub intrusion_ahead: u32,
    /// Some senders request credit. Where none does, peers grant some unasked.
    pub spends_credit: bool,
    /// Packets that wait at a node that is paused; more are lost.
    pub inbox: usize,
    /// The engine's own accounts are checked after every so many packets.
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
            audit_every: 64,
        }
    }
}

/// What came out of a NIC for its application.
pub(crate) type Output = OutputOf<Nic>;

/// What became of a packet.
pub(crate) type Outcome = OutcomeOf<Nic, Payload>;

/// An access to memory that a NIC asked for.
pub(crate) type Access = AccessOf<Nic, Payload>;

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

/// An access to memory that has not been carried out yet.
#[derive(Debug)]
pub(crate) struct Late {
    pub(crate) id: u64,
    pub(crate) access: Access,
    pub(crate) channel: ChannelId,
    /// What the payload of a packet is of, should its place be missing.
    pub(crate) missed: Option<Missed>,
}

impl Late {
    /// The bytes that it changes.
    pub(crate) fn target(&self) -> LocalRange {
        match &self.access {
            drive::Access::Place { target, .. } | drive::Access::Copy { to: target, .. } => *target,
            drive::Access::Atomic(atomic) => atomic.target,
            drive::Access::Store { .. } => unreachable!("the engine has no values to store"),
        }
    }
}

/// What a node remembers of one of its channels.
#[derive(Clone, Debug)]
pub(crate) struct ChannelNote {
    pub(crate) id: ChannelId,
    /// The first channel of its group: by that the NIC names all of them.
    pub(crate) leader: ChannelId,
    /// The same of the peer.
    pub(crate) peer_leader: ChannelId,
    pub(crate) peer: usize,
    /// Which of the peer's lives it leads to.
    pub(crate) peer_incarnation: u32,
    /// When a packet of the channel was last accepted as such.
    pub(crate) heard: Instant,
    pub(crate) last_data: Option<Received>,
    /// Sequence numbers whose packet, or a void in its place, was taken.
    pub(crate) taken: BTreeSet<u32>,
    /// The numbers of the datagrams that it has taken.
    pub(crate) datagrams: BTreeSet<u64>,
}

/// One host: a NIC, and what surrounds it.
pub(crate) struct Node {
    pub(crate) driver: Option<Driver<Nic, Payload>>,
    /// Runs its congestion controls, if they run apart from it.
    pub(crate) controllers: Option<CongestionProcessor>,
    pub(crate) incarnation: u32,
    pub(crate) queues: Vec<CompletionQueueId>,
    pub(crate) channels: Vec<Option<ChannelNote>>,
    pub(crate) outputs: VecDeque<Output>,
    /// Counters of earlier incarnations.
    pub(crate) drops: [u64; DropReason::COUNT],
    pub(crate) paused: bool,
    /// When it went on after its last pause.
    pub(crate) resumed: Instant,
    pub(crate) inbox: VecDeque<Delivery>,
    pub(crate) late: Vec<Late>,
    pub(crate) turn_at: Option<Instant>,
    pub(crate) wire_free: Instant,
}

impl Node {
    /// The NIC, if there is one.
    pub(crate) fn nic(&self) -> Option<&Nic> {
        self.driver.as_ref().map(Driver::device)
    }

    /// The NIC, likewise.
    pub(crate) fn nic_mut(&mut self) -> Option<&mut Nic> {
        self.driver.as_mut().map(Driver::device_mut)
    }

    /// A host whose NIC has not started.
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
