//! What losses mean, shared by the congestion controls.
//!
//! A few packets lost without any other sign of a queue are a bad link, not congestion. So losses
//! that later acknowledgements prove count only beyond a tolerated share of what was sent lately;
//! a time-out always counts.

use fairway_wire::Instant;

use crate::LossSample;

/// Bytes acknowledged and lost lately: both halve when together they exceed two windows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossShare {
    acked_bytes: u64,
    lost_bytes: u64,
}

impl LossShare {
    /// As if `acked_bytes` had been sent without loss.
    pub(crate) fn new(acked_bytes: u64) -> Self {
        LossShare { acked_bytes, lost_bytes: 0 }
    }

    /// Adds to what was acknowledged and lost under a window of `window_bytes`.
    pub(crate) fn remember(&mut self, acked_bytes: u32, lost_bytes: u32, window_bytes: u64) {
        self.acked_bytes += u64::from(acked_bytes);
        self.lost_bytes += u64::from(lost_bytes);
        if self.acked_bytes + self.lost_bytes > 2 * window_bytes {
            self.acked_bytes /= 2;
            self.lost_bytes /= 2;
        }
    }

    /// More was lost than `permille` thousandths of what was sent.
    pub(crate) fn exceeds(&self, permille: u64) -> bool {
        let sent = self.acked_bytes + self.lost_bytes;
        self.lost_bytes.saturating_mul(1000) > sent.saturating_mul(permille)
    }

    /// The losses turned out to be none.
    pub(crate) fn forgive(&mut self) {
        self.lost_bytes = 0;
    }
}

/// Which losses a control reacts to: those that count, at most once per round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossReaction {
    share: LossShare,
    tolerated_permille: u64,
    last: Option<Instant>,
}

impl LossReaction {
    pub(crate) fn new(tolerated_permille: u64, window_bytes: u64) -> Self {
        LossReaction { share: LossShare::new(window_bytes), tolerated_permille, last: None }
    }

    pub(crate) fn acked(&mut self, acked_bytes: u32, window_bytes: u64) {
        self.share.remember(acked_bytes, 0, window_bytes);
    }

    /// Does this loss call for a reaction? If so, the next can only a round trip later.
    pub(crate) fn counts(&mut self, sample: &LossSample, window_bytes: u64) -> bool {
        self.counts_if(sample, window_bytes, false)
    }

    /// As [`Self::counts`]; with `congested`, the loss counts whatever share was lost.
    pub(crate) fn counts_if(
        &mut self,
        sample: &LossSample,
        window_bytes: u64,
        congested: bool,
    ) -> bool {
        self.share.remember(0, sample.lost_bytes, window_bytes);
        let apart = |last| sample.now.elapsed_since(last) >= sample.smoothed_rtt;
        let counts = sample.by_timeout || congested || self.is_exceeded();
        if counts && self.last.is_none_or(apart) {
            self.last = Some(sample.now);
            return true;
        }
        false
    }

    /// More was lost lately than `permille` thousandths.
    pub(crate) fn exceeds(&self, permille: u64) -> bool {
        self.share.exceeds(permille)
    }

    /// More was lost lately than is tolerated.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.share.exceeds(self.tolerated_permille)
    }

    pub(crate) fn forgive(&mut self) {
        self.share.forgive();
    }
}

#[cfg(test)]
mod tests;
