//! Every capacity of a [`RoceDevice`](super::RoceDevice), by name, and its timing.

use fairway_policy::DcqcnRateParameters;
use fairway_wire::Duration;

/// Most READs and atomics that a queue pair can serve or issue at once, the same as in soft-RoCE.
pub const READ_DEPTH_MAX: u8 = 128;

/// Capacities of a [`RoceDevice`](super::RoceDevice).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Low bits of a queue pair's number that this device may assign. They must be more than the
    /// number of queue pairs requires, because the additional bits distinguish a late packet to an
    /// earlier queue pair. At most 24.
    pub number_bits: u32,
    /// The remaining bits, which are the same in all numbers.
    pub number_base: u32,
    /// Registered memory regions. At most 2^20.
    pub segments: u32,
    /// Completion queues.
    pub completion_queues: u32,
    /// Entries of all completion queues together.
    pub completions: u32,
    /// Receive queues, both shared ones and those of queue pairs.
    pub receive_queues: u32,
    /// Posted sends, all queue pairs together.
    pub sends: u32,
    /// Posted receives, all queues together.
    pub receives: u32,
    /// Packets that were accepted and have not been placed yet, all queue pairs together.
    pub pending: u32,
    /// Early packets that the caller can keep until they are next in sequence
    /// ([`OwnVerdict::Buffer`](super::OwnVerdict)), all queue pairs together; 0 if it keeps none.
    pub buffered: u32,
    /// READs and atomics that a queue pair serves or issues at once: 1 to [`READ_DEPTH_MAX`].
    pub read_depth: u8,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            queue_pairs: 1024,
            number_bits: 24,
            number_base: 0,
            segments: 4096,
            completion_queues: 256,
            completions: 65_536,
            receive_queues: 1024,
            sends: 65_536,
            receives: 65_536,
            pending: 16_384,
            buffered: 1024,
            read_depth: READ_DEPTH_MAX,
        }
    }
}

/// Timing, windows and optional behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Packets that a requester sends beyond the last acknowledged one. Less than 2^20.
    pub window_packets: u32,
    /// True if losses adapt the window: every loss halves it, and it grows again with
    /// acknowledgements, up to `window_packets`. RNICs have nothing of this kind, because their
    /// networks are lossless.
    pub window_adapts: bool,
    /// A requester requests an acknowledgement at the end of a message, and after this many
    /// packets.
    pub acknowledge_every: u32,
    /// Bytes that a queue pair sends before the next one sends.
    pub turn_bytes: u32,
    /// Time without anything to send after which a queue pair's flow ends, so that a scheduler
    /// divides the device among the others.
    pub flow_idle: Duration,
    /// Burst of a flow that a scheduler limits, as the time that it takes at the flow's dequeue
    /// rate: the flow sends as many bytes back to back, at least a packet and at most 32 KiB, and
    /// then waits until the rate has caught up.
    pub pacing_burst: Duration,
    /// Shortest time between two notifications of a congested flow (DCQCN's CNP interval).
    pub cnp_interval: Duration,
    /// Handling of packets out of order. `None`: they are dropped, and everything behind a missing
    /// packet is retransmitted (go-back-N), as RNICs do.
    pub out_of_order: Option<OutOfOrder>,
    /// True if a WRITE of several packets without immediate data is sent as WRITEs of one packet
    /// each, unless a packet was lost recently (RC only). Each of them names its address, so all
    /// packets but the last are of equal length, which lets the kernel cut many of them from one
    /// buffer: the first packet of a WRITE is 16 bytes longer than the others otherwise. A WRITE
    /// that the peer refuses because it goes beyond the memory has then written what lies before
    /// the first packet that does.
    pub split_writes: bool,
    /// The rate control of every queue pair; `None`: queue pairs send without a rate limit.
    pub dcqcn: Option<DcqcnRateParameters>,
}

impl Default for Profile {
    fn default() -> Self {
        Profile {
            window_packets: 1024,
            window_adapts: false,
            acknowledge_every: 64,
            turn_bytes: 64 * 1024,
            flow_idle: Duration::from_ms(10),
            pacing_burst: Duration::from_us(20),
            cnp_interval: Duration::from_us(50),
            out_of_order: None,
            split_writes: false,
            dcqcn: None,
        }
    }
}

/// Packets are accepted in any order, and only missing ones are retransmitted (selective repeat).
///
/// Packets of the WRITE that is being received, except its last, are placed at once at their final
/// address; the caller keeps others ([`OwnVerdict::Buffer`](super::OwnVerdict)) until they are next
/// in sequence. The packets on the wire are the same; a peer without the option is recognised by
/// its refusals, and is sent everything behind a missing packet again.
///
/// Where memory may change in any order ([`Rights::RELAXED`](fairway_device::Rights::RELAXED)), the
/// packets of every WRITE whose first packet has arrived are placed at once, as in ORNIC. Their
/// data may then be visible before that of earlier operations; where WRITEs to one region overlap,
/// the later one's bytes remain. Completions, acknowledgements and atomics always keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfOrder {
    /// Largest number of packets by which a packet may be early: a power of two, at most 65,536.
    /// Each takes 4 bytes of every queue pair.
    pub window: u32,
    /// A packet counts as missing when a packet this many PSNs later has arrived.
    pub tolerance: u32,
}

impl Default for OutOfOrder {
    fn default() -> Self {
        OutOfOrder { window: 1024, tolerance: 64 }
    }
}
