//! A protocol behind its lock, and the threads that drive it: polling threads, and the background
//! thread.
//!
//! A thread that sleeps on the sockets records its wake-up time. A thread that releases the lock
//! when a poll is due before that wakes it, so timers fire on time in every state.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use fairway_port::Waiter;
use fairway_ring::{Doorbell, ProgressLock, Role};
use fairway_wire::Instant;

use crate::clock;
use crate::crowding::{self, Advice};
use crate::io::Io;
use crate::lingering::Lingering;
use crate::placement;
use crate::poll::poll;
use crate::poll_detector::{self, PollDetector};
use crate::protocol::{Eagerness, Protocol};
use crate::watching::Watching;

/// Maximum number of threads that sleep on the sockets.
const SLEEPERS_MAX: usize = u32::BITS as usize;

/// Index of the background thread among the sleepers.
pub const BACKGROUND: usize = 0;

/// Index, among the sleepers, of the application thread that leads and sleeps, if the protocol lets
/// application threads do that.
pub const LEADER: usize = 1;

/// The protocol behind its lock, and the threads that drive it.
pub struct Shared<P: Protocol> {
    locked: Mutex<Locked<P>>,
    /// Number of threads that wait for the lock. A polling thread yields to them.
    contenders: AtomicU32,
    /// Duration of the pauses between the polls of threads that poll again and again, in
    /// microseconds. Written under the lock.
    paused_us: AtomicU32,
    /// Decides which thread drives.
    pub progress_lock: ProgressLock,
    /// The doorbell on which the background thread sleeps while application threads drive.
    pub bell: Doorbell,
    /// Waiters in which threads sleep on the sockets, one for each such thread: the background
    /// thread, and perhaps an application thread that leads; or the threads of several engines.
    pub sleepers: Vec<Waiter>,
    /// True if there is a background thread.
    pub has_thread: bool,
    /// Set once, to stop the background thread.
    pub stopping: AtomicBool,
    /// Observations of the users of verbs, if there are any.
    pub poll_detector: PollDetector,
    /// The protocol's state outside the lock.
    pub outside: P::Outside,
}

/// The state behind the lock.
pub struct Locked<P: Protocol> {
    /// The protocol.
    pub core: P,
    /// The sockets, if there is one engine. With several, their threads own them.
    pub io: Option<Io<P::Own>>,
    /// For each sleeper: the time until which it sleeps on the sockets, if it does.
    pub asleep: Vec<Option<Asleep>>,
    /// A buffer for ready sockets, lent to an application thread that sleeps on the sockets.
    pub ready: Vec<usize>,
    /// Whether the thread that drives, if none polls, goes on polling before it sleeps.
    lingering: Lingering,
}

/// The time until which a thread sleeps; `None`: until it is woken.
#[derive(Clone, Copy, Debug)]
pub struct Asleep(pub Option<Instant>);

/// Runs the background thread until it is stopped.
pub fn run_background<P: Protocol>(shared: &Shared<P>) {
    poll_detector::prefer_short_slices();
    let mut polls_seen = 0;
    let mut ready = Vec::with_capacity(64);
    let mut awake_since = clock::now();
    let mut watching = Watching::default();
    while !shared.stopping.load(Ordering::Acquire) {
        let ticket = shared.bell.listen();
        if shared.poll_detector.should_drive(|| shared.is_locked()) {
            shared.progress_lock.demand();
        }
        match shared.progress_lock.decide(&mut polls_seen) {
            Role::Driving => {
                watching.ended();
                drive_in_background(shared, &mut ready, &mut awake_since);
            }
            Role::Watching => {
                let period = match shared.poll_detector.has_users() {
                    true => Watching::shortest(),
                    false => {
                        let paused = shared.paused_us.load(Ordering::Relaxed);
                        watching.period(clock::now(), paused)
                    }
                };
                if watching.should_pause_waiters(clock::now()) {
                    shared.pause_sleepers();
                }
                shared.bell.wait(ticket, Some(period));
            }
            Role::Parked => {
                watching.ended();
                if !shared.stopping.load(Ordering::Acquire) {
                    shared.bell.wait(ticket, None);
                }
            }
        }
    }
}

