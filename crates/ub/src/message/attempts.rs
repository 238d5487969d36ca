//! The attempts to carry out one message: how the current one ends, and when the next one begins.

use super::{Message, Overtaking, OvertakingPlan};
use crate::api::Status;
use crate::pool::Index;
use fairway_wire::{Duration, Instant};

/// How the current attempt to carry out a message is going to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The attempt has not been refused.
    Open,
    /// Refused for lack of a receive: to be tried again once nothing of the message is in flight.
    NotReady,
    /// Refused because the message came too early: to be tried again after the ones before it.
    TooEarly,
    /// Refused for good.
    Failed(Status),
    /// The answer is complete, and the operation has been reported.
    Reported,
}

impl Outcome {
    /// True if the attempt was refused, for good or not.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Outcome::NotReady | Outcome::TooEarly | Outcome::Failed(_))
    }
}

/// The attempts to carry out one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempts {
    /// After a refusal, when to try again; for a load or store that was sent, when to repeat it.
    retry_at: Instant,
    /// Refusals because the message came before others.
    overtaking: Overtaking,
    /// Other refusals for lack of a receive; for a load or store, the number of repeats.
    retries: u16,
    outcome: Outcome,
}

impl Attempts {
    /// The attempts of a message that has not been refused.
    pub(super) const NONE_YET: Attempts = Attempts {
        retry_at: Instant::ZERO,
        overtaking: Overtaking::NONE_YET,
        retries: 0,
        outcome: Outcome::Open,
    };

    // ---- the current attempt ----

    /// How the current attempt is going to end.
    #[inline]
    pub(crate) fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// True if the current attempt has not been refused and has not ended.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.outcome == Outcome::Open
    }

    /// Notes that the target refuses the attempt because the message came too early.
    pub(crate) fn refuse_early(&mut self, retry_at: Instant) {
        (self.outcome, self.retry_at) = (Outcome::TooEarly, retry_at);
    }

    /// Notes that the target refuses the attempt for lack of a receive.
    pub(crate) fn refuse_not_ready(&mut self, retry_at: Instant) {
        (self.outcome, self.retry_at) = (Outcome::NotReady, retry_at);
    }

    /// Notes that the attempt has failed, and that no other follows.
    pub(crate) fn fail(&mut self, status: Status) {
        self.outcome = Outcome::Failed(status);
    }

    /// Notes that the answer is complete, and the operation has been reported.
    pub(crate) fn note_reported(&mut self) {
        self.outcome = Outcome::Reported;
    }

    /// Begins another attempt. Returns how the previous one ended.
    pub(crate) fn reopen(&mut self) -> Outcome {
        core::mem::replace(&mut self.outcome, Outcome::Open)
    }

    /// Begins the sending of a notice, which skips no retry time.
    pub(crate) fn begin_notice(&mut self) {
        self.outcome = Outcome::Open;
        self.overtaking.skip_no_more();
    }

    // ---- later attempts ----

    /// Refusals for lack of a receive, except those of a message that came before others.
    #[inline]
    pub(crate) fn retries(&self) -> u16 {
        self.retries
    }

    /// Counts a refusal for lack of a receive, or the repeat of a load or store.
    pub(crate) fn count_retry(&mut self) {
        self.retries = self.retries.saturating_add(1);
    }

    /// Records a refusal because the message came before others, of which `first` is the oldest
    /// ([`Overtaking::note`]).
    pub(crate) fn note_overtaking(&mut self, first: Option<Index<Message>>, plan: OvertakingPlan) {
        self.overtaking.note(first, plan);
    }

    /// True if the message was refused at least once for lack of a receive.
    pub(crate) fn was_not_ready(&self) -> bool {
        self.retries > 0 || self.overtaking.has_happened()
    }

    /// When to try again.
    #[inline]
    pub(crate) fn retry_at(&self) -> Instant {
        self.retry_at
    }

    /// Sets when to repeat a load or store.
    pub(crate) fn set_retry_at(&mut self, at: Instant) {
        self.retry_at = at;
    }

    /// When to try again, if that is after `now`. A message whose retry time has come may skip it
    /// ([`Overtaking::lets_pass`]): then it waits for `pass`.
    pub(crate) fn next_time(
        &mut self,
        now: Instant,
        pass: Duration,
        first: Option<Index<Message>>,
        goes: bool,
    ) -> Option<Instant> {
        if !now.is_before(self.retry_at) && self.overtaking.lets_pass(first, goes) {
            self.retry_at = now + pass;
        }
        now.is_before(self.retry_at).then_some(self.retry_at)
    }
}
