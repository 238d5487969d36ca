//! Detects whether the users of verbs poll, or the background thread has to drive for them.
//!
//! Programs that use verbs poll all the time; or post, poll for that, and then watch memory that a
//! peer writes; or do neither and compute. Only the first kind is served best without the
//! background thread: a thread that sleeps on the sockets is woken by every packet, takes the core
//! from the thread that polls, and finds nothing left to do. The other kinds depend on it.
//!
//! The program is observed in two ways. While the program drives, the background thread checks from
//! time to time whether it still does ([`PollDetector::should_drive`]): a program that has neither
//! polled nor posted for [`QUIET_NS`] does not. (A polling thread also appears quiet while it
//! sends, while it waits for the lock, and while the background thread runs on the same core. That
//! span is therefore much longer than these times: otherwise each side, slowed down by its
//! background thread, would appear quiet to that thread. And a poll that receives many long packets
//! may take longer than that span, so a program that is driving at this moment is not quiet.) While
//! the background thread drives, it records at every wake-up whether the program was polling
//! ([`PollDetector::on_wakeup`]). When that was so [`MEETINGS`] times more often than not, the
//! background thread stops driving. A program that has posted will poll; one that has polled and
//! found a completion may have stopped, unless it is one that polls again after it has found
//! completions, without having posted: a receiver of a stream of messages finds some in nearly
//! every poll.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use fairway_wire::Instant;

use crate::clock;

/// Time without a poll or post after which a program counts as not polling.
const QUIET_NS: u64 = 100_000;

/// Surplus of wake-ups during polling from which a program counts as polling all the time.
const MEETINGS: u32 = 8;

/// Largest score of how often a program polls again after a poll that returned something.
const PERSISTENCE_MAX: u32 = 16;

/// Score from which such a program counts as polling all the time.
const PERSISTENT: u32 = 8;

/// Amount by which a post that directly follows such a poll lowers the score.
const PENALTY: u32 = 2;

/// A polling thread leaves the sockets to the background thread, unless that has run no poll for
/// this time.
const HELD_UP_NS: u64 = 200_000;

/// The observations of a program. The fields need not be consistent with each other: a wrong guess
/// only costs time.
pub struct PollDetector {
    /// Time of the program's last poll or post, in nanoseconds; 0: never.
    active_at: AtomicU64,
    /// True if the last poll returned nothing, or something was posted since, so that a poll is
    /// expected.
    searching: AtomicBool,
    /// True if the background thread drives, because the program does not poll.
    driving: AtomicBool,
    /// Time of the background thread's last poll, in nanoseconds.
    turned_at: AtomicU64,
    /// Number of wake-ups during polling minus the number of other wake-ups.
    meetings: AtomicU32,
    /// True if the last poll returned something, and nothing was posted since.
    found: AtomicBool,
    /// Score of how often the program polls again after a poll that returned something, without
    /// having posted.
    persistence: AtomicU32,
}

impl Default for PollDetector {
    /// Returns a detector of a program that has neither polled nor posted yet.
    fn default() -> PollDetector {
        PollDetector {
            active_at: AtomicU64::new(0),
            searching: AtomicBool::new(false),
            driving: AtomicBool::new(false),
            turned_at: AtomicU64::new(0),
            meetings: AtomicU32::new(0),
            found: AtomicBool::new(false),
            persistence: AtomicU32::new(0),
        }
    }
}

impl PollDetector {
    /// Records a poll of the program that ends at `now`; `found` is true if it returned something.
    pub(crate) fn polled(&self, found: bool, now: Instant) {
        if self.found.load(Ordering::Relaxed) {
            let score = self.persistence.load(Ordering::Relaxed);
            self.persistence.store((score + 1).min(PERSISTENCE_MAX), Ordering::Relaxed);
        }
        self.found.store(found, Ordering::Relaxed);
        self.searching.store(!found, Ordering::Relaxed);
        self.active_at.store(ns(now), Ordering::Relaxed);
    }

    /// Records that the program posts, or has posted, at `now`.
    pub fn posted(&self, now: Instant) {
        if self.found.load(Ordering::Relaxed) {
            let score = self.persistence.load(Ordering::Relaxed);
            self.persistence.store(score.saturating_sub(PENALTY), Ordering::Relaxed);
            self.found.store(false, Ordering::Relaxed);
        }
        self.searching.store(true, Ordering::Relaxed);
        self.active_at.store(ns(now), Ordering::Relaxed);
    }

    /// True if a program has polled or posted through verbs.
    pub(crate) fn has_users(&self) -> bool {
        self.active_at.load(Ordering::Relaxed) != 0
    }

    /// True if the background thread should drive. It calls this before every poll, and after every
    /// check. `is_busy` returns true if another thread drives at this moment.
    pub fn should_drive(&self, is_busy: impl FnOnce() -> bool) -> bool {
        let active_at = self.active_at.load(Ordering::Relaxed);
        if active_at == 0 {
            return false;
        }
        let drives = match self.driving.load(Ordering::Relaxed) {
            true => self.meetings.load(Ordering::Relaxed) < MEETINGS,
            // A poll that receives many long packets takes long.
            false => span(active_at) > QUIET_NS && !is_busy(),
        };
        if drives != self.driving.load(Ordering::Relaxed) {
            self.meetings.store(0, Ordering::Relaxed);
            self.turned_at.store(now_ns(), Ordering::Relaxed);
            self.driving.store(drives, Ordering::Relaxed);
        }
        drives
    }

