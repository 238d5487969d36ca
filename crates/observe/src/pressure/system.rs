//! Readings of the system: CPU time, memory and buses.

use std::fs;
use std::io;
use std::path::Path;

/// A resource of which the system counts lost time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    Cpu,
    Memory,
}

/// Microseconds lost since the host started; `proc` is `/proc`.
pub(super) fn lost_us(proc: &Path, what: Lost) -> io::Result<u64> {
    let name = match what {
        Lost::Cpu => "cpu",
        Lost::Memory => "memory",
    };
    let file = proc.join("pressure").join(name);
    let stalled = fs::read_to_string(&file).and_then(|text| {
        stalled_us(&text).ok_or_else(|| unreadable(&file, "has no line \"some … total=\""))
    });
    match (stalled, what) {
        (Err(_), Lost::Cpu) => {
            let file = proc.join("stat");
            let text = fs::read_to_string(&file)?;
            busy_us(&text).ok_or_else(|| unreadable(&file, "has no line of all CPUs"))
        }
        (stalled, Lost::Memory) => stalled.map_err(|error| {
            let what = format!("cannot be read ({error}): leave memory out, or boot with psi=1");
            io::Error::new(error.kind(), format!("{} {what}", file.display()))
        }),
        (stalled, Lost::Cpu) => stalled,
    }
}

fn unreadable(file: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} {what}", file.display()))
}

/// Returns the total of the line `some avg10=… total=…`.
pub(super) fn stalled_us(text: &str) -> Option<u64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.split_whitespace().find_map(|field| field.strip_prefix("total=")?.parse().ok())
}

/// Returns the time that the CPUs were busy, averaged over them. The line `cpu` contains user,
/// nice, system, idle, waiting for I/O, and more, in hundredths of a second of all CPUs together.
pub(super) fn busy_us(text: &str) -> Option<u64> {
    const TICK_US: u64 = 10_000;
    let all = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = all.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let idle = ticks.get(3)? + ticks.get(4)?;
    // Time of guests, after the first eight fields, is included in user time.
    let busy = ticks.iter().take(8).sum::<u64>() - idle;
    let is_cpu = |line: &&str| {
        let number = line.strip_prefix("cpu").and_then(|rest| rest.bytes().next());
        number.is_some_and(|digit| digit.is_ascii_digit())
    };
    let cpus = text.lines().filter(is_cpu).count().max(1);
    Some(busy * TICK_US / cpus as u64)
}

/// Counters of drivers for the time, in percent of the last second, in which a NIC had to read from
/// or write to memory and had no PCIe credit for it: those of `mlx5` (Linux,
/// Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst).
const STALLS: [&str; 2] = ["outbound_pci_stalled_rd", "outbound_pci_stalled_wr"];

/// A driver's counters, by interface.
pub(super) type Counters = Vec<(String, Vec<(String, u64)>)>;

/// Interfaces whose NICs report stalls.
#[derive(Debug)]
pub(super) struct Buses {
    interfaces: Vec<String>,
}

impl Buses {
    /// Finds the interfaces of this host.
    pub(super) fn find() -> io::Result<Buses> {
        let counters = |name: String| {
            let counters = fairway_port::statistics(&name).ok()?;
            Some((name, counters))
        };
        Buses::among(&fairway_port::interfaces()?.into_iter().filter_map(counters).collect())
    }

    /// Selects the interfaces that report stalls.
    pub(super) fn among(all: &Counters) -> io::Result<Buses> {
        let telling = all.iter().filter(|(_, counters)| stalled_percent(counters).is_some());
        let interfaces: Vec<String> = telling.map(|(name, _)| name.clone()).collect();
        if interfaces.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("no NIC of this host counts {} (mlx5 does): leave pcie out", STALLS[0]),
            ));
        }
        Ok(Buses { interfaces })
    }

    /// Returns the percentage of the NIC that waited most. A NIC that is gone counts as 0.
    pub(super) fn percent(&self) -> u8 {
        let counters = |name: &String| stalled_percent(&fairway_port::statistics(name).ok()?);
        self.interfaces.iter().filter_map(counters).max().unwrap_or(0)
    }
}

/// Returns the larger of the percentages for reading and for writing, if there are any.
pub(super) fn stalled_percent(counters: &[(String, u64)]) -> Option<u8> {
    let stalls = counters.iter().filter(|(name, _)| STALLS.contains(&name.as_str()));
    stalls.map(|(_, percent)| (*percent).min(100) as u8).max()
}
