//! Do other flows yield, too?
//!
//! After a fall of the window round trips become shorter, unless others fill the queue at once and
//! keep it full whatever is lost, as TCP with BBR does in a short queue. To them goes all that a
//! window gives up, for ever. So a sender whose falls shorten no round trip counts as more than one
//! flow (MulTCP: Crowcroft and Oechslin, ACM CCR 28(3), 1998): of `n` flows one yields, and all
//! grow. Falls that do shorten round trips make it fewer again.
//!
//! That is so in short queues only, and where much is lost. In a queue of more than
//! [`QUEUE_MAX_PERMILLE`] of what the path itself holds, BBR is limited to twice of that and
//! yields. And a sender that is alone may not notice its own falls where its window is a few
//! packets, but loses less than [`LOST_PERMILLE`].
//!
//! A full queue loses packets when round trips are longest, and a bad link loses them at any time.
//! So a fall proves something only if the round trip was about as long as at the longest of the
//! falls before, and as long at the fall before it. The longest also tells how long the queue is.

use fairway_wire::{Duration, Instant};

use crate::losses::LossShare;

/// Most flows that a sender counts as.
const FLOWS_MAX: u64 = 3;

/// A round trip is shorter than another if it is no longer than this part of it, in thousandths. A
/// fall by three tenths of a sender that has half of what is in flight makes it 850.
const SHORTER_PERMILLE: u64 = 900;

/// A fall is felt if more than one in so many round trips that are measured until the next one is
/// shorter. Of a window that grows back alone, the first three tenths of the time are; BBR drains
/// the queue for a moment whenever it has probed for more, in one round trip of eight.
const FELT_PART: u32 = 4;

/// The longest round trip of falls becomes shorter by one in so many parts with each of them.
const FORGET_PART: u64 = 64;

/// Longest queue in which others are looked for, in thousandths of the round trip without one.
const QUEUE_MAX_PERMILLE: u64 = 1500;

/// Least share of losses at which others are looked for, in thousandths of what was sent lately: of
/// the last one to two of [`HORIZON_BYTES`].
const LOST_PERMILLE: u64 = 30;
const HORIZON_BYTES: u64 = 512 * 1024;

/// After so many falls as more than one flow it is one again, and has to find out anew: the small
/// falls of several flows may not be felt by one that is alone either.
const FALLS_MAX: u32 = 16;

/// How many flows a sender counts as.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rivals {
    flows: u64,
    /// Falls since it counted as one.
    falls: u32,
    /// The last fall, if it was at the end of the queue.
    last: Option<Fall>,
    losses: LossShare,
    /// The longest round trip of the falls lately.
    longest: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Fall {
    /// What is measured from then on was sent after it.
    seen_from: Instant,
    round_trip: Duration,
    /// Round trips measured since then, and those of them that were shorter, or showed no queue.
    measured: u32,
    shorter: u32,
}

impl Fall {
    /// Did round trips become shorter? `None` before any was measured.
    fn was_felt(&self) -> Option<bool> {
        (self.measured > 0)
            .then(|| u64::from(self.shorter) * u64::from(FELT_PART) > u64::from(self.measured))
    }
}

/// Is a round trip so much shorter than another one?
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
    /// As how many flows the sender yields and grows.
    pub(super) fn flows(&self) -> u64 {
        self.flows
    }

    /// So many bytes were acknowledged, or lost.
    pub(super) fn ended(&mut self, acked_bytes: u32, lost_bytes: u32) {
        self.losses.remember(acked_bytes, lost_bytes, HORIZON_BYTES);
    }

    /// A round trip was measured; `crowded`: it shows a queue.
    pub(super) fn measured(&mut self, now: Instant, round_trip: Duration, crowded: bool) {
        let Some(fall) = self.last.as_mut().filter(|fall| now.is_at_or_after(fall.seen_from))
        else {
            return;
        };
        fall.measured = fall.measured.saturating_add(1);
        let shorter = !crowded || is_shorter(round_trip, fall.round_trip);
        fall.shorter = fall.shorter.saturating_add(u32::from(shorter));
    }

    /// The window is to fall, at this round trip; without a queue it is `empty`.
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
