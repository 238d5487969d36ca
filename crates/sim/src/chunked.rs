//! A congestion control with chunks of a given size.

use fairway_ub::policy::{
    AckSample, CongestionControl, CreditRequest, LossSample, UnscheduledClasses,
};
use fairway_ub::wire::Instant;

/// Wraps a congestion control and replaces its chunk size by `bytes`.
pub(crate) struct Chunked {
    inner: Box<dyn CongestionControl>,
    bytes: u32,
}

impl Chunked {
    pub(crate) fn new(inner: Box<dyn CongestionControl>, bytes: u32) -> Chunked {
        Chunked { inner, bytes }
    }
}

impl CongestionControl for Chunked {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn window_bytes(&self) -> u64 {
        self.inner.window_bytes()
    }
    fn on_ack(&mut self, sample: &AckSample) {
        self.inner.on_ack(sample);
    }
    fn on_loss(&mut self, sample: &LossSample) {
        self.inner.on_loss(sample);
    }
    fn on_spurious(&mut self, now: Instant, packets: u32) {
        self.inner.on_spurious(now, packets);
    }
    fn pacing_bytes_per_second(&self) -> Option<u64> {
        self.inner.pacing_bytes_per_second()
    }
    fn pacing_burst_bytes(&self) -> u32 {
        self.inner.pacing_burst_bytes()
    }
    fn paces_within_window(&self) -> bool {
        self.inner.paces_within_window()
    }
    fn chunk_bytes(&self, remaining: u64) -> u32 {
        remaining.min(u64::from(self.bytes)) as u32
    }
    fn permit_retransmit(&mut self, now: Instant, bytes: u32) -> bool {
        self.inner.permit_retransmit(now, bytes)
    }
    fn on_data(&mut self, now: Instant, bytes: u32, retransmitted: bool) {
        self.inner.on_data(now, bytes, retransmitted);
    }
    fn on_credit(&mut self, now: Instant, bytes: u32) {
        self.inner.on_credit(now, bytes);
    }
    fn credit_ahead_bytes(&self) -> u64 {
        self.inner.credit_ahead_bytes()
    }
    fn credit_bytes(&self) -> u64 {
        self.inner.credit_bytes()
    }
    fn unscheduled_classes(&self) -> UnscheduledClasses {
        self.inner.unscheduled_classes()
    }
    fn on_sent(&mut self, now: Instant, bytes: u32, backlog_bytes: u64) {
        self.inner.on_sent(now, bytes, backlog_bytes);
    }
    fn allowance_bytes(&self) -> u64 {
        self.inner.allowance_bytes()
    }
    fn credit_request(&mut self, now: Instant, backlog_bytes: u64) -> Option<CreditRequest> {
        self.inner.credit_request(now, backlog_bytes)
    }
    fn credit_request_at(&self) -> Option<Instant> {
        self.inner.credit_request_at()
    }
}
