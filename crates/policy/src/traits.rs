//! The interfaces between the protocol and policies.
//!
//! The hooks are those of UCCL's interface (paper appendix A): chunk size
//! ([`CongestionControl::chunk_bytes`]), pacing ([`CongestionControl::pacing_bytes_per_second`] and
//! [`CongestionControl::pacing_burst_bytes`]), path choice ([`PathChoice::choose`]), retransmit
//! permission ([`CongestionControl::permit_retransmit`]), data and retransmitted data at the
//! receiver ([`CongestionControl::on_data`]), acknowledgement ([`CongestionControl::on_ack`]),
//! credit ([`CongestionControl::on_credit`], with [`CongestionControl::on_sent`],
//! [`CongestionControl::allowance_bytes`] and [`CongestionControl::credit_request`] for congestion
//! controls that spend credit).

use fairway_wire::{Cci, Duration, Instant};

use crate::{CreditRequest, MemoryVisitor, UnscheduledClasses};

/// Information of one acknowledgement about a whole channel.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckSample {
    /// When the acknowledgement arrived.
    pub now: Instant,
    /// Bytes (headers included) that it newly acknowledged.
    pub acked_bytes: u32,
    /// Packets that it newly acknowledged.
    pub acked_packets: u32,
    /// The path of the echoed packet.
    pub path: u8,
    /// Round trip of the echoed packet, without the receiver's processing time unless
    /// `endpoint_delay` is known; `None` if the echo was of a retransmission or was not new.
    pub rtt: Option<Duration>,
    /// Smoothed round trip of the channel.
    pub smoothed_rtt: Duration,
    /// Data packets that arrived with a congestion mark since the last sample.
    pub marked_packets: u32,
    /// Bytes still in flight after this acknowledgement.
    pub bytes_in_flight: u64,
    /// The worst congestion information that switches have written into the data packets which
    /// this acknowledgement reports. Only the simulator's switches write it.
    pub cci: Cci,
    /// True if the receiver signals back-pressure, or this host's transmit queue is full.
    pub pressure: bool,
    /// True if the window (and not a lack of data) limited the sender since the last sample: a
    /// window that was not used should not grow.
    pub window_limited: bool,
    /// The part of `rtt` that the two hosts caused and not the fabric, if that is known.
    pub endpoint_delay: Option<Duration>,
    /// Number of switches that the acknowledgement has passed; zero if they are not counted, as in
    /// a process.
    pub hops: u8,
}

/// Information about packets that were declared lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct LossSample {
    /// When the packets were declared lost.
    pub now: Instant,
    /// Bytes lost.
    pub lost_bytes: u32,
    /// The path that lost them.
    pub path: u8,
    /// Smoothed round trip of the channel.
    pub smoothed_rtt: Duration,
    /// True if the retransmission timer detected the loss, and not later acknowledgements.
    pub by_timeout: bool,
    /// When the newest of the packets that were declared lost together had been sent.
    pub sent_at: Instant,
}

