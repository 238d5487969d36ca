//! Do other flows yield, too?
//!
//! After a fall of the window round trips become shorter, unless others fill the queue at once and
//! keep it full whatever is lost, as TCP with BBR does in a short queue. To them goes all that a
//! window gives up, for ever. So a sender whose falls shorten no round trip counts as more than one
//! flow (MulTCP: Crowcroft and Oechslin, ACM CCR 28(3), 1998): of `n` flows one yields, and all
//! grow. Falls that do shorten round trips make it fewer again.

use fairway_wire::{Duration, Instant};

/// Most flows that a sender counts as.
const FLOWS_MAX: u64 = 3;

/// A fall is felt if a round trip is no longer than this part of what it was, in thousandths. A
/// fall by three tenths of a sender that has half of what is in flight makes it 850.
const FELT_PERMILLE: u64 = 900;

/// After so many falls as more than one flow it is one again, and has to find out anew: the small
/// falls of several flows may not be felt by one that is alone either.
const FALLS_MAX: u32 = 16;

/// How many flows a sender counts as.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rivals {
    flows: u64,
    /// Falls since it counted as one.
    falls: u32,
    last: Option<Fall>,
}

#[derive(Clone, Copy, Debug)]
struct Fall {
    /// What is measured from then on was sent after it.
    seen_from: Instant,
    round_trip: Duration,
    /// Has a round trip since then become shorter, or shown no queue? `None` before any was
    /// measured.
    was_felt: Option<bool>,
}

impl Default for Rivals {
    fn default() -> Self {
        Rivals { flows: 1, falls: 0, last: None }
    }
}

impl Rivals {
    /// As how many flows the sender yields and grows.
    pub(super) fn flows(&self) -> u64 {
        self.flows
    }

    /// A round trip was measured; `crowded`: it shows a queue.
    pub(super) fn measured(&mut self, now: Instant, round_trip: Duration, crowded: bool) {
        let Some(fall) = self.last.as_mut().filter(|fall| now.is_at_or_after(fall.seen_from))
        else {
            return;
        };
        let least = fall.round_trip.as_ns().saturating_mul(FELT_PERMILLE) / 1000;
        let is_felt = !crowded || round_trip.as_ns() <= least;
        fall.was_felt = Some(is_felt || fall.was_felt == Some(true));
    }

    /// The window is to fall, at this round trip.
    pub(super) fn falls(&mut self, now: Instant, round_trip: Duration) {
        let flows = match self.last.and_then(|fall| fall.was_felt) {
            None => self.flows,
            Some(true) => (self.flows - 1).max(1),
            Some(false) => (self.flows + 1).min(FLOWS_MAX),
        };
        let is_over = flows == 1 || self.falls == FALLS_MAX;
        (self.flows, self.falls) = if is_over { (1, 0) } else { (flows, self.falls + 1) };
        self.last = Some(Fall { seen_from: now + round_trip, round_trip, was_felt: None });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn at_ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    /// Flows after each of so many falls at 125 ms, of which each leaves so long a round trip.
    fn flows_after(rivals: &mut Rivals, falls: u64, left_ms: u64) -> Vec<u64> {
        let mut flows = Vec::new();
        for number in 0..falls {
            let now = at_ms(1000 * number);
            rivals.falls(now, Duration::from_ms(125));
            flows.push(rivals.flows());
            // Of what was sent before the fall.
            rivals.measured(now + Duration::from_ms(60), Duration::from_ms(100), false);
            let left = Duration::from_ms(left_ms);
            rivals.measured(now + Duration::from_ms(300), left, left_ms > 110);
            // The queue has filled again.
            rivals.measured(now + Duration::from_ms(900), Duration::from_ms(125), true);
        }
        flows
    }

    #[test]
    fn falls_that_are_felt_leave_one_flow() {
        for left_ms in [100, 112] {
            assert_eq!(flows_after(&mut Rivals::default(), 5, left_ms), [1; 5], "{left_ms}");
        }
    }

    #[test]
    fn falls_that_nobody_feels_make_it_three_and_then_one_again() {
        let flows = flows_after(&mut Rivals::default(), 20, 120);
        assert_eq!(flows[..4], [1, 2, 3, 3]);
        assert_eq!(flows.iter().filter(|flows| **flows == 1).count(), 2, "{flows:?}");
        assert_eq!(flows[17..], [1, 2, 3]);
    }

    #[test]
    fn who_is_alone_again_is_one_flow_soon() {
        let mut rivals = Rivals::default();
        flows_after(&mut rivals, 4, 120);
        assert_eq!(flows_after(&mut rivals, 4, 100), [3, 2, 1, 1]);
    }

    #[test]
    fn a_fall_before_anything_was_measured_proves_nothing() {
        let mut rivals = Rivals::default();
        for number in 0..5 {
            let now = at_ms(125 * number);
            rivals.falls(now, Duration::from_ms(125));
            rivals.measured(now + Duration::from_ms(100), Duration::from_ms(125), true);
            assert_eq!(rivals.flows(), 1);
        }
    }
}
