//! Is the host short of something? Then peers, or this NIC's own flows, are to slow down.
//!
//! Linux counts for how long tasks had to wait for CPU time and memory (pressure stall
//! information, `/proc/pressure`); it tells how full the queues of a socket are (`SO_MEMINFO`), and
//! some drivers count for how long a NIC had to wait for its bus. A thread looks at that now and
//! then and takes the share of the last period. If that is too much of CPU time, memory, bus or
//! receive queue, the NIC says so in its acknowledgements, which congestion controls of the peers
//! heed; if it is the transmit queue, those of this NIC are told. Without counts of time lost the
//! share of time in which no CPU was idle tells (`/proc/stat`), which says less: a busy host need
//! not be a slow one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use fairway_port::QueueWatch;
use fairway_runtime::SystemError;

mod gauges;
mod signals;
mod system;

use gauges::{Gauges, SAMPLES};
use signals::PERIOD_MIN;
pub use signals::{HostPressure, HostPressureError, HostReading, HostResource, HostSignals};

/// A thread that looks, and tells at the end of each period. Dropping it ends it.
#[derive(Debug)]
pub struct PressureWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PressureWatch {
    /// `queues` are those of the NIC's own sockets.
    ///
    /// # Errors
    /// What counts cannot be read, or there is no thread.
    pub fn start(
        proc: &Path,
        queues: Vec<QueueWatch>,
        options: &HostPressure,
        tell: impl Fn(HostSignals) + Send + 'static,
    ) -> Result<PressureWatch, SystemError> {
        let mut gauges = Gauges::new(proc, queues, options)
            .map_err(|error| SystemError::new("watch what the host is short of", error))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, period) = (stop.clone(), options.period.max(PERIOD_MIN));
        let step = if gauges.watches_queues() { period / SAMPLES } else { period };
        let life = move || {
            while !stopped.load(Ordering::Acquire) {
                std::thread::park_timeout(step.max(PERIOD_MIN));
                gauges.sample();
                let elapsed = gauges.looked_at.elapsed();
                if elapsed < period {
                    continue;
                }
                gauges.looked_at += elapsed;
                tell(gauges.assess(elapsed));
            }
        };
        let thread = Builder::new()
            .name("fairway-pressure".into())
            .spawn(life)
            .map_err(|error| SystemError::new("start the thread that watches the host", error))?;
        Ok(PressureWatch { stop, thread: Some(thread) })
    }
}

impl Drop for PressureWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        // The last handle may go while this thread tells something.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
