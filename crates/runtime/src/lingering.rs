//! Lets the thread that drives the protocol linger: it polls for a moment before it sleeps.
//!
//! A program that serves memory makes no calls while its peers read and write: its background
//! thread does all of the work. A peer that waits for each answer before it sends the next request
//! would find that thread asleep each time. Waking the thread takes several times as long as the
//! answer, and costs the sender more than the rest of its call. So the thread polls on as long as
//! packets keep arriving soon after the ones before. In a stream of long messages it sleeps,
//! because a thread that is woken when several packets have arrived receives them in fewer calls
//! and sends fewer acknowledgements.
//!
//! The thread lingers only while nothing else needs its core: the other threads of the process
//! hardly run, and it has not had to wait for its core. Where packets arrive rarely it sleeps at
//! once, so a program without traffic costs no CPU time, and one with little traffic hardly more.
//! A thread that is blocked in a call drives, too, and lingers by the same rules.

use fairway_wire::{Duration, Instant};

/// Time for which the thread polls in vain before it sleeps.
const LINGER: Duration = Duration::from_us(50);
/// Longest pause between packets that lingering would have bridged. It is longer than [`LINGER`],
/// because a thread that sleeps sees packets only when it has been woken.
const BRIDGED: Duration = Duration::from_us(80);
/// Number of bytes received between two pauses that counts as a part of a stream.
const STREAM_BYTES: usize = 16 * 1024;
/// Largest score. Each short pause adds one to the score.
const SCORE_MAX: u32 = 16;
/// Smallest score with which the thread lingers.
const PROMISING: u32 = 8;
/// Number by which a long pause, or a part of a stream, lowers the score.
const COST: u32 = 4;
/// Interval at which the kernel's times are read.
const CHECK_EVERY: Duration = Duration::from_ms(1);
/// The thread lingers if the other threads have run, and it has itself waited for a core, for less
/// than one part in this number of the time.
const BUSY_PART: u64 = 4;

/// Times up to now, from which those up to another moment are subtracted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// Time for which other threads of this process have run.
    pub others: Duration,
    /// Time for which this thread has waited for a core.
    pub waited: Duration,
}

/// What the thread that drives has observed.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    /// Time of the last poll that received packets, and bytes received since the last pause.
    received_at: Option<Instant>,
    bytes: usize,
    /// True if the thread has polled in vain or slept since then.
    pauses: bool,
    score: u32,
    /// Time at which `times` were read.
    checked_at: Option<Instant>,
    times: Times,
    /// True if the core was free when the times were last read.
    is_free: bool,
}

impl Lingering {
    /// Records a poll at `now` that has received so many bytes. Returns true if the thread should
    /// poll again and not sleep.
    pub(crate) fn lingers(
        &mut self,
        now: Instant,
        bytes: usize,
        times: impl FnOnce() -> Times,
    ) -> bool {
        let idle = self.received_at.map(|at| now.since(at));
        let received = bytes > 0;
        if received {
            if std::mem::take(&mut self.pauses) {
                let bridged = idle.is_some_and(|idle| idle <= BRIDGED);
                self.score = match bridged && self.bytes < STREAM_BYTES {
                    true => (self.score + 1).min(SCORE_MAX),
                    false => self.score.saturating_sub(COST),
                };
                self.bytes = 0;
            }
            self.bytes += bytes;
            self.received_at = Some(now);
        }
        let soon = received || idle.is_some_and(|idle| idle < LINGER);
        let lingers = soon && self.score >= PROMISING && self.finds_its_core_free(now, times);
        self.pauses |= !received || !lingers;
        lingers
    }

    /// True if the core was free lately. The kernel is asked once in a while.
    fn finds_its_core_free(&mut self, now: Instant, times: impl FnOnce() -> Times) -> bool {
        let since = self.checked_at.map(|at| now.since(at));
        if since.is_some_and(|since| since < CHECK_EVERY) {
            return self.is_free;
        }
        let (before, times) = (self.times, times());
        (self.checked_at, self.times) = (Some(now), times);
        let ran = times.others.saturating_sub(before.others);
        let waited = times.waited.saturating_sub(before.waited);
        let part = |span: Duration| Duration::from_ns(span.as_ns() / BUSY_PART);
        self.is_free = since.is_some_and(|since| ran < part(since) && waited < part(since));
        self.is_free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_ns(9_000_000 + 1000 * us)
    }

