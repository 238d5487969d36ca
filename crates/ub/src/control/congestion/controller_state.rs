//! State shared by a controller proxy and its controller: slots carry events one way, registers
//! carry decisions the other.

use super::CongestionKind;
use crate::control::Slot;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use fairway_policy::{CongestionControl, CreditRequest};
use fairway_wire::Instant;

/// No pacing rate.
const UNPACED: u64 = u64::MAX;
/// The bit of a credit request that says that nothing may be sent; credit totals are shorter than
/// 63 bits.
const BLOCKED: u64 = 1 << 63;

/// The shared state of one channel. Every field has one writer.
#[derive(Debug, Default)]
pub(super) struct ControllerState {
    /// By kind of event: what has accumulated.
    pub(super) slots: [Slot; CongestionKind::COUNT],
    /// The remaining fields of acknowledgements. Written before their slot is.
    pub(super) acked: AckParts,
    /// The path and the smoothed round trip of the last loss.
    pub(super) loss_path: AtomicU32,
    pub(super) loss_smoothed: AtomicU64,
    /// When packets of the last loss had been sent: one found by acknowledgements, and by time-out.
    pub(super) loss_sent_at: [AtomicU64; 2],
    /// When bytes were last sent, and when the data path last required a credit request.
    pub(super) sent_at: AtomicU64,
    pub(super) requested_at: AtomicU64,
    /// True once the channel has ended.
    pub(super) has_ended: AtomicBool,
    registers: Registers,
}

/// Fields of acknowledgements other than bytes.
#[derive(Debug, Default)]
pub(super) struct AckParts {
    pub(super) packets: Slot,
    pub(super) marked: Slot,
    /// Samples before which the window limited the sender.
    pub(super) limited: Slot,
    pub(super) round_trip: Slot,
    pub(super) endpoint: Slot,
    pub(super) smoothed: AtomicU64,
    pub(super) in_flight: AtomicU64,
    /// Path, the low byte of CCI, hops, and the high byte of CCI with pressure as its lowest bit, a
    /// byte each from the lowest.
    pub(super) rest: AtomicU32,
}

/// What the controller has decided.
#[derive(Debug, Default)]
struct Registers {
    window: AtomicU64,
    rate: AtomicU64,
    burst: AtomicU32,
    chunk: AtomicU32,
    allowance: AtomicU64,
    credit: AtomicU64,
    /// Total bytes sent, wrapping, that the published allowance and credit take into account.
    spent: AtomicU64,
    permits: AtomicBool,
    /// The last credit request, the number of requests so far, and how many of them are resent
    /// ones.
    credit_request: AtomicU64,
    demands: AtomicU32,
    resends: AtomicU32,
    credit_request_at: AtomicU64,
    has_credit_request_at: AtomicBool,
    /// Events that the controller has processed, wrapping.
    handled: AtomicU32,
}

impl ControllerState {
    pub(super) fn slot(&self, kind: CongestionKind) -> &Slot {
        &self.slots[kind as usize]
    }

    // ---- for the controller ----

    /// Publishes the controller's present decisions.
    pub(super) fn publish(&self, controller: &dyn CongestionControl, permits: bool) {
        let registers = &self.registers;
        registers.window.store(controller.window_bytes(), Ordering::Relaxed);
        let rate = controller.pacing_bytes_per_second().unwrap_or(UNPACED);
        registers.rate.store(rate, Ordering::Relaxed);
        registers.burst.store(controller.pacing_burst_bytes(), Ordering::Relaxed);
        registers.chunk.store(controller.chunk_bytes(u64::from(u32::MAX)), Ordering::Relaxed);
        registers.permits.store(permits, Ordering::Relaxed);
        let at = controller.credit_request_at();
        registers.credit_request_at.store(at.map_or(0, Instant::as_ps), Ordering::Relaxed);
        registers.has_credit_request_at.store(at.is_some(), Ordering::Relaxed);
        registers.credit.store(controller.credit_bytes(), Ordering::Relaxed);
        registers.allowance.store(controller.allowance_bytes(), Ordering::Relaxed);
    }

