//! Interpretation of losses, shared by the congestion controls.
//!
//! A few packets lost without any other sign of a queue indicate a bad link, not congestion. Losses
//! detected by later acknowledgements therefore count only beyond a tolerated share of the bytes
//! sent recently; a time-out always counts.

use fairway_wire::Instant;

use crate::LossSample;

/// Bytes acknowledged and lost recently: both are halved when together they exceed two windows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossShare {
    acked_bytes: u64,
    lost_bytes: u64,
}

impl LossShare {
    /// Starts as if `acked_bytes` had been sent without loss.
    pub(crate) fn new(acked_bytes: u64) -> Self {
        LossShare { acked_bytes, lost_bytes: 0 }
    }

    /// Adds bytes acknowledged and lost under a window of `window_bytes`.
    pub(crate) fn remember(&mut self, acked_bytes: u32, lost_bytes: u32, window_bytes: u64) {
        self.acked_bytes += u64::from(acked_bytes);
        self.lost_bytes += u64::from(lost_bytes);
        if self.acked_bytes + self.lost_bytes > 2 * window_bytes {
            self.acked_bytes /= 2;
            self.lost_bytes /= 2;
        }
    }

    /// True if more than `permille` thousandths of the bytes sent were lost.
    pub(crate) fn exceeds(&self, permille: u64) -> bool {
        let sent = self.acked_bytes + self.lost_bytes;
        self.lost_bytes.saturating_mul(1000) > sent.saturating_mul(permille)
    }

    /// Removes the losses, which turned out to be reordering or have caused a reaction.
    pub(crate) fn forgive(&mut self) {
        self.lost_bytes = 0;
    }
}

/// Which losses may cause the next reaction.
#[derive(Clone, Copy, Debug)]
enum Spacing {
    /// Those of packets that were sent since the last reaction.
    Sent,
    /// Those found a round trip after the last reaction, or later.
    RoundTrip,
}

/// Decides to which losses a congestion control reacts: to those that count, at most once per
/// window sent or per round trip.
///
/// Packets that were sent before a reaction met the queue that the reaction drains, so their losses
/// do not count for another one (the recovery point of RFC 6675, §4). A time-out counts whenever
/// its packets were sent, but a round trip after the last reaction at the earliest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossReaction {
    share: LossShare,
    tolerated_permille: u64,
    spacing: Spacing,
    last: Option<Instant>,
}

impl LossReaction {
    pub(crate) fn new(tolerated_permille: u64, window_bytes: u64) -> Self {
        let (share, spacing) = (LossShare::new(window_bytes), Spacing::Sent);
        LossReaction { share, tolerated_permille, spacing, last: None }
    }

    /// Reacts to losses whenever their packets were sent, a round trip after the last reaction at
    /// the earliest.
    pub(crate) fn a_round_trip_apart(self) -> Self {
        LossReaction { spacing: Spacing::RoundTrip, ..self }
    }

    pub(crate) fn acked(&mut self, acked_bytes: u32, window_bytes: u64) {
        self.share.remember(acked_bytes, 0, window_bytes);
    }

    /// True if this loss requires a reaction.
    pub(crate) fn counts(&mut self, sample: &LossSample, window_bytes: u64) -> bool {
        self.counts_if(sample, window_bytes, false)
    }

    /// The same as [`Self::counts`]; with `congested`, the loss counts whatever share was lost.
    pub(crate) fn counts_if(
        &mut self,
        sample: &LossSample,
        window_bytes: u64,
        congested: bool,
    ) -> bool {
        let by_sending = matches!(self.spacing, Spacing::Sent) && !sample.by_timeout;
        // Ages are compared, and not instants, because a reaction may be arbitrarily old.
        let age = sample.now.elapsed_since(sample.sent_at);
        let apart = if by_sending { age } else { sample.smoothed_rtt };
        let is_apart = self.last.is_none_or(|last| sample.now.elapsed_since(last) >= apart);
        if by_sending && !is_apart {
            return false;
        }
        self.share.remember(0, sample.lost_bytes, window_bytes);
        let counts = sample.by_timeout || congested || self.is_exceeded();
        if counts && is_apart {
            self.last = Some(sample.now);
        }
        counts && is_apart
    }

    /// True if more than `permille` thousandths were lost recently.
    pub(crate) fn exceeds(&self, permille: u64) -> bool {
        self.share.exceeds(permille)
    }

    /// True if more was lost recently than is tolerated.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.share.exceeds(self.tolerated_permille)
    }

    pub(crate) fn forgive(&mut self) {
        self.share.forgive();
    }
}

#[cfg(test)]
mod tests;
