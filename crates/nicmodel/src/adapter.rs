//! A common interface to the two protocol engines for the model around them. The engines make every
//! decision of the protocol.

mod coherent;
mod roce;
mod ub;

pub(crate) use coherent::{CoherentSide, HOME};
pub(crate) use roce::RoceSide;
pub(crate) use ub::UbSide;

use crate::coherent::{Message, Pending};
use crate::config::{Config, Ordering, Verb};
use crate::error::ModelError;
use fairway_device::Ranges;
use fairway_device::drive::Access;
use fairway_roce as rocev2;
use fairway_ub::wire::{self, AtomicOperator, Ecn, Route};
use fairway_ub::{LocalRange, PlacementToken, Status};

/// Segment of the memory that peers access.
pub(crate) const EXPOSED: usize = 0;
/// Segment that this host's operations send from and read into.
pub(crate) const LOCAL: usize = 1;
/// Segment of the receive buffers.
pub(crate) const RECEIVES: usize = 2;
/// Segment in which the protocol sets payload aside.
pub(crate) const STASH: usize = 3;
/// Address by which peers name the first exposed byte.
pub(crate) const BASE: u64 = 0x10_0000_0000;
/// Receives that every endpoint keeps posted.
pub(crate) const RECEIVE_DEPTH: u32 = 64;

/// A packet of either protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Packet {
    Ub(Route, wire::Packet),
    Roce(wire::roce::Packet),
    Coherent(Message),
}

/// Purpose of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Request,
    /// Carries the result of a request.
    Response,
    /// Acknowledgements and refusals.
    Control,
}

/// A packet that an engine sends.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) to: usize,
    pub(crate) packet: Packet,
    pub(crate) role: Role,
    pub(crate) gather: Vec<LocalRange>,
    /// Bytes on the wire apart from payload, without preamble, FCS and gap.
    pub(crate) header_bytes: u32,
    /// The stream of PSNs within which the packet must stay in order until it is on the wire.
    pub(crate) stream: Option<u32>,
}

/// Identifies a placement to the protocol that requested it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token {
    Ub(PlacementToken),
    Roce(rocev2::PlacementToken),
    Coherent(Pending),
}

/// A change of memory or caches that an engine requests.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Bytes {
        ranges: Vec<LocalRange>,
        bytes: Vec<u8>,
    },
    Word {
        range: LocalRange,
        operator: AtomicOperator,
        operand: u64,
        compare: u64,
    },
    Copy {
        from: LocalRange,
        to: LocalRange,
    },
    /// A CPU's caches release a line or, with `keep`, only the right to change it. In the result,
    /// bit 0 says whether the line was present and bit 1 whether it was modified.
    Snoop {
        line: u64,
        keep: bool,
    },
}

/// An effect, and the token to report it with.
#[derive(Clone, Debug)]
pub(crate) struct Placing {
    pub(crate) effect: Effect,
    pub(crate) token: Token,
}

/// An operation for an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Post {
    pub(crate) id: u64,
    pub(crate) verb: Verb,
    /// Issued by an instruction, bypassing the transport.
    pub(crate) bypass: bool,
    pub(crate) peer: usize,
    pub(crate) jetty: u32,
    pub(crate) connection: u32,
    pub(crate) remote_jetty: u32,
    pub(crate) remote: u64,
    pub(crate) local: u64,
    pub(crate) length: u32,
    pub(crate) order: Ordering,
    pub(crate) operand: u64,
    pub(crate) compare: u64,
    /// For a SEND: hint from which a Jetty group may select the member.
    pub(crate) hint: u8,
    /// On a coherent fabric: the operation returns a line. The next field, `whole`, says that the
    /// line's data is not needed.
    pub(crate) returns: bool,
    pub(crate) whole: bool,
}

/// Status of a failed operation of either protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    Ub(Status),
    Roce(rocev2::Status),
}

/// Completion of an operation or of a receive.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) id: u64,
    /// Status of the failure, if the operation failed.
    pub(crate) failure: Option<Failure>,
    pub(crate) value: u64,
    pub(crate) receive: bool,
    /// For a receive: the target's endpoint that it belongs to.
    pub(crate) endpoint: u32,
}

/// Counters of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCounters {
    /// Packets sent.
    pub sent: u64,
    /// Retransmitted packets among those sent.
    pub resent: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Packets that had arrived before.
    pub duplicates: u64,
    /// Operations delayed to keep an order.
    pub gated: u64,
}

