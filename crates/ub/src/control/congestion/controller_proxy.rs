//! The part of a congestion control that stays on the data path.

use super::CongestionKind;
use super::controller_state::{ControllerState, Taken};
use crate::control::ReadyQueue;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use fairway_policy::{
    AckSample, CongestionControl, CreditRequest, FlowId, LossSample, UnscheduledClasses,
};
use fairway_wire::{Duration, Instant};

/// Interval at which a sender on credit that waits for its controller checks again.
const LOOK_AGAIN: Duration = Duration::from_us(50);
/// Received bytes after which the controller is notified, if no other event notified it earlier.
const DATA_BYTES: u64 = 64 * 1024;

/// Stands in for a congestion control on the data path: accepts the same events, and answers with
/// what the controller last published.
#[derive(Debug)]
pub(crate) struct ControllerProxy {
    name: &'static str,
    paces_within_window: bool,
    credit_ahead_bytes: u64,
    unscheduled: UnscheduledClasses,
    owner: FlowId,
    pub(super) state: Arc<ControllerState>,
    pub(super) ready: Arc<ReadyQueue<CongestionKind>>,
    /// Number of events sent to the controller, wrapping, without events of received data.
    notified: u32,
    /// The value of `notified` and the backlog in bytes when a credit request was last requested of
    /// the controller.
    requested: Option<(u32, u64)>,
    /// Time of the last request to the controller.
    requested_at: Instant,
    /// When the data path last required a credit request. Not every such call reaches the
    /// controller.
    looked_at: Instant,
    taken: Taken,
    /// Bytes sent in all, wrapping.
    sent: u64,
    /// Bytes of received data of which the controller has not been notified.
    data: u64,
}

impl ControllerProxy {
    pub(super) fn new(
        controller: &dyn CongestionControl,
        owner: FlowId,
        state: Arc<ControllerState>,
        ready: Arc<ReadyQueue<CongestionKind>>,
        now: Instant,
    ) -> ControllerProxy {
        ControllerProxy {
            name: controller.name(),
            paces_within_window: controller.paces_within_window(),
            credit_ahead_bytes: controller.credit_ahead_bytes(),
            unscheduled: controller.unscheduled_classes(),
            owner,
            state,
            ready,
            notified: 0,
            requested: None,
            requested_at: now,
            looked_at: now,
            taken: Taken::default(),
            sent: 0,
            data: 0,
        }
    }

    fn notify(&mut self, kind: CongestionKind) {
        self.notified = self.notified.wrapping_add(1);
        self.ready.mark(self.owner, kind);
    }

    /// True if the controller has processed all events.
    fn is_answered(&self) -> bool {
        self.notified == self.state.handled()
    }

    /// True if the controller has not yet been called with the present events and backlog, or if a
    /// call is due.
    fn must_request(&self, now: Instant, backlog_bytes: u64) -> bool {
        // Once for each time: a controller may require a call although the time has passed.
        let is_due = || {
            self.requested_at.is_before(now)
                && self.state.credit_request_at().is_some_and(|at| now.is_at_or_after(at))
        };
        self.requested != Some((self.notified, backlog_bytes)) || (self.is_answered() && is_due())
    }
}

impl Drop for ControllerProxy {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::Relaxed);
        self.ready.mark(self.owner, CongestionKind::End);
    }
}

