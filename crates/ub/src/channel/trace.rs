//! Entries of a channel in the trace.

use super::Channel;
use crate::control::TraceEntry;
use crate::flow::Flows;
use fairway_policy::{AckSample, LossSample};
use fairway_wire::Instant;

impl Channel {
    /// Records an event that the congestion control received, and its decisions since.
    #[inline]
    pub(super) fn trace(&self, flows: &mut Flows, at: Instant, entry: impl FnOnce() -> TraceEntry) {
        let Some(recorder) = &mut flows.trace else { return };
        let (channel, controller) = (self.id.index() as u32, self.congestion.controller());
        recorder.add(at, channel, entry());
        recorder.decided(
            at,
            channel,
            controller.window_bytes(),
            controller.pacing_bytes_per_second(),
        );
    }

    pub(super) fn trace_ack(&self, flows: &mut Flows, sample: &AckSample) {
        self.trace(flows, sample.now, || TraceEntry::Ack {
            path: sample.path,
            packets: sample.acked_packets,
            bytes: sample.acked_bytes,
            marked: sample.marked_packets,
            in_flight: u32::try_from(sample.bytes_in_flight).unwrap_or(u32::MAX),
            rtt: sample.rtt,
        });
    }

    pub(super) fn trace_loss(&self, flows: &mut Flows, sample: &LossSample) {
        self.trace(flows, sample.now, || TraceEntry::Loss {
            path: sample.path,
            bytes: sample.lost_bytes,
            by_timeout: sample.by_timeout,
        });
    }

    #[inline]
    pub(super) fn trace_path(&self, flows: &mut Flows, at: Instant, path: u8) {
        if let Some(recorder) = &mut flows.trace {
            recorder.chose(at, self.id.index() as u32, path);
        }
    }
}
