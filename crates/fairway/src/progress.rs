//! Decides which thread drives the NIC, by the progress lock.
//!
//! | thread | when | how it waits between polls |
//! |---|---|---|
//! | a polling thread | in [`crate::Jetty::poll`] and similar | it does not wait |
//! | a waiting thread | in [`crate::Jetty::wait`] and similar, if no other thread leads | polls briefly, then sleeps on the sockets: it *leads* |
//! | another waiting thread | while a thread leads | sleeps until the leader's polls fulfil its condition: it *follows* |
//! | the background thread | when no thread polled for a while, and none leads | sleeps on the sockets |
//!
//! Programs that use verbs may poll only occasionally, and watch memory that a peer writes in
//! between. If verbs are served, the background thread therefore continues to drive until the poll
//! detector has found a thread that polls all the time ([`fairway_runtime::PollDetector`]).
//!
//! The background thread's states and the transitions between them are [`fairway_ring::Role`] and
//! [`fairway_ring::next_role`]. While other threads drive, it sleeps on a doorbell: with a coarse
//! timer when they poll, because a polling thread does not announce that it stops, and without a
//! timer when a thread leads, because a leader rings when it resigns.
//!
//! With several engines none of this applies: each engine has a thread ([`crate::engines`]) that
//! runs its polls, and waiting threads follow those threads.
//!
//! The lock, and the background thread's life cycle, are the same for every protocol
//! ([`fairway_runtime::Shared`]).

use std::sync::Arc;
use std::time::Duration;

use fairway_ring::Doorbell;
use fairway_runtime::{LEADER, clock, earlier, span_until};
use fairway_ub::wire::{self, Instant};

use crate::core::{Core, WaitCondition, WakeTarget};
use crate::error::Error;
use crate::shared::Shared;

thread_local! {
    /// The doorbell on which a following thread sleeps.
    static BELL: Arc<Doorbell> = Arc::new(Doorbell::new());
}

/// Time for which a waiting thread polls before it sleeps. Sleeping and waking cost about as much.
const SPIN: wire::Duration = wire::Duration::from_us(20);

/// Interval at which a follower checks whether its leader resigned and no other took over.
const FOLLOW: Duration = Duration::from_millis(50);

impl Shared {
    /// Runs a poll for an application thread that polls.
    pub(crate) fn poll<R>(&self, take: impl FnOnce(&mut Core) -> R) -> R {
        self.progress_lock.touch();
        if self.outside.several {
            let result = self.poll_once(take);
            // Other threads do the work, and may need this CPU core.
            std::thread::yield_now();
            return result;
        }
        let mut locked = self.lock();
        locked.poll_briefly();
        let result = take(&mut locked.core);
        self.end_poll(locked);
        result
    }

    /// Runs a poll, unless engines do that, and then calls `take`.
    pub(crate) fn poll_once<R>(&self, take: impl FnOnce(&mut Core) -> R) -> R {
        let mut locked = self.lock();
        locked.poll();
        let result = take(&mut locked.core);
        self.run_pending_and_unlock(locked);
        result
    }

    /// Runs polls, or sleeps while other threads do, until `take` returns a value. `what`, if
    /// given, is the condition under which those threads wake this one.
    pub fn wait_for<R>(
        &self,
        awaited: &'static str,
        timeout: Option<Duration>,
        what: Option<WaitCondition>,
        take: impl FnMut(&mut Core) -> Option<R>,
    ) -> Result<R, Error> {
        self.wait_polling(SPIN, (awaited, timeout), what, take)
    }

    /// As [`Shared::wait_for`], with the time for which the thread polls before it sleeps.
    pub(crate) fn wait_polling<R>(
        &self,
        spin: wire::Duration,
        (awaited, timeout): (&'static str, Option<Duration>),
        what: Option<WaitCondition>,
        mut take: impl FnMut(&mut Core) -> Option<R>,
    ) -> Result<R, Error> {
        let start = clock::now();
        let deadline = timeout.map(|timeout| start + clock::from_std(timeout));
        loop {
            if let Some(result) = self.poll(&mut take) {
                return Ok(result);
            }
            let now = clock::now();
            let deferred_copies = |deadline: Instant| now.is_at_or_after(deadline);
            if deadline.is_some_and(deferred_copies) {
                let waited = timeout.unwrap_or_default();
                return Err(Error::Timeout { awaited, waited });
            }
            if now.since(start) < spin {
                std::hint::spin_loop();
                continue;
            }
            let found = if !self.outside.several && self.progress_lock.try_lead() {
                self.lead(deadline, what, &mut take)
            } else {
                self.follow(deadline, what, &mut take)
            };
            if let Some(result) = found {
                return Ok(result);
            }
        }
    }

    /// Drives the NIC, asleep between polls, until `take` returns a value or the time is up.
    fn lead<R>(
        &self,
        deadline: Option<Instant>,
        what: Option<WaitCondition>,
        take: &mut impl FnMut(&mut Core) -> Option<R>,
    ) -> Option<R> {
        let leading = Leading(self);
        let mut locked = self.lock();
        let found = loop {
            let unfinished = locked.poll();
            if let Some(found) = take(&mut locked.core) {
                break Some(found);
            }
            let now = clock::now();
            if deadline.is_some_and(|deadline| now.is_at_or_after(deadline)) {
                break None;
            }
            if unfinished || locked.lingers() {
                self.run_pending_and_unlock(locked);
                self.make_way();
                locked = self.lock();
                continue;
            }
            let until = earlier(locked.deadline(), deadline);
            if !locked.fall_asleep(LEADER, until) {
                continue;
            }
            // A polling thread may receive the packets for which this one waits.
            let changed = WaitCondition::Change(locked.core.changes);
            let wake = WakeTarget::Leader(self.sleepers[LEADER].doorbell());
            let interest = locked.core.interests.add(what.unwrap_or(changed), wake);
            locked = self.sleep_as_leader(locked, until);
            drop(locked.core.interests.remove(interest));
        };
        let others_wait = !locked.core.interests.is_empty();
        if others_wait && !self.has_thread {
            // One of the other waiting threads has to lead.
            locked.core.interests.wake_all();
        }
        self.run_pending_and_unlock(locked);
        drop(leading);
        if others_wait {
            self.demand_background();
        }
        found
    }

    /// Sleeps while another thread leads, until `take` returns a value, the leader has resigned, or
    /// the time is up.
    fn follow<R>(
        &self,
        deadline: Option<Instant>,
        what: Option<WaitCondition>,
        take: &mut impl FnMut(&mut Core) -> Option<R>,
    ) -> Option<R> {
        let bell = BELL.with(Arc::clone);
        let ticket = bell.listen();
        let wake = WakeTarget::Thread(bell.clone());
        let mut locked = self.lock();
        if let Some(found) = take(&mut locked.core) {
            self.run_pending_and_unlock(locked);
            return Some(found);
        }
        let what = what.unwrap_or(WaitCondition::Change(locked.core.changes));
        let number = locked.core.interests.add(what, wake);
        self.run_pending_and_unlock(locked);
        let span = deadline.and_then(|deadline| span_until(Some(deadline)));
        bell.wait(ticket, Some(span.map_or(FOLLOW, |span| span.min(FOLLOW))));
        self.with(|core| {
            drop(core.interests.remove(number));
            take(core)
        })
    }
}

/// The turn of a thread that leads. It ends also where code of the application panics.
struct Leading<'a>(&'a Shared);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        if self.0.progress_lock.resign() {
            self.0.bell.ring();
        }
    }
}