/// Decides how much may be in flight and how fast it leaves. One object per TP channel.
pub trait CongestionControl: Send {
    /// Name of the policy in a specification.
    fn name(&self) -> &'static str;
    /// Bytes that may be in flight on the channel.
    fn window_bytes(&self) -> u64;
    /// An acknowledgement arrived.
    fn on_ack(&mut self, sample: &AckSample);
    /// Packets were declared lost.
    fn on_loss(&mut self, sample: &LossSample);
    /// Earlier losses turned out to be reordering: `packets` were retransmitted unnecessarily.
    fn on_spurious(&mut self, _now: Instant, _packets: u32) {}
    /// Pacing rate in bytes per second, or `None` for as fast as the window allows.
    fn pacing_bytes_per_second(&self) -> Option<u64> {
        None
    }
    /// Bytes that may leave back to back before the sender pauses for as long as they take at the
    /// pacing rate. Zero spaces single packets; a larger number saves system calls.
    fn pacing_burst_bytes(&self) -> u32 {
        0
    }
    /// True if pacing only spreads a window of at least one packet over a round trip. A packet then
    /// need not wait while nothing is in flight: a round trip that is overestimated, because no
    /// packet measures it, must not limit the sender.
    fn paces_within_window(&self) -> bool {
        false
    }
    /// Size of the next chunk (one burst on one path) in bytes, when `remaining` bytes wait.
    fn chunk_bytes(&self, remaining: u64) -> u32 {
        remaining.min(32 * 1024) as u32
    }
    /// Whether a lost packet of `bytes` may be retransmitted now, although the window is full. By
    /// default it may not: a retransmission needs room in the window as new data does (RFC 6675 §5,
    /// step C). The protocol does not call this for a probe, which may always leave. A channel
    /// whose window has shrunk below the bytes in flight recovers because overdue packets no longer
    /// count as in flight.
    fn permit_retransmit(&mut self, _now: Instant, _bytes: u32) -> bool {
        false
    }
    /// Receiver side: `bytes` of data arrived, `retransmitted` or not.
    fn on_data(&mut self, _now: Instant, _bytes: u32, _retransmitted: bool) {}
    /// The receiver granted `bytes` of credit. On the wire credit is a running total: `bytes` is
    /// the growth of the highest total received.
    fn on_credit(&mut self, _now: Instant, _bytes: u32) {}
    /// Credit in bytes that is accepted without a request ([`Self::credit_request`]), because the
    /// receiver may grant it in advance. Credit beyond this and the requests is ignored.
    fn credit_ahead_bytes(&self) -> u64 {
        0
    }
    /// A data packet or chunk left, new or retransmitted, with `bytes` (headers included).
    /// `backlog_bytes` still wait on the channel: posted and not sent, or lost and not
    /// retransmitted.
    fn on_sent(&mut self, _now: Instant, _bytes: u32, _backlog_bytes: u64) {}
    /// Credit in bytes that has not been spent. While there is some, data has the class that the
    /// receiver granted.
    fn credit_bytes(&self) -> u64 {
        0
    }
    /// Classes of data that leaves without credit. They never change.
    fn unscheduled_classes(&self) -> UnscheduledClasses {
        UnscheduledClasses::NONE
    }
    /// Bytes that may leave, new or retransmitted, before more credit arrives. Nothing leaves while
    /// it is zero; a packet may exceed it.
    fn allowance_bytes(&self) -> u64 {
        u64::MAX
    }
    /// A request to send (RTS) if one is due, with `backlog_bytes` waiting. Called when work was
    /// posted, when something was sent, granted, acknowledged or lost, and at
    /// [`Self::credit_request_at`].
    fn credit_request(&mut self, _now: Instant, _backlog_bytes: u64) -> Option<CreditRequest> {
        None
    }
    /// When [`Self::credit_request`] must be called again even if nothing happens. It must lie
    /// after the last event: what is due is called at once, without end if it stays due.
    fn credit_request_at(&self) -> Option<Instant> {
        None
    }
}

/// The state of one path that a path choice may use: one cache line, because a channel with
/// hundreds of paths uses another one for every packet.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub struct PathView {
    /// Smoothed round trip; zero until the first sample.
    pub smoothed_rtt: Duration,
    /// Round trip of the last probe, without the time at the peer; zero if none was answered.
    pub probed_rtt: Duration,
    /// Mean deviation of the round trip.
    pub rtt_deviation: Duration,
    /// Packets in flight.
    pub in_flight: u32,
    /// Packets sent since the channel opened.
    pub sent: u64,
    /// Packets declared lost since the channel opened.
    pub lost: u64,
    /// Data packets that arrived with a congestion mark, according to acknowledgements so far.
    pub marked: u64,
    /// True if the path is believed to work. The protocol never sends on another one; a choice of
    /// such a path is replaced by the next usable path.
    pub usable: bool,
}

/// A chunk for which a path is chosen.
#[derive(Clone, Copy, Debug)]
pub struct ChunkRequest {
    /// When the chunk is about to leave.
    pub now: Instant,
    /// Bytes in the chunk.
    pub bytes: u32,
    /// A random number from the NIC's seeded generator.
    pub random: u32,
}

