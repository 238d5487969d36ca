//! Detects that the host has more busy threads than cores, so that a thread that polls in vain
//! sleeps for a moment.
//!
//! A thread that polls in vain on such a host uses up its time slice, and then has to wait, for
//! milliseconds, until other threads have used up theirs: packets that arrive meanwhile wait, too.
//! A thread that sleeps keeps its claim to the core, and the kernel runs it soon after it is woken.
//! On a host with a free core sleeping only costs time, so threads there spin.
//!
//! The kernel counts how often it took the core from a thread that wanted to continue. The count is
//! read only after an interval between two polls that was longer than polls take. The test
//! `crowded_host` of the crate `fairway` checks that against the kernel.

use std::cell::Cell;

use fairway_wire::{Duration, Instant};
use libc::c_long;

use crate::clock;

/// Minimum interval between two polls after which the kernel's count is read.
const INTERVAL: Duration = Duration::from_us(500);
/// Time for which the host counts as crowded after the kernel took the core from this thread.
const CROWDED_FOR: Duration = Duration::from_ms(300);
/// Least and greatest time for which a thread polls in vain before it sleeps. A peer that needs
/// this core answers only to a thread that sleeps; one that runs on another core mostly answers
/// sooner than a sleeping thread would wake.
const SPIN_MIN: Duration = Duration::from_us(5);
const SPIN_MAX: Duration = Duration::from_us(50);
/// In one of this number of sleeps the thread polls for [`SPIN_MAX`] before, to find out whether an
/// answer comes now.
const SLEEPS_PER_TRIAL: u32 = 16;
/// Number of times that the device's last poll may stay the same before the clock is read.
const REPEATED_MAX: u32 = 32;
/// Maximum time for which a polling thread sleeps: the program may poll something else, too.
pub(crate) const SLEEP_MAX: Duration = Duration::from_us(200);
/// Time for which a thread sleeps that packets cannot wake.
pub(crate) const NAP: Duration = Duration::from_us(20);

/// What a polling thread has observed, over all contexts that it polls.
#[derive(Clone, Copy)]
struct Observed {
    /// Time of the last poll of the device as it was reported, and how often it was reported again.
    reported_at: Instant,
    repeated: u32,
    /// Time of the last poll of this thread.
    polled_at: Instant,
    /// Time of the last poll in which packets were received or sent.
    successful_at: Instant,
    /// The kernel's count when it was last read.
    preemptions: c_long,
    /// Time at which the count was found increased.
    preempted_at: Option<Instant>,
    /// Time for which the thread polls in vain before it sleeps.
    spin: Duration,
    /// True if it slept since the last success.
    slept: bool,
    /// Number of sleeps.
    sleeps: u32,
}

thread_local! {
    static OBSERVED: Cell<Observed> = const {
        Cell::new(Observed {
            reported_at: Instant::ZERO,
            repeated: 0,
            polled_at: Instant::ZERO,
            successful_at: Instant::ZERO,
            preemptions: 0,
            preempted_at: None,
            spin: SPIN_MAX,
            slept: false,
            sleeps: 0,
        })
    };
}

/// Records a poll of this thread. The last poll of the device was at `at`, perhaps by another
/// thread: the clock is read only if that time stays the same. Returns true if the thread should
/// sleep for a moment.
pub(crate) fn should_sleep(at: Instant, successful: bool) -> bool {
    OBSERVED.with(|cell| {
        let mut observed = cell.get();
        let at = observed.time_of(at, clock::now);
        let sleeps = observed.record(at, successful, preemptions);
        cell.set(observed);
        sleeps
    })
}

impl Observed {
    /// Returns the time of this thread's poll. The last poll of the device was at `reported`,
    /// perhaps by another thread.
    fn time_of(&mut self, reported: Instant, now: impl FnOnce() -> Instant) -> Instant {
        self.repeated = if reported == self.reported_at { self.repeated + 1 } else { 0 };
        self.reported_at = reported;
        if self.repeated >= REPEATED_MAX {
            self.repeated = 0;
            return now();
        }
        if reported.is_before(self.polled_at) { self.polled_at } else { reported }
    }

    /// Records a poll. Returns true if the thread should sleep for a moment.
    fn record(&mut self, at: Instant, successful: bool, count: impl FnOnce() -> c_long) -> bool {
        let interval = at.since(self.polled_at);
        self.polled_at = at;
        if interval >= INTERVAL {
            let count = count();
            if count != self.preemptions {
                (self.preemptions, self.preempted_at) = (count, Some(at));
            }
        }
        let idle = at.since(self.successful_at);
        if successful {
            self.adapt(idle);
        }
        // After an interval without polls the thread has not polled in vain.
        if successful || interval >= INTERVAL {
            (self.successful_at, self.slept) = (at, false);
            return false;
        }
        let is_crowded = self.preempted_at.is_some_and(|since| at.since(since) < CROWDED_FOR);
        let sleeps = is_crowded && idle >= self.spin;
        self.slept |= sleeps;
        sleeps
    }