/// Polls until there is nothing to do, then sleeps once on the sockets. `awake_since`: the time
/// since which the thread has been awake.
fn drive_in_background<P: Protocol>(
    shared: &Shared<P>,
    ready: &mut Vec<usize>,
    awake_since: &mut Instant,
) {
    let mut locked = shared.lock();
    let unfinished = locked.poll();
    shared.poll_detector.on_poll();
    locked.core.background_polled();
    if locked.core.wants_background() {
        shared.progress_lock.demand();
    }
    if unfinished {
        shared.run_pending_and_unlock(locked);
        shared.make_way();
        return;
    }
    if locked.lingers() {
        shared.run_pending_and_unlock(locked);
        std::hint::spin_loop();
        return shared.make_way();
    }
    let until = locked.deadline();
    if !locked.fall_asleep(BACKGROUND, until) {
        return shared.run_pending_and_unlock(locked);
    }
    shared.run_pending_and_unlock(locked);
    crowding::note_background(*awake_since);
    // A wait that fails is treated as an interrupted one: the next poll checks every socket.
    let until = shared.resume_sleeper(BACKGROUND, until);
    let woken = shared.sleepers[BACKGROUND].wait(span_until(until), ready);
    *awake_since = clock::now();
    if woken.as_ref().is_ok_and(|woken| woken.sockets > 0) {
        shared.poll_detector.on_wakeup();
    }
    let mut locked = shared.lock();
    locked.asleep[BACKGROUND] = None;
    if woken.is_ok() {
        locked.mark_ready(ready);
    }
}

impl<P: Protocol> Shared<P> {
    /// Creates the shared state. `io` is `None` if several engines own theirs.
    pub fn new(
        core: P,
        io: Option<Io<P::Own>>,
        sleepers: Vec<Waiter>,
        has_thread: bool,
        outside: P::Outside,
    ) -> Self {
        assert!((1..=SLEEPERS_MAX).contains(&sleepers.len()), "sleepers are bits of a word");
        crowding::prepare();
        let asleep = vec![None; sleepers.len()];
        Shared {
            locked: Mutex::new(Locked {
                core,
                io,
                asleep,
                ready: Vec::new(),
                lingering: Lingering::default(),
            }),
            contenders: AtomicU32::new(0),
            paused_us: AtomicU32::new(0),
            progress_lock: ProgressLock::new(),
            bell: Doorbell::new(),
            sleepers,
            has_thread,
            stopping: AtomicBool::new(false),
            poll_detector: PollDetector::default(),
            outside,
        }
    }

    /// Calls `work` with the protocol, under the lock, and then does what becomes due.
    pub fn with<R>(&self, work: impl FnOnce(&mut P) -> R) -> R {
        let mut locked = self.lock();
        let result = work(&mut locked.core);
        self.run_pending_and_unlock(locked);
        result
    }

