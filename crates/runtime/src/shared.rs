//! A protocol behind its lock, and the threads that drive it: those that poll, and the background
//! thread.
//!
//! A thread that sleeps on the sockets notes until when. A thread that releases the lock with a
//! poll due before that wakes it, so timers fire on time in every state.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use fairway_port::Waiter;
use fairway_ring::{Doorbell, ProgressLock, Role};
use fairway_wire::Instant;

use crate::clock;
use crate::io::Io;
use crate::poll::poll;
use crate::poll_detector::{self, PollDetector};
use crate::protocol::{Eagerness, Protocol};

/// How long the background thread leaves the sockets to threads that poll, before it looks again.
const WATCH: Duration = Duration::from_micros(500);

/// Most threads that sleep on the sockets.
const SLEEPERS_MAX: usize = u32::BITS as usize;

/// The place of the background thread among the sleepers.
pub const BACKGROUND: usize = 0;

/// The protocol behind its lock, and the threads that drive it.
pub struct Shared<P: Protocol> {
    locked: Mutex<Locked<P>>,
    /// Threads that wait for the lock. One that polls makes way for them.
    contenders: AtomicU32,
    /// Decides which thread drives.
    pub progress_lock: ProgressLock,
    /// The background thread sleeps here while application threads drive.
    pub bell: Doorbell,
    /// A thread that may sleep on the sockets does so in its own: the background thread, and
    /// perhaps an application thread that drives asleep; or the threads of several engines.
    pub sleepers: Vec<Waiter>,
    /// There is a background thread.
    pub has_thread: bool,
    /// Set once, to end the background thread.
    pub stopping: AtomicBool,
    /// How the users of verbs behave, if there are any.
    pub poll_detector: PollDetector,
    /// What the protocol keeps outside the lock.
    pub outside: P::Outside,
}

/// What the lock guards.
pub struct Locked<P: Protocol> {
    /// The protocol.
    pub core: P,
    /// The sockets, if there is one engine. If there are several, their threads have them.
    pub io: Option<Io<P::Own>>,
    /// By sleeper: until when it sleeps on the sockets, if it does.
    pub asleep: Vec<Option<Asleep>>,
    /// Lent to an application thread that sleeps on the sockets, for those that woke it.
    pub ready: Vec<usize>,
}

/// Until when a thread sleeps; `None`: until it is woken.
#[derive(Clone, Copy, Debug)]
pub struct Asleep(pub Option<Instant>);

/// The life of the background thread.
pub fn run_background<P: Protocol>(shared: &Shared<P>) {
    poll_detector::prefer_short_slices();
    let mut polls_seen = 0;
    let mut ready = Vec::with_capacity(64);
    while !shared.stopping.load(Ordering::Acquire) {
        let ticket = shared.bell.listen();
        if shared.poll_detector.should_drive() {
            shared.progress_lock.demand();
        }
        match shared.progress_lock.decide(&mut polls_seen) {
            Role::Driving => drive_in_background(shared, &mut ready),
            Role::Watching => {
                shared.bell.wait(ticket, Some(WATCH));
            }
            Role::Parked => {
                if !shared.stopping.load(Ordering::Acquire) {
                    shared.bell.wait(ticket, None);
                }
            }
        }
    }
}

