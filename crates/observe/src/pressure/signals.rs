//! The resources that a host can be short of, their thresholds, and their readings.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A resource that a host can be short of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostResource {
    /// CPU time: the share of time in which some task waited for a CPU. If the system does not
    /// count that, the share of time in which no CPU was idle.
    Cpu,
    /// Memory: the share of time in which some task waited for it.
    Memory,
    /// The bus of a NIC: the share of the last second in which one of the host's NICs could not
    /// read or write memory for lack of PCIe credit. Few drivers report it (`mlx5` does).
    Pcie,
    /// The receive queues of the NIC's own sockets: how full the fullest was on average; 100 if one
    /// dropped something.
    ReceiveQueue,
    /// The transmit queues of the NIC's own sockets: how full the fullest was on average.
    TransmitQueue,
}

impl HostResource {
    /// All resources.
    pub const ALL: [HostResource; 5] = [
        HostResource::Cpu,
        HostResource::Memory,
        HostResource::Pcie,
        HostResource::ReceiveQueue,
        HostResource::TransmitQueue,
    ];

    /// The resource's name.
    pub const fn name(self) -> &'static str {
        match self {
            HostResource::Cpu => "cpu",
            HostResource::Memory => "memory",
            HostResource::Pcie => "pcie",
            HostResource::ReceiveQueue => "receive-queue",
            HostResource::TransmitQueue => "transmit-queue",
        }
    }

    /// The default threshold, in percent.
    const fn usual(self) -> u8 {
        match self {
            HostResource::Cpu | HostResource::ReceiveQueue => 50,
            HostResource::Memory | HostResource::Pcie => 10,
            HostResource::TransmitQueue => 75,
        }
    }
}

impl fmt::Display for HostResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Thresholds in percent, 1 to 100, from which a host counts as short of a resource; `None`: the
/// resource is not measured. A shortage ends below half of the threshold.
///
/// Parsed from text and printed as text: `cpu=50,memory=10,receive-queue=50,every=100ms`. Resources
/// that the text does not name are not measured; a name alone stands for the default threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPressure {
    /// Time in which some task waited for a CPU (default: 50).
    pub cpu_percent: Option<u8>,
    /// Time in which some task waited for memory (default: 10).
    pub memory_percent: Option<u8>,
    /// Time in which a NIC waited for the bus (default: not measured, because few NICs report it;
    /// 10 if only named).
    pub pcie_percent: Option<u8>,
    /// Fill of the receive queues of the NIC's sockets (default: 50).
    pub receive_queue_percent: Option<u8>,
    /// Fill of the transmit queues of the NIC's sockets (default: 75).
    pub transmit_queue_percent: Option<u8>,
    /// The period over which a share is computed. At least a millisecond (default: 100 ms).
    pub period: Duration,
}

impl Default for HostPressure {
    fn default() -> Self {
        let mut all = HostPressure::NOTHING;
        for resource in HostResource::ALL {
            // If no NIC reports its bus, a request to measure it would be an error.
            if resource != HostResource::Pcie {
                *all.slot(resource) = Some(resource.usual());
            }
        }
        all
    }
}

impl HostPressure {
    /// No resource is measured; a starting point for selected thresholds.
    pub const NOTHING: HostPressure = HostPressure {
        cpu_percent: None,
        memory_percent: None,
        pcie_percent: None,
        receive_queue_percent: None,
        transmit_queue_percent: None,
        period: Duration::from_millis(100),
    };

    /// The threshold of a resource, in percent.
    pub fn threshold(&self, resource: HostResource) -> Option<u8> {
        let mut copy = *self;
        *copy.slot(resource)
    }

    fn slot(&mut self, resource: HostResource) -> &mut Option<u8> {
        match resource {
            HostResource::Cpu => &mut self.cpu_percent,
            HostResource::Memory => &mut self.memory_percent,
            HostResource::Pcie => &mut self.pcie_percent,
            HostResource::ReceiveQueue => &mut self.receive_queue_percent,
            HostResource::TransmitQueue => &mut self.transmit_queue_percent,
        }
    }
}

impl fmt::Display for HostPressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for resource in HostResource::ALL {
            if let Some(percent) = self.threshold(resource) {
                write!(f, "{resource}={percent},")?;
            }
        }
        match self.period.as_micros() {
            us if us % 1000 == 0 => write!(f, "every={}ms", us / 1000),
            us => write!(f, "every={us}us"),
        }
    }
}

/// The shortest period, so that measuring does not itself use up the CPU time.
pub(super) const PERIOD_MIN: Duration = Duration::from_millis(1);
const PERIOD_MAX: Duration = Duration::from_secs(60);

/// Error for a text that is not a [`HostPressure`]: what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPressureError(String);

impl fmt::Display for HostPressureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for HostPressureError {}

impl FromStr for HostPressure {
    type Err = HostPressureError;