    /// Takes the lock. A polling thread yields to those that wait for it.
    pub fn lock(&self) -> MutexGuard<'_, Locked<P>> {
        match self.locked.try_lock() {
            Ok(locked) => locked,
            // A panic under the lock was a bug of this library. The state that it left is no danger
            // to memory, and it must be possible to drop handles.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.contenders.fetch_add(1, Ordering::Relaxed);
                let locked = self.locked.lock().unwrap_or_else(PoisonError::into_inner);
                self.contenders.fetch_sub(1, Ordering::Relaxed);
                locked
            }
        }
    }

    /// True if a thread has the lock.
    fn is_locked(&self) -> bool {
        matches!(self.locked.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Takes the lock, unless another thread keeps it for longer than `timeout`: a thread that
    /// never continues would keep it for ever.
    pub fn lock_within(&self, timeout: Duration) -> Option<MutexGuard<'_, Locked<P>>> {
        let since = std::time::Instant::now();
        loop {
            match self.locked.try_lock() {
                Ok(locked) => return Some(locked),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if since.elapsed() >= timeout => return None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(timeout / 100),
            }
        }
    }

    /// Runs the protocol's pending work ([`Protocol::run_pending`]), and then releases the lock
    /// ([`Shared::release`]). If the notifications that follow leave work, repeats both.
    pub fn run_pending_and_unlock(&self, mut locked: MutexGuard<'_, Locked<P>>) {
        let Locked { core, io, .. } = &mut *locked;
        let after = core.run_pending(io.as_mut());
        if self.release(locked, after) {
            let locked = self.lock();
            self.run_pending_and_unlock(locked);
        }
    }

    /// Releases the lock, and then wakes threads that sleep on the sockets longer than the device
    /// now allows, and notifies the users of the protocol ([`Protocol::notify`]). Returns true if
    /// pending work remains.
    pub fn release(&self, mut locked: MutexGuard<'_, Locked<P>>, after: P::After) -> bool {
        let mut late = locked.late_sleepers();
        drop(locked);
        while late != 0 {
            self.sleepers[late.trailing_zeros() as usize].doorbell().ring();
            late &= late - 1;
        }
        P::notify(&self.outside, after)
    }

    /// Receives all packets that peers, or this side itself, have sent by now, and sends the
    /// acknowledgements that are due. An adapter has done so by the time at which a program takes
    /// memory back, or ends a queue pair.
    pub fn catch_up(&self) {
        // The first poll may send to this device, which the second receives.
        for _ in 0..2 {
            let mut locked = self.lock();
            // The packet may have arrived at any socket.
            if let Some(io) = &mut locked.io {
                io.sockets.check_all_next();
            }
            locked.poll_as(Eagerness::TakeAll, false);
            self.run_pending_and_unlock(locked);
        }
    }

    /// Yields to another thread that waits for the lock, if there is one.
    pub fn make_way(&self) {
        if self.contenders.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
    }

    /// As [`Shared::end_poll`], for a user of verbs; `found`: the poll returns something.
    pub fn end_verbs_poll(&self, mut locked: MutexGuard<'_, Locked<P>>, found: bool) {
        let now = clock::now();
        self.poll_detector.polled(found, now);
        if let Some(io) = &mut locked.io {
            io.burst.poll_ended(now);
        }
        self.end_poll(locked);
    }

    /// Ends a poll of a thread that polls again and again: releases the lock as
    /// [`Shared::run_pending_and_unlock`] does. Then the thread yields to others that wait for the
    /// lock; or, on a crowded host ([`crowding`]), it sleeps for a moment or moves to another core.
    pub fn end_poll(&self, mut locked: MutexGuard<'_, Locked<P>>) {
        let paused_us = locked.io.as_mut().map_or(0, |io| io.take_paused().as_us());
        if paused_us > 0 {
            self.paused_us.fetch_add(paused_us as u32, Ordering::Relaxed);
        }
        let polled = locked.io.as_mut().map(Io::take_polled);
        self.run_pending_and_unlock(locked);
        match polled.map(|(at, successful)| crowding::advise(at, successful)) {
            Some(Advice::Sleep) => self.sleep_for_a_moment(),
            Some(Advice::Move) => placement::leave_core(),
            Some(Advice::Poll) | None => self.make_way(),
        }
    }

    /// Sleeps until a packet arrives or a timer is due, but not for long.
    #[cold]
    fn sleep_for_a_moment(&self) {
        if self.sleepers.len() <= LEADER || !self.progress_lock.try_lead() {
            return std::thread::sleep(clock::to_std(crowding::NAP));
        }
        let mut locked = self.lock();
        let until = earlier(locked.deadline(), Some(clock::now() + crowding::SLEEP_MAX));
        if locked.fall_asleep(LEADER, until) {
            locked = self.sleep_as_leader(locked, until);
        }
        self.run_pending_and_unlock(locked);
        if self.progress_lock.resign() {
            self.bell.ring();
        }
    }

    /// Releases the lock and sleeps as [`LEADER`], which has fallen asleep
    /// ([`Locked::fall_asleep`]).
    pub fn sleep_as_leader<'a>(
        &'a self,
        mut locked: MutexGuard<'a, Locked<P>>,
        until: Option<Instant>,
    ) -> MutexGuard<'a, Locked<P>> {
        let mut ready = std::mem::take(&mut locked.ready);
        // Under the lock, so that the background thread does not pause this waiter.
        let until = self.resume_sleeper(LEADER, until);
        self.run_pending_and_unlock(locked);
        // As in the background thread: after a failed wait every socket is checked.
        let woken = self.sleepers[LEADER].wait(span_until(until), &mut ready);
        let mut locked = self.lock();
        locked.asleep[LEADER] = None;
        if woken.is_ok() {
            locked.mark_ready(&ready);
        }
        locked.ready = ready;
        locked
    }

    /// Makes the waiters of the sleeping threads leave the sockets alone while other threads poll.
    /// The background thread calls this while it does not sleep on the sockets; a thread that is
    /// about to sleep watches them again.
    fn pause_sleepers(&self) {
        let locked = self.lock();
        for (sleeper, asleep) in self.sleepers.iter().zip(&locked.asleep) {
            if asleep.is_none() {
                sleeper.pause();
            }
        }
        self.run_pending_and_unlock(locked);
    }

    /// Makes a sleeper's waiter watch the sockets again. Returns the time until which the thread
    /// may sleep: not for long if the kernel refuses, because packets then do not wake it.
    fn resume_sleeper(&self, sleeper: usize, until: Option<Instant>) -> Option<Instant> {
        match self.sleepers[sleeper].resume() {
            Ok(()) => until,
            Err(_) => earlier(until, Some(clock::now() + crowding::SLEEP_MAX)),
        }
    }

    /// Requests that the background thread drive.
    pub fn demand_background(&self) {
        if self.has_thread && self.progress_lock.demand() {
            self.bell.ring();
        }
    }

    /// Stops the background thread and the threads of engines.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.bell.ring();
        for sleeper in &self.sleepers {
            sleeper.doorbell().ring();
        }
    }
}