/// Turns until there is nothing to do, then one sleep on the sockets.
fn drive_in_background<P: Protocol>(shared: &Shared<P>, ready: &mut Vec<usize>) {
    let mut locked = shared.lock();
    let unfinished = locked.poll();
    shared.poll_detector.on_poll();
    locked.core.background_polled();
    if locked.core.wants_background() {
        shared.progress_lock.demand();
    }
    if unfinished {
        shared.unlock(locked);
        shared.make_way();
        return;
    }
    let until = locked.deadline();
    locked.asleep[BACKGROUND] = Some(Asleep(until));
    shared.unlock(locked);
    // A failing wait is like one that was interrupted: the next poll looks at every socket.
    let woken = shared.sleepers[BACKGROUND].wait(span_until(until), ready);
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
    /// `io` is `None` if several engines have theirs.
    pub fn new(
        core: P,
        io: Option<Io<P::Own>>,
        sleepers: Vec<Waiter>,
        has_thread: bool,
        outside: P::Outside,
    ) -> Self {
        assert!((1..=SLEEPERS_MAX).contains(&sleepers.len()), "sleepers are bits of a word");
        let asleep = vec![None; sleepers.len()];
        Shared {
            locked: Mutex::new(Locked { core, io, asleep, ready: Vec::new() }),
            contenders: AtomicU32::new(0),
            progress_lock: ProgressLock::new(),
            bell: Doorbell::new(),
            sleepers,
            has_thread,
            stopping: AtomicBool::new(false),
            poll_detector: PollDetector::default(),
            outside,
        }
    }

    /// Does something with what is behind the lock, then whatever that makes due.
    pub fn with<R>(&self, work: impl FnOnce(&mut P) -> R) -> R {
        let mut locked = self.lock();
        let result = work(&mut locked.core);
        self.unlock(locked);
        result
    }

    /// Takes the lock. A thread that polls makes way for those that wait for it.
    pub fn lock(&self) -> MutexGuard<'_, Locked<P>> {
        match self.locked.try_lock() {
            Ok(locked) => locked,
            // A panic under the lock was a bug of ours. What it left behind is still no danger to
            // memory, and handles must be able to go.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.contenders.fetch_add(1, Ordering::Relaxed);
                let locked = self.locked.lock().unwrap_or_else(PoisonError::into_inner);
                self.contenders.fetch_sub(1, Ordering::Relaxed);
                locked
            }
        }
    }

    /// Takes the lock, unless another thread keeps it for longer than `timeout`: one that was
    /// interrupted for good would keep it for ever.
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

    /// Does what is due before the lock is released, releases it, wakes threads that sleep on the
    /// sockets longer than the device now allows, and does what is due after that.
    pub fn unlock(&self, mut locked: MutexGuard<'_, Locked<P>>) {
        let Locked { core, io, .. } = &mut *locked;
        let after = core.before_unlock(io.as_mut());
        if self.release(locked, after) {
            let locked = self.lock();
            self.unlock(locked);
        }
    }

    /// Releases the lock, wakes sleepers, and does what is due after that. True if there may be
    /// more.
    pub fn release(&self, mut locked: MutexGuard<'_, Locked<P>>, after: P::After) -> bool {
        let mut late = locked.late_sleepers();
        drop(locked);
        while late != 0 {
            self.sleepers[late.trailing_zeros() as usize].doorbell().ring();
            late &= late - 1;
        }
        P::after_unlock(&self.outside, after)
    }

    /// Takes in what peers have sent by now, and what this side has sent to itself, and sends the
    /// acknowledgements that are due: an adapter has done so by the time at which a program takes
    /// memory back, or ends a queue pair.
    pub fn catch_up(&self) {
        // The first poll may send to this device, which the second receives.
        for _ in 0..2 {
            let mut locked = self.lock();
            // It may have come to any socket.
            if let Some(io) = &mut locked.io {
                io.sockets.check_all_next();
            }
            locked.poll_as(Eagerness::TakeAll, false);
            self.unlock(locked);
        }
    }

    /// Lets another thread have the lock, if one waits for it.
    pub fn make_way(&self) {
        if self.contenders.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
    }

    /// Asks the background thread to drive.
    pub fn demand_background(&self) {
        if self.has_thread && self.progress_lock.demand() {
            self.bell.ring();
        }
    }

    /// Ends the lives of the background thread and of engines.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.bell.ring();
        for sleeper in &self.sleepers {
            sleeper.doorbell().ring();
        }
    }
}

impl<P: Protocol> Locked<P> {
    /// One poll of the only engine. True if there is more to do at once.
    pub fn poll(&mut self) -> bool {
        self.poll_as(P::EAGERNESS, true)
    }

    /// The same. `may_wait`: a lone acknowledgement may wait for an application that answers at
    /// once.
    pub fn poll_as(&mut self, eagerness: Eagerness, may_wait: bool) -> bool {
        match &mut self.io {
            Some(io) => poll(&mut self.core, io, eagerness, may_wait),
            None => false,
        }
    }

    /// A thread that slept on the sockets of the only engine saw that these have something.
    pub fn mark_ready(&mut self, ready: &[usize]) {
        if let Some(io) = &mut self.io {
            io.sockets.mark_ready(ready);
        }
    }

    /// When the next poll of the only engine is due although nothing arrives.
    pub fn deadline(&self) -> Option<Instant> {
        let sockets = self.io.as_ref().and_then(Io::deadline);
        let sockets = sockets.filter(|_| !self.core.is_over());
        earlier(self.core.deadline(0), sockets)
    }

    /// Threads that have to be woken because a poll is due before they would wake: a bit each. Each
    /// is woken once.
    fn late_sleepers(&mut self) -> u32 {
        if self.asleep.iter().all(Option::is_none) {
            return 0;
        }
        let several = self.io.is_none();
        let mut all = if several { None } else { self.deadline() };
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

/// The earlier of two instants, of which each may be missing.
pub fn earlier(one: Option<Instant>, two: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(two).reduce(Instant::min)
}

/// How long until then; `None` for ever.
pub fn span_until(until: Option<Instant>) -> Option<Duration> {
    until.map(|until| clock::to_std(until.since(clock::now())))
}
