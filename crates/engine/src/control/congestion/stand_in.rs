//! The part of a congestion control that stays on the data path.

use super::CongestionKind;
use super::cell::{Cell, Taken};
use crate::control::news::News;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use fairway_policy::{AckSample, CongestionControl, Demand, FlowId, LossSample};
use fairway_wire::{Duration, Instant};

/// A sender on credit that waits for its law looks again after this long.
const LOOK_AGAIN: Duration = Duration::from_us(50);
/// Received data is told of together with something else, or when so many bytes have come.
const DATA_BYTES: u64 = 64 * 1024;

/// Hears what a congestion control hears, and answers what its law last said.
#[derive(Debug)]
pub(crate) struct StandIn {
    name: &'static str,
    paces_within_window: bool,
    credit_ahead_bytes: u64,
    owner: FlowId,
    pub(super) cell: Arc<Cell>,
    pub(super) news: Arc<News<CongestionKind>>,
    /// Events that the law is to answer to, wrapping; data is not among them.
    told: u32,
    /// How many there were, and what waited, when the law was last asked for a demand.
    asked: Option<(u32, u64)>,
    /// As of when the law was last asked.
    asked_at: Instant,
    /// When the engine last wanted to know. The law is not asked every time.
    looked_at: Instant,
    taken: Taken,
    /// Bytes sent in all, wrapping.
    sent: u64,
    /// Data that the law was not pointed at.
    data: u64,
}

impl StandIn {
    pub(super) fn new(
        law: &dyn CongestionControl,
        owner: FlowId,
        cell: Arc<Cell>,
        news: Arc<News<CongestionKind>>,
        now: Instant,
    ) -> StandIn {
        StandIn {
            name: law.name(),
            paces_within_window: law.paces_within_window(),
            credit_ahead_bytes: law.credit_ahead_bytes(),
            owner,
            cell,
            news,
            told: 0,
            asked: None,
            asked_at: now,
            looked_at: now,
            taken: Taken::default(),
            sent: 0,
            data: 0,
        }
    }

    fn tell(&mut self, kind: CongestionKind) {
        self.told = self.told.wrapping_add(1);
        self.news.announce(self.owner, kind);
    }

    /// The law has dealt with everything.
    fn is_answered(&self) -> bool {
        self.told == self.cell.handled()
    }

    /// Is there anything about which it has not been asked?
    fn has_question(&self, now: Instant, backlog_bytes: u64) -> bool {
        // Once for each time: a law may want to be asked although the time has passed.
        let is_due = || {
            self.asked_at.is_before(now)
                && self.cell.demand_at().is_some_and(|at| now.is_at_or_after(at))
        };
        self.asked != Some((self.told, backlog_bytes)) || (self.is_answered() && is_due())
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.cell.has_ended.store(true, Ordering::Relaxed);
        self.news.announce(self.owner, CongestionKind::End);
    }
}

impl CongestionControl for StandIn {
    fn name(&self) -> &'static str {
        self.name
    }

    fn window_bytes(&self) -> u64 {
        self.cell.window()
    }

    fn on_ack(&mut self, sample: &AckSample) {
        let parts = &self.cell.acked;
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
        let rest = [sample.path, sample.hint, sample.hops, u8::from(sample.pressure)];
        parts.rest.store(u32::from_le_bytes(rest), Ordering::Relaxed);
        let slot = self.cell.slot(CongestionKind::Acknowledged);
        slot.accumulate_with(u64::from(sample.acked_bytes), sample.now.as_ps());
        self.tell(CongestionKind::Acknowledged);
    }

    fn on_loss(&mut self, sample: &LossSample) {
        let kind = if sample.by_timeout { CongestionKind::TimedOut } else { CongestionKind::Lost };
        self.cell.loss_path.store(u32::from(sample.path), Ordering::Relaxed);
        self.cell.loss_smoothed.store(sample.smoothed_rtt.as_ps(), Ordering::Relaxed);
        let slot = self.cell.slot(kind);
        slot.accumulate_since(u64::from(sample.lost_bytes), sample.now.as_ps());
        self.tell(kind);
    }

    fn on_spurious(&mut self, now: Instant, packets: u32) {
        let slot = self.cell.slot(CongestionKind::Spurious);
        slot.accumulate_with(u64::from(packets), now.as_ps());
        self.tell(CongestionKind::Spurious);
    }

    fn pacing_bytes_per_second(&self) -> Option<u64> {
        self.cell.rate()
    }

    fn pacing_burst_bytes(&self) -> u32 {
        self.cell.burst()
    }

    fn paces_within_window(&self) -> bool {
        self.paces_within_window
    }

    fn chunk_bytes(&self, remaining: u64) -> u32 {
        u64::from(self.cell.chunk()).min(remaining) as u32
    }

    fn permit_retransmit(&mut self, _now: Instant, _bytes: u32) -> bool {
        self.cell.permits() && self.allowance_bytes() > 0
    }

    fn on_data(&mut self, now: Instant, bytes: u32, retransmitted: bool) {
        let kind = if retransmitted { CongestionKind::DataAgain } else { CongestionKind::Data };
        self.cell.slot(kind).accumulate_with(u64::from(bytes), now.as_ps());
        self.data += u64::from(bytes);
        if self.data >= DATA_BYTES {
            self.data = 0;
            self.news.announce(self.owner, CongestionKind::Data);
        }
    }

    fn on_credit(&mut self, now: Instant, bytes: u32) {
        let slot = self.cell.slot(CongestionKind::Credit);
        slot.accumulate_with(u64::from(bytes), now.as_ps());
        self.tell(CongestionKind::Credit);
    }

    fn credit_ahead_bytes(&self) -> u64 {
        self.credit_ahead_bytes
    }

    fn on_sent(&mut self, now: Instant, bytes: u32, backlog_bytes: u64) {
        self.sent = self.sent.wrapping_add(u64::from(bytes));
        self.cell.sent_at.store(now.as_ps(), Ordering::Relaxed);
        let slot = self.cell.slot(CongestionKind::Sent);
        slot.accumulate_with(u64::from(bytes), backlog_bytes);
        self.tell(CongestionKind::Sent);
    }

    fn allowance_bytes(&self) -> u64 {
        self.cell.allowance(self.sent)
    }

    fn demand(&mut self, now: Instant, backlog_bytes: u64) -> Option<Demand> {
        if self.has_question(now, backlog_bytes) {
            self.cell.asked_at.store(now.as_ps(), Ordering::Relaxed);
            self.cell.slot(CongestionKind::Wish).keep_latest(backlog_bytes);
            self.tell(CongestionKind::Wish);
            self.asked = Some((self.told, backlog_bytes));
            self.asked_at = now;
        }
        self.looked_at = now;
        self.cell.take_demand(&mut self.taken)
    }

    fn demand_at(&self) -> Option<Instant> {
        let law = self.cell.demand_at();
        if self.is_answered() {
            // A time at which the law has been asked is its own business. One that came while it
            // was busy is not: it has only been asked as of earlier.
            return law.filter(|at| self.asked_at.is_before(*at));
        }
        let own = self.looked_at + LOOK_AGAIN;
        Some(law.filter(|at| self.looked_at.is_before(*at)).map_or(own, |at| at.min(own)))
    }
}
