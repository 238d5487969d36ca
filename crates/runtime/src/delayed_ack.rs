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
//! posts soon after something has arrived. After an acknowledgement has waited in vain, the
//! application has to answer ever more messages before the next one may wait.

use fairway_wire::{Duration, Instant};

/// A post within this time of a delivery counts as its answer. Also the maximum time for which an
/// acknowledgement waits.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_us(200);

/// Maximum number of packets of one arrival with which an acknowledgement may wait.
const PACKETS_MAX: usize = 2;

/// Least and greatest number of answers after which the application counts as prompt.
const NEEDED_MIN: u32 = 3;
const NEEDED_MAX: u32 = 96;

/// Number of further answers after which a wait in vain counts as an accident.
const STEADY: u32 = 64;

/// Number of answers that a missing one cancels.
const PENALTY: u32 = 2;

/// A count of how often the application has answered deliveries at once.
#[derive(Debug)]
pub struct DelayedAck {
    delivered_at: Option<Instant>,
    /// Number of answers, less [`PENALTY`] for each that was missing, since a wait in vain.
    answers: u32,
    /// Number of answers from which the application counts as prompt.
    needed: u32,
    /// True if a prompt application has been given completions, and has neither posted nor polled
    /// in vain since.
    precedes_answer: bool,
}

impl Default for DelayedAck {
    /// Returns the count of an application that has not answered yet.
    fn default() -> DelayedAck {
        DelayedAck { delivered_at: None, answers: 0, needed: NEEDED_MIN, precedes_answer: false }
    }
}

impl DelayedAck {
    /// Records that packets have arrived, perhaps a message or its data for the application.
    pub fn delivered(&mut self, now: Instant) {
        if self.delivered_at.is_none_or(|at| now.since(at) >= ANSWER_WITHIN) {
            self.forget();
            self.delivered_at = Some(now);
        }
    }

    /// Records that a poll has driven the device and given completions to the application.
    pub fn completed(&mut self) {
        self.precedes_answer = self.is_prompt();
    }

    /// Returns true for the first poll in vain between completions and the answer that a prompt
    /// application posts. Such a poll does nothing, because a program that polls until it finds
    /// nothing before it answers would wait for a system call, and the acknowledgement would not
    /// wait for the answer in the device, where the answer's packet can carry it.
    pub fn take_precedes_answer(&mut self) -> bool {
        std::mem::take(&mut self.precedes_answer)
    }

    /// Records that the application has posted an operation.
    pub fn posted(&mut self, now: Instant) {
        self.precedes_answer = false;
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
        &mut self,
        now: Instant,
        received: usize,
        until: Option<Instant>,
    ) -> bool {
        if until.is_some_and(|until| !now.is_before(until)) {
            self.note_wait_in_vain();
            return false;
        }
        received <= PACKETS_MAX && self.is_prompt()
    }

    /// True if the application is expected to answer.
    pub(crate) fn is_prompt(&self) -> bool {
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
        if self.delivered_at.take().is_some() {
            self.answers = self.answers.saturating_sub(PENALTY);
        }
    }

    /// Records that the time of an acknowledgement that waited is up.
    fn note_wait_in_vain(&mut self) {
        if self.answers >= NEEDED_MIN + STEADY / 2 && self.needed == NEEDED_MIN {
            // Another one soon is no accident.
            self.answers = NEEDED_MIN;
        } else if self.is_prompt() {
            (self.answers, self.needed) = (0, (2 * self.needed).min(NEEDED_MAX));
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
        let mut waits = Vec::new();
        for round in 0..20_000_u64 {
            let start = 1000 * round;
            habit.delivered(at(start));
            let mut posted = start + 15;
            if habit.may_delay_ack(at(start), 1, None) {
                waits.push(round);
                posted = start + 210;
                assert!(!habit.may_delay_ack(at(start + 200), 0, Some(at(start + 200))));
            }
            habit.posted(at(posted));
        }
        let apart: Vec<_> = waits.windows(2).map(|two| two[1] - two[0]).collect();
        let expected = [7, 13, 25, 49, 97, 97];
        assert_eq!(apart[..6], expected, "the first answers count from {NEEDED_MIN} on");
        assert!(apart[6..].iter().all(|apart| *apart == u64::from(NEEDED_MAX) + 1), "{apart:?}");
    }

    /// Lets an acknowledgement wait in vain.
    fn wait_in_vain(habit: &mut DelayedAck) {
        assert!(!habit.may_delay_ack(at(5000), 0, Some(at(5000))));
    }

    #[test]
    fn one_wait_in_vain_among_many_answers_is_an_accident() {
        let mut habit = DelayedAck::default();
        let mut next = 0;
        for _ in 0..10 {
            next = answer(&mut habit, next, STEADY, 10);
            wait_in_vain(&mut habit);
            assert!(habit.is_prompt());
        }
        wait_in_vain(&mut habit);
        assert!(!habit.is_prompt(), "two in a row are none");
    }

    /// A hard time is forgotten after many answers.
    #[test]
    fn an_application_that_answers_again_is_trusted_as_before() {
        let mut habit = DelayedAck { needed: NEEDED_MAX, ..DelayedAck::default() };
        let next = answer(&mut habit, 0, NEEDED_MAX + STEADY, 10);
        wait_in_vain(&mut habit);
        wait_in_vain(&mut habit);
        assert!(!habit.is_prompt());
        answer(&mut habit, next, 2 * NEEDED_MIN, 10);
        assert!(habit.is_prompt());
    }

    #[test]
    fn only_the_first_poll_in_vain_before_the_answer_of_a_prompt_application_does_nothing() {
        let mut habit = DelayedAck::default();
        habit.completed();
        assert!(!habit.take_precedes_answer(), "the application has not answered before");
        answer(&mut habit, 0, NEEDED_MIN, 10);
        habit.completed();
        assert!(habit.take_precedes_answer());
        assert!(!habit.take_precedes_answer(), "the next poll looks for packets");
        habit.completed();
        habit.posted(at(5000));
        assert!(!habit.take_precedes_answer(), "the answer has been posted");
    }

    #[test]
    fn posts_without_a_delivery_are_no_answers() {
        let mut habit = DelayedAck::default();
        (0..20).for_each(|round| habit.posted(at(round)));
        assert!(!habit.is_prompt());
    }
}