    /// Publishes that `spent` bytes in total were taken into account in the allowance that was just
    /// published. (The value is written afterwards: a thread that reads it sees that allowance, or
    /// a later one.)
    pub(super) fn publish_spent(&self, spent: u64) {
        self.registers.spent.store(spent, Ordering::Release);
    }

    /// Publishes that `events` more events were processed and their outcome published.
    pub(super) fn publish_handled(&self, events: u32) {
        let handled = self.registers.handled.load(Ordering::Relaxed);
        self.registers.handled.store(handled.wrapping_add(events), Ordering::Release);
    }

    pub(super) fn publish_request(&self, credit_request: &CreditRequest) {
        let registers = &self.registers;
        let blocked = if credit_request.blocked { BLOCKED } else { 0 };
        registers
            .credit_request
            .store(credit_request.total_bytes & !BLOCKED | blocked, Ordering::Relaxed);
        let add = |counter: &AtomicU32| {
            let count = counter.load(Ordering::Relaxed);
            counter.store(count.wrapping_add(1), Ordering::Release);
        };
        if credit_request.resend {
            add(&registers.resends);
        }
        add(&registers.demands);
    }

    // ---- for the controller proxy ----

    pub(super) fn window(&self) -> u64 {
        self.registers.window.load(Ordering::Relaxed)
    }

    pub(super) fn rate(&self) -> Option<u64> {
        let rate = self.registers.rate.load(Ordering::Relaxed);
        (rate != UNPACED).then_some(rate)
    }

    pub(super) fn burst(&self) -> u32 {
        self.registers.burst.load(Ordering::Relaxed)
    }

    pub(super) fn chunk(&self) -> u32 {
        self.registers.chunk.load(Ordering::Relaxed)
    }

    pub(super) fn permits(&self) -> bool {
        self.registers.permits.load(Ordering::Relaxed)
    }

    /// Bytes that may be sent when `sent` bytes in total have been sent already.
    pub(super) fn allowance(&self, sent: u64) -> u64 {
        let spent = self.registers.spent.load(Ordering::Acquire);
        match self.registers.allowance.load(Ordering::Relaxed) {
            u64::MAX => u64::MAX,
            // Two loads may straddle a change, and then show too little, never too much.
            allowance => allowance.saturating_sub(sent.wrapping_sub(spent)),
        }
    }

    /// Credit that is left when `sent` bytes in total have been sent already.
    pub(super) fn credit(&self, sent: u64) -> u64 {
        let spent = self.registers.spent.load(Ordering::Acquire);
        self.registers.credit.load(Ordering::Relaxed).saturating_sub(sent.wrapping_sub(spent))
    }

    pub(super) fn credit_request_at(&self) -> Option<Instant> {
        let has = self.registers.has_credit_request_at.load(Ordering::Relaxed);
        has.then(|| Instant::from_ps(self.registers.credit_request_at.load(Ordering::Relaxed)))
    }

    pub(super) fn handled(&self) -> u32 {
        self.registers.handled.load(Ordering::Acquire)
    }

    /// The last credit request, if there has been a new one since `taken`. It is marked as resent
    /// if any request since then was.
    pub(super) fn take_request(&self, taken: &mut Taken) -> Option<CreditRequest> {
        let demands = self.registers.demands.load(Ordering::Acquire);
        if demands == taken.demands {
            return None;
        }
        let resends = self.registers.resends.load(Ordering::Relaxed);
        let credit_request = self.registers.credit_request.load(Ordering::Relaxed);
        let resend = resends != taken.resends;
        *taken = Taken { demands, resends };
        let blocked = credit_request & BLOCKED != 0;
        Some(CreditRequest { total_bytes: credit_request & !BLOCKED, resend, blocked })
    }
}

/// The credit requests that a controller proxy has taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    demands: u32,
    resends: u32,
}
