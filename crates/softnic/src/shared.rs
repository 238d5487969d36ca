//! What all handles of a context, and its background thread, share.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;

use fairway_engine::Rights;
use fairway_engine::wire::Instant;
use fairway_port::Waiter;
use fairway_ring::{Baton, Doorbell};

use crate::core::{Core, Wake};
use crate::error::Error;
use crate::key::SegmentKey;
use crate::memory::Memory;
use crate::progress;
use crate::same_host::{Server, Share};

/// The core behind its lock, and who drives it.
pub(crate) struct Shared {
    core: Mutex<Locked>,
    /// Threads that wait for the lock. One that polls makes way for them.
    contenders: AtomicU32,
    pub(crate) baton: Baton,
    /// The background thread sleeps here while application threads drive.
    pub(crate) bell: Doorbell,
    /// It sleeps here while it drives.
    pub(crate) background: Waiter,
    /// The application thread that drives asleep sleeps here.
    pub(crate) leader: Waiter,
    pub(crate) has_thread: bool,
    pub(crate) stopping: AtomicBool,
}

/// What the lock guards.
pub(crate) struct Locked {
    pub(crate) core: Core,
    /// Who sleeps on the sockets, and until when at the latest.
    pub(crate) asleep: [Option<Asleep>; 2],
    /// Taken by the leader while he sleeps, for the sockets that woke him.
    pub(crate) ready: Vec<usize>,
}

/// Those who may sleep on the sockets; indexes `asleep`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleeper {
    Background = 0,
    Leader = 1,
}

/// Until when somebody sleeps; `None`: until he is woken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asleep(pub(crate) Option<Instant>);

impl Shared {
    fn new(core: Core, has_thread: bool) -> Result<Self, Error> {
        let waiter = || {
            let port = core.io.datapath.port();
            port.waiter().map_err(|error| Error::io("watch the sockets", error))
        };
        let (background, leader) = (waiter()?, waiter()?);
        Ok(Shared {
            core: Mutex::new(Locked { core, asleep: [None, None], ready: Vec::new() }),
            contenders: AtomicU32::new(0),
            baton: Baton::new(),
            bell: Doorbell::new(),
            background,
            leader,
            has_thread,
            stopping: AtomicBool::new(false),
        })
    }

    /// Does something with the core, then wakes whoever that concerns.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Core) -> R) -> R {
        let mut locked = self.lock();
        let result = work(&mut locked.core);
        self.unlock(locked);
        result
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Locked> {
        match self.core.try_lock() {
            Ok(locked) => locked,
            // A panic under the lock was a bug of ours. What it left behind is still no danger to
            // memory, and handles must be able to go.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.contenders.fetch_add(1, Ordering::Relaxed);
                let locked = self.core.lock().unwrap_or_else(PoisonError::into_inner);
                self.contenders.fetch_sub(1, Ordering::Relaxed);
                locked
            }
        }
    }

    /// Releases the lock and wakes those whom what was done concerns: who waits for it, and who
    /// sleeps on the sockets longer than the NIC now allows.
    pub(crate) fn unlock(&self, mut locked: MutexGuard<'_, Locked>) {
        locked.core.settle_interests();
        let due = locked.core.interests.take_due();
        let late = locked.late_sleepers();
        drop(locked);
        if late[Sleeper::Background as usize] {
            self.background.doorbell().ring();
        }
        if late[Sleeper::Leader as usize] {
            self.leader.doorbell().ring();
        }
        let more = due.last().is_some_and(Option::is_some);
        due.into_iter().flatten().for_each(Wake::wake);
        if more {
            let locked = self.lock();
            self.unlock(locked);
        }
    }

    /// Lets somebody else have the lock, if anybody wants it.
    pub(crate) fn make_way(&self) {
        if self.contenders.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
    }
}

impl Locked {
    /// Who has to be woken because a turn is due before he would wake. He is woken once.
    fn late_sleepers(&mut self) -> [bool; 2] {
        if self.asleep.iter().all(Option::is_none) {
            return [false; 2];
        }
        let Some(deadline) = self.core.deadline() else { return [false; 2] };
        self.asleep.each_mut().map(|sleeper| {
            let late = match sleeper {
                None => false,
                Some(Asleep(None)) => true,
                Some(Asleep(Some(until))) => deadline.is_before(*until),
            };
            if late {
                *sleeper = Some(Asleep(Some(deadline)));
            }
            late
        })
    }
}

/// What every handle of the application holds. The last one to go ends the context.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Hands segments to processes on this host; started when there is one to share.
    neighbours: Mutex<Neighbours>,
}

/// Whether segments are shared with processes on this host.
enum Neighbours {
    NotYet,
    Served(Server),
    /// It cannot be done.
    Never,
}

impl Handle {
    pub(crate) fn start(core: Core, progress_thread: bool) -> Result<Handle, Error> {
        let shared = Arc::new(Shared::new(core, progress_thread)?);
        let thread = progress_thread.then(|| {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name("fairway".into())
                .spawn(move || progress::run_background(&shared))
                .map_err(|error| Error::io("start the background thread", error))
        });
        let neighbours = Mutex::new(Neighbours::NotYet);
        Ok(Handle { shared, thread: Mutex::new(thread.transpose()?), neighbours })
    }

    /// Lets processes on this host map a segment, if its memory can be shared.
    pub(crate) fn share(
        &self,
        key: SegmentKey,
        rights: Rights,
        memory: &Arc<Memory>,
    ) -> Option<Arc<Share>> {
        if rights == Rights::NONE {
            return None;
        }
        memory.file()?;
        let mut neighbours = self.neighbours.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*neighbours, Neighbours::NotYet) {
            let address = self.shared.with(|core| core.nic.address());
            *neighbours = match Server::start(address.value()) {
                Ok(server) => Neighbours::Served(server),
                Err(_) => Neighbours::Never,
            };
        }
        let Neighbours::Served(server) = &*neighbours else { return None };
        // Without it peers use the network.
        let share = Arc::new(Share::new(key, rights, memory).ok()?);
        server.add(&share);
        Some(share)
    }

    /// Stops the background thread.
    pub(crate) fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.bell.ring();
        self.shared.background.doorbell().ring();
        // The last handle may go in a waker, which the background thread itself calls.
        if thread.thread().id() != std::thread::current().id() {
            // Its panic, if it had one, was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop();
        self.shared.with(|core| core.close_all());
    }
}
