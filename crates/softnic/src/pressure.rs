//! Is the host short of CPU time or memory? Then peers are to slow down.
//!
//! Linux counts for how long tasks had to wait (pressure stall information, `/proc/pressure`). A
//! thread looks at that now and then, takes the share of the last period, and has the NIC say so in
//! its acknowledgements; congestion controls of the peers heed that. Without such counts the share
//! of time in which no CPU was idle tells (`/proc/stat`), which says less: a busy host need not be
//! a slow one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::Error;

/// From what on a host counts as short of something. Shares are in percent of the time; the
/// pressure is over when all are below half of what is said here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPressure {
    /// Time in which some task waited for a CPU; `None`: that does not count.
    pub cpu_percent: Option<u8>,
    /// Time in which some task waited for memory; `None`: that does not count.
    pub memory_percent: Option<u8>,
    /// How often it is looked at; the time that a share is of. At least a millisecond.
    pub period: Duration,
}

impl Default for HostPressure {
    fn default() -> Self {
        HostPressure {
            cpu_percent: Some(50),
            memory_percent: Some(10),
            period: Duration::from_millis(100),
        }
    }
}

/// What the host waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resource {
    Cpu,
    Memory,
}

/// One thing to watch: a count of microseconds that grows with the time that is lost.
#[derive(Debug)]
struct Gauge {
    resource: Resource,
    threshold: u8,
    last_us: u64,
}

/// All of them.
#[derive(Debug)]
struct Gauges {
    proc: PathBuf,
    gauges: Vec<Gauge>,
    looked_at: Instant,
    under_pressure: bool,
}

impl Gauges {
    fn new(proc: &Path, options: &HostPressure) -> io::Result<Gauges> {
        let wanted =
            [(Resource::Cpu, options.cpu_percent), (Resource::Memory, options.memory_percent)];
        let mut gauges = Vec::new();
        for (resource, threshold) in wanted {
            if let Some(threshold) = threshold {
                let last_us = lost_us(proc, resource)?;
                gauges.push(Gauge { resource, threshold: threshold.clamp(1, 100), last_us });
            }
        }
        let proc = proc.to_path_buf();
        Ok(Gauges { proc, gauges, looked_at: Instant::now(), under_pressure: false })
    }

    /// Looks again after `elapsed`; the new state if it is another one. What cannot be read now
    /// counts as no pressure.
    fn look(&mut self, elapsed: Duration) -> Option<bool> {
        let (proc, before) = (&self.proc, self.under_pressure);
        let mut now = false;
        for gauge in &mut self.gauges {
            let lost_us = lost_us(proc, gauge.resource).unwrap_or(gauge.last_us);
            let lost_us = lost_us.saturating_sub(std::mem::replace(&mut gauge.last_us, lost_us));
            let percent = u128::from(lost_us) * 100 / elapsed.as_micros().max(1);
            let least = u128::from(gauge.threshold);
            // Half of it ends what all of it began: a host on the verge does not flicker.
            now |= if before { 2 * percent >= least } else { percent >= least };
        }
        self.under_pressure = now;
        (now != before).then_some(now)
    }
}

/// Microseconds lost since the host started.
fn lost_us(proc: &Path, resource: Resource) -> io::Result<u64> {
    let name = match resource {
        Resource::Cpu => "cpu",
        Resource::Memory => "memory",
    };
    let file = proc.join("pressure").join(name);
    let stalled = fs::read_to_string(&file).and_then(|text| {
        stalled_us(&text).ok_or_else(|| unreadable(&file, "has no line \"some … total=\""))
    });
    match (stalled, resource) {
        (Err(_), Resource::Cpu) => {
            let file = proc.join("stat");
            let text = fs::read_to_string(&file)?;
            busy_us(&text).ok_or_else(|| unreadable(&file, "has no line of all CPUs"))
        }
        (stalled, _) => stalled,
    }
}

fn unreadable(file: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} {what}", file.display()))
}

/// The total of the line `some avg10=… total=…`.
fn stalled_us(text: &str) -> Option<u64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.split_whitespace().find_map(|field| field.strip_prefix("total=")?.parse().ok())
}

/// The time that the CPUs were busy, each counting for its part. The line `cpu` has user, nice,
/// system, idle, waiting for I/O, and more, in hundredths of a second of all CPUs together.
fn busy_us(text: &str) -> Option<u64> {
    const TICK_US: u64 = 10_000;
    let all = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = all.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let idle = ticks.get(3)? + ticks.get(4)?;
    // Guests' time, after the first eight, is in user time already.
    let busy = ticks.iter().take(8).sum::<u64>() - idle;
    let is_cpu = |line: &&str| {
        let number = line.strip_prefix("cpu").and_then(|rest| rest.bytes().next());
        number.is_some_and(|digit| digit.is_ascii_digit())
    };
    let cpus = text.lines().filter(is_cpu).count().max(1);
    Some(busy * TICK_US / cpus as u64)
}

/// A thread that looks, and tells of changes. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct PressureWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PressureWatch {
    /// # Errors
    /// The counts cannot be read, or there is no thread.
    pub(crate) fn start(
        proc: &Path,
        options: &HostPressure,
        tell: impl Fn(bool) + Send + 'static,
    ) -> Result<PressureWatch, Error> {
        let mut gauges = Gauges::new(proc, options)
            .map_err(|error| Error::io("read what the host waits for", error))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, period) = (stop.clone(), options.period.max(Duration::from_millis(1)));
        let life = move || {
            while !stopped.load(Ordering::Acquire) {
                std::thread::park_timeout(period);
                let elapsed = gauges.looked_at.elapsed();
                if elapsed < period {
                    continue;
                }
                gauges.looked_at += elapsed;
                if let Some(pressure) = gauges.look(elapsed) {
                    tell(pressure);
                }
            }
        };
        let thread = Builder::new()
            .name("fairway-pressure".into())
            .spawn(life)
            .map_err(|error| Error::io("start the thread that watches the host", error))?;
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
