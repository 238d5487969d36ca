//! What all handles of a context, and its background thread, share.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::JoinHandle;

use fairway_engine::Rights;
use fairway_engine::wire::{GROUP_MAX, Instant};
use fairway_port::{QueueWatch, Waiter};
use fairway_ring::{Baton, Doorbell};
use fairway_sandbox::{News, Policies, Watcher};

use crate::clock;
use crate::core::{Core, DUE_MAX, Wake};
use crate::counters::Counters;
use crate::engines;
use crate::error::Error;
use crate::key::SegmentKey;
use crate::memory::Memory;
use crate::pressure::{HostPressure, PressureWatch};
use crate::progress;
use crate::same_host::{Server, Share};
use crate::stats::{Exporter, Server as StatsServer};
use crate::turn::{Io, Turned};
use crate::vigil::Vigil;

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
    /// With several engines each has a thread, which sleeps here, and nobody else runs turns.
    pub(crate) engines: Vec<Waiter>,
    /// How many want that no memory is lent to system calls.
    still_wanted: AtomicU32,
    pub(crate) stopping: AtomicBool,
    /// How those behave who use verbs, if anybody does.
    pub(crate) vigil: Vigil,
}

/// What the lock guards.
pub(crate) struct Locked {
    pub(crate) core: Core,
    /// The sockets, if there is one engine. If there are several, their threads have them.
    pub(crate) io: Option<Io>,
    /// Who sleeps on the sockets, and until when at the latest: background thread and leader, or
    /// the threads of the engines.
    pub(crate) asleep: Vec<Option<Asleep>>,
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
    /// With several engines their sockets are left to the caller.
    fn new(core: Core, ios: &mut Vec<Io>, has_thread: bool) -> Result<Self, Error> {
        let waiter = |io: &Io| {
            let waiter = io.datapath.port().waiter();
            waiter.map_err(|error| Error::io("watch the sockets", error))
        };
        let (background, leader) = (waiter(&ios[0])?, waiter(&ios[0])?);
        let engines = match ios.len() {
            1 => Vec::new(),
            _ => ios.iter().map(waiter).collect::<Result<_, _>>()?,
        };
        let io = if engines.is_empty() { ios.pop() } else { None };
        let asleep = vec![None; engines.len().max(2)];
        Ok(Shared {
            core: Mutex::new(Locked { core, io, asleep, ready: Vec::new() }),
            contenders: AtomicU32::new(0),
            baton: Baton::new(),
            bell: Doorbell::new(),
            background,
            leader,
            has_thread,
            engines,
            still_wanted: AtomicU32::new(0),
            stopping: AtomicBool::new(false),
            vigil: Vigil::new(),
        })
    }

