//! The driver behind its lock, and the thread that continues calls while no thread of the
//! application waits for one.

use crate::driver::Driver;
use crate::error::Error;
use crate::pulse::{BEAT, Pulse};
use fairway_collectives::Work;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest sleep of a waiting thread with the lock, so that others can begin calls.
const WAIT: Duration = Duration::from_micros(500);

/// The driver of a rank, shared by the threads of its process.
pub(crate) struct Shared {
    driver: Mutex<Driver>,
    /// Number of threads that wait for the end of a call. One of them drives.
    waiting: AtomicUsize,
    /// True if a waiting thread drives.
    is_driven: Mutex<bool>,
    /// Notified when calls have ended, or the thread that drives waits no more.
    changed: Condvar,
    /// Number of threads that want the lock.
    contenders: AtomicUsize,
    stopping: AtomicBool,
    /// True if calls were begun since the background thread looked.
    begun: Mutex<bool>,
    bell: Condvar,
    timeout: Duration,
    /// Time for which a waiting thread polls before it sleeps.
    spin: Duration,
    pulse: Arc<Pulse>,
    /// Number of the process that has joined the group. A child that it forks has the memory, but
    /// neither the threads nor a part in the group.
    process: u32,
}

impl Shared {
    pub(crate) fn new(driver: Driver, timeout: Duration, spin: Duration) -> Shared {
        Shared {
            pulse: driver.pulse(),
            driver: Mutex::new(driver),
            waiting: AtomicUsize::new(0),
            is_driven: Mutex::new(false),
            changed: Condvar::new(),
            contenders: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            begun: Mutex::new(false),
            bell: Condvar::new(),
            timeout,
            spin,
            process: std::process::id(),
        }
    }

    /// False in a child of the process that has joined the group.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    /// Takes the lock. A thread that drives yields to those that wait for it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Driver> {
        self.contenders.fetch_add(1, Ordering::Relaxed);
        let locked = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        self.contenders.fetch_sub(1, Ordering::Relaxed);
        locked
    }

    /// Notifies the background thread of a call that no thread waits for yet.
    pub(crate) fn ring(&self) {
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_one();
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.ring();
    }

    pub(crate) fn has_ended(&self, work: Work) -> bool {
        self.lock().has_ended(work)
    }

    /// Waits until a call has ended. Ends the group if `timeout`, or the group's own, is over.
    pub(crate) fn wait(&self, work: Work, timeout: Option<Duration>) -> Result<(), Error> {
        let (since, timeout) = (Instant::now(), timeout.unwrap_or(self.timeout));
        self.drive_until(|driver| {
            if since.elapsed() > timeout && !driver.has_ended(work) {
                // What has arrived while this process was stopped may end the call.
                driver.progress(Duration::ZERO, Duration::ZERO);
                if !driver.has_ended(work) {
                    driver.give_up(work);
                }
            }
            driver.take(work).map(|outcome| outcome.map_err(Error::Failed))
        })
    }

    /// Waits until a call has ended, for `time` at most. Returns true if it has.
    pub(crate) fn wait_a_while(&self, work: Work, time: Duration) -> bool {
        let since = Instant::now();
        self.drive_until(|driver| {
            let has_ended = driver.has_ended(work);
            (has_ended || since.elapsed() >= time).then_some(has_ended)
        })
    }

    /// Waits until `ended` returns a value. One of the waiting threads drives; the others sleep
    /// until it has ended a call or waits no more, so they do not compete for the lock.
    fn drive_until<R>(&self, mut ended: impl FnMut(&mut Driver) -> Option<R>) -> R {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let result = loop {
            if let Some(result) = ended(&mut self.lock()) {
                break result;
            }
            let is_driven = self.is_driven.lock().unwrap_or_else(PoisonError::into_inner);
            if !*is_driven {
                break self.drive(Driving::begin(self, is_driven), &mut ended);
            }
            // The call may have ended since it was looked at, so the sleep is bounded.
            drop(self.changed.wait_timeout(is_driven, WAIT));
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if self.lock().is_busy() {
            // The background thread continues the other calls.
            self.ring();
        }
        result
    }

    /// Drives until `ended` returns a value.
    fn drive<R>(
        &self,
        _driving: Driving<'_>,
        ended: &mut impl FnMut(&mut Driver) -> Option<R>,
    ) -> R {
        loop {
            let mut driver = self.lock();
            // With others that wait for the lock, do not sleep with it.
            let is_wanted = self.contenders.load(Ordering::Relaxed) > 0;
            let before = driver.calls_ended();
            let [spin, time] = if is_wanted { [Duration::ZERO; 2] } else { [self.spin, WAIT] };
            driver.progress(spin, time);
            if let Some(result) = ended(&mut driver) {
                return result;
            }
            let has_ended_others = driver.calls_ended() != before;
            drop(driver);
            if has_ended_others {
                self.changed.notify_all();
            }
            if is_wanted {
                std::thread::yield_now();
            }
        }
    }

    /// Continues calls while no thread waits for one.
    fn run(&self) {
        while !self.stopping.load(Ordering::Acquire) {
            self.pulse.beat(Instant::now());
            let is_idle = self.waiting.load(Ordering::Relaxed) > 0 || !self.lock().is_busy();
            if is_idle {
                let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
                let woken = self.bell.wait_timeout_while(begun, BEAT, |begun| !*begun);
                *woken.unwrap_or_else(PoisonError::into_inner).0 = false;
                continue;
            }
            self.lock().progress(Duration::ZERO, WAIT);
        }
    }
}

/// The time for which one waiting thread drives.
struct Driving<'a>(&'a Shared);

impl<'a> Driving<'a> {
    fn begin(shared: &'a Shared, mut is_driven: MutexGuard<'_, bool>) -> Driving<'a> {
        *is_driven = true;
        Driving(shared)
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        *self.0.is_driven.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.changed.notify_all();
    }
}

/// Starts the background thread.
pub(crate) fn spawn(shared: Arc<Shared>) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name("fairway-ranks".into()).spawn(move || shared.run())
}
