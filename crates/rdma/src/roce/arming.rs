//! Detects whether a program that has armed a completion queue sleeps.

/// Polls in vain after which a program does not sleep: one that sleeps polls once or twice between
/// arming a queue and that.
const POLLS_MAX: u32 = 32;

/// What the program has done since it armed a queue.
///
/// UCX arms a queue and polls all the time; the background thread must not drive for it.
#[derive(Debug, Default)]
pub(super) struct Arming {
    polls_in_vain: u32,
}

impl Arming {
    /// Records that the program has armed a queue.
    pub(super) fn armed(&mut self) {
        self.polls_in_vain = 0;
    }

    /// Records that the program polled in vain.
    pub(super) fn polled_in_vain(&mut self) {
        self.polls_in_vain = self.polls_in_vain.saturating_add(1);
    }

    /// True if the program may be asleep, while a queue of it is armed.
    pub(super) fn may_sleep(&self) -> bool {
        self.polls_in_vain < POLLS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_that_goes_on_polling_does_not_sleep_until_it_arms_a_queue_again() {
        let mut arming = Arming::default();
        for _ in 0..2 {
            arming.armed();
            arming.polled_in_vain();
            arming.polled_in_vain();
            assert!(arming.may_sleep());
            (0..POLLS_MAX).for_each(|_| arming.polled_in_vain());
            assert!(!arming.may_sleep());
        }
    }
}
