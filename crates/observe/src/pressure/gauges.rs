//! Gauges: the resources that are watched, and their measurements.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fairway_port::{QueueUse, QueueWatch};

use super::signals::{HostPressure, HostReading, HostResource, HostSignals};
use super::system::{Buses, Lost, lost_us};

/// Number of samples of the queues within a period.
pub(super) const SAMPLES: u32 = 10;
/// Interval at which buses are read. Drivers update the stall times once in this time, and reading
/// them is slow.
const BUSES_EVERY: Duration = Duration::from_secs(1);

/// The source of a gauge.
#[derive(Debug)]
enum Meter {
    /// A counter of microseconds that grows with the time lost.
    Time {
        what: Lost,
        last_us: u64,
    },
    /// Stall percentages of the NICs' buses, and when they were last read.
    Buses {
        buses: Buses,
        percent: u8,
        read_at: Instant,
    },
    /// Mean fill of the fullest queue.
    Receive(Mean),
    Transmit(Mean),
}

/// A running mean of samples.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: u64,
    samples: u64,
}

impl Mean {
    fn add(&mut self, percent: u8) {
        self.sum += u64::from(percent);
        self.samples += 1;
    }

    fn take(&mut self) -> u64 {
        let mean = self.sum.checked_div(self.samples).unwrap_or(0);
        *self = Mean::default();
        mean
    }
}

#[derive(Debug)]
struct Gauge {
    resource: HostResource,
    threshold: u8,
    is_short: bool,
    meter: Meter,
}

/// All gauges, with the places that they read.
#[derive(Debug)]
pub(super) struct Gauges {
    proc: PathBuf,
    queues: Vec<QueueWatch>,
    /// Number of packets that all sockets have dropped; `overflowed` is true if it grew in this
    /// period.
    dropped: u32,
    overflowed: bool,
    gauges: Vec<Gauge>,
    pub(super) looked_at: Instant,
}

impl Gauges {
    /// # Errors
    /// Something that counts cannot be looked at.
    pub(super) fn new(
        proc: &Path,
        queues: Vec<QueueWatch>,
        options: &HostPressure,
    ) -> io::Result<Gauges> {
        let mut all = Gauges {
            proc: proc.to_path_buf(),
            queues,
            dropped: 0,
            overflowed: false,
            gauges: Vec::new(),
            looked_at: Instant::now(),
        };
        for resource in HostResource::ALL {
            if let Some(threshold) = options.threshold(resource) {
                let (threshold, meter) = (threshold.clamp(1, 100), all.meter(resource)?);
                all.gauges.push(Gauge { resource, threshold, is_short: false, meter });
            }
        }
        if all.watches_queues() {
            all.dropped = all.fullest()?.dropped;
        }
        Ok(all)
    }

    fn meter(&self, resource: HostResource) -> io::Result<Meter> {
        let time = |what| Ok(Meter::Time { what, last_us: lost_us(&self.proc, what)? });
        match resource {
            HostResource::Cpu => time(Lost::Cpu),
            HostResource::Memory => time(Lost::Memory),
            HostResource::Pcie => {
                let buses = Buses::find()?;
                let percent = buses.percent();
                Ok(Meter::Buses { buses, percent, read_at: Instant::now() })
            }
            HostResource::ReceiveQueue => Ok(Meter::Receive(Mean::default())),
            HostResource::TransmitQueue => Ok(Meter::Transmit(Mean::default())),
        }
    }

    /// True if queues must be sampled within a period.
    pub(super) fn watches_queues(&self) -> bool {
        let is_queue = |gauge: &Gauge| {
            matches!(gauge.resource, HostResource::ReceiveQueue | HostResource::TransmitQueue)
        };
        self.gauges.iter().any(is_queue)
    }

    /// Returns the fill of the fullest receive and transmit queues, and the drops of all sockets.
    fn fullest(&self) -> io::Result<QueueUse> {
        let mut fullest = QueueUse::default();
        for queue in self.queues.iter().flat_map(QueueWatch::read) {
            let queue = queue?;
            if queue.receive_percent() >= fullest.receive_percent() {
                fullest.receive_bytes = queue.receive_bytes;
                fullest.receive_limit = queue.receive_limit;
            }
            if queue.transmit_percent() >= fullest.transmit_percent() {
                fullest.transmit_bytes = queue.transmit_bytes;
                fullest.transmit_limit = queue.transmit_limit;
            }
            fullest.dropped = fullest.dropped.wrapping_add(queue.dropped);
        }
        Ok(fullest)
    }

    /// Samples the queues. They could be read when this was created, so a failure is ignored.
    pub(super) fn sample(&mut self) {
        let Ok(queue) = self.fullest() else { return };
        self.overflowed |= queue.dropped != self.dropped;
        self.dropped = queue.dropped;
        for gauge in &mut self.gauges {
            match &mut gauge.meter {
                Meter::Receive(mean) => mean.add(queue.receive_percent()),
                Meter::Transmit(mean) => mean.add(queue.transmit_percent()),
                Meter::Time { .. } | Meter::Buses { .. } => {}
            }
        }
    }

    /// Assesses a period that took `elapsed`. A resource that cannot be read counts as sufficient.
    pub(super) fn assess(&mut self, elapsed: Duration) -> HostSignals {
        let overflowed = std::mem::take(&mut self.overflowed);
        let mut signals = HostSignals::default();
        for gauge in &mut self.gauges {
            let percent = gauge.meter.percent(&self.proc, elapsed, overflowed);
            // A shortage that began at the threshold ends below half of it, so that the result does
            // not flicker.
            let threshold = u64::from(gauge.threshold);
            let scaled = if gauge.is_short { 2 * percent } else { percent };
            gauge.is_short = scaled >= threshold;
            let reading = HostReading {
                percent: percent.min(100) as u8,
                threshold_percent: gauge.threshold,
                is_short: gauge.is_short,
            };
            signals.set(gauge.resource, reading);
        }
        signals
    }
}

impl Meter {
    fn percent(&mut self, proc: &Path, elapsed: Duration, overflowed: bool) -> u64 {
        match self {
            Meter::Time { what, last_us } => {
                let now_us = lost_us(proc, *what).unwrap_or(*last_us);
                let lost_us = now_us.saturating_sub(std::mem::replace(last_us, now_us));
                let percent = u128::from(lost_us) * 100 / elapsed.as_micros().max(1);
                percent.min(100) as u64
            }
            Meter::Buses { buses, percent, read_at } => {
                if read_at.elapsed() >= BUSES_EVERY {
                    (*percent, *read_at) = (buses.percent(), Instant::now());
                }
                u64::from(*percent)
            }
            Meter::Receive(mean) => {
                let mean = mean.take();
                if overflowed { 100 } else { mean }
            }
            Meter::Transmit(mean) => mean.take(),
        }
    }
}
