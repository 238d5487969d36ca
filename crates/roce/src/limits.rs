//! Every capacity of a [`RoceDevice`](super::RoceDevice), by name; and its timing.

use fairway_policy::DcqcnRateParameters;
use fairway_wire::Duration;

/// READs and atomics that a queue pair can serve or issue at once, at most: as many as soft-RoCE.
pub const READ_DEPTH_MAX: u8 = 128;

/// How much of everything a [`RoceDevice`](super::RoceDevice) may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Bits of a queue pair's number that are this host's to give; more than the number of queue
    /// pairs needs, because the others tell a late packet to an earlier queue pair. At most 24.
    pub number_bits: u32,
    /// The other bits: the same in all numbers.
    pub number_base: u32,
    /// Registered memory regions. At most 2^20.
    pub segments: u32,
    /// Completion queues.
    pub completion_queues: u32,
    /// Entries of all completion queues together.
    pub completions: u32,
    /// Receive queues, shared ones and those of queue pairs.
    pub receive_queues: u32,
    /// Posted sends, all queue pairs together.
    pub sends: u32,
    /// Posted receives, all queues together.
    pub receives: u32,
    /// Packets that were accepted and are not in place yet, all queue pairs together.
    pub pending: u32,
    /// Packets that the caller can keep until their turn comes
    /// ([`OwnVerdict::Buffer`](super::OwnVerdict)), all queue pairs together; 0 if it keeps none.
    pub buffered: u32,
    /// READs and atomics a queue pair serves or issues at once: 1 to [`READ_DEPTH_MAX`].
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

/// Timing and tolerance, not capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Packets a requester sends beyond the last acknowledged one. Less than 2^20.
    pub window_packets: u32,
    /// Of these, only as many as losses have left: every loss halves the window, and it grows
    /// again with acknowledgements. RNICs have nothing of this kind, because their networks lose
    /// nothing.
    pub window_adapts: bool,
    /// It asks for an acknowledgement at the end of a message, and after so many packets.
    pub acknowledge_every: u32,
    /// A queue pair sends so many bytes before it is the next one's turn.
    pub turn_bytes: u32,
    /// A congested flow is notified at most this often (DCQCN's CNP interval).
    pub cnp_interval: Duration,
    /// What becomes of packets out of order. `None`: they are dropped, and everything behind a
    /// missing packet is sent again (go-back-N), as RNICs do.
    pub out_of_order: Option<OutOfOrder>,
    /// The rate control of every queue pair; `None`: they send as fast as they are asked.
    pub dcqcn: Option<DcqcnRateParameters>,
}

impl Default for Profile {
    fn default() -> Self {
        Profile {
            window_packets: 1024,
            window_adapts: false,
            acknowledge_every: 64,
            turn_bytes: 64 * 1024,
            cnp_interval: Duration::from_us(50),
            out_of_order: None,
            dcqcn: None,
        }
    }
}

/// Packets are taken in any order, and only what is missing is sent again (selective repeat).
///
/// Those of the WRITE that is being received are put where they belong at once, but for its end;
/// others the caller keeps ([`OwnVerdict::Buffer`](super::OwnVerdict)) until their turn comes.
/// Nothing on the wire differs; a peer without the option is noticed by what it asks for, and gets
/// everything behind a missing packet again.
///
/// Where memory may change in any order ([`Rights::RELAXED`](fairway_device::Rights::RELAXED)), the
/// packets of every WRITE whose first packet has come are put where they belong at once, as ORNIC
/// does. What it brings may then be seen before what earlier operations bring; where WRITEs to one
/// region overlap, the later one's bytes remain. Completions, acknowledgements and atomics keep
/// their order always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfOrder {
    /// How many packets too early one may come: a power of two, at most 65,536. Each takes 4 bytes
    /// of every queue pair.
    pub window: u32,
    /// A packet is missing when one so many packets later has come.
    pub tolerance: u32,
}

impl Default for OutOfOrder {
    fn default() -> Self {
        OutOfOrder { window: 1024, tolerance: 64 }
    }
}