    /// The others have run, and the thread has waited, for these parts of a thousand.
    fn busy(now: u64, others: u64, waited: u64) -> impl FnOnce() -> Times {
        let part = move |permille| Duration::from_ns(now * permille);
        move || Times { others: part(others), waited: part(waited) }
    }

    /// A packet of 100 bytes arrives every `gap` us from `from` to `to`. Returns how often the
    /// thread would have slept.
    fn sleeps(lingering: &mut Lingering, span: (u64, u64), gap: u64, times: (u64, u64)) -> usize {
        sleeps_receiving(lingering, 100, span, gap, times)
    }

    fn sleeps_receiving(
        lingering: &mut Lingering,
        bytes: usize,
        (from, to): (u64, u64),
        gap: u64,
        (others, waited): (u64, u64),
    ) -> usize {
        let mut count = 0;
        for now in (from..to).step_by(gap as usize) {
            let mut slept = !lingering.lingers(at(now), bytes, busy(now, others, waited));
            for now in (now + 1..now + gap).step_by(5) {
                slept |= !slept && !lingering.lingers(at(now), 0, busy(now, others, waited));
            }
            count += usize::from(slept);
        }
        count
    }

    #[test]
    fn thread_lingers_while_packets_come_soon_after_each_other() {
        let mut lingering = Lingering::default();
        assert!(sleeps(&mut lingering, (0, 3000), 20, (0, 0)) < 80, "it takes some pauses");
        assert_eq!(sleeps(&mut lingering, (3000, 20_000), 20, (0, 0)), 0);
        assert!(!lingering.lingers(at(21_000), 0, busy(21_000, 0, 0)), "none has come");
    }

    #[test]
    fn thread_sleeps_at_once_where_packets_come_rarely() {
        let mut lingering = Lingering::default();
        for (from, gap) in [(0, 100), (100_000, 500)] {
            assert_eq!(sleeps(&mut lingering, (from, from + 100 * gap), gap, (0, 0)), 100);
            assert_eq!(lingering.score, 0);
        }
    }

    #[test]
    fn few_long_pauses_do_not_end_it_and_many_do() {
        let mut lingering = Lingering::default();
        sleeps(&mut lingering, (0, 10_000), 20, (0, 0));
        for round in 1..50 {
            let from = round * 10_000;
            assert!(sleeps(&mut lingering, (from, from + 200), 20, (0, 0)) <= 1, "round {round}");
        }
        sleeps(&mut lingering, (600_000, 603_000), 300, (0, 0));
        assert_eq!(sleeps(&mut lingering, (603_000, 603_020), 20, (0, 0)), 1);
    }

    #[test]
    fn thread_sleeps_between_the_parts_of_a_stream() {
        let mut lingering = Lingering::default();
        let all = sleeps_receiving(&mut lingering, 60_000, (0, 20_000), 20, (0, 0));
        assert_eq!((all, lingering.score), (1000, 0));
        // Requests come again.
        assert!(sleeps(&mut lingering, (20_000, 40_000), 20, (0, 0)) < 100);
    }

    #[test]
    fn thread_leaves_its_core_to_others() {
        for (others, waited) in [(300, 0), (0, 300), (2000, 0)] {
            let mut lingering = Lingering::default();
            let all = sleeps(&mut lingering, (0, 20_000), 20, (others, waited));
            assert_eq!(all, 1000, "{others}, {waited}");
        }
        let mut lingering = Lingering::default();
        sleeps(&mut lingering, (0, 10_000), 20, (0, 0));
        assert!(lingering.lingers(at(10_000), 100, Times::default));
        // Others begin to run.
        let starts =
            |now: u64| move || Times { others: at(now).since(at(10_000)), ..Times::default() };
        assert!(!(10_000..13_000).all(|now| lingering.lingers(at(now), 100, starts(now))));
    }
}
