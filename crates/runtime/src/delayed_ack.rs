//! Detects whether the application answers incoming messages at once.
//!
//! If it does, an acknowledgement may wait for the answer and leave with it in one system call; and
//! a peer that polls until it is acknowledged finds the answer at the same time. If it does not,
//! the acknowledgement is not delayed, because the peer would wait in vain.

use fairway_wire::{Duration, Instant};

/// A post within this time of a delivery counts as its answer. Also the maximum time for which an
/// acknowledgement waits.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_us(30);

/// Maximum number of packets of one arrival with which an acknowledgement may wait.
const PACKETS_MAX: usize = 2;

/// Largest score.
const SCORE_MAX: u8 = 8;

/// Score from which the application counts as prompt.
const SCORE_PROMPT: u8 = 3;

/// Amount by which a missing answer lowers the score.
const PENALTY: u8 = 2;

/// Score of how often the application has answered deliveries at once.
#[derive(Debug, Default)]
pub struct DelayedAck {
    delivered_at: Option<Instant>,
    score: u8,
}

impl DelayedAck {
    /// Records that a message or its data has arrived for the application.
    pub fn delivered(&mut self, now: Instant) {
        if self.delivered_at.is_none_or(|at| now.since(at) >= ANSWER_WITHIN) {
            self.forget();
            self.delivered_at = Some(now);
        }
    }

    /// Records that the application has posted an operation.
    pub fn posted(&mut self, now: Instant) {
        match self.delivered_at.take() {
            Some(at) if now.since(at) < ANSWER_WITHIN => {
                self.score = (self.score + 1).min(SCORE_MAX);
            }
            Some(at) => {
                self.delivered_at = Some(at);
                self.forget();
            }
            None => {}
        }
    }

    /// True if an acknowledgement may wait for an answer after `received` packets have arrived.
    /// `until`: an acknowledgement is already waiting, and may do so until then.
    pub(crate) fn may_delay_ack(
        &self,
        now: Instant,
        received: usize,
        until: Option<Instant>,
    ) -> bool {
        let in_time = until.is_none_or(|until| now.is_before(until));
        in_time && received <= PACKETS_MAX && self.is_prompt()
    }

    /// True if the application is expected to answer.
    fn is_prompt(&self) -> bool {
        self.score >= SCORE_PROMPT
    }

    /// Records that the last delivery was not answered in time.
    fn forget(&mut self) {
        if self.delivered_at.take().is_some() {
            self.score = self.score.saturating_sub(PENALTY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_ns(1000 * us)
    }

    #[test]
    fn a_few_answers_make_an_application_prompt_and_fewer_missing_ones_end_that() {
        let mut habit = DelayedAck::default();
        for round in 0..u64::from(SCORE_PROMPT) {
            assert!(!habit.is_prompt());
            habit.delivered(at(1000 * round));
            habit.posted(at(1000 * round + 10));
        }
        assert!(habit.is_prompt());
        assert!(habit.may_delay_ack(at(5000), 1, None));
        assert!(habit.may_delay_ack(at(5000), 0, Some(at(5001))));
        assert!(!habit.may_delay_ack(at(5000), 0, Some(at(5000))), "its time is up");
        assert!(!habit.may_delay_ack(at(5000), PACKETS_MAX + 1, None), "those are a flood");
        habit.delivered(at(10_000));
        habit.delivered(at(11_000));
        assert!(!habit.is_prompt());
    }

    #[test]
    fn late_posts_are_no_answers() {
        let mut habit = DelayedAck::default();
        for round in 0..20 {
            habit.delivered(at(1000 * round));
            habit.posted(at(1000 * round + 500));
        }
        assert!(!habit.is_prompt());
    }

    #[test]
    fn posts_without_a_delivery_are_no_answers() {
        let mut habit = DelayedAck::default();
        (0..20).for_each(|round| habit.posted(at(round)));
        assert!(!habit.is_prompt());
    }
}
