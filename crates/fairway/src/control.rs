//! Runs schedulers and congestion controls on a pool of threads, which read events and write rates,
//! windows and credit; the data path never waits for them.
//!
//! Each channel belongs to one thread ([`Steering`]), which alone has the channel's congestion
//! control and the queue of its events. The scheduler divides one line among all flows, so the
//! first thread runs it alone, beside the congestion controls of its channels. Threads share
//! nothing with each other, except the probe while control latency is measured.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use fairway_observe::Probe;
use fairway_runtime::clock;
use fairway_ub::control::{
    CongestionController, CongestionKind, CongestionProcessor, EventQueue, Processor,
    ProcessorStats, ReadyQueue, Steering,
};

use crate::error::Error;

/// Number of events between two checks of the stop flag.
const BATCH: u32 = 64;
/// Time for which the thread sleeps when it found no event.
const REST: Duration = Duration::from_micros(50);
/// Time without events after which the thread sleeps until it is woken.
const TIRED: Duration = Duration::from_millis(20);

/// Statistics that the thread publishes.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    scheduler: Option<ProcessorStats>,
    congestion: ProcessorStats,
}

/// Objects on their way to the thread.
#[derive(Debug, Default)]
struct Inbox {
    /// A new scheduler, or `Some(None)` to run none from now on.
    scheduler: Option<Option<Processor>>,
    controllers: Vec<CongestionController>,
}

/// State that the thread and its owner share.
#[derive(Debug)]
struct Common {
    stop: AtomicBool,
    asleep: AtomicBool,
    inbox: Mutex<Inbox>,
    has_mail: AtomicBool,
    stats: Mutex<Stats>,
}

/// Handle of the control threads. Dropping it stops them.
#[derive(Debug)]
pub(crate) struct ControlPool {
    threads: Box<[ControlThread]>,
    steering: Steering,
}

impl ControlPool {
    /// Starts a thread for each of `processors`, to which `steering` steers channels. Each runs the
    /// congestion controls of its channels, and the first also schedulers handed to it later. The
    /// threads report to `probe` when a congestion control has decided.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start(
        processors: Box<[CongestionProcessor]>,
        steering: Steering,
        probe: Option<&Arc<Probe>>,
    ) -> Result<ControlPool, Error> {
        let threads = processors.into_iter().enumerate();
        let threads = threads
            .map(|(number, processor)| ControlThread::start(number, processor, probe.cloned()))
            .collect::<Result<_, Error>>()?;
        Ok(ControlPool { threads, steering })
    }

    /// Replaces the scheduler that the pool runs; `None` for none.
    pub(crate) fn set_scheduler(&mut self, scheduler: Option<Processor>) {
        self.threads[0].set_scheduler(scheduler);
    }

    /// Hands the congestion control of a newly opened channel to the channel's thread.
    pub(crate) fn adopt(&self, controller: CongestionController) {
        let thread = self.steering.thread_of(controller.channel());
        self.threads[thread as usize].adopt(controller);
    }

    /// Statistics of the scheduler, if there is one.
    pub(crate) fn scheduler_stats(&self) -> Option<ProcessorStats> {
        self.threads[0].common.stats().scheduler
    }

    /// Statistics of the congestion controls, all threads together.
    pub(crate) fn congestion_stats(&self) -> ProcessorStats {
        let mut sum = ProcessorStats::default();
        self.threads.iter().for_each(|thread| sum += thread.common.stats().congestion);
        sum
    }

    /// Wakes the threads that sleep and have events. Costs a fence, and a load or two for each
    /// thread, while they are awake.
    pub(crate) fn wake_if_asleep(&self) {
        // The announcement is written before this checks whether the thread sleeps; the thread
        // marks itself as sleeping before it checks for announcements.
        fence(Ordering::SeqCst);
        self.threads.iter().for_each(ControlThread::wake_if_asleep);
    }
}

impl Drop for ControlPool {
    fn drop(&mut self) {
        // All threads begin to end before the first is joined.
        self.threads.iter().for_each(ControlThread::stop);
    }
}

/// Handle of a control thread. Dropping it stops the thread.
#[derive(Debug)]
struct ControlThread {
    common: Arc<Common>,
    thread: Option<JoinHandle<()>>,
    /// Queue of the scheduler's events; `ready` announces those of congestion controls.
    events: Option<Arc<EventQueue>>,
    ready: Arc<ReadyQueue<CongestionKind>>,
}