    /// Records that the background thread has been woken by packets.
    pub fn on_wakeup(&self) {
        let searches = self.searching.load(Ordering::Relaxed)
            || self.persistence.load(Ordering::Relaxed) >= PERSISTENT;
        let polls = searches && span(self.active_at.load(Ordering::Relaxed)) < QUIET_NS;
        let before = self.meetings.load(Ordering::Relaxed);
        let after = if polls { before + 1 } else { before.saturating_sub(1) };
        self.meetings.store(after, Ordering::Relaxed);
    }

    /// Records that the background thread has run a poll.
    pub(crate) fn on_poll(&self) {
        self.turned_at.store(now_ns(), Ordering::Relaxed);
    }

    /// True if a poll may leave the sockets to the background thread, because the two would disturb
    /// each other.
    pub fn is_driven(&self) -> bool {
        self.driving.load(Ordering::Relaxed)
            && span(self.turned_at.load(Ordering::Relaxed)) < HELD_UP_NS
    }
}

fn now_ns() -> u64 {
    ns(clock::now())
}

fn ns(at: Instant) -> u64 {
    at.as_ps() / 1000
}

/// Returns the time since `since`; zero if another thread has stored a later time.
fn span(since: u64) -> u64 {
    let span = now_ns().wrapping_sub(since);
    if span > u64::MAX / 2 { 0 } else { span }
}

/// Requests that the scheduler run this thread soon after it was woken, for short slices.
///
/// Otherwise a thread that spins on the same core would first get its whole slice, with schedulers
/// that use deadlines. A thread needs no privilege to request short slices for itself (Linux 6.12);
/// older kernels ignore the request.
pub(crate) fn prefer_short_slices() {
    /// `struct sched_attr` in its first version (sched_setattr(2)).
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime_ns: u64,
        deadline_ns: u64,
        period_ns: u64,
    }
    /// The shortest slice that the kernel grants.
    const SLICE_NS: u64 = 100_000;
    let size = size_of::<Attributes>() as u32;
    let mut attributes = Attributes::default();
    // SAFETY: the kernel writes at most `size` bytes to `attributes`; 0 is this thread.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    // Another scheduling policy of this process was chosen on purpose.
    if got != 0 || attributes.policy != libc::SCHED_OTHER as u32 {
        return;
    }
    attributes.size = size;
    attributes.runtime_ns = SLICE_NS;
    // SAFETY: the kernel reads `size` bytes of `attributes`. It may refuse, and then all is as it
    // was.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a detector of a program that last polled long ago.
    fn unseen() -> PollDetector {
        let detector = PollDetector::default();
        detector.active_at.store(now_ns() - 2 * QUIET_NS, Ordering::Relaxed);
        detector
    }

    #[test]
    fn background_thread_is_not_needed_where_no_program_uses_verbs() {
        assert!(!PollDetector::default().should_drive(|| false));
    }

    #[test]
    fn background_thread_drives_a_quiet_program_until_it_is_found_polling() {
        let detector = unseen();
        assert!(detector.should_drive(|| false));
        // The clock may advance between two steps of this test, so the test sets the time.
        let later = now_ns() + 1_000_000_000;
        detector.turned_at.store(later, Ordering::Relaxed);
        assert!(detector.is_driven());
        for _ in 0..MEETINGS {
            assert!(detector.should_drive(|| false));
            detector.polled(false, clock::now());
            detector.active_at.store(later, Ordering::Relaxed);
            detector.on_wakeup();
        }
        assert!(!detector.should_drive(|| false) && !detector.is_driven());
    }

    #[test]
    fn background_thread_goes_on_driving_a_program_that_has_found_its_completion() {
        let detector = unseen();
        assert!(detector.should_drive(|| false));
        for _ in 0..10 * MEETINGS {
            detector.posted(clock::now());
            detector.on_wakeup();
            detector.polled(true, clock::now());
            detector.on_wakeup();
        }
        assert!(detector.should_drive(|| false));
    }

    #[test]
    fn background_thread_stops_driving_a_program_that_polls_again_after_it_has_found_completions() {
        let detector = unseen();
        assert!(detector.should_drive(|| false));
        let later = now_ns() + 1_000_000_000;
        for _ in 0..PERSISTENT + MEETINGS {
            detector.polled(true, clock::now());
            detector.polled(true, clock::now());
            detector.active_at.store(later, Ordering::Relaxed);
            detector.on_wakeup();
        }
        assert!(!detector.should_drive(|| false));
    }

    #[test]
    fn program_that_is_driving_is_not_quiet() {
        let detector = unseen();
        assert!(!detector.should_drive(|| true));
        assert!(detector.should_drive(|| false));
    }
}
