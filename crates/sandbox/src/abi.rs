//! The memory area that a policy module shares with its host. It belongs to the module, at an
//! address that the module names. All values are little-endian and at the offsets defined here,
//! which never change: later versions only append fields. `examples/policies/fairway_policy.h`
//! defines the same layout in C.

use fairway_policy::{
    AckSample, ChunkRequest, Evidence, LateArrival, LossSample, PathAck, PathView, QUANTUM_MIN,
    Share, TransmitSample,
};

/// Version of this interface. A module names the version that it was made for; one made for a later
/// version is refused.
pub const ABI_VERSION: u32 = 5;
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
/// Offsets of what the module states when it has started.
const EVENT_BYTES: usize = START + 32;
const TRAITS: usize = START + 36;
const TRAITS_END: usize = START + 40;
/// Offset of the paths that the host reports.
const PATHS: usize = 256;
const PATH_BYTES: usize = 48;
/// Offset of the text: parameters to the module, and the reason of a refusal from it.
const TEXT: usize = PATHS + PATHS_MAX * PATH_BYTES;
/// Maximum length of the text, in bytes.
pub(crate) const TEXT_BYTES: usize = 1024;

/// Offset of the round trips that probes of the paths measured.
const PROBED: usize = TEXT + TEXT_BYTES;
const PROBED_BYTES: usize = 8;

const _: () = assert!(START + 64 <= PATHS && PROBED + PATHS_MAX * PROBED_BYTES <= AREA_BYTES);

const ACK_HAS_RTT: u32 = 1;
const ACK_PRESSURE: u32 = 2;
const ACK_WINDOW_LIMITED: u32 = 4;
const ACK_HAS_ENDPOINT: u32 = 8;
const LOSS_BY_TIMEOUT: u32 = 1;
const PATH_USABLE: u32 = 1;
/// Offset, in the sample, of the bits of the usable paths.
const USABLE: usize = 16;

const HAS_RTT: u32 = 1;
const HAS_ELAPSED: u32 = 2;
const BEYOND_TOLERANCE: u32 = 1;
const WAS_DECLARED_LOST: u32 = 1;
const BACKLOGGED: u32 = 1;
const PACED: u32 = 2;
const REQUEST_RESEND: u32 = 1;
const REQUEST_BLOCKED: u32 = 2;
const COMPARES_ACROSS_PATHS: u32 = 1;
const PACES_WITHIN_WINDOW: u32 = 2;

/// Decision of a congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) window_bytes: u64,
    /// Pacing rate; zero for no pacing.
    pub(crate) pacing_bytes_per_second: u64,
    pub(crate) pacing_burst_bytes: u32,
    /// Chunk size; zero for the default.
    pub(crate) chunk_bytes: u32,
    /// The following fields count only if the module spends credit.
    pub(crate) credit: CreditDecision,
}

/// The part of a decision that concerns credit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CreditDecision {
    pub(crate) allowance_bytes: u64,
    /// Total of the credit request, if the module has just requested one.
    pub(crate) total_bytes: u64,
    /// When the module has to be called again, in picoseconds; zero for not at all.
    pub(crate) request_at_ps: u64,
    pub(crate) ahead_bytes: u64,
    pub(crate) resend: bool,
    pub(crate) blocked: bool,
}

/// What a module states when it has started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Bytes from which on a scheduler needs a transmit event. It may state others after each call.
    pub(crate) event_bytes: u32,
    /// [`LossDetector::compares_across_paths`](fairway_policy::LossDetector).
    pub(crate) compares_across_paths: bool,
    /// [`CongestionControl::paces_within_window`](fairway_policy::CongestionControl).
    pub(crate) paces_within_window: bool,
}

/// An entry of the list of rates that a scheduler's module returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowRate {
    pub(crate) bytes_per_second: u64,
    pub(crate) flow: u32,
    /// Zero for the default.
    pub(crate) quantum_bytes: u32,
}

impl FlowRate {
    /// Size of an entry in the module's memory.
    pub(crate) const BYTES: usize = 16;

    /// Reads an entry. A rate is never below [`PACING_MIN`], and a quantum never below
    /// [`QUANTUM_MIN`], so that no flow stops.
    pub(crate) fn read(entry: &[u8; Self::BYTES]) -> FlowRate {
        FlowRate {
            bytes_per_second: u64_at(entry, 0).max(PACING_MIN),
            flow: u32_at(entry, 8),
            quantum_bytes: match u32_at(entry, 12) {
                0 => 0,
                bytes => bytes.max(QUANTUM_MIN),
            },
        }
    }
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
            credit: self.credit,
        }
    }
}