    /// Does something with the core, then wakes whoever that concerns.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Core) -> R) -> R {
        let mut locked = self.lock();
        let result = work(&mut locked.core);
        self.unlock(locked);
        result
    }

    /// The same, while no system call uses the application's memory: for what gives memory back
    /// that one might.
    pub(crate) fn with_still<R>(&self, work: impl FnOnce(&mut Core) -> R) -> R {
        self.still_wanted.fetch_add(1, Ordering::AcqRel);
        let mut locked = loop {
            let locked = self.lock();
            if locked.core.lent == 0 {
                break locked;
            }
            drop(locked);
            std::thread::yield_now();
        };
        let result = work(&mut locked.core);
        self.still_wanted.fetch_sub(1, Ordering::AcqRel);
        self.unlock(locked);
        result
    }

    /// Does somebody want that no memory is lent to system calls?
    pub(crate) fn wants_still(&self) -> bool {
        self.still_wanted.load(Ordering::Acquire) > 0
    }

    pub(crate) fn counters(&self) -> Counters {
        let mut locked = self.lock();
        let Locked { core, io, .. } = &mut *locked;
        if let Some(io) = io {
            core.note(io);
        }
        core.counters()
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
        locked.digest();
        locked.send_posted();
        locked.core.settle_interests();
        let due = locked.core.interests.take_due();
        let calls = locked.core.tenant.as_mut().and_then(|tenant| tenant.take_calls());
        let more = self.unlock_and_wake(locked, due);
        if let Some(calls) = calls {
            calls();
        }
        if more {
            let locked = self.lock();
            self.unlock(locked);
        }
    }

    /// The same for somebody to whom memory is lent. Wakers run code of the application, which may
    /// want that none is: they have to wait for the next time.
    pub(crate) fn unlock_lent(&self, mut locked: MutexGuard<'_, Locked>) {
        locked.core.settle_interests();
        let due = locked.core.interests.take_due_threads();
        self.unlock_and_wake(locked, due);
    }

    /// True if there may be more to be woken.
    fn unlock_and_wake(
        &self,
        mut locked: MutexGuard<'_, Locked>,
        due: [Option<Wake>; DUE_MAX],
    ) -> bool {
        let late = locked.late_sleepers();
        drop(locked);
        for sleeper in (0..GROUP_MAX).filter(|sleeper| late & 1 << sleeper != 0) {
            self.waiter(usize::from(sleeper)).doorbell().ring();
        }
        let more = due.last().is_some_and(Option::is_some);
        due.into_iter().flatten().for_each(Wake::wake);
        more
    }

    /// What somebody sleeps in who sleeps on the sockets.
    fn waiter(&self, sleeper: usize) -> &Waiter {
        match self.engines.get(sleeper) {
            Some(engine) => engine,
            None if sleeper == Sleeper::Background as usize => &self.background,
            None => &self.leader,
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
    /// One turn of the only engine.
    pub(crate) fn turn(&mut self) -> Turned {
        match &mut self.io {
            Some(io) => self.core.turn(io),
            None => Turned::default(),
        }
    }

    /// Somebody who slept on the sockets of the only engine saw that these have something.
    pub(crate) fn mark_ready(&mut self, sockets: &[usize]) {
        if let Some(io) = &mut self.io {
            io.mark_ready(sockets);
        }
    }

    /// Lets the tenant take in what has happened. (Sending may end operations, which may let others
    /// begin.)
    fn digest(&mut self) {
        for _ in 0..2 {
            let Some(mut tenant) = self.core.tenant.take() else { return };
            tenant.digest(&mut self.core);
            self.core.tenant = Some(tenant);
            self.send_posted();
        }
    }

    /// Sends what commands have left to be sent, if that is not up to others.
    fn send_posted(&mut self) {
        let Some(io) = &mut self.io else { return };
        if self.core.wants_send {
            self.core.transmit(io, clock::now());
            self.core.hear_events();
        }
    }

    /// When the next turn of the only engine is due although nothing arrives.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let sockets = self.io.as_ref().and_then(|io| io.deadline());
        let sockets = sockets.filter(|_| !self.core.has_vanished());
        self.core.deadline(0).into_iter().chain(sockets).reduce(Instant::min)
    }

    /// Who has to be woken because a turn is due before he would wake: a bit each. He is woken
    /// once.
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

/// What every handle of the application holds. The last one to go ends the context.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Hands segments to processes on this host; started when there is one to share.
    neighbours: Mutex<Neighbours>,
    /// Looks whether modules of the user's have changed, if there are any.
    watcher: Mutex<Option<Watcher>>,
    watches: bool,
    /// Those who tell others of this context.
    server: OnceLock<StatsServer>,
    exporter: OnceLock<Exporter>,
    /// Of what the host waits for.
    pressure: Mutex<Option<PressureWatch>>,
}

/// How often files of policies are looked at.
const POLICIES_PERIOD: std::time::Duration = std::time::Duration::from_millis(250);

/// Whether segments are shared with processes on this host.
enum Neighbours {
    NotYet,
    Served(Server),
    /// It cannot be done.
    Never,
}

