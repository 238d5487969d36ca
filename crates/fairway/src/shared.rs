//! State that all handles of a context, and its background thread, share.

use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use fairway_observe::{Counters, HostPressure, PressureWatch, StatsExporter, StatsServer};
use fairway_port::QueueWatch;
use fairway_runtime::{self as runtime, HomeProcess, Locked, Memory, run_background, start_thread};
use fairway_sandbox::{News, Policies, Watcher};
use fairway_ub::Rights;

use crate::core::Core;
use crate::engines;
use crate::error::Error;
use crate::key::SegmentKey;
use crate::outside::Outside;
use crate::protocol::{After, Io};
use crate::same_host::{Server, Share};
use crate::stats::snapshot;

/// The core behind its lock, and the threads that drive it.
pub struct Shared(runtime::Shared<Core>);

impl Deref for Shared {
    type Target = runtime::Shared<Core>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Puts the core behind its lock. With several engines their sockets stay with the caller.
fn share(core: Core, ios: &mut Vec<Io>, has_thread: bool) -> Result<Shared, Error> {
    let waiter = |io: &Io| {
        let waiter = io.sockets.datapath.waiter();
        waiter.map_err(|error| Error::io("watch the sockets", error))
    };
    let several = ios.len() > 1;
    let sleepers = match several {
        // One sleeper for the background thread, and one for the leader.
        false => vec![waiter(&ios[0])?, waiter(&ios[0])?],
        true => ios.iter().map(waiter).collect::<Result<_, _>>()?,
    };
    let io = if several { None } else { ios.pop() };
    let outside = Outside::new(several);
    Ok(Shared(runtime::Shared::new(core, io, sleepers, has_thread, outside)))
}

impl Shared {
    /// Calls `work` with the core while no system call uses the application's memory, as is
    /// required for everything that returns memory to the application.
    pub(crate) fn with_quiesced<R>(&self, work: impl FnOnce(&mut Core) -> R) -> R {
        self.outside.quiesce_requests.fetch_add(1, Ordering::AcqRel);
        let mut locked = loop {
            let locked = self.lock();
            if locked.core.io_in_flight == 0 {
                break locked;
            }
            drop(locked);
            std::thread::yield_now();
        };
        let result = work(&mut locked.core);
        self.outside.quiesce_requests.fetch_sub(1, Ordering::AcqRel);
        self.run_pending_and_unlock(locked);
        result
    }

    /// True if a thread waits until no system call uses the application's memory.
    pub(crate) fn quiesce_requested(&self) -> bool {
        self.outside.quiesce_requests.load(Ordering::Acquire) > 0
    }

    /// Counters of engine, sockets and memory.
    pub fn counters(&self) -> Counters {
        let mut locked = self.lock();
        let Locked { core, io, .. } = &mut *locked;
        if let Some(io) = io {
            core.note(io);
        }
        core.counters()
    }

    /// Releases the lock for a thread whose I/O is in flight. Wakers run code of the application,
    /// which may wait until no I/O is in flight, so they are run at the next release.
    pub(crate) fn unlock_for_io(&self, mut locked: MutexGuard<'_, Locked<Core>>) {
        locked.core.collect_due_waiters();
        let due = locked.core.interests.take_due_threads();
        self.release(locked, After { due, calls: None });
    }
}

/// State that all handles of the application share. Dropping the last handle closes the context.
pub struct Handle {
    /// The core behind its lock.
    pub shared: Arc<Shared>,
    /// The process that has the threads.
    home: HomeProcess,
    helpers: ManuallyDrop<Helpers>,
}

/// The threads beside those of the application. A child of `fork` has none of them, and leaves
/// these values alone.
struct Helpers {
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Shares segments with processes on this host; started with the first such segment.
    neighbours: Mutex<Neighbours>,
    /// Watches the files of the user's policies, if there are any.
    watcher: Mutex<Option<Watcher>>,
    watches: bool,
    /// Servers of this context's statistics.
    server: OnceLock<StatsServer>,
    exporter: OnceLock<StatsExporter>,
    /// Measures the host's pressure.
    pressure: Mutex<Option<PressureWatch>>,
}

/// Interval at which the files of policies are checked.
const POLICIES_PERIOD: std::time::Duration = std::time::Duration::from_millis(250);

/// Whether segments are shared with processes on this host.
enum Neighbours {
    NotYet,
    Served(Server),
    /// The server could not be started, so segments are not shared.
    Never,
}

impl Handle {
    pub(crate) fn start(
        core: Core,
        mut ios: Vec<Io>,
        progress_thread: bool,
    ) -> Result<Handle, Error> {
        let watcher = if progress_thread { watch(&core.policy)? } else { None };
        let shared = Arc::new(share(core, &mut ios, progress_thread)?);
        let neighbours = Mutex::new(Neighbours::NotYet);
        // If a later step fails, dropping the handle ends the threads that have been started.
        let handle = Handle {
            shared,
            home: HomeProcess::this(),
            helpers: ManuallyDrop::new(Helpers {
                threads: Mutex::default(),
                neighbours,
                watcher: Mutex::new(watcher),
                watches: progress_thread,
                server: OnceLock::new(),
                exporter: OnceLock::new(),
                pressure: Mutex::new(None),
            }),
        };
        let several = !ios.is_empty();
        for io in ios {
            let shared = handle.shared.clone();
            let name = format!("fairway-{}", io.engine);
            handle.spawn(name, move || engines::run(&shared, io))?;
        }
        if progress_thread && !several {
            let shared = handle.shared.clone();
            handle.spawn("fairway".into(), move || run_background(&shared))?;
        }
        Ok(handle)
    }