    fn from_str(text: &str) -> Result<Self, HostPressureError> {
        let wrong = |what: String| Err(HostPressureError(what));
        let mut all = HostPressure::NOTHING;
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (name, value) = match item.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (item, None),
            };
            if name == "every" {
                let Some(period) = value.and_then(period) else {
                    return wrong(format!("'{item}': write a time of 1ms to 60s, as every=100ms"));
                };
                all.period = period;
                continue;
            }
            let named = HostResource::ALL.into_iter().find(|resource| resource.name() == name);
            let Some(resource) = named else {
                let known = HostResource::ALL.map(HostResource::name).join(", ");
                return wrong(format!(
                    "no signal is called '{name}': there are {known}, and every"
                ));
            };
            let slot = all.slot(resource);
            if slot.is_some() {
                return wrong(format!("{name} is given twice"));
            }
            *slot = match value {
                None => Some(resource.usual()),
                Some(value) => match percent(value) {
                    Some(percent) => Some(percent),
                    None => {
                        let usual = resource.usual();
                        return wrong(format!("'{item}': write 1 to 100, as {name}={usual}"));
                    }
                },
            };
        }
        if HostResource::ALL.iter().all(|resource| all.threshold(*resource).is_none()) {
            return wrong(format!("'{text}' names nothing to watch: write it as cpu=50,memory=10"));
        }
        Ok(all)
    }
}

/// Parses `50` or `50%`.
fn percent(text: &str) -> Option<u8> {
    let percent = text.strip_suffix('%').unwrap_or(text).parse().ok()?;
    (1..=100).contains(&percent).then_some(percent)
}

/// Parses `100ms`, `2s` or `1500us`.
fn period(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u32 = text[..digits].parse().ok()?;
    let unit = match &text[digits..] {
        "us" => Duration::from_micros(1),
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        _ => return None,
    };
    let period = unit.checked_mul(number)?;
    (PERIOD_MIN..=PERIOD_MAX).contains(&period).then_some(period)
}

/// The measurement of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostReading {
    /// Value of the last period, 0 to 100 percent.
    pub percent: u8,
    /// The threshold of a shortage, in percent.
    pub threshold_percent: u8,
    /// True if the value has reached the threshold, and has not been below half of it since.
    pub is_short: bool,
}

/// The host's readings of the last period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSignals {
    readings: [Option<HostReading>; HostResource::ALL.len()],
}

impl HostSignals {
    /// The reading of a resource; `None` if it is not measured.
    pub fn get(&self, resource: HostResource) -> Option<HostReading> {
        self.readings[resource as usize]
    }

    pub(super) fn set(&mut self, resource: HostResource, reading: HostReading) {
        self.readings[resource as usize] = Some(reading);
    }

    /// The resources that are measured, with their readings.
    pub fn all(&self) -> impl Iterator<Item = (HostResource, HostReading)> {
        let readings = self.readings;
        HostResource::ALL.into_iter().filter_map(move |resource| {
            readings[resource as usize].map(|reading| (resource, reading))
        })
    }

    /// True if peers have to slow down: the host is short of any resource except the transmit
    /// queue.
    pub fn concerns_peers(&self) -> bool {
        self.all()
            .any(|(resource, reading)| reading.is_short && resource != HostResource::TransmitQueue)
    }

    /// True if this side's sending has to slow down: a transmit queue is full.
    pub fn concerns_transmit(&self) -> bool {
        self.get(HostResource::TransmitQueue).is_some_and(|reading| reading.is_short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_the_signals_that_count() {
        let read = |text: &str| text.parse::<HostPressure>().unwrap();
        assert_eq!(read("cpu,memory,receive-queue,transmit-queue"), HostPressure::default());
        assert_eq!(read(&HostPressure::default().to_string()), HostPressure::default());
        let some = read("pcie, memory=7%,every=2s");
        let expected = HostPressure {
            memory_percent: Some(7),
            pcie_percent: Some(10),
            period: Duration::from_secs(2),
            ..HostPressure::NOTHING
        };
        assert_eq!(some, expected);
        assert_eq!(some.to_string(), "memory=7,pcie=10,every=2000ms");
        assert_eq!(read("cpu,every=1500us").to_string(), "cpu=50,every=1500us");
    }

    #[test]
    fn texts_that_make_no_sense_are_refused_with_a_remedy() {
        for (text, remedy) in [
            ("", "cpu=50,memory=10"),
            ("every=1s", "cpu=50,memory=10"),
            ("io", "there are cpu, memory, pcie, receive-queue, transmit-queue"),
            ("cpu=0", "1 to 100, as cpu=50"),
            ("cpu=101", "1 to 100, as cpu=50"),
            ("memory=300", "1 to 100, as memory=10"),
            ("pcie=x", "1 to 100, as pcie=10"),
            ("cpu,cpu=7", "cpu is given twice"),
            ("cpu,every=0ms", "every=100ms"),
            ("cpu,every=1us", "every=100ms"),
            ("cpu,every=61s", "every=100ms"),
            ("cpu,every=4294967295s", "every=100ms"),
            ("cpu,every", "every=100ms"),
            ("cpu,every=5", "every=100ms"),
        ] {
            let error = text.parse::<HostPressure>().unwrap_err().to_string();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }

    #[test]
    fn the_transmit_queue_is_no_affair_of_peers() {
        let reading = HostReading { percent: 90, threshold_percent: 75, is_short: true };
        let mut signals = HostSignals::default();
        signals.set(HostResource::TransmitQueue, reading);
        assert!(signals.concerns_transmit() && !signals.concerns_peers());
        signals.set(HostResource::Pcie, HostReading { is_short: false, ..reading });
        assert!(!signals.concerns_peers());
        signals.set(HostResource::ReceiveQueue, reading);
        assert!(signals.concerns_peers());
        assert_eq!(signals.all().count(), 3);
    }
}