impl Handle {
    pub(crate) fn start(
        core: Core,
        mut ios: Vec<Io>,
        progress_thread: bool,
    ) -> Result<Handle, Error> {
        let watcher = if progress_thread { watch(&core.policy)? } else { None };
        let shared = Arc::new(Shared::new(core, &mut ios, progress_thread)?);
        let neighbours = Mutex::new(Neighbours::NotYet);
        // What fails halfway ends the threads that are there.
        let handle = Handle {
            shared,
            threads: Mutex::default(),
            neighbours,
            watcher: Mutex::new(watcher),
            watches: progress_thread,
            server: OnceLock::new(),
            exporter: OnceLock::new(),
            pressure: Mutex::new(None),
        };
        let several = !ios.is_empty();
        for io in ios {
            let shared = handle.shared.clone();
            let name = format!("fairway-{}", io.engine);
            handle.spawn(name, move || engines::run(&shared, io))?;
        }
        if progress_thread && !several {
            let shared = handle.shared.clone();
            handle.spawn("fairway".into(), move || progress::run_background(&shared))?;
        }
        Ok(handle)
    }

    fn spawn(&self, name: String, life: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(life)
            .map_err(|error| Error::io("start a thread", error))?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// Tells of itself to processes of the same user that ask.
    pub(crate) fn publish(&self) -> Result<(), Error> {
        let started = StatsServer::start(&self.shared);
        let server =
            started.map_err(|error| Error::io("wait for those who ask for stats", error))?;
        // Called once, when the context is built.
        let _ = self.server.set(server);
        Ok(())
    }

    /// Serves metrics at an address.
    pub(crate) fn export(&self, address: SocketAddr) -> Result<(), Error> {
        let started = Exporter::start(&self.shared, address);
        let doing = || format!("serve metrics at {address}");
        let exporter = started.map_err(|error| Error::io(doing(), error))?;
        let _ = self.exporter.set(exporter);
        Ok(())
    }

    /// Where metrics are served.
    pub(crate) fn exporter(&self) -> Option<SocketAddr> {
        self.exporter.get().map(Exporter::address)
    }

    /// Has peers, or what is sent here, told to slow down while the host is short of something.
    pub(crate) fn watch_pressure(
        &self,
        queues: Vec<QueueWatch>,
        options: &HostPressure,
    ) -> Result<(), Error> {
        let shared = Arc::downgrade(&self.shared);
        let tell = move |signals| {
            if let Some(shared) = shared.upgrade() {
                shared.with(|core| core.hear_host(signals));
            }
        };
        let watch = PressureWatch::start(Path::new("/proc"), queues, options, tell)?;
        *self.pressure.lock().unwrap_or_else(PoisonError::into_inner) = Some(watch);
        Ok(())
    }

    /// Changes the policies, and watches the files of the new ones.
    pub(crate) fn set_policy(&self, policies: &Policies) -> Result<(), Error> {
        let watcher = if self.watches { watch(policies)? } else { None };
        self.shared.with(|core| core.set_policy(policies));
        let mut current = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, watcher);
        drop(current);
        // Ends a thread, which may be telling something just now.
        drop(before);
        Ok(())
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

    /// Stops the background thread, or those of the engines.
    pub(crate) fn stop(&self) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let threads = std::mem::take(&mut *threads);
        if threads.is_empty() {
            return;
        }
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.bell.ring();
        self.shared.background.doorbell().ring();
        for engine in &self.shared.engines {
            engine.doorbell().ring();
        }
        for thread in threads {
            // The last handle may go in a waker, which such a thread itself calls.
            if thread.thread().id() != std::thread::current().id() {
                // Its panic, if it had one, was reported when it happened.
                let _ = thread.join();
            }
        }
    }
}

/// Tells on standard error what becomes of modules of the user's.
fn watch(policies: &Policies) -> Result<Option<Watcher>, Error> {
    let tell = |news: &News| eprintln!("fairway: {news}");
    Watcher::start(policies, POLICIES_PERIOD, tell)
        .map_err(|error| Error::io("start a thread", error))
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Threads of engines say farewell before they end; one engine does it here.
        let several = !self.shared.engines.is_empty();
        if several {
            self.shared.with_still(|core| core.close_all());
        }
        self.stop();
        self.shared.with(|core| core.close_all());
    }
}