impl<P: Protocol> Locked<P> {
    /// Runs one poll of the only engine. Returns true if there is more to do at once.
    pub fn poll(&mut self) -> bool {
        self.poll_as(P::EAGERNESS, true)
    }

    /// As [`Locked::poll`], for a thread that polls again and again: if a message has arrived that
    /// the application probably answers at once, sending is left to the answer, or to the next
    /// poll.
    pub fn poll_briefly(&mut self) -> bool {
        self.set_may_postpone(true);
        let unfinished = self.poll();
        self.set_may_postpone(false);
        unfinished
    }

    fn set_may_postpone(&mut self, may_postpone: bool) {
        if let Some(io) = &mut self.io {
            io.outbox.may_postpone = may_postpone;
        }
    }

    /// As [`Locked::poll`]. `may_wait`: an acknowledgement without other packets may wait for an
    /// application that answers at once.
    pub fn poll_as(&mut self, eagerness: Eagerness, may_wait: bool) -> bool {
        match &mut self.io {
            Some(io) => poll(&mut self.core, io, eagerness, may_wait),
            None => false,
        }
    }

    /// True if the thread that has just polled in vain, and would sleep, should poll again
    /// ([`lingering`](crate::lingering)). Only with one engine.
    pub fn lingers(&mut self) -> bool {
        let received = self.io.as_ref().map(|io| io.received_bytes);
        received.is_some_and(|it| self.lingering.lingers(clock::now(), it, crowding::times))
    }

    /// Records that a thread is about to sleep on the descriptors of the only engine. Returns false
    /// if a packet waits in memory: the thread must not sleep.
    pub fn fall_asleep(&mut self, sleeper: usize, until: Option<Instant>) -> bool {
        if self.io.as_mut().is_some_and(|io| io.sockets.arm()) {
            return false;
        }
        self.asleep[sleeper] = Some(Asleep(until));
        true
    }

    /// Marks sockets of the only engine that a sleeping thread has found readable.
    pub fn mark_ready(&mut self, ready: &[usize]) {
        if let Some(io) = &mut self.io {
            io.sockets.mark_ready(ready);
        }
    }

    /// Time at which the next poll of the only engine is due even if nothing arrives.
    pub fn deadline(&self) -> Option<Instant> {
        let sockets = self.io.as_ref().and_then(Io::deadline);
        let sockets = sockets.filter(|_| !self.core.is_over());
        earlier(self.core.deadline(0), sockets)
    }

    /// Returns the threads that have to be woken because a poll is due before they would wake, one
    /// bit each. Each is woken once.
    fn late_sleepers(&mut self) -> u32 {
        if self.asleep.iter().all(Option::is_none) {
            return 0;
        }
        let several = self.io.is_none();
        // A poll ends the request of a sleeper to be woken by packets in memory.
        let missed = self.io.as_mut().is_some_and(|io| io.sockets.arm());
        let mut all = match several {
            true => None,
            false if missed => Some(clock::now()),
            false => self.deadline(),
        };
        let mut late = 0;
        for (number, sleeper) in self.asleep.iter_mut().enumerate() {
            let Some(Asleep(until)) = sleeper else { continue };
            if several {
                let engine = number as u32;
                let output = self.core.has_output(engine).then(clock::now);
                all = output.or(self.core.deadline(engine));
            }
            let Some(deadline) = all else { continue };
            if until.is_none_or(|until| deadline.is_before(until)) {
                *sleeper = Some(Asleep(Some(deadline)));
                late |= 1 << number;
            }
        }
        late
    }
}

/// Returns the earlier of two instants, each of which may be missing.
pub fn earlier(one: Option<Instant>, two: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(two).reduce(Instant::min)
}

/// Returns the time until an instant; `None` for ever.
pub fn span_until(until: Option<Instant>) -> Option<Duration> {
    until.map(|until| clock::to_std(until.since(clock::now())))
}
