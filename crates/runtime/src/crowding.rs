//! Detects that the host has more busy threads than cores, so that a thread that polls in vain
//! sleeps for a moment; and that a thread shares its core with another one, so that it moves.
//!
//! A thread that polls in vain on such a host uses up its time slice, and then has to wait, for
//! milliseconds, until other threads have used up theirs: packets that arrive meanwhile wait, too.
//! A thread that sleeps keeps its claim to the core, and the kernel runs it soon after it is woken.
//! On a host with a free core sleeping only costs time, so threads there spin.
//!
//! The kernel counts for how long each thread has waited for a core. The count is read when the
//! time between two polls was longer than polls take, and compared with that of a few milliseconds
//! before. The background threads of this process cause waits, too, where they run on the core of
//! the polling thread; their time does not count. Nor does a single long wait, because every host
//! has something to do once in a while. The test `crowded_host` of the crate `fairway` checks that
//! against the kernel.
//!
//! A long wait may also mean that the kernel has put two busy threads on one core while another one
//! is idle. It does that for some milliseconds, when it takes a core for slow or just by chance. So
//! the thread moves to another core at once; the one that has been running meanwhile does not move.
//! Only if long waits go on does the host count as crowded. It goes on to count as crowded as long
//! as there are such waits while the host has more busy threads than cores.
//!
//! Two threads that wake each other, such as ranks of one host, may stay on one core while another
//! one is idle: each wait is short, because the other thread soon sleeps, but there is one in every
//! exchange. A thread that has waited for a fifth of several milliseconds in a row moves to another
//! core. If all cores are busy that changes nothing. In half of the cases, by chance, it stays, so
//! that two threads do not leave a core together.

mod host;

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use fairway_wire::{Duration, Instant};

use crate::clock;
use crate::lingering::Times;

/// A thread shares its core if it has waited for one part in this number of the time, ...
const SHARED_PART: u64 = 5;
/// ... from each of so many baselines to the next.
const SHARED_BASELINES: u32 = 4;
/// Least time between two moves of a thread because it shares its core, ...
const MOVE_EVERY: Duration = Duration::from_ms(20);
/// ... and because it has waited long for it.
const LEAVE_EVERY: Duration = Duration::from_ms(2);
/// Minimum interval between two polls after which the kernel's count is compared.
const INTERVAL: Duration = Duration::from_us(500);
/// Time after which a thread that polls all the time reads the kernel's count, to compare later
/// ones with it.
const BASELINE_EVERY: Duration = Duration::from_ms(2);
/// A thread waits *long* if it has waited for one part in this number of the time since it last
/// read the kernel's count, ...
const LONG_PART: u64 = 3;
/// ... and for at least this time.
const LONG_MIN: Duration = Duration::from_us(300);
/// The host counts as crowded after this number of long waits, ...
const WAITS: u32 = 3;
/// ... each within this time after the one before, ...
const WAITS_WITHIN: Duration = Duration::from_ms(50);
/// ... and for this time after the last one.
const CROWDED_FOR: Duration = Duration::from_ms(100);
/// Maximum time of one activity of a background thread that does not count as waiting: a longer one
/// has itself waited for a core.
const ACTIVITY_MAX: Duration = Duration::from_us(200);
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

/// Times up to now, from which those up to another moment are subtracted.
#[derive(Clone, Copy, Debug)]
struct Baseline {
    /// Time for which this thread has waited for a core.
    waited: Duration,
    /// Time for which the background threads of this process have run.
    background: Duration,
}

/// Time for which the background threads of this process have run, in nanoseconds.
static BACKGROUND_NS: AtomicU64 = AtomicU64::new(0);

/// Records that a background thread has run since `began`.
pub(crate) fn note_background(began: Instant) {
    let span = clock::now().since(began).min(ACTIVITY_MAX);
    BACKGROUND_NS.fetch_add(span.as_ns(), Ordering::Relaxed);
}

/// What a polling thread should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Poll again.
    Poll,
    /// Sleep for a moment.
    Sleep,
    /// Move to another core.
    Move,
}

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
    /// Time at which the kernel's count was last read.
    baseline_at: Instant,
    /// What was read then.
    baseline: Baseline,
    /// Time of the last long wait, and the number of long waits in a row.
    waited_at: Instant,
    waits: u32,
    /// Number of baselines in a row between which the thread shared its core.
    shared: u32,
    /// True if the thread has waited long for its core, and another one may be idle.
    collides: bool,
    /// Time of the last move.
    moved_at: Instant,
    /// Time for which the thread polls in vain before it sleeps.
    spin: Duration,
    /// True if it slept since the last success.
    slept: bool,
    /// Number of sleeps.
    sleeps: u32,
}

