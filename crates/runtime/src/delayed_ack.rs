//! Detects whether the application answers incoming messages at once.
//!
//! If it does, an acknowledgement may wait for the answer and leave with it in one system call; and
//! a peer that polls until it is acknowledged finds the answer at the same time. If it does not,
//! the acknowledgement is not delayed, because the peer would wait in vain.
//!
//! An answer may be late because its core was busy: then the peer of a program that watches memory
//! finds its completion first, stops polling, and depends on its background thread from then on. So
//! an acknowledgement waits for as long as a thread may be kept from its core by short work. That
//! is far longer than an answer takes, so it must not happen often in vain: of two programs that
//! each write, wait for the acknowledgement and write again, neither answers the other, but each
//! posts soon after something has arrived. An application that did not answer while an
//! acknowledgement waited has to answer ever more messages before the next one may wait.

use fairway_wire::{Duration, Instant};

/// A post within this time of a delivery counts as its answer. Also the maximum time for which an
/// acknowledgement waits.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_us(200);

/// Maximum number of packets of one arrival with which an acknowledgement may wait.
const PACKETS_MAX: usize = 2;

/// Least and greatest number of answers after which the application counts as prompt.
const NEEDED_MIN: u32 = 3;
const NEEDED_MAX: u32 = 512;

/// Number of further answers after which one that is missing counts as an accident.
const STEADY: u32 = 64;

/// Number of answers that a missing one cancels while the application does not count as prompt.
const PENALTY: u32 = 2;

/// A count of how often the application has answered deliveries at once.
#[derive(Debug)]
pub struct DelayedAck {
    delivered_at: Option<Instant>,
    /// Number of answers, less [`PENALTY`] for each that was missing.
    answers: u32,
    /// Number of answers from which the application counts as prompt.
    needed: u32,
}

impl Default for DelayedAck {
    /// Returns the count of an application that has not answered yet.
    fn default() -> DelayedAck {
        DelayedAck { delivered_at: None, answers: 0, needed: NEEDED_MIN }
    }
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
            Some(at) if now.since(at) < ANSWER_WITHIN => self.note_answer(),
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
        self.answers >= self.needed
    }

    fn note_answer(&mut self) {
        let most = self.needed + STEADY;
        self.answers = (self.answers + 1).min(most);
        if self.answers == most {
            (self.answers, self.needed) = (NEEDED_MIN + STEADY, NEEDED_MIN);
        }
    }

    /// Records that the last delivery was not answered in time.
    fn forget(&mut self) {
        if self.delivered_at.take().is_none() {
            return;
        }
        if self.answers >= self.needed + STEADY {
            // Another one soon is no accident.
            self.answers = self.needed;
        } else if self.is_prompt() {
            (self.answers, self.needed) = (0, (2 * self.needed).min(NEEDED_MAX));
        } else {
            self.answers = self.answers.saturating_sub(PENALTY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_ns(1000 * us)
    }

    /// Answers so many deliveries, one in each millisecond from `from` on, after `after` us.
    fn answer(habit: &mut DelayedAck, from: u64, count: u32, after: u64) -> u64 {
        for round in 0..u64::from(count) {
            habit.delivered(at(1000 * (from + round)));
            habit.posted(at(1000 * (from + round) + after));
        }
        from + u64::from(count)
    }

    #[test]
    fn a_few_answers_make_an_application_prompt() {
        let mut habit = DelayedAck::default();
        let next = answer(&mut habit, 0, NEEDED_MIN - 1, 10);
        assert!(!habit.is_prompt());
        answer(&mut habit, next, 1, 10);
        assert!(habit.is_prompt());
        assert!(habit.may_delay_ack(at(5000), 1, None));
        assert!(habit.may_delay_ack(at(5000), 0, Some(at(5001))));
        assert!(!habit.may_delay_ack(at(5000), 0, Some(at(5000))), "its time is up");
        assert!(!habit.may_delay_ack(at(5000), PACKETS_MAX + 1, None), "those are a flood");
    }

    #[test]
    fn late_posts_are_no_answers() {
        let mut habit = DelayedAck::default();
        answer(&mut habit, 0, 20, 500);
        assert!(!habit.is_prompt());
    }

    #[test]
    fn an_application_that_answers_some_deliveries_is_not_prompt() {
        let mut habit = DelayedAck::default();
        let mut next = 0;
        for _ in 0..100 {
            next = answer(&mut habit, next, 1, 10);
            next = answer(&mut habit, next, 1, 500);
            assert!(!habit.is_prompt());
        }
    }

    /// Two applications that write and wait for the acknowledgement: if both acknowledgements wait,
    /// both posts are late.
    #[test]
    fn acknowledgements_wait_in_vain_ever_more_rarely() {
        let mut habit = DelayedAck::default();
        let (mut next, mut waits) = (0, Vec::new());
        for round in 0..20_000 {
            let waits_in_vain = habit.is_prompt();
            next = answer(&mut habit, next, 1, if waits_in_vain { 210 } else { 15 });
            if waits_in_vain {
                waits.push(round);
            }
        }
        assert!(waits.len() < 50, "{} waits", waits.len());
        let last: Vec<_> = waits.windows(2).rev().map(|two| two[1] - two[0]).take(3).collect();
        assert_eq!(last, [NEEDED_MAX as i32 + 1; 3]);
    }

    #[test]
    fn one_answer_that_is_missing_among_many_is_an_accident() {
        let mut habit = DelayedAck::default();
        let mut next = 0;
        for _ in 0..10 {
            next = answer(&mut habit, next, STEADY + NEEDED_MIN, 10);
            next = answer(&mut habit, next, 1, 500);
            assert!(habit.is_prompt());
        }
        answer(&mut habit, next, 1, 500);
        assert!(!habit.is_prompt(), "two in a row are none");
    }

    /// A hard time is forgotten after many answers.
    #[test]
    fn an_application_that_answers_again_is_trusted_as_before() {
        let mut habit = DelayedAck { needed: NEEDED_MAX, ..DelayedAck::default() };
        let next = answer(&mut habit, 0, NEEDED_MAX + STEADY, 10);
        let next = answer(&mut habit, next, 1, 500);
        let next = answer(&mut habit, next, 1, 500);
        assert!(!habit.is_prompt());
        answer(&mut habit, next, 2 * NEEDED_MIN, 10);
        assert!(habit.is_prompt());
    }

    #[test]
    fn posts_without_a_delivery_are_no_answers() {
        let mut habit = DelayedAck::default();
        (0..20).for_each(|round| habit.posted(at(round)));
        assert!(!habit.is_prompt());
    }
}
