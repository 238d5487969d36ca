//! The memory area that a policy module shares with its host. It belongs to the module, at an
//! address that the module names. All values are little-endian and at the offsets defined here,
//! which never change: later versions only append fields. `examples/policies/fairway_policy.h`
//! defines the same layout in C.

use fairway_policy::{AckSample, ChunkRequest, LossSample, PathView};

/// Version of this interface. A module names the version that it was made for; one made for a later
/// version is refused.
pub const ABI_VERSION: u32 = 1;
/// Size of the area, in bytes.
pub const AREA_BYTES: usize = 16 * 1024;
/// Maximum number of paths of a channel.
pub(crate) const PATHS_MAX: usize = 256;

/// Offset of the module's decision.
const DECISION: usize = 0;
/// Offset of the event that the host reports.
const SAMPLE: usize = 64;
const SAMPLE_BYTES: usize = 128;
/// Offset of the data with which the host starts the module.
const START: usize = SAMPLE + SAMPLE_BYTES;
/// Offset of the paths that the host reports.
const PATHS: usize = 256;
const PATH_BYTES: usize = 48;
/// Offset of the text: parameters to the module, and the reason of a refusal from it.
const TEXT: usize = PATHS + PATHS_MAX * PATH_BYTES;
/// Maximum length of the text, in bytes.
pub(crate) const TEXT_BYTES: usize = 1024;

const _: () = assert!(START + 64 <= PATHS && TEXT + TEXT_BYTES <= AREA_BYTES);

const ACK_HAS_RTT: u32 = 1;
const ACK_PRESSURE: u32 = 2;
const ACK_WINDOW_LIMITED: u32 = 4;
const ACK_HAS_ENDPOINT: u32 = 8;
const LOSS_BY_TIMEOUT: u32 = 1;
const PATH_USABLE: u32 = 1;

/// Decision of a congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) window_bytes: u64,
    /// Pacing rate; zero for no pacing.
    pub(crate) pacing_bytes_per_second: u64,
    pub(crate) pacing_burst_bytes: u32,
    /// Chunk size; zero for the default.
    pub(crate) chunk_bytes: u32,
}

/// The lowest pacing rate that a policy can choose: 1 Mb/s. With a lower one, the peer would seem
/// dead.
const PACING_MIN: u64 = 125_000;
/// The largest window that a policy can choose, in bytes.
const WINDOW_MAX: u64 = 1 << 40;
/// Maximum burst, in bytes: what one call with segmentation offload can send.
const BURST_MAX: u32 = 64 * 1024;
const CHUNK_DEFAULT: u32 = 32 * 1024;

impl Decision {
    /// Returns the decision limited to what the protocol supports: no window below two packets.
    fn within_bounds(self, mtu_bytes: u32) -> Decision {
        let least = 2 * u64::from(mtu_bytes.max(1));
        let rate = self.pacing_bytes_per_second;
        Decision {
            window_bytes: self.window_bytes.clamp(least, WINDOW_MAX.max(least)),
            pacing_bytes_per_second: if rate == 0 { 0 } else { rate.max(PACING_MIN) },
            pacing_burst_bytes: self.pacing_burst_bytes.min(BURST_MAX),
            chunk_bytes: if self.chunk_bytes == 0 { CHUNK_DEFAULT } else { self.chunk_bytes },
        }
    }
}

/// The shared area, exactly [`AREA_BYTES`] of a module's memory.
pub(crate) struct Area<'a>(&'a mut [u8; AREA_BYTES]);

/// The data with which a module is started.
#[derive(Clone, Debug)]
pub(crate) struct Start<'a> {
    pub(crate) mtu_bytes: u32,
    /// Text of at most [`TEXT_BYTES`].
    pub(crate) parameters: &'a str,
    /// Last decision of the module that this one replaces; all zero if there is none.
    pub(crate) inherited: Decision,
}

