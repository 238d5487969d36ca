//! Every capacity of this room.

/// Most segments one segmentation-offloaded call may carry (`UDP_MAX_SEGMENTS` since Linux 6.9).
pub const SEGMENTS_MAX: usize = 128;

/// What older kernels take.
pub const SEGMENTS_MAX_OLD: usize = 64;

/// Most bytes in one train: under the 65,507 that one IPv4 datagram holds, with room for options.
pub const TRAIN_BYTES_MAX: usize = 65_000;

/// Longest packet header and longest set-up message, in bytes: room for one in a train.
pub const HEADER_BYTES_MAX: usize = 192;

/// Bytes of a receive buffer. A datagram (or a coalesced run) is at most 65,535
/// bytes long, so nothing is ever cut off.
pub(crate) const RECEIVE_BYTES: usize = 64 * 1024;

/// Most events taken from the kernel in one wait; the others are reported by the next.
pub(crate) const EVENTS_PER_WAIT: usize = 64;

/// Most bytes an emulated network holds back; what comes on top is dropped and counted.
pub const HOLDING_BYTES_MAX: usize = 256 << 20;

/// Longest that reordering holds a packet back for others to overtake it, in nanoseconds: so the
/// last packets of a transfer are not held for ever.
pub const REORDER_HOLD_NS: u64 = 500_000;

/// Queue of an emulated link whose rate is given and whose queue is not, in bytes.
pub const DEFAULT_QUEUE_BYTES: u64 = 1 << 20;