    /// Adapts the time before a sleep, after packets have arrived at a thread that was idle for
    /// `idle`.
    fn adapt(&mut self, idle: Duration) {
        if self.slept {
            self.sleeps = self.sleeps.wrapping_add(1);
            let halved = Duration::from_ns(self.spin.as_ns() / 2).max(SPIN_MIN);
            let tries = self.sleeps.is_multiple_of(SLEEPS_PER_TRIAL);
            self.spin = if tries { SPIN_MAX } else { halved };
        } else if idle >= SPIN_MIN {
            self.spin = self.spin.times(2).min(SPIN_MAX);
        }
    }
}

/// Returns how often the kernel took the core from this thread.
fn preemptions() -> c_long {
    // SAFETY: all of it may be zeros.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one such structure.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nivcsw
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_ns(5_000_000_000);

    fn observed() -> Observed {
        Observed {
            reported_at: START,
            polled_at: START,
            repeated: 0,
            successful_at: START,
            preemptions: 3,
            preempted_at: None,
            spin: SPIN_MAX,
            slept: false,
            sleeps: 0,
        }
    }

    /// Polls in vain once per microsecond, and returns the time of the first poll after which the
    /// thread should sleep, in microseconds since `from`.
    fn first_sleep(observed: &mut Observed, from: Instant, polls: u64) -> Option<u64> {
        let count = observed.preemptions;
        (1..=polls).find(|us| observed.record(from + Duration::from_us(*us), false, || count))
    }

    #[test]
    fn thread_that_keeps_its_core_spins() {
        let mut observed = observed();
        assert_eq!(first_sleep(&mut observed, START, 10_000), None);
        // It computed between two polls.
        let later = START + Duration::from_ms(20);
        assert!(!observed.record(later, false, || 3));
        assert_eq!(first_sleep(&mut observed, later, 10_000), None);
    }

    #[test]
    fn thread_that_was_preempted_polls_a_while_and_then_sleeps() {
        let mut observed = observed();
        let later = START + Duration::from_ms(3);
        assert!(!observed.record(later, false, || 4), "packets may have arrived meanwhile");
        assert_eq!(first_sleep(&mut observed, later, 1000), Some(50));
        assert_eq!(first_sleep(&mut observed, later, 1000), Some(50), "it still waits");
    }

    #[test]
    fn thread_whose_answers_come_while_it_sleeps_sleeps_sooner() {
        let mut observed = observed();
        let mut now = START + Duration::from_ms(3);
        observed.record(now, false, || 4);
        let mut spins = Vec::new();
        for _ in 0..SLEEPS_PER_TRIAL {
            spins.push(first_sleep(&mut observed, now, 1000).unwrap());
            now = now + Duration::from_us(100);
            assert!(!observed.record(now, true, || 4));
        }
        assert_eq!(spins[..6], [50, 25, 13, 7, 5, 5]);
        assert_eq!(first_sleep(&mut observed, now, 1000), Some(50), "a trial");
        // Answers come while it polls again.
        observed.spin = SPIN_MIN;
        for _ in 0..3 {
            now = now + SPIN_MIN;
            assert!(!observed.record(now, true, || 4));
        }
        assert_eq!(first_sleep(&mut observed, now, 1000), Some(20));
    }

    #[test]
    fn thread_that_is_left_its_core_spins_again() {
        let mut observed = observed();
        let later = START + Duration::from_ms(3);
        observed.record(later, false, || 4);
        let much_later = later + CROWDED_FOR;
        assert!(!observed.record(much_later, false, || 4));
        assert_eq!(first_sleep(&mut observed, much_later, 10_000), None);
    }

    #[test]
    fn thread_that_polls_while_another_drives_sleeps_too() {
        let mut observed = observed();
        let driven_at = START + Duration::from_ms(3);
        observed.record(driven_at, false, || 4);
        let mut now = driven_at;
        let mut should_sleep = |_: &u32| {
            now = now + Duration::from_us(1);
            let at = observed.time_of(driven_at, || now);
            observed.record(at, false, || 4)
        };
        assert_eq!((1..1000).find(&mut should_sleep), Some(2 * REPEATED_MAX + 1));
        let other = driven_at + Duration::from_us(5);
        let at = observed.time_of(other, || unreachable!("the time has changed"));
        assert!(at.is_at_or_after(other), "time does not run backwards");
    }
}
