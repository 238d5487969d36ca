//! Decides how long the background thread sleeps while application threads poll.
//!
//! A polling thread does not announce that it stops, so the background thread wakes from time to
//! time and checks. Each check interrupts the polling thread if both share a core, and takes about
//! as long as several messages. The time between two checks therefore grows with the time for which
//! the application has been polling: a thread that stops is noticed within one part in [`PART`] of
//! the time for which it polled. A program that works between its polls for one part in
//! [`PAUSED_PART`] of the time, as one that fills large buffers does, depends on the background
//! thread and is checked often. Shorter pauses do not count: the checks cause them, and other
//! threads and guests do on every host.

use std::time::Duration;

use fairway_wire::Instant;

use crate::clock;

/// Shortest and longest time between two checks.
const SHORTEST: Duration = Duration::from_micros(500);
const LONGEST: Duration = Duration::from_millis(4);

/// The background thread sleeps for one part in this number of the time for which the application
/// has been polling.
const PART: u32 = 8;

/// An application pauses between its polls if its pauses take at least one part in this number of
/// the time.
const PAUSED_PART: u32 = 4;

/// The time since which the background thread has found application threads polling.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    since: Option<Instant>,
    /// The same, with pauses.
    with_pauses_since: Option<Instant>,
    /// Time of the last check, and the duration of all pauses until then, in microseconds.
    last: Option<(Instant, u32)>,
    /// True once [`Watching::should_pause_waiters`] has returned true.
    waiters_paused: bool,
}

impl Watching {
    /// Returns the time until the next check, after a check at `now` has found that the application
    /// polls. Its pauses between polls have taken `paused_us` up to now, modulo 2^32 us.
    pub(crate) fn period(&mut self, now: Instant, paused_us: u32) -> Duration {
        if let Some((at, before)) = self.last.replace((now, paused_us)) {
            let paused = Duration::from_micros(u64::from(paused_us.wrapping_sub(before)));
            if paused >= clock::to_std(now.since(at)) / PAUSED_PART {
                self.since = None;
            }
        }
        let since = *self.since.get_or_insert(now);
        (clock::to_std(now.since(since)) / PART).clamp(SHORTEST, LONGEST)
    }

    /// Returns true once the application has been polling for some time, with or without pauses: no
    /// thread is likely to sleep on the sockets soon. True once only.
    pub(crate) fn should_pause_waiters(&mut self, now: Instant) -> bool {
        let since = *self.with_pauses_since.get_or_insert(now);
        let is_due = !self.waiters_paused && clock::to_std(now.since(since)) >= LONGEST;
        self.waiters_paused |= is_due;
        is_due
    }

    /// Records that the background thread drives, or that an application thread sleeps.
    pub(crate) fn ended(&mut self) {
        *self = Watching::default();
    }

    /// Returns the time until the next check where it must not grow, because the application may
    /// watch memory between polls.
    pub(crate) fn shortest() -> Duration {
        SHORTEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_ns(7_000_000 + 1000 * us)
    }

    #[test]
    fn time_between_checks_grows_with_the_time_of_polling_up_to_a_limit() {
        let mut watching = Watching::default();
        let mut period = |us| watching.period(at(us), 0).as_micros();
        assert_eq!([period(0), period(500), period(4000)], [500, 500, 500]);
        assert_eq!([period(8000), period(16_000)], [1000, 2000]);
        assert_eq!([period(32_000), period(1_000_000)], [4000, 4000]);
    }

    #[test]
    fn application_that_works_between_its_polls_is_checked_often() {
        let mut watching = Watching::default();
        for check in 0..100 {
            assert_eq!(watching.period(at(1000 * check), 250 * check as u32), SHORTEST);
        }
        // It polls without pauses for a while.
        let paused = 250 * 99;
        assert_eq!(watching.period(at(300_000), paused), LONGEST);
        assert_eq!(watching.period(at(304_000), paused + 999), LONGEST, "short ones");
        assert_eq!(watching.period(at(308_000), paused + 2000), SHORTEST);
    }

    #[test]
    fn time_between_checks_is_short_again_after_the_application_has_paused() {
        let mut watching = Watching::default();
        let _ = watching.period(at(0), 0);
        assert_eq!(watching.period(at(1_000_000), 0), LONGEST);
        watching.ended();
        assert_eq!(watching.period(at(1_001_000), 0), SHORTEST);
    }

    #[test]
    fn waiters_pause_once_the_application_has_polled_for_some_time() {
        let mut watching = Watching::default();
        for round in [0_u64, 100_000] {
            let mut pauses = |us| watching.should_pause_waiters(at(round + us));
            assert!(!pauses(0) && !pauses(3900) && pauses(4000) && !pauses(8000), "once");
            watching.ended();
        }
    }
}
