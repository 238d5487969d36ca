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

use fairway_wire::{Duration, Instant};

use crate::losses::LossShare;

/// Most flows that a sender counts as.
const FLOWS_MAX: u64 = 3;

/// A fall is felt if a round trip is no longer than this part of what it was, in thousandths. A
/// fall by three tenths of a sender that has half of what is in flight makes it 850.
const FELT_PERMILLE: u64 = 900;

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
    last: Option<Fall>,
    losses: LossShare,
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
        Rivals { flows: 1, falls: 0, last: None, losses: LossShare::new(HORIZON_BYTES) }
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
        let least = fall.round_trip.as_ns().saturating_mul(FELT_PERMILLE) / 1000;
        let is_felt = !crowded || round_trip.as_ns() <= least;
        fall.was_felt = Some(is_felt || fall.was_felt == Some(true));
    }

    /// The window is to fall, at this round trip, of which `empty_permille` thousandths are left
    /// without a queue.
    pub(super) fn falls(&mut self, now: Instant, round_trip: Duration, empty_permille: u64) {
        let is_long = empty_permille * (1000 + QUEUE_MAX_PERMILLE) < 1_000_000;
        if is_long || !self.losses.exceeds(LOST_PERMILLE) {
            *self = Rivals { losses: self.losses, ..Rivals::default() };
            return;
        }
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
mod tests;
