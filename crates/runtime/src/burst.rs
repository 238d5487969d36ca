//! Lets small operations that a program posts one by one leave together.
//!
//! A call that sends costs as much as the rest of several small operations, on either side. A
//! program that posts again at once after it has posted is in a *burst*. The burst's first
//! operation leaves at once. The next ones may wait: until a certain number has been posted, or
//! until the next poll. That comes soon, because the program will poll for its completions; and if
//! it does not, the acknowledgement of the first operation, or its time-out, causes one. Only an
//! operation that the peer acknowledges, and whose post has sent packets, therefore begins a burst.
//!
//! A program that keeps many operations under way is in a burst as well if it posts at once after a
//! poll: acknowledgements of the earlier ones are certain to come, and the new one is behind them.

use fairway_wire::{Duration, Instant};

/// A post that begins so soon after the end of the last one belongs to its burst. A program that
/// waits for an answer in between takes longer.
const GAP: Duration = Duration::from_us(2);
/// Number of operations that leave together.
const TOGETHER: u32 = 32;
/// Number of operations under way from which on a program that posts after a poll is in a burst.
const STREAM: u32 = 16;
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
    /// Number of operations posted before them that the peer has not acknowledged yet, but will.
    pub under_way: u32,
}

/// The burst of posts that is under way.
#[derive(Debug, Default)]
pub struct Burst {
    /// Time at which the last post ended, if no poll has followed it.
    ended_at: Option<Instant>,
    /// Time of the last post or poll.
    called_at: Option<Instant>,
    /// Number of operations that wait.
    waiting: u32,
}

impl Burst {
    /// Records what was posted, if all of it is small. Returns true if it may wait for others.
    pub fn may_wait(&mut self, posted: SmallPosts) -> bool {
        let is_soon = |at: Instant| posted.began.since(at) < GAP;
        let follows = self.ended_at.is_some_and(is_soon)
            || posted.under_way >= STREAM && self.called_at.is_some_and(is_soon);
        let waits = follows && self.waiting + posted.count < TOGETHER;
        if waits {
            self.waiting += posted.count;
            // A post that waits takes no time to speak of, so the clock is not read again.
            (self.ended_at, self.called_at) = (Some(posted.began), Some(posted.began));
        }
        waits
    }

    /// Records that everything that was posted by a call that ends at `now` has left. `is_certain`:
    /// an acknowledgement is certain to come.
    pub(crate) fn left(&mut self, now: Instant, is_certain: bool) {
        *self = Burst { ended_at: is_certain.then_some(now), called_at: Some(now), waiting: 0 };
    }

    /// Records a poll at `now`, which sends what waits. If nothing does, all that was posted may
    /// have been acknowledged, and the next operation leaves at once.
    pub(crate) fn polled(&mut self, now: Instant) {
        *self = Burst { ended_at: self.waits().then_some(now), called_at: Some(now), waiting: 0 };
    }

    /// Records that a call that polled has ended at `now`: it may have sent and received much since
    /// [`Burst::polled`].
    pub(crate) fn poll_ended(&mut self, now: Instant) {
        self.called_at = Some(now);
    }

    /// True if operations wait.
    pub fn waits(&self) -> bool {
        self.waiting > 0
    }

    /// Number of operations that wait.
    pub fn waiting(&self) -> u32 {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(1_000_000 + ns)
    }

    /// Posts an operation. Returns true if it may wait.
    fn waits(burst: &mut Burst, ns: u64) -> bool {
        waits_behind(burst, ns, 0)
    }

    /// As [`waits`], while so many other operations are under way.
    fn waits_behind(burst: &mut Burst, ns: u64, under_way: u32) -> bool {
        burst.may_wait(SmallPosts { began: at(ns), count: 1, under_way })
    }

    #[test]
    fn first_operation_leaves_at_once_and_the_next_ones_together() {
        let mut burst = Burst::default();
        assert!(!waits(&mut burst, 0) && !burst.waits());
        burst.left(at(3000), true);
        for number in 1..TOGETHER {
            assert!(waits(&mut burst, 3000 + u64::from(number) * 1500), "operation {number}");
        }
        assert!(!waits(&mut burst, 12_000), "they leave together");
        burst.left(at(15_000), true);
        assert!(waits(&mut burst, 15_100) && burst.waits());
    }

    #[test]
    fn burst_continues_after_a_poll_that_sends_what_waits() {
        let mut burst = Burst::default();
        burst.left(at(0), true);
        assert!(waits(&mut burst, 100));
        burst.polled(at(200));
        assert!(!burst.waits() && waits(&mut burst, 300));
    }

    #[test]
    fn operation_after_a_poll_or_a_pause_leaves_at_once() {
        let mut burst = Burst::default();
        burst.left(at(0), true);
        burst.polled(at(50));
        assert!(!waits(&mut burst, 100));
        burst.left(at(1000), true);
        assert!(!waits(&mut burst, 3000));
    }

    #[test]
    fn operation_after_one_that_nothing_acknowledges_leaves_at_once() {
        let mut burst = Burst::default();
        burst.left(at(0), true);
        burst.left(at(0), false);
        assert!(!waits(&mut burst, 100));
    }

    #[test]
    fn operation_after_a_poll_waits_while_many_are_under_way() {
        let mut burst = Burst::default();
        assert!(!waits_behind(&mut burst, 0, STREAM), "nothing was called before");
        burst.polled(at(50));
        assert!(!waits_behind(&mut burst, 100, STREAM - 1));
        assert!(waits_behind(&mut burst, 100, STREAM) && burst.waits());
        burst.polled(at(200));
        burst.poll_ended(at(9000));
        assert!(waits_behind(&mut burst, 9100, STREAM), "the poll took long");
        burst.polled(at(10_000));
        assert!(!waits_behind(&mut burst, 12_000, STREAM), "the program has paused");
    }
}
