//! Every limit of this crate.

/// Maximum number of segments in one segmentation-offloaded call (`UDP_MAX_SEGMENTS` since Linux
/// 6.9).
pub const SEGMENTS_MAX: usize = 128;

/// Maximum number of segments on older kernels.
pub const SEGMENTS_MAX_OLD: usize = 64;

/// Maximum bytes of one train: below the 65,507 that one IPv4 datagram can have, with room for
/// options.
pub const TRAIN_BYTES_MAX: usize = 65_000;

/// Maximum length of a packet header and of a set-up message, in bytes: the size of a slot in a
/// train.
pub const HEADER_BYTES_MAX: usize = 192;

/// Size of a receive buffer in bytes. A datagram (or a coalesced run) is at most 65,535 bytes long,
/// so nothing is ever truncated.
pub(crate) const RECEIVE_BYTES: usize = 64 * 1024;

/// Maximum number of events that one wait takes from the kernel; the next reports the others.
pub(crate) const EVENTS_PER_WAIT: usize = 64;

/// Maximum number of bytes that an emulated network delays; further packets are dropped and
/// counted.
pub const HOLDING_BYTES_MAX: usize = 256 << 20;

/// Maximum time for which reordering delays a packet so that others overtake it, in nanoseconds, so
/// that the last packets of a transfer are not delayed for ever.
pub const REORDER_HOLD_NS: u64 = 500_000;

/// Queue of an emulated link with a rate and no specified queue, in bytes.
pub const DEFAULT_QUEUE_BYTES: u64 = 1 << 20;