thread_local! {
    static WAITED: RefCell<host::Waited> = const { RefCell::new(host::Waited::UNREAD) };
    static OBSERVED: RefCell<Observed> = const {
        RefCell::new(Observed {
            reported_at: Instant::ZERO,
            repeated: 0,
            polled_at: Instant::ZERO,
            successful_at: Instant::ZERO,
            baseline_at: Instant::ZERO,
            baseline: Baseline { waited: Duration::ZERO, background: Duration::ZERO },
            waited_at: Instant::ZERO,
            waits: 0,
            shared: 0,
            collides: false,
            moved_at: Instant::ZERO,
            spin: SPIN_MAX,
            slept: false,
            sleeps: 0,
        })
    };
}

/// Prepares what polls read, before the first one.
pub(crate) fn prepare() {
    host::prepare();
}

/// Records a poll of this thread. The last poll of the device was at `at`, perhaps by another
/// thread: the clock is read only if that time stays the same. Returns what the thread should do.
pub(crate) fn advise(at: Instant, successful: bool) -> Advice {
    OBSERVED.with_borrow_mut(|observed| {
        if !successful && observed.is_repetition(at) {
            return Advice::Poll;
        }
        let at = observed.time_of(at, clock::now);
        let sleeps = observed.record(at, successful, baseline, host::has_core_for_each);
        // The nanosecond of a poll is a matter of chance.
        match observed.moves(at, at.as_ps() / 1000 % 2 == 0) {
            true => Advice::Move,
            false if sleeps => Advice::Sleep,
            false => Advice::Poll,
        }
    })
}

