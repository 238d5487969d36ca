//! Lets small operations that a program posts one by one leave together.
//!
//! A call that sends costs as much as the rest of several small operations, on either side. A
//! program that posts again at once after it has posted is in a *burst*. The burst's first
//! operation leaves at once. The next ones may wait: until a certain number has been posted, or
//! until the next poll. That comes soon, because the program will poll for its completions; and if
//! it does not, the acknowledgement of the first operation, or its time-out, causes one. Only an
//! operation that the peer acknowledges, and whose post has sent packets, therefore begins a burst.

use fairway_wire::{Duration, Instant};

/// A post that begins so soon after the end of the last one belongs to its burst. A program that
/// waits for an answer in between takes longer.
const GAP: Duration = Duration::from_us(2);
/// Number of operations that leave together.
const TOGETHER: u32 = 32;
/// Operations of up to this many bytes wait, which one packet of a network with jumbo frames holds;
/// longer ones fill a call on their own.
pub const SMALL: u32 = 8856;

/// Small operations that have been posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallPosts {
    /// Time at which the posting call began.
    pub began: Instant,
    /// Number of operations.
    pub count: u32,
}

/// The burst of posts that is under way.
#[derive(Debug, Default)]
pub struct Burst {
    /// Time at which the last post ended, if no poll has followed it.
    ended_at: Option<Instant>,
    /// Number of operations that wait.
    waiting: u32,
}

impl Burst {
    /// Records what was posted, if all of it is small, by a call that ends at `now`. Returns true
    /// if it may wait for others.
    pub fn may_wait(&mut self, posted: SmallPosts, now: Instant) -> bool {
        let follows = self.ended_at.is_some_and(|ended| posted.began.since(ended) < GAP);
        let waits = follows && self.waiting + posted.count < TOGETHER;
        if waits {
            self.waiting += posted.count;
            self.ended_at = Some(now);
        }
        waits
    }

    /// Records that everything that was posted has left. `ended_at` is the time at which the post
    /// ended, if an acknowledgement is certain to come.
    pub(crate) fn left(&mut self, ended_at: Option<Instant>) {
        *self = Burst { ended_at, waiting: 0 };
    }

    /// Records a poll at `now`, which sends what waits. If nothing does, all that was posted may
    /// have been acknowledged, and the next operation leaves at once.
    pub(crate) fn polled(&mut self, now: Instant) {
        *self = Burst { ended_at: self.waits().then_some(now), waiting: 0 };
    }

    /// True if operations wait.
    pub fn waits(&self) -> bool {
        self.waiting > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(1_000_000 + ns)
    }

    /// Posts an operation from `ns` to `ns + 1000`. Returns true if it may wait.
    fn waits(burst: &mut Burst, ns: u64) -> bool {
        burst.may_wait(SmallPosts { began: at(ns), count: 1 }, at(ns + 1000))
    }

    #[test]
    fn first_operation_leaves_at_once_and_the_next_ones_together() {
        let mut burst = Burst::default();
        assert!(!waits(&mut burst, 0) && !burst.waits());
        burst.left(Some(at(3000)));
        for number in 1..TOGETHER {
            assert!(waits(&mut burst, 3000 + u64::from(number) * 1500), "operation {number}");
        }
        assert!(!waits(&mut burst, 12_000), "they leave together");
        burst.left(Some(at(15_000)));
        assert!(waits(&mut burst, 15_100) && burst.waits());
    }

    #[test]
    fn burst_continues_after_a_poll_that_sends_what_waits() {
        let mut burst = Burst::default();
        burst.left(Some(at(0)));
        assert!(waits(&mut burst, 100));
        burst.polled(at(200));
        assert!(!burst.waits() && waits(&mut burst, 300));
    }

    #[test]
    fn operation_after_a_poll_or_a_pause_leaves_at_once() {
        let mut burst = Burst::default();
        burst.left(Some(at(0)));
        burst.polled(at(50));
        assert!(!waits(&mut burst, 100));
        burst.left(Some(at(1000)));
        assert!(!waits(&mut burst, 3000));
    }

    #[test]
    fn operation_after_one_that_nothing_acknowledges_leaves_at_once() {
        let mut burst = Burst::default();
        burst.left(Some(at(0)));
        burst.left(None);
        assert!(!waits(&mut burst, 100));
    }
}
