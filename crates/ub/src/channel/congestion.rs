//! What limits a channel's sending: the congestion control, the pace that it sets, and credit.

mod credit;

use self::credit::CreditState;
use crate::pace::Pace;
use alloc::boxed::Box;
use fairway_policy::CongestionControl;
use fairway_wire::{Duration, Instant};

/// Bytes sent without a requested acknowledgement after which the end of a chunk requests one.
const ACK_REQUEST_BYTES: u64 = 256 * 1024;

/// The congestion control of a channel, and the state that the protocol keeps for it.
pub(super) struct Congestion {
    controller: Box<dyn CongestionControl>,
    /// The pace that the congestion control sets.
    pace: Pace,
    /// Set if the congestion control has held a packet back since the last acknowledgement.
    is_limiting: bool,
    /// Bytes sent since an acknowledgement was last requested.
    since_ack_request: u32,
    credit: CreditState,
}

impl Congestion {
    pub(super) fn new(controller: Box<dyn CongestionControl>, now: Instant) -> Congestion {
        let is_on_credit = controller.allowance_bytes() != u64::MAX;
        let unscheduled = controller.unscheduled_classes();
        Congestion {
            controller,
            pace: Pace::new(now),
            is_limiting: false,
            since_ack_request: 0,
            credit: CreditState::new(is_on_credit, unscheduled),
        }
    }

    /// The policy that bounds what is in flight.
    #[inline]
    pub(super) fn controller(&self) -> &dyn CongestionControl {
        &*self.controller
    }

    #[inline]
    pub(super) fn controller_mut(&mut self) -> &mut dyn CongestionControl {
        &mut *self.controller
    }

    #[cfg(test)]
    pub(super) fn set_controller(&mut self, controller: Box<dyn CongestionControl>) {
        self.controller = controller;
    }

    /// True if the policy spends no credit and the peer has been granted none.
    pub(super) fn is_without_credit(&self) -> bool {
        self.credit.is_untouched()
    }

    // ---- the pace ----

    /// Whether the pace permits a packet that is ready to leave; otherwise the time from which it
    /// does. While nothing is in flight (`is_idle`), the pace of a controller that paces within its
    /// window does not apply.
    #[inline]
    pub(super) fn admit(&mut self, now: Instant, is_idle: bool) -> Result<(), Instant> {
        if !self.pace.admit(now) {
            if !(is_idle && self.controller.paces_within_window()) {
                return Err(self.pace.until);
            }
            self.pace.cut_short(now);
        }
        Ok(())
    }

    /// Notes that no packet leaves, for another reason than the pace.
    #[inline]
    pub(super) fn rest(&mut self) {
        self.pace.rest();
    }

    /// Charges a packet that leaves to the pace, which delays the next ones.
    #[inline]
    pub(super) fn charge(&mut self, now: Instant, bytes: u32, round_trip: Duration) {
        if let Some(rate) = self.controller.pacing_bytes_per_second() {
            let burst = u64::from(self.controller.pacing_burst_bytes());
            let grace = self.pace.grace(round_trip);
            self.pace.charge(now, bytes, rate, burst, grace);
        }
    }

    /// Called from time to time, so that the times of a pace that nothing is charged to stay right.
    pub(super) fn refresh(&mut self, now: Instant) {
        self.pace.refresh(now);
    }

    // ---- the window ----

    /// Notes that the congestion control holds a packet back.
    #[inline]
    pub(super) fn note_limit(&mut self) {
        self.is_limiting = true;
    }

    /// True if the congestion control has held a packet back since the last call.
    #[inline]
    pub(super) fn take_limit(&mut self) -> bool {
        core::mem::take(&mut self.is_limiting)
    }

    /// Counts bytes that leave for the first time. True if so many have left since an
    /// acknowledgement was last requested that the end of a chunk requests one.
    #[inline]
    pub(super) fn count_since_ack_request(&mut self, bytes: u32, window: u64) -> bool {
        self.since_ack_request = self.since_ack_request.saturating_add(bytes);
        u64::from(self.since_ack_request) >= (window / 8).min(ACK_REQUEST_BYTES)
    }

    /// Notes that an acknowledgement is requested.
    #[inline]
    pub(super) fn note_ack_request(&mut self) {
        self.since_ack_request = 0;
    }
}
