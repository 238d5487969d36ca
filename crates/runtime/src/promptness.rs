//! Whether the application answers at once what it is sent.
//!
//! If it does, an acknowledgement may wait for the answer and leave with it in one system call; and
//! a peer that polls until it is acknowledged finds the answer there at the same time. Otherwise
//! the peer would wait for nothing.

use fairway_wire::{Duration, Instant};

/// What is posted within this time is taken for an answer, and for so long an acknowledgement
/// waits for one.
pub(crate) const PROMPT: Duration = Duration::from_us(30);

/// When more packets than these have come together, nothing waits.
const FEW: usize = 2;

/// Answers in a row that are remembered.
const SCORE_MAX: u8 = 8;

/// So many more than were missing make a habit.
const HABIT: u8 = 3;

/// What one that is missing takes away.
const MISSING: u8 = 2;

/// How often the application has answered at once what it was sent.
#[derive(Debug, Default)]
pub struct Promptness {
    delivered_at: Option<Instant>,
    score: u8,
}

impl Promptness {
    /// Something has arrived for the application.
    pub fn delivered(&mut self, now: Instant) {
        if self.delivered_at.is_none_or(|at| now.since(at) >= PROMPT) {
            self.forget();
            self.delivered_at = Some(now);
        }
    }

    /// It has posted something.
    pub fn posted(&mut self, now: Instant) {
        match self.delivered_at.take() {
            Some(at) if now.since(at) < PROMPT => {
                self.score = (self.score + 1).min(SCORE_MAX);
            }
            Some(at) => {
                self.delivered_at = Some(at);
                self.forget();
            }
            None => {}
        }
    }

    /// May an acknowledgement wait for an answer, now that so many packets have come? `until`: one
    /// has been waiting, and may until then.
    pub(crate) fn may_owe(&self, now: Instant, received: usize, until: Option<Instant>) -> bool {
        let in_time = until.is_none_or(|until| now.is_before(until));
        in_time && received <= FEW && self.is_prompt()
    }

    /// Will it answer?
    fn is_prompt(&self) -> bool {
        self.score >= HABIT
    }

    /// What was delivered was not answered in time.
    fn forget(&mut self) {
        if self.delivered_at.take().is_some() {
            self.score = self.score.saturating_sub(MISSING);
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
    fn it_takes_a_few_answers_to_be_relied_upon_and_fewer_without_to_lose_that() {
        let mut habit = Promptness::default();
        for round in 0..u64::from(HABIT) {
            assert!(!habit.is_prompt());
            habit.delivered(at(1000 * round));
            habit.posted(at(1000 * round + 10));
        }
        assert!(habit.is_prompt());
        assert!(habit.may_owe(at(5000), 1, None));
        assert!(habit.may_owe(at(5000), 0, Some(at(5001))));
        assert!(!habit.may_owe(at(5000), 0, Some(at(5000))), "its time is up");
        assert!(!habit.may_owe(at(5000), FEW + 1, None), "those are a flood");
        habit.delivered(at(10_000));
        habit.delivered(at(11_000));
        assert!(!habit.is_prompt());
    }

    #[test]
    fn what_is_posted_late_is_no_answer() {
        let mut habit = Promptness::default();
        for round in 0..20 {
            habit.delivered(at(1000 * round));
            habit.posted(at(1000 * round + 500));
        }
        assert!(!habit.is_prompt());
    }

    #[test]
    fn one_who_posts_without_being_asked_does_not_answer() {
        let mut habit = Promptness::default();
        (0..20).for_each(|round| habit.posted(at(round)));
        assert!(!habit.is_prompt());
    }
}