/// Information of an acknowledgement about one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathAck {
    /// When the acknowledgement arrived.
    pub now: Instant,
    /// Packets of this path that it newly acknowledged.
    pub acked_packets: u32,
    /// Packets that arrived with a congestion mark, as far as they can be attributed to this path.
    pub marked_packets: u32,
    /// Round trip of the path, if the acknowledgement contains one.
    pub rtt: Option<Duration>,
    /// Time since the acknowledged packet was sent, if it was sent once: its round trip, and the
    /// time for which the receiver gathered packets for the acknowledgement.
    pub elapsed: Option<Duration>,
}

/// Decides which path a chunk takes. One object per TP channel.
pub trait PathChoice: Send {
    /// Name of the policy in a specification.
    fn name(&self) -> &'static str;
    /// Allocates whatever memory the policy will need, so that no other call allocates any. A
    /// caller that does not mind leaves this out, and memory that is never needed is not allocated.
    fn prepare(&mut self) {}
    /// The path for the next chunk: an index into `paths`, which is never empty.
    fn choose(&mut self, paths: &[PathView], request: &ChunkRequest) -> usize;
    /// Whether a chunk may leave on any path. Called before [`Self::choose`]; if not, the channel
    /// waits until something is acknowledged or lost.
    fn has_room(&self, _paths: &[PathView]) -> bool {
        true
    }
    /// Packets of a path were acknowledged.
    fn on_ack(&mut self, _path: usize, _ack: &PathAck) {}
    /// Packets of a path were declared lost.
    fn on_loss(&mut self, _path: usize, _sample: &LossSample) {}
    /// Names the memory that the next calls read, beside the policy's own value.
    fn visit_memory(&self, _visitor: &mut MemoryVisitor<'_>) {}
    /// Of `count` paths, the one that a chunk will probably take after `others` other chunks, if
    /// that can be said without effort.
    fn foresee(&self, _count: usize, _others: usize) -> Option<usize> {
        None
    }
}

/// Evidence about one unacknowledged packet when later ones have been acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    /// Packets sent later on the same path that have been acknowledged, counted up to the newest of
    /// them.
    pub path_distance: u32,
    /// Distance to the highest acknowledged PSN, in packets of the channel.
    pub psn_distance: u32,
    /// The receiver reported that the gap is wider than its reorder tolerance.
    pub beyond_tolerance: bool,
    /// Time since the packet was sent.
    pub age: Duration,
    /// How much later the newest acknowledged packet, on any path, was sent.
    pub overtaken_by: Duration,
    /// Smoothed round trip of the packet's path.
    pub smoothed_rtt: Duration,
}

/// A packet that arrived although others had passed it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LateArrival {
    /// By how many packets of its path it was late; zero if none of them had passed it.
    pub path_distance: u32,
    /// By how many packets of the channel it was late.
    pub psn_distance: u32,
    /// True if it had been declared lost and was retransmitted unnecessarily.
    pub was_declared_lost: bool,
    /// How much later the newest packet that was acknowledged before, on any path, was sent; zero
    /// if that is not known, because the packet was retransmitted.
    pub overtaken_by: Duration,
    /// Smoothed round trip of the packet's path, or of the channel if that has none.
    pub smoothed_rtt: Duration,
}

/// Decides when a packet that is missing is lost and not merely late. One object per TP channel.
pub trait LossDetector: Send {
    /// Name of the policy in a specification.
    fn name(&self) -> &'static str;
    /// True if it also judges packets that none has overtaken on their own path. The protocol then
    /// asks about the oldest packet of every path, not only of those with new acknowledgements.
    fn compares_across_paths(&self) -> bool {
        false
    }
    /// True if the packet is lost. A detector may count each `true` as one loss that it has found.
    fn is_lost(&mut self, evidence: &Evidence) -> bool;
    /// The time after which a packet is lost if one that was sent later has been acknowledged, on
    /// whatever path, although no more acknowledgements arrive. `None` for a detector that judges
    /// only when one arrives; the protocol then waits for a round trip of silence first.
    fn overdue_after(&self, _smoothed_rtt: Duration) -> Option<Duration> {
        None
    }
    /// So many packets were acknowledged.
    fn on_ack(&mut self, _now: Instant, _smoothed_rtt: Duration, _packets: u32) {}
    /// A packet arrived although others had passed it.
    fn on_reordering(&mut self, late: &LateArrival);
}