/// The protocol of one host: a `ub` NIC, a RoCE host or a coherent agent. All times are
/// picoseconds.
pub(crate) trait ProtocolAdapter {
    /// Posts an operation. Returns false if the protocol has no room for it now.
    ///
    /// # Errors
    /// If the protocol refuses the operation for a reason other than lack of room.
    fn post(&mut self, now: u64, post: &Post) -> Result<bool, ModelError>;
    /// Returns the next packet to send, if any is due.
    fn transmit(&mut self, now: u64) -> Option<Outgoing>;
    /// Handles a packet that arrived from host `from`. Returns the change of memory that it causes.
    fn receive(
        &mut self,
        now: u64,
        from: usize,
        packet: &Packet,
        payload: Vec<u8>,
        ecn: Ecn,
    ) -> Option<Placing>;
    /// Returns the change of memory of a packet that the NIC had buffered and can now place. Polled
    /// after every packet until there is none.
    fn recalled(&mut self, _now: u64) -> Option<Placing> {
        None
    }
    /// Returns the next change of memory that the protocol had deferred.
    fn execution(&mut self) -> Option<Placing>;
    /// Reports that a change of memory was carried out, with the old value of an atomic's word.
    fn placed(&mut self, now: u64, token: &Token, old: u64);
    /// Returns the next operation that has ended.
    fn completion(&mut self) -> Option<Done>;
    /// Posts receive number `receive` again.
    fn repost(&mut self, receive: u64);
    /// Returns the memory of receive number `receive`.
    fn receive_buffer(&self, _receive: u64) -> LocalRange {
        unreachable!("this stack has no receives")
    }
    /// Returns when [`Self::handle_timeout`] is to be called next, if ever.
    fn timeout(&self) -> Option<u64>;
    /// Handles the timers that are due at `now`.
    fn handle_timeout(&mut self, now: u64);
    /// Returns the counters of packets, retransmissions and time-outs.
    fn counters(&self) -> EngineCounters;
    /// Returns the transport contexts that a request of this operation uses at the initiator and at
    /// the target.
    fn contexts(&self, post: &Post) -> (u32, u32);
    /// Returns the figures specific to this protocol, by name.
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// Converts an access that a device requests. `named` is the variant of the device's tokens.
fn placing<T: Ranges, K: Copy>(
    access: Access<T, K, Vec<u8>>,
    named: impl FnOnce(K) -> Token,
) -> Placing {
    let token = named(access.token());
    let effect = match access {
        Access::Place { target, payload, .. } => {
            Effect::Bytes { ranges: target.ranges().to_vec(), bytes: payload }
        }
        Access::Store { target, value, .. } => {
            Effect::Bytes { ranges: target.ranges().to_vec(), bytes: value.to_ne_bytes().to_vec() }
        }
        Access::Copy { from, to, .. } => Effect::Copy { from, to },
        Access::Atomic(atomic) => Effect::Word {
            range: atomic.target,
            operator: atomic.operator,
            operand: atomic.operand,
            compare: atomic.compare,
        },
    };
    Placing { effect, token }
}

/// Returns the bytes of every memory of a host.
pub(crate) fn memory_bytes(config: &Config) -> [usize; 4] {
    let payload = config.payload as usize;
    let set = match config.workload {
        crate::WorkloadKind::Bulk => payload * 512 * config.concurrency.max(1) as usize,
        crate::WorkloadKind::Incast => {
            payload * 64 * (config.concurrency.max(1) * (config.hosts - 1)) as usize
        }
        crate::WorkloadKind::PointerChase => {
            4096 * (config.ops as usize + 4 + 64 * config.concurrency as usize)
        }
        _ => config.keys as usize * 64,
    };
    let set = set.clamp(1 << 20, 1 << 28).next_multiple_of(1 << 16);
    // A buffer per operation in flight, followed by the host's copies of the peer's memory.
    let buffers = slots(config) * slot_bytes(config);
    let receive = payload.next_multiple_of(64) * RECEIVE_DEPTH as usize;
    let endpoints = match config.fanout() {
        // A queue pair for each pair of a sender's endpoint and an endpoint that it addresses.
        Some(_) => {
            let senders = config.jetties * config.connections * (config.hosts - 1);
            (senders * config.addressed()).max(config.remote_jetties + 1)
        }
        None => config.remote_jetties.max(config.jetties),
    };
    let receives = receive * endpoints as usize;
    [set, buffers + set, receives, 256 * config.mtu as usize]
}

/// Bytes of an operation's buffer.
pub(crate) fn slot_bytes(config: &Config) -> usize {
    let scan = matches!(config.workload, crate::WorkloadKind::Ycsb('E'));
    let longest = if scan { 6400 } else { 64 };
    (config.payload as usize).max(longest).next_multiple_of(64)
}

/// Maximum number of operations in flight per host.
pub(crate) fn slots(config: &Config) -> usize {
    match config.rate_mops {
        Some(_) => ((64 << 20) / slot_bytes(config)).clamp(64, 4096),
        None => config.concurrency as usize,
    }
}

/// Returns the offsets of a range in its memory.
pub(crate) fn bytes_at(range: &LocalRange) -> std::ops::Range<usize> {
    range.offset as usize..range.offset as usize + range.length as usize
}
