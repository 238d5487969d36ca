//! Detects whether competing flows yield to losses.
//!
//! After a decrease of the window round trips become shorter, unless other flows fill the queue at
//! once and keep it full whatever is lost, as TCP with BBR does in a short queue. Such flows take
//! all that a window gives up. A sender whose decreases shorten no round trip therefore counts as
//! more than one flow (MulTCP: Crowcroft and Oechslin, ACM CCR 28(3), 1998): of `n` flows one
//! yields, and all grow. Decreases that do shorten round trips reduce the number again.
//!
//! This applies only to short queues and high loss. In a queue of more than [`QUEUE_MAX_PERMILLE`]
//! of what the path itself holds, BBR is limited to twice of that and yields. A single sender may
//! not detect its own decreases if its window is a few packets, but then it loses less than
//! [`LOST_PERMILLE`].
//!
//! A full queue loses packets when round trips are longest, and a bad link loses them at any time.
//! A decrease is therefore evidence only if the round trip was about as long as the longest at
//! earlier decreases, and also at the decrease before it. The longest round trip also shows how
//! long the queue is.

use fairway_wire::{Duration, Instant};

use crate::losses::LossShare;

/// Most flows that a sender counts as.
const FLOWS_MAX: u64 = 3;

/// A round trip is shorter than another if it is at most this part of it, in thousandths. A
/// decrease by three tenths, of a sender with half of the bytes in flight, makes it 850.
const SHORTER_PERMILLE: u64 = 900;

/// A decrease is felt if more than one in this many round trips measured until the next one is
/// shorter. For a single window that grows back, the first three tenths of the time are shorter;
/// BBR drains the queue for a moment after it has probed for more, in one round trip of eight.
const FELT_PART: u32 = 4;

/// At each decrease, the longest round trip is reduced by one part in this many.
const FORGET_PART: u64 = 64;

/// Longest queue in which competing flows are looked for, in thousandths of the base round trip.
const QUEUE_MAX_PERMILLE: u64 = 1500;

/// Smallest share of losses at which competing flows are looked for, in thousandths of the bytes
/// sent recently, which are the last one to two of [`HORIZON_BYTES`].
const LOST_PERMILLE: u64 = 30;
const HORIZON_BYTES: u64 = 512 * 1024;

/// After this many decreases as more than one flow, the sender counts as one again and repeats the
/// detection: the small decreases of several flows may not be felt by a sender that is alone.
const FALLS_MAX: u32 = 16;

/// The number of flows that a sender counts as.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rivals {
    flows: u64,
    /// Decreases since it last counted as one flow.
    falls: u32,
    /// The last decrease, if the queue was then full.
    last: Option<Fall>,
    losses: LossShare,
    /// The longest round trip at recent decreases.
    longest: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Fall {
    /// Round trips measured from then on are of packets sent after the decrease.
    seen_from: Instant,
    round_trip: Duration,
    /// Round trips measured since then, and the number of them that were shorter or showed no
    /// queue.
    measured: u32,
    shorter: u32,
}

impl Fall {
    /// Whether round trips became shorter. `None` before any was measured.
    fn was_felt(&self) -> Option<bool> {
        (self.measured > 0)
            .then(|| u64::from(self.shorter) * u64::from(FELT_PART) > u64::from(self.measured))
    }
}

/// True if a round trip is shorter than another by the margin of [`SHORTER_PERMILLE`].
fn is_shorter(round_trip: Duration, than: Duration) -> bool {
    round_trip.as_ns() <= than.as_ns().saturating_mul(SHORTER_PERMILLE) / 1000
}

impl Default for Rivals {
    fn default() -> Self {
        Rivals {
            flows: 1,
            falls: 0,
            last: None,
            losses: LossShare::new(HORIZON_BYTES),
            longest: Duration::ZERO,
        }
    }
}

impl Rivals {
    /// Number of flows as which the sender yields and grows.
    pub(super) fn flows(&self) -> u64 {
        self.flows
    }

    /// Records bytes that were acknowledged, or lost.
    pub(super) fn ended(&mut self, acked_bytes: u32, lost_bytes: u32) {
        self.losses.remember(acked_bytes, lost_bytes, HORIZON_BYTES);
    }

    /// Records a measured round trip; `crowded` is true if it shows a queue.
    pub(super) fn measured(&mut self, now: Instant, round_trip: Duration, crowded: bool) {
        let Some(fall) = self.last.as_mut().filter(|fall| now.is_at_or_after(fall.seen_from))
        else {
            return;
        };
        fall.measured = fall.measured.saturating_add(1);
        let shorter = !crowded || is_shorter(round_trip, fall.round_trip);
        fall.shorter = fall.shorter.saturating_add(u32::from(shorter));
    }

    /// Records a decrease of the window at this round trip; `empty` is the base round trip.
    pub(super) fn falls(&mut self, now: Instant, round_trip: Duration, empty: Duration) {
        let forgotten = self.longest.divided_by(FORGET_PART);
        self.longest = self.longest.saturating_sub(forgotten).max(round_trip);
        let most_ns = empty.as_ns().saturating_mul(1000 + QUEUE_MAX_PERMILLE) / 1000;
        if self.longest.as_ns() > most_ns || !self.losses.exceeds(LOST_PERMILLE) {
            let (losses, longest) = (self.losses, self.longest);
            *self = Rivals { losses, longest, ..Rivals::default() };
            return;
        }
        let at_end = !is_shorter(round_trip, self.longest);
        let flows = match self.last.and_then(|fall| fall.was_felt()) {
            None if at_end => self.flows,
            Some(false) if at_end => (self.flows + 1).min(FLOWS_MAX),
            _ => (self.flows - 1).max(1),
        };
        let is_over = flows == 1 || self.falls == FALLS_MAX;
        (self.flows, self.falls) = if is_over { (1, 0) } else { (flows, self.falls + 1) };
        let seen_from = now + round_trip;
        self.last = at_end.then_some(Fall { seen_from, round_trip, measured: 0, shorter: 0 });
    }
}

#[cfg(test)]
mod tests;
