//! A scheduler on a thread of its own: it reads events and writes rates, and the data path never
//! waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use fairway_engine::control::{EventQueue, Processor, ProcessorStats};

use crate::clock;
use crate::error::Error;

/// Events between two looks at whether to stop.
const BATCH: u32 = 64;
/// How long it rests when there was nothing …
const REST: Duration = Duration::from_micros(50);
/// … until there has been nothing for so long: then it sleeps until somebody wakes it.
const TIRED: Duration = Duration::from_millis(20);

/// What the thread and its owner share.
#[derive(Debug)]
struct Common {
    stop: AtomicBool,
    asleep: AtomicBool,
    stats: Mutex<ProcessorStats>,
    queue: Arc<EventQueue>,
}

/// The thread. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct ControlThread {
    common: Arc<Common>,
    thread: Option<JoinHandle<()>>,
}

impl ControlThread {
    pub(crate) fn start(processor: Processor) -> Result<ControlThread, Error> {
        let common = Arc::new(Common {
            stop: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            stats: Mutex::default(),
            queue: processor.queue().clone(),
        });
        let own = common.clone();
        let thread = Builder::new()
            .name("fairway-control".into())
            .spawn(move || own.run(processor))
            .map_err(|error| Error::io("start the thread of the scheduler", error))?;
        Ok(ControlThread { common, thread: Some(thread) })
    }

    pub(crate) fn stats(&self) -> ProcessorStats {
        *self.common.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes it, if there is something to do. Costs a load or two while it is awake.
    pub(crate) fn nudge(&self) {
        if self.common.asleep.load(Ordering::SeqCst)
            && !self.common.queue.is_empty()
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
    }
}

impl Drop for ControlThread {
    fn drop(&mut self) {
        self.common.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Common {
    fn run(&self, mut processor: Processor) {
        let mut busy = Instant::now();
        let mut handled = 0;
        while !self.stop.load(Ordering::Acquire) {
            let more = processor.run(clock::now(), BATCH);
            *self.stats.lock().unwrap_or_else(PoisonError::into_inner) = *processor.stats();
            if more {
                continue;
            }
            let now = Instant::now();
            if std::mem::replace(&mut handled, processor.stats().handled) != handled {
                busy = now;
            }
            if now.duration_since(busy) < TIRED {
                std::thread::park_timeout(REST);
                continue;
            }
            self.asleep.store(true, Ordering::SeqCst);
            if self.queue.is_empty() && !self.stop.load(Ordering::SeqCst) {
                std::thread::park();
            }
            self.asleep.store(false, Ordering::SeqCst);
            busy = Instant::now();
        }
    }
}