impl ControlThread {
    fn start(
        number: usize,
        controllers: CongestionProcessor,
        probe: Option<Arc<Probe>>,
    ) -> Result<ControlThread, Error> {
        let common = Arc::new(Common {
            stop: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            inbox: Mutex::default(),
            has_mail: AtomicBool::new(false),
            stats: Mutex::default(),
        });
        let (own, ready) = (common.clone(), controllers.ready().clone());
        let thread = Builder::new()
            .name(format!("fairway-ctl-{number}"))
            .spawn(move || own.run(Work { controllers, scheduler: None, probe }))
            .map_err(|error| Error::io("start the control thread", error))?;
        Ok(ControlThread { common, thread: Some(thread), events: None, ready })
    }

    fn set_scheduler(&mut self, scheduler: Option<Processor>) {
        self.events = scheduler.as_ref().map(|scheduler| scheduler.queue().clone());
        let stats = scheduler.as_ref().map(|scheduler| *scheduler.stats());
        self.common.stats().scheduler = stats;
        self.send(|inbox| inbox.scheduler = Some(scheduler));
    }

    fn adopt(&self, controller: CongestionController) {
        self.send(|inbox| inbox.controllers.push(controller));
    }

    fn send(&self, put: impl FnOnce(&mut Inbox)) {
        put(&mut self.common.inbox());
        self.common.has_mail.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Wakes the thread if it sleeps and there are events.
    fn wake_if_asleep(&self) {
        let has_events = || self.events.as_ref().is_some_and(|events| !events.ready().is_empty());
        if self.common.asleep.load(Ordering::SeqCst) && (!self.ready.is_empty() || has_events()) {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl ControlThread {
    fn stop(&self) {
        self.common.stop.store(true, Ordering::SeqCst);
        self.wake();
    }
}

impl Drop for ControlThread {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Common {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stats(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut work: Work) {
        let mut busy = Instant::now();
        let mut handled = 0;
        while !self.stop.load(Ordering::Acquire) {
            if self.has_mail.swap(false, Ordering::SeqCst) {
                work.take(std::mem::take(&mut *self.inbox()));
            }
            let more = work.run();
            self.note(&work);
            if more {
                continue;
            }
            let now = Instant::now();
            if std::mem::replace(&mut handled, work.handled()) != handled {
                busy = now;
            }
            if now.duration_since(busy) < TIRED {
                std::thread::park_timeout(REST);
                continue;
            }
            self.asleep.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            let has_mail = self.has_mail.load(Ordering::SeqCst);
            if work.is_idle() && !has_mail && !self.stop.load(Ordering::SeqCst) {
                std::thread::park();
            }
            self.asleep.store(false, Ordering::SeqCst);
            busy = Instant::now();
        }
    }

    /// Publishes the statistics, except those of a scheduler that has been replaced meanwhile.
    fn note(&self, work: &Work) {
        let mut stats = self.stats();
        stats.congestion = *work.controllers.stats();
        if !self.has_mail.load(Ordering::SeqCst) {
            stats.scheduler = work.scheduler.as_ref().map(|scheduler| *scheduler.stats());
        }
    }
}

/// The congestion controls and the scheduler that the thread runs.
struct Work {
    controllers: CongestionProcessor,
    scheduler: Option<Processor>,
    probe: Option<Arc<Probe>>,
}

impl Work {
    fn take(&mut self, inbox: Inbox) {
        if let Some(scheduler) = inbox.scheduler {
            self.scheduler = scheduler;
        }
        inbox.controllers.into_iter().for_each(|controller| self.controllers.adopt(controller));
    }

    /// Processes a batch of events. Returns true if there may be more.
    fn run(&mut self) -> bool {
        let more = match &self.probe {
            None => self.controllers.run(BATCH),
            Some(probe) => (0..BATCH).all(|_| run_measured(&mut self.controllers, probe)),
        };
        let scheduler = self.scheduler.as_mut();
        scheduler.is_some_and(|scheduler| scheduler.run(clock::now(), BATCH)) || more
    }

    fn is_idle(&self) -> bool {
        let scheduler = self.scheduler.as_ref();
        self.controllers.ready().is_empty()
            && scheduler.is_none_or(|scheduler| scheduler.queue().ready().is_empty())
    }

    fn handled(&self) -> u64 {
        let scheduler = self.scheduler.as_ref().map_or(0, |controller| controller.stats().handled);
        self.controllers.stats().handled.wrapping_add(scheduler)
    }
}

/// Processes one event, and reports to `probe` if it was about acknowledgements. Returns false if
/// there is none.
fn run_measured(controllers: &mut CongestionProcessor, probe: &Probe) -> bool {
    let before = *controllers.stats();
    let Some(channel) = controllers.run_one() else { return false };
    let after = controllers.stats();
    // Only events of acknowledgements change this counter.
    if after.transmits != before.transmits {
        probe.decided(channel as usize, after.collected - before.collected);
    }
    true
}