impl CongestionControl for ControllerProxy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn window_bytes(&self) -> u64 {
        self.state.window()
    }

    fn on_ack(&mut self, sample: &AckSample) {
        let parts = &self.state.acked;
        parts.packets.accumulate(u64::from(sample.acked_packets));
        if sample.marked_packets > 0 {
            parts.marked.accumulate(u64::from(sample.marked_packets));
        }
        if sample.window_limited {
            parts.limited.accumulate(1);
        }
        if let Some(round_trip) = sample.rtt {
            parts.round_trip.keep_latest(round_trip.as_ps());
        }
        if let Some(delay) = sample.endpoint_delay {
            parts.endpoint.keep_latest(delay.as_ps());
        }
        parts.smoothed.store(sample.smoothed_rtt.as_ps(), Ordering::Relaxed);
        parts.in_flight.store(sample.bytes_in_flight, Ordering::Relaxed);
        let [high, hint] = sample.cci.bits().to_be_bytes();
        let rest = [sample.path, hint, sample.hops, high | u8::from(sample.pressure)];
        parts.rest.store(u32::from_le_bytes(rest), Ordering::Relaxed);
        let slot = self.state.slot(CongestionKind::Acknowledged);
        slot.accumulate_with(u64::from(sample.acked_bytes), sample.now.as_ps());
        self.notify(CongestionKind::Acknowledged);
    }

    fn on_loss(&mut self, sample: &LossSample) {
        let kind = if sample.by_timeout { CongestionKind::TimedOut } else { CongestionKind::Lost };
        self.state.loss_path.store(u32::from(sample.path), Ordering::Relaxed);
        self.state.loss_smoothed.store(sample.smoothed_rtt.as_ps(), Ordering::Relaxed);
        let sent_at = &self.state.loss_sent_at[usize::from(sample.by_timeout)];
        sent_at.store(sample.sent_at.as_ps(), Ordering::Relaxed);
        let slot = self.state.slot(kind);
        slot.accumulate_since(u64::from(sample.lost_bytes), sample.now.as_ps());
        self.notify(kind);
    }

    fn on_spurious(&mut self, now: Instant, packets: u32) {
        let slot = self.state.slot(CongestionKind::Spurious);
        slot.accumulate_with(u64::from(packets), now.as_ps());
        self.notify(CongestionKind::Spurious);
    }

    fn pacing_bytes_per_second(&self) -> Option<u64> {
        self.state.rate()
    }

    fn pacing_burst_bytes(&self) -> u32 {
        self.state.burst()
    }

    fn paces_within_window(&self) -> bool {
        self.paces_within_window
    }

    fn chunk_bytes(&self, remaining: u64) -> u32 {
        u64::from(self.state.chunk()).min(remaining) as u32
    }

    fn permit_retransmit(&mut self, _now: Instant, _bytes: u32) -> bool {
        self.state.permits() && self.allowance_bytes() > 0
    }

    fn on_data(&mut self, now: Instant, bytes: u32, retransmitted: bool) {
        let kind = if retransmitted { CongestionKind::DataAgain } else { CongestionKind::Data };
        self.state.slot(kind).accumulate_with(u64::from(bytes), now.as_ps());
        self.data += u64::from(bytes);
        if self.data >= DATA_BYTES {
            self.data = 0;
            self.ready.mark(self.owner, CongestionKind::Data);
        }
    }

    fn on_credit(&mut self, now: Instant, bytes: u32) {
        let slot = self.state.slot(CongestionKind::Credit);
        slot.accumulate_with(u64::from(bytes), now.as_ps());
        self.notify(CongestionKind::Credit);
    }

    fn credit_ahead_bytes(&self) -> u64 {
        self.credit_ahead_bytes
    }

    fn credit_bytes(&self) -> u64 {
        self.state.credit(self.sent)
    }

    fn unscheduled_classes(&self) -> UnscheduledClasses {
        self.unscheduled
    }

    fn on_sent(&mut self, now: Instant, bytes: u32, backlog_bytes: u64) {
        self.sent = self.sent.wrapping_add(u64::from(bytes));
        self.state.sent_at.store(now.as_ps(), Ordering::Relaxed);
        let slot = self.state.slot(CongestionKind::Sent);
        slot.accumulate_with(u64::from(bytes), backlog_bytes);
        self.notify(CongestionKind::Sent);
    }

    fn allowance_bytes(&self) -> u64 {
        self.state.allowance(self.sent)
    }

    fn credit_request(&mut self, now: Instant, backlog_bytes: u64) -> Option<CreditRequest> {
        if self.must_request(now, backlog_bytes) {
            self.state.requested_at.store(now.as_ps(), Ordering::Relaxed);
            self.state.slot(CongestionKind::Request).keep_latest(backlog_bytes);
            self.notify(CongestionKind::Request);
            self.requested = Some((self.notified, backlog_bytes));
            self.requested_at = now;
        }
        self.looked_at = now;
        self.state.take_request(&mut self.taken)
    }

    fn credit_request_at(&self) -> Option<Instant> {
        let controller = self.state.credit_request_at();
        if self.is_answered() {
            // A time for which the controller has been called already is not reported again. A time
            // that was due while the controller was busy is, because the controller was only called
            // for an earlier one.
            return controller.filter(|at| self.requested_at.is_before(*at));
        }
        let own = self.looked_at + LOOK_AGAIN;
        Some(controller.filter(|at| self.looked_at.is_before(*at)).map_or(own, |at| at.min(own)))
    }
}