    /// Returns the state, unless this is a child of `fork`, where a lock may be held by a thread
    /// that does not exist.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub(crate) fn live(&self) -> Result<&Shared, Error> {
        if self.is_forked() { Err(Error::Forked) } else { Ok(&self.shared) }
    }

    /// As [`Handle::live`], for calls that return no error.
    ///
    /// # Panics
    /// This is a child of `fork`.
    pub(crate) fn here(&self) -> &Shared {
        self.live().unwrap_or_else(|error| panic!("{error}"))
    }

    /// True in a child of the process that has built the context.
    pub(crate) fn is_forked(&self) -> bool {
        !self.home.is_this()
    }

    fn spawn(&self, name: String, life: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let thread =
            start_thread(name, life).map_err(|error| Error::io("start a thread", error))?;
        self.helpers.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// Serves statistics to processes of the same user.
    pub(crate) fn publish(&self) -> Result<(), Error> {
        let context = self.shared.with(|core| {
            core.nic.keep_flow_totals();
            core.nic.address().value()
        });
        let (shared, begun) = (self.shared.clone(), Instant::now());
        let started = StatsServer::start(context, move || snapshot(&shared, begun.elapsed()));
        let server =
            started.map_err(|error| Error::io("listen for readers of statistics", error))?;
        // This function is called only once, when the context is built, so the value was not set
        // before.
        let _ = self.helpers.server.set(server);
        Ok(())
    }

    /// Serves metrics at an address.
    pub(crate) fn export(&self, address: SocketAddr) -> Result<(), Error> {
        self.shared.with(|core| core.nic.keep_flow_totals());
        let (shared, begun) = (self.shared.clone(), Instant::now());
        let started = StatsExporter::start(address, move || snapshot(&shared, begun.elapsed()));
        let doing = || format!("serve metrics at {address}");
        let exporter = started.map_err(|error| Error::io(doing(), error))?;
        let _ = self.helpers.exporter.set(exporter);
        Ok(())
    }

    /// Address at which metrics are served.
    pub(crate) fn exporter(&self) -> Option<SocketAddr> {
        self.helpers.exporter.get().map(StatsExporter::address)
    }

    /// Starts to slow down peers, or this side's sending, while the host is short of a resource.
    pub(crate) fn watch_pressure(
        &self,
        queues: Vec<QueueWatch>,
        options: &HostPressure,
    ) -> Result<(), Error> {
        let shared = Arc::downgrade(&self.shared);
        let notify = move |signals| {
            if let Some(shared) = shared.upgrade() {
                shared.with(|core| core.note_host_pressure(signals));
            }
        };
        let watch = PressureWatch::start(Path::new("/proc"), queues, options, notify)?;
        *self.helpers.pressure.lock().unwrap_or_else(PoisonError::into_inner) = Some(watch);
        Ok(())
    }

    /// Changes the policies, and watches the files of the new ones.
    pub(crate) fn set_policy(&self, policies: &Policies) -> Result<(), Error> {
        let watcher = if self.helpers.watches { watch(policies)? } else { None };
        self.shared.with(|core| core.set_policy(policies));
        let mut current = self.helpers.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, watcher);
        drop(current);
        // Dropping the watcher ends its thread, which may be calling `set_policy` just now.
        drop(before);
        Ok(())
    }

    /// Allows processes on this host to map a segment, if its memory can be shared.
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
        let mut neighbours = self.helpers.neighbours.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*neighbours, Neighbours::NotYet) {
            let address = self.shared.with(|core| core.nic.address());
            *neighbours = match Server::start(address.value()) {
                Ok(server) => Neighbours::Served(server),
                Err(_) => Neighbours::Never,
            };
        }
        let Neighbours::Served(server) = &*neighbours else { return None };
        // If this fails, peers use the network.
        let share = Arc::new(Share::new(key, rights, memory).ok()?);
        server.add(&share);
        Some(share)
    }

    /// Stops the background thread, or those of the engines.
    pub(crate) fn stop(&self) {
        let mut threads = self.helpers.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let threads = std::mem::take(&mut *threads);
        if threads.is_empty() {
            return;
        }
        self.shared.stop();
        for thread in threads {
            // A waker that such a thread calls may drop the last handle.
            if thread.thread().id() != std::thread::current().id() {
                // If the thread panicked, the panic was reported when it happened.
                let _ = thread.join();
            }
        }
    }
}

/// Reports changes of the user's modules on standard error.
fn watch(policies: &Policies) -> Result<Option<Watcher>, Error> {
    let notify = |news: &News| {
        // A line that can't be written must not end the thread that follows the modules.
        let _ = writeln!(io::stderr(), "fairway: {news}");
    };
    Watcher::start(policies, POLICIES_PERIOD, notify)
        .map_err(|error| Error::io("start a thread", error))
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_forked() {
            // A child has no thread to join, and what it sent would end connections of its parent.
            std::mem::forget(self.shared.clone());
            return;
        }
        // Threads of engines send the closes before they end; with one engine, this thread does.
        let several = self.shared.outside.several;
        if several {
            self.shared.with_quiesced(|core| core.close_all());
        }
        self.stop();
        self.shared.with(|core| core.close_all());
        // SAFETY: the handle is being dropped, so nothing uses the helpers after this.
        unsafe { ManuallyDrop::drop(&mut self.helpers) };
    }
}