impl<'a> Area<'a> {
    /// Returns the area at `address` of `memory`, if it lies within it.
    pub(crate) fn at(memory: &'a mut [u8], address: usize) -> Option<Area<'a>> {
        let end = address.checked_add(AREA_BYTES)?;
        memory.get_mut(address..end)?.try_into().ok().map(Area)
    }

    pub(crate) fn put_start(&mut self, start: &Start<'_>) {
        let text = &start.parameters.as_bytes()[..start.parameters.len().min(TEXT_BYTES)];
        let mut head = Bytes::<16>::new();
        head.u32(start.mtu_bytes).u32(ABI_VERSION).u32(text.len() as u32);
        self.put(START, &head.0);
        self.put(TEXT, text);
        let inherited = &start.inherited;
        let mut decision = Bytes::<24>::new();
        decision
            .u64(inherited.window_bytes)
            .u64(inherited.pacing_bytes_per_second)
            .u32(inherited.pacing_burst_bytes)
            .u32(inherited.chunk_bytes);
        self.put(DECISION, &decision.0);
    }

    /// Returns the text that the module has written, up to the first zero; unprintable characters
    /// are replaced.
    pub(crate) fn text(&self) -> String {
        let text = &self.0[TEXT..TEXT + TEXT_BYTES];
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(200).min(200);
        let text = String::from_utf8_lossy(&text[..end]);
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }

    pub(crate) fn put_ack(&mut self, sample: &AckSample) {
        let flags = flag(sample.rtt.is_some(), ACK_HAS_RTT)
            | flag(sample.pressure, ACK_PRESSURE)
            | flag(sample.window_limited, ACK_WINDOW_LIMITED)
            | flag(sample.endpoint_delay.is_some(), ACK_HAS_ENDPOINT);
        let mut bytes = Bytes::<SAMPLE_BYTES>::new();
        bytes
            .u64(sample.now.as_ps())
            .u64(sample.rtt.map_or(0, |rtt| rtt.as_ps()))
            .u64(sample.smoothed_rtt.as_ps())
            .u64(sample.bytes_in_flight)
            .u32(sample.acked_bytes)
            .u32(sample.acked_packets)
            .u32(sample.marked_packets)
            .u32(u32::from(sample.path))
            .u32(flags)
            .u32(u32::from(sample.hint))
            .u64(sample.endpoint_delay.map_or(0, |delay| delay.as_ps()))
            .u32(u32::from(sample.hops));
        self.put(SAMPLE, &bytes.0);
    }

    pub(crate) fn put_loss(&mut self, sample: &LossSample) {
        let mut bytes = Bytes::<SAMPLE_BYTES>::new();
        bytes
            .u64(sample.now.as_ps())
            .u64(sample.smoothed_rtt.as_ps())
            .u32(sample.lost_bytes)
            .u32(u32::from(sample.path))
            .u32(flag(sample.by_timeout, LOSS_BY_TIMEOUT));
        self.put(SAMPLE, &bytes.0);
    }

    /// Reports at most [`PATHS_MAX`] paths to the module.
    pub(crate) fn put_chunk(&mut self, paths: &[PathView], request: &ChunkRequest) {
        let mut bytes = Bytes::<SAMPLE_BYTES>::new();
        bytes.u64(request.now.as_ps()).u32(request.bytes).u32(request.random);
        self.put(SAMPLE, &bytes.0);
        for (slot, view) in self.0[PATHS..TEXT].chunks_exact_mut(PATH_BYTES).zip(paths) {
            let mut bytes = Bytes::<PATH_BYTES>::new();
            bytes
                .u64(view.smoothed_rtt.as_ps())
                .u64(view.rtt_deviation.as_ps())
                .u64(view.sent)
                .u64(view.lost)
                .u64(view.marked)
                .u32(view.in_flight)
                .u32(flag(view.usable, PATH_USABLE));
            slot.copy_from_slice(&bytes.0);
        }
    }

    /// Returns the module's decision, limited to what the protocol supports.
    pub(crate) fn decision(&self, mtu_bytes: u32) -> Decision {
        let decision = Decision {
            window_bytes: self.u64(DECISION),
            pacing_bytes_per_second: self.u64(DECISION + 8),
            pacing_burst_bytes: self.u32(DECISION + 16),
            chunk_bytes: self.u32(DECISION + 20),
        };
        decision.within_bounds(mtu_bytes)
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn u64(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[at..at + 8]);
        u64::from_le_bytes(bytes)
    }

    fn u32(&self, at: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.0[at..at + 4]);
        u32::from_le_bytes(bytes)
    }
}

fn flag(set: bool, bit: u32) -> u32 {
    if set { bit } else { 0 }
}

/// A record of `N` bytes that is filled from its beginning; the rest is zero.
struct Bytes<const N: usize>([u8; N], usize);

impl<const N: usize> Bytes<N> {
    fn new() -> Self {
        Bytes([0; N], 0)
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0[self.1..self.1 + 8].copy_from_slice(&value.to_le_bytes());
        self.1 += 8;
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0[self.1..self.1 + 4].copy_from_slice(&value.to_le_bytes());
        self.1 += 4;
        self
    }
}

#[cfg(test)]
mod tests;
