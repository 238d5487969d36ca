//! Adaptive chunking, shared by the congestion controls.
//!
//! A chunk is one burst on one path and, in the live runtime, one segmentation-offloaded system
//! call, which carries at most 64 KiB with its headers. Large chunks save system calls; small ones
//! spread a window over more paths and react faster. A chunk is therefore 62 KiB while the window
//! holds at least eight of them, otherwise 32 KiB (UCCL's default), and never more than the window.
//! A congestion control that paces may return less ([`paced_chunk_bytes`]): at 1 Gb/s, 32 KiB
//! occupy a path of equal rate for a quarter of a millisecond, and two such chunks that meet there
//! fill a queue with 32 KiB.

/// Payload of one segmentation-offloaded send, with room for the headers of its packets.
pub(crate) const CHUNK_LARGE_BYTES: u32 = 62 * 1024;
/// Default chunk size of UCCL.
pub(crate) const CHUNK_BYTES: u32 = 32 * 1024;
/// Number of large chunks that the window has to hold before they are used.
const CHUNKS_IN_LARGE_WINDOW: u64 = 8;

/// Bytes that a packet of `mtu_bytes` counts for in the minimum of a window: at least the smallest
/// frame of Ethernet. A window of two payloads of one byte would be less than one packet with its
/// headers, and a paced sender would wait dozens of round trips for each.
pub(crate) fn packet_bytes(mtu_bytes: u32) -> u64 {
    u64::from(mtu_bytes.max(64))
}

/// Size of the next chunk under a window of `window_bytes`, when `remaining` bytes wait.
pub(crate) fn chunk_bytes(window_bytes: u64, remaining: u64) -> u32 {
    let large = window_bytes >= CHUNKS_IN_LARGE_WINDOW * u64::from(CHUNK_LARGE_BYTES);
    let chunk = if large { CHUNK_LARGE_BYTES } else { CHUNK_BYTES };
    u64::from(chunk).min(remaining).min(window_bytes.max(1)) as u32
}

/// Largest chunk at a pacing rate: the bytes of 25 us, so that a burst is spread over several
/// paths. Each of its chunks costs a system call, which is affordable at rates that are paced.
pub(crate) fn paced_chunk_bytes(bytes_per_second: u64) -> u32 {
    (bytes_per_second / 40_000).clamp(1, u64::from(CHUNK_LARGE_BYTES)) as u32
}

/// Bytes that may leave back to back at a pacing rate: those of 100 us, at most a large chunk.
/// Splitting a chunk into single packets would cost a system call each.
pub(crate) fn burst_bytes(bytes_per_second: u64) -> u32 {
    (bytes_per_second / 10_000).min(u64::from(CHUNK_LARGE_BYTES)) as u32
}
