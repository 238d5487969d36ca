//! Detects whether the host is short of a resource, so that peers, or this NIC's own flows, must
//! slow down.
//!
//! Linux counts for how long tasks had to wait for CPU time and memory (pressure stall information,
//! `/proc/pressure`) and shows how full the queues of a socket are (`SO_MEMINFO`); some drivers
//! count for how long a NIC had to wait for its bus. A thread reads these regularly and computes
//! the share of the last period. If the share is too large for CPU time, memory, bus or receive
//! queue, the NIC sets a bit in its acknowledgements, to which congestion controls of the peers
//! react; if it is too large for the transmit queue, it is reported to those of this NIC. Without
//! pressure stall information the share of time in which no CPU was idle is used (`/proc/stat`),
//! which is less significant: a busy host need not be a slow one.

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

/// A thread that measures, and reports at the end of each period. Dropping this stops it.
#[derive(Debug)]
pub struct PressureWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PressureWatch {
    /// Starts the thread. `queues` are those of the NIC's own sockets.
    ///
    /// # Errors
    /// What counts cannot be read, or there is no thread.
    pub fn start(
        proc: &Path,
        queues: Vec<QueueWatch>,
        options: &HostPressure,
        notify: impl Fn(HostSignals) + Send + 'static,
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
                notify(gauges.assess(elapsed));
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
        // A report of this thread may drop the last handle.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