impl Observed {
    /// Counts a report that repeats the last one. Returns true if nothing can be concluded from it.
    fn is_repetition(&mut self, reported: Instant) -> bool {
        let repeats = reported == self.reported_at && self.repeated + 1 < REPEATED_MAX;
        let is_void = repeats && !self.slept;
        self.repeated += u32::from(is_void);
        is_void
    }

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
    fn record(
        &mut self,
        at: Instant,
        successful: bool,
        baseline: impl FnOnce() -> Baseline,
        has_core_for_each: impl FnOnce() -> bool,
    ) -> bool {
        let interval = at.since(self.polled_at);
        self.polled_at = at;
        if interval >= INTERVAL || at.since(self.baseline_at) >= BASELINE_EVERY {
            let waited_long = self.rebase(at, baseline());
            if interval >= INTERVAL && waited_long {
                self.note_long_wait(at, has_core_for_each);
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
        let sleeps = self.is_crowded(at) && idle >= self.spin;
        self.slept |= sleeps;
        sleeps
    }

    /// Records that the thread has waited long for its core.
    fn note_long_wait(&mut self, at: Instant, has_core_for_each: impl FnOnce() -> bool) {
        if self.is_crowded(at) {
            // A thread that sleeps also waits until its core has woken.
            if !has_core_for_each() {
                self.waited_at = at;
            }
            return;
        }
        let in_a_row = at.since(self.waited_at) < WAITS_WITHIN;
        self.waits = if in_a_row { self.waits.saturating_add(1) } else { 1 };
        self.waited_at = at;
        self.collides = !self.is_crowded(at);
    }

    /// Takes what was read at `at` as the baseline. Returns true if the thread has waited long
    /// since the one before.
    fn rebase(&mut self, at: Instant, baseline: Baseline) -> bool {
        let (before, since) = (self.baseline, at.since(self.baseline_at));
        (self.baseline, self.baseline_at) = (baseline, at);
        let background = baseline.background.as_ns().saturating_sub(before.background.as_ns());
        let waited = baseline.waited.as_ns().saturating_sub(before.waited.as_ns());
        let for_others = waited.saturating_sub(background);
        let shares = for_others >= since.as_ns() / SHARED_PART;
        self.shared = if shares { self.shared.saturating_add(1) } else { 0 };
        for_others >= LONG_MIN.as_ns().max(since.as_ns() / LONG_PART)
    }

    /// True if the thread should move to another core. `chance`: true in half of the cases.
    fn moves(&mut self, at: Instant, chance: bool) -> bool {
        if std::mem::take(&mut self.collides) && at.since(self.moved_at) >= LEAVE_EVERY {
            (self.shared, self.moved_at) = (0, at);
            return true;
        }
        if self.shared < SHARED_BASELINES || at.since(self.moved_at) < MOVE_EVERY {
            return false;
        }
        self.shared = 0;
        if chance {
            self.moved_at = at;
        }
        chance
    }

    /// True if the host counts as crowded.
    fn is_crowded(&self, at: Instant) -> bool {
        self.waits >= WAITS && at.since(self.waited_at) < CROWDED_FOR
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

/// Reads the times up to now.
fn baseline() -> Baseline {
    let background = Duration::from_ns(BACKGROUND_NS.load(Ordering::Relaxed));
    Baseline { waited: WAITED.with_borrow_mut(host::Waited::read), background }
}

/// Reads what shows whether something else needs the core of this thread.
pub(crate) fn times() -> Times {
    Times { others: host::time_of_others(), waited: WAITED.with_borrow_mut(host::Waited::read) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_ns(5_000_000_000);
    /// What was read at first.
    const BASELINE: Baseline =
        Baseline { waited: Duration::from_ms(70), background: Duration::from_ms(5) };

    /// For polls after which nothing depends on how many threads are busy.
    fn unread() -> bool {
        unreachable!("the thread has not waited long")
    }

    fn observed() -> Observed {
        Observed {
            reported_at: START,
            polled_at: START,
            repeated: 0,
            successful_at: START,
            baseline_at: START,
            baseline: BASELINE,
            waited_at: Instant::ZERO,
            waits: 0,
            shared: 0,
            collides: false,
            moved_at: Instant::ZERO,
            spin: SPIN_MAX,
            slept: false,
            sleeps: 0,
        }
    }

    /// Polls in vain once per microsecond, and returns the time of the first poll after which the
    /// thread should sleep, in microseconds since `from`.
    fn first_sleep(observed: &mut Observed, from: Instant, polls: u64) -> Option<u64> {
        let baseline = observed.baseline;
        (1..=polls)
            .find(|us| observed.record(from + Duration::from_us(*us), false, || baseline, unread))
    }

    /// Waits for a core for `waited` us of 3 ms without a poll, in which the background thread runs
    /// for `background` us. Returns the time after that.
    fn wait(observed: &mut Observed, waited: u64, background: u64) -> Instant {
        let later = observed.polled_at + Duration::from_ms(3);
        let after = Baseline {
            waited: observed.baseline.waited.saturating_add(Duration::from_us(waited)),
            background: observed.baseline.background.saturating_add(Duration::from_us(background)),
        };
        assert!(!observed.record(later, false, || after, || false), "packets may have arrived");
        later
    }

    /// Returns the state of a thread on a crowded host, and the time.
    fn crowded() -> (Observed, Instant) {
        let mut observed = observed();
        for _ in 1..WAITS {
            let later = wait(&mut observed, 2900, 0);
            assert_eq!(first_sleep(&mut observed, later, 1000), None, "that may happen once");
        }
        let later = wait(&mut observed, 2900, 0);
        (observed, later)
    }

    #[test]
    fn thread_that_keeps_its_core_spins() {
        let mut observed = observed();
        assert_eq!(first_sleep(&mut observed, START, 10_000), None);
        // It computes between two polls.
        for _ in 0..2 * WAITS {
            let later = wait(&mut observed, 0, 0);
            assert_eq!(first_sleep(&mut observed, later, 10_000), None);
        }
    }

    #[test]
    fn thread_that_waits_long_for_a_core_polls_a_while_and_then_sleeps() {
        let (mut observed, later) = crowded();
        assert_eq!(first_sleep(&mut observed, later, 1000), Some(50));
        assert_eq!(first_sleep(&mut observed, later, 1000), Some(50), "it still waits");
    }

    #[test]
    fn thread_that_waits_for_the_background_thread_spins() {
        let mut observed = observed();
        for _ in 0..2 * WAITS {
            let later = wait(&mut observed, 2900, 2000);
            assert_eq!(first_sleep(&mut observed, later, 1000), None);
        }
    }

    /// Two threads take turns on one core of two: the one that comes out of a wait moves.
    #[test]
    fn thread_that_has_waited_long_moves_at_once_and_sleeps_only_if_it_waits_again() {
        let mut observed = observed();
        for _ in 1..WAITS {
            let later = wait(&mut observed, 2900, 0);
            assert!(observed.moves(later, false), "it does not depend on chance");
            assert!(!observed.moves(later, false), "once is enough");
            assert_eq!(first_sleep(&mut observed, later, 1000), None);
        }
        let later = wait(&mut observed, 2900, 0);
        assert!(!observed.moves(later, false), "moving has not helped");
        assert_eq!(first_sleep(&mut observed, later, 1000), Some(50));
    }

    /// A host whose cores are all taken stays crowded with every long wait; one where the waits are
    /// those of cores that wake does not.
    #[test]
    fn host_stays_crowded_while_it_has_more_busy_threads_than_cores() {
        for has_core_for_each in [false, true] {
            let (mut observed, crowded_at) = crowded();
            for step in 1..=200 {
                let later = crowded_at + Duration::from_ms(3 * step);
                let waited = observed.baseline.waited.saturating_add(Duration::from_ms(1));
                let after = Baseline { waited, ..observed.baseline };
                observed.record(later, false, || after, || has_core_for_each);
                if observed.waits < WAITS {
                    break;
                }
                let stays = !has_core_for_each || later.since(crowded_at) < CROWDED_FOR;
                assert_eq!(observed.is_crowded(later), stays, "after {step} waits");
            }
            assert_eq!(observed.waits >= WAITS, !has_core_for_each);
        }
    }

    #[test]
    fn long_waits_far_from_each_other_do_not_count() {
        let mut observed = observed();
        for _ in 0..2 * WAITS {
            let later = wait(&mut observed, 2900, 0);
            assert_eq!(first_sleep(&mut observed, later, 100_000), None);
        }
    }

    /// Polls for so many milliseconds, in each of which the thread waits for its core for `waited`
    /// us. Returns the times at which it should move, in milliseconds.
    fn times_of_moves(observed: &mut Observed, waited: u64, chance: bool) -> Vec<u64> {
        let mut read = observed.baseline;
        let mut moves = Vec::new();
        for us in (100..60_000).step_by(100) {
            read.waited = read.waited.saturating_add(Duration::from_ns(waited * 100));
            let at = START + Duration::from_us(us);
            assert!(!observed.record(at, true, || read, unread), "it does not poll in vain");
            if observed.moves(at, chance) {
                moves.push(us / 1000);
            }
        }
        moves
    }

    #[test]
    fn thread_that_shares_its_core_moves_by_chance_and_not_too_often() {
        assert_eq!(times_of_moves(&mut observed(), 250, true), [8, 28, 48]);
        assert_eq!(times_of_moves(&mut observed(), 250, false), []);
        assert_eq!(times_of_moves(&mut observed(), 150, true), []);
    }

    #[test]
    fn waits_before_the_last_baseline_do_not_count() {
        let (mut observed, mut read) = (observed(), BASELINE);
        for step in 1..=400 {
            read.waited = read.waited.saturating_add(Duration::from_us(40));
            assert!(!observed.record(START + Duration::from_us(step * 400), true, || read, unread));
        }
        assert_eq!(observed.waits, 0, "polls came all the time");
        for _ in 0..2 * WAITS {
            let later = wait(&mut observed, 400, 0);
            assert_eq!(first_sleep(&mut observed, later, 1000), None);
        }
    }

    #[test]
    fn thread_whose_answers_come_while_it_sleeps_sleeps_sooner() {
        let (mut observed, mut now) = crowded();
        let baseline = observed.baseline;
        let mut spins = Vec::new();
        for _ in 0..SLEEPS_PER_TRIAL {
            spins.push(first_sleep(&mut observed, now, 1000).unwrap());
            now = now + Duration::from_us(100);
            assert!(!observed.record(now, true, || baseline, unread));
        }
        assert_eq!(spins[..6], [50, 25, 13, 7, 5, 5]);
        assert_eq!(first_sleep(&mut observed, now, 1000), Some(50), "a trial");
        // Answers come while it polls again.
        observed.spin = SPIN_MIN;
        for _ in 0..3 {
            now = now + SPIN_MIN;
            assert!(!observed.record(now, true, || baseline, unread));
        }
        assert_eq!(first_sleep(&mut observed, now, 1000), Some(20));
    }

    #[test]
    fn thread_that_is_left_its_core_spins_again() {
        let (mut observed, later) = crowded();
        let (much_later, baseline) = (later + CROWDED_FOR, observed.baseline);
        assert!(!observed.record(much_later, false, || baseline, unread));
        assert_eq!(first_sleep(&mut observed, much_later, 10_000), None);
    }

    #[test]
    fn thread_that_polls_while_another_drives_sleeps_too() {
        let (mut observed, driven_at) = crowded();
        let (mut now, baseline) = (driven_at, observed.baseline);
        let mut should_sleep = |_: &u32| {
            now = now + Duration::from_us(1);
            let at = observed.time_of(driven_at, || now);
            observed.record(at, false, || baseline, unread)
        };
        assert_eq!((1..1000).find(&mut should_sleep), Some(2 * REPEATED_MAX + 1));
        let other = driven_at + Duration::from_us(5);
        let at = observed.time_of(other, || unreachable!("the time has changed"));
        assert!(at.is_at_or_after(other), "time does not run backwards");
    }

    #[test]
    fn reports_of_the_same_poll_are_left_out_unless_the_thread_sleeps_or_there_are_many() {
        let mut observed = observed();
        for _ in 1..REPEATED_MAX {
            assert!(observed.is_repetition(START));
        }
        assert!(!observed.is_repetition(START), "the clock is read");
        let later = START + Duration::from_us(1);
        assert!(!observed.is_repetition(later), "another poll");
        observed.time_of(later, || unreachable!("the time has changed"));
        assert!(observed.is_repetition(later));
        observed.slept = true;
        assert!(!observed.is_repetition(later), "a thread that sleeps between polls");
    }
}