/// The shared area, exactly [`AREA_BYTES`] of a module's memory.
pub(crate) struct Area<'a>(&'a mut [u8; AREA_BYTES]);

/// The data with which a module is started.
#[derive(Clone, Debug)]
pub(crate) struct Start<'a> {
    pub(crate) mtu_bytes: u32,
    /// Number of flows of a scheduler; zero for other kinds.
    pub(crate) flows: u32,
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
        let head = &mut self.0[START..PATHS];
        head.u32(0, start.mtu_bytes);
        head.u32(4, ABI_VERSION);
        head.u32(8, text.len() as u32);
        head.u32(12, start.flows);
        head[EVENT_BYTES - START..TRAITS_END - START].fill(0);
        self.0[TEXT..TEXT + text.len()].copy_from_slice(text);
        let inherited = &start.inherited;
        let decision = &mut self.0[DECISION..SAMPLE];
        decision.u64(0, inherited.window_bytes);
        decision.u64(8, inherited.pacing_bytes_per_second);
        decision.u32(16, inherited.pacing_burst_bytes);
        decision.u32(20, inherited.chunk_bytes);
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
        let record = self.sample();
        record.u64(0, sample.now.as_ps());
        record.u64(8, sample.rtt.map_or(0, |rtt| rtt.as_ps()));
        record.u64(16, sample.smoothed_rtt.as_ps());
        record.u64(24, sample.bytes_in_flight);
        record.u32(32, sample.acked_bytes);
        record.u32(36, sample.acked_packets);
        record.u32(40, sample.marked_packets);
        record.u32(44, u32::from(sample.path));
        record.u32(48, flags);
        record.u32(52, u32::from(sample.cci.bits()));
        record.u64(56, sample.endpoint_delay.map_or(0, |delay| delay.as_ps()));
        record.u32(64, u32::from(sample.hops));
    }

    pub(crate) fn put_loss(&mut self, sample: &LossSample) {
        let record = self.sample();
        record.u64(0, sample.now.as_ps());
        record.u64(8, sample.smoothed_rtt.as_ps());
        record.u32(16, sample.lost_bytes);
        record.u32(20, u32::from(sample.path));
        record.u32(24, flag(sample.by_timeout, LOSS_BY_TIMEOUT));
        record.u64(32, sample.sent_at.as_ps());
    }

    /// Reports a request for a chunk's path, and the paths.
    pub(crate) fn put_chunk(&mut self, paths: &[PathView], request: &ChunkRequest) {
        let record = self.sample();
        record.u64(0, request.now.as_ps());
        record.u32(8, request.bytes);
        record.u32(12, request.random);
        self.put_paths(paths);
    }

    /// Reports the paths, for the question whether any has room.
    pub(crate) fn put_room(&mut self, paths: &[PathView]) {
        self.sample();
        self.put_paths(paths);
    }

    pub(crate) fn put_path_ack(&mut self, ack: &PathAck) {
        let record = self.sample();
        record.u64(0, ack.now.as_ps());
        record.u64(8, ack.rtt.map_or(0, |rtt| rtt.as_ps()));
        record.u32(16, ack.acked_packets);
        record.u32(20, ack.marked_packets);
        let has_elapsed = flag(ack.elapsed.is_some(), HAS_ELAPSED);
        record.u32(24, flag(ack.rtt.is_some(), HAS_RTT) | has_elapsed);
        record.u64(32, ack.elapsed.map_or(0, |elapsed| elapsed.as_ps()));
    }

    pub(crate) fn put_evidence(&mut self, evidence: &Evidence) {
        let record = self.sample();
        record.u64(0, evidence.age.as_ps());
        record.u64(8, evidence.overtaken_by.as_ps());
        record.u64(16, evidence.smoothed_rtt.as_ps());
        record.u32(24, evidence.path_distance);
        record.u32(28, evidence.psn_distance);
        record.u32(32, flag(evidence.beyond_tolerance, BEYOND_TOLERANCE));
    }

    pub(crate) fn put_late(&mut self, late: &LateArrival) {
        let record = self.sample();
        record.u64(8, late.overtaken_by.as_ps());
        record.u64(16, late.smoothed_rtt.as_ps());
        record.u32(24, late.path_distance);
        record.u32(28, late.psn_distance);
        record.u32(32, flag(late.was_declared_lost, WAS_DECLARED_LOST));
    }

    pub(crate) fn put_progress(&mut self, packets: u32) {
        self.sample().u32(0, packets);
    }

    pub(crate) fn put_share(&mut self, share: Share) {
        let record = self.sample();
        record.u32(0, u32::from(share.tenant));
        record.u32(4, u32::from(share.weight));
        record.u32(8, u32::from(share.tenant_weight));
    }

    pub(crate) fn put_transmit(&mut self, sample: &TransmitSample) {
        let record = self.sample();
        record.u64(0, sample.now.as_ps());
        record.u64(8, sample.bytes);
        record.u32(16, sample.events);
        record.u32(20, flag(sample.backlogged, BACKLOGGED) | flag(sample.paced, PACED));
    }

    /// Reports at most [`PATHS_MAX`] paths, and which of them are usable, to the module.
    fn put_paths(&mut self, paths: &[PathView]) {
        let mut usable = [0_u64; PATHS_MAX / 64];
        // A path that was probed once keeps its round trip, so zeros are never to be written again.
        let mut probed = 0;
        let (records, _) = self.0[PATHS..TEXT].as_chunks_mut::<PATH_BYTES>();
        for (path, (record, view)) in records.iter_mut().zip(paths).enumerate() {
            record.u64(0, view.smoothed_rtt.as_ps());
            record.u64(8, view.rtt_deviation.as_ps());
            record.u64(16, view.sent);
            record.u64(24, view.lost);
            record.u64(32, view.marked);
            record.u32(40, view.in_flight);
            record.u32(44, flag(view.usable, PATH_USABLE));
            usable[path / 64] |= u64::from(view.usable) << (path % 64);
            probed |= view.probed_rtt.as_ps();
        }
        if probed != 0 {
            let (records, _) = self.0[PROBED..].as_chunks_mut::<PROBED_BYTES>();
            for (record, view) in records.iter_mut().zip(paths) {
                record.u64(0, view.probed_rtt.as_ps());
            }
        }
        for (word, bits) in usable.iter().enumerate() {
            self.0.u64(SAMPLE + USABLE + 8 * word, *bits);
        }
    }

    /// Returns the place of the event, filled with zeros.
    fn sample(&mut self) -> &mut [u8] {
        let sample = &mut self.0[SAMPLE..SAMPLE + SAMPLE_BYTES];
        sample.fill(0);
        sample
    }

    /// Returns the module's decision, limited to what the protocol supports.
    pub(crate) fn decision(&self, mtu_bytes: u32) -> Decision {
        let decision = Decision {
            window_bytes: self.u64(DECISION),
            pacing_bytes_per_second: self.u64(DECISION + 8),
            pacing_burst_bytes: self.u32(DECISION + 16),
            chunk_bytes: self.u32(DECISION + 20),
            credit: CreditDecision {
                allowance_bytes: self.u64(DECISION + 24),
                total_bytes: self.u64(DECISION + 32),
                request_at_ps: self.u64(DECISION + 40),
                ahead_bytes: self.u64(DECISION + 48),
                resend: self.u32(DECISION + 56) & REQUEST_RESEND != 0,
                blocked: self.u32(DECISION + 56) & REQUEST_BLOCKED != 0,
            },
        };
        decision.within_bounds(mtu_bytes)
    }

    /// Returns what the module has stated at its start, or a scheduler since.
    pub(crate) fn traits(&self) -> Traits {
        let flags = self.u32(TRAITS);
        Traits {
            event_bytes: self.u32(EVENT_BYTES),
            compares_across_paths: flags & COMPARES_ACROSS_PATHS != 0,
            paces_within_window: flags & PACES_WITHIN_WINDOW != 0,
        }
    }

    fn u64(&self, at: usize) -> u64 {
        u64_at(self.0, at)
    }

    fn u32(&self, at: usize) -> u32 {
        u32_at(self.0, at)
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn flag(set: bool, bit: u32) -> u32 {
    if set { bit } else { 0 }
}

/// Bytes into which numbers are written in place. An offset outside is a mistake of this file.
trait Record {
    fn u64(&mut self, at: usize, value: u64);
    fn u32(&mut self, at: usize, value: u32);
}

impl<T: AsMut<[u8]> + ?Sized> Record for T {
    #[inline]
    fn u64(&mut self, at: usize, value: u64) {
        if let Some(place) = self.as_mut()[at..].first_chunk_mut() {
            *place = value.to_le_bytes();
        }
    }

    #[inline]
    fn u32(&mut self, at: usize, value: u32) {
        if let Some(place) = self.as_mut()[at..].first_chunk_mut() {
            *place = value.to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests;
