//! Takes one sample of a measurement: Fairway's own programs and raw sockets. [`super::programs`]
//! has the programs of others.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::interface::Interfaces;
use super::pair::{End, Pair, Ready, Runner};
use super::subject::{Carrier, Native, Subject};
use super::tools::Tools;
use crate::bench::place::Place;
use crate::peers::{Side, Sides, gbps, millis, numbers, side_command};
use crate::programs::{check_signals, command, ended_cpu_seconds};

/// Payload of a packet of the raw peer, and packets in one call, as in the part `transport`.
const PACKET_BYTES: u64 = 4096;
const PACKETS: u64 = 15;
/// Bytes that a TCP stream writes at once.
const TCP_BYTES: u64 = 256 << 10;
/// Bytes of a short message.
const SMALL_BYTES: u64 = 64;
/// Bytes of a piece of copied memory.
const COPY_BYTES: u64 = 1 << 20;
const GIGA: f64 = 1e9;
const MILLION: f64 = 1e6;

/// Result of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// In the unit of the measurement.
    pub value: f64,
    /// CPU seconds of all its processes, for each GB or each million operations; `None` if the
    /// amount of work is unknown.
    pub cpu: Option<f64>,
    /// Average latency in microseconds, where the program reports it beside the typical one.
    pub average_us: Option<f64>,
    /// 99.9th percentile of the latency in microseconds.
    pub tail_us: Option<f64>,
}

/// What a program reported.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    pub value: f64,
    /// Work of the measured time: GB, or millions of operations.
    pub work: Option<f64>,
    pub average_us: Option<f64>,
    pub tail_us: Option<f64>,
}

impl Figures {
    /// A value, and the work in single bytes or operations.
    pub fn of(value: f64, work: f64, parts: f64) -> Figures {
        Figures { value, work: Some(work / parts), ..Figures::default() }
    }

    /// A rate in Gb/s and the number of bytes.
    pub fn bulk(value: f64, bytes: f64) -> Figures {
        Figures::of(value, bytes, GIGA)
    }

    /// Microseconds or millions per second, and the number of operations.
    pub fn small(value: f64, operations: f64) -> Figures {
        Figures::of(value, operations, MILLION)
    }
}

/// Everything that the measurements of a place share.
pub struct Bench<'a> {
    pub runner: &'a Runner,
    /// Path of the fairway tool.
    pub tool: PathBuf,
    pub tools: &'a Tools,
    pub interfaces: Interfaces,
    pub place: &'a Place,
    pub duration: Duration,
}

impl Bench<'_> {
    /// Runs a measurement once, and counts the CPU time of its processes.
    ///
    /// # Errors
    /// A program failed, or printed no result.
    pub fn sample(&self, subject: Subject) -> io::Result<Sample> {
        check_signals()?;
        let before = ended_cpu_seconds();
        let figures = self.figures(subject)?;
        // All processes have been waited for.
        let cpu_seconds = ended_cpu_seconds() - before;
        let works = figures.work.filter(|work| *work > 0.0);
        if !figures.value.is_finite() || figures.value <= 0.0 {
            return Err(io::Error::other(format!("it reported {}", figures.value)));
        }
        Ok(Sample {
            value: figures.value,
            cpu: works.map(|work| cpu_seconds / work),
            average_us: figures.average_us,
            tail_us: figures.tail_us,
        })
    }

    fn figures(&self, subject: Subject) -> io::Result<Figures> {
        match subject {
            Subject::Fairway(native, carrier) => self.fairway(native, carrier),
            Subject::UdpBlast => {
                let settings = [PACKET_BYTES, PACKETS, millis(self.duration)];
                self.streams(1, ["udp-sink", "udp-blast"], &settings)
            }
            Subject::TcpStreams(count) => {
                let settings = [TCP_BYTES, millis(self.duration)];
                self.streams(count, ["tcp-sink", "tcp-stream"], &settings)
            }
            Subject::UdpPing => self.ping(["udp-echo", "udp-ping"]),
            Subject::TcpPing => self.ping(["tcp-echo", "tcp-ping"]),
            Subject::Copy => self.copy(),
            Subject::Perftest(program, carrier) => self.perftest(program, carrier),
            Subject::Iperf3 => self.iperf3(),
            Subject::Library(library, quantity, over) => self.library(library, quantity, over),
        }
    }

    /// The two sides of a stream: on loopback and veth all streams have the same, and among several
    /// pairs each stream of several has its own.
    fn sides(&self, number: usize, count: usize) -> &Sides {
        let pairs = &self.place.pairs;
        if count == 1 { &self.place.sides } else { &pairs[number % pairs.len()] }
    }

    /// A number of one-way transfers of the raw peers at once. The rate is the sum of theirs.
    fn streams(&self, count: usize, roles: [&str; 2], settings: &[u64]) -> io::Result<Figures> {
        let pairs: io::Result<Vec<Pair>> =
            (0..count).map(|number| raw_pair(self.sides(number, count), roles, settings)).collect();
        let (mut rate, mut total) = (0.0, 0.0);
        for [listener, _] in self.runner.pairs(pairs?)? {
            let [bytes, seconds] = numbers(last_line(&listener))?;
            rate += gbps(bytes, seconds);
            total += bytes;
        }
        Ok(Figures::bulk(rate, total))
    }

    /// A ping-pong of the raw peers: half of the median round trip.
    fn ping(&self, roles: [&str; 2]) -> io::Result<Figures> {
        let settings = [SMALL_BYTES, millis(self.duration)];
        let [_, driver] = self.runner.pair(raw_pair(&self.place.sides, roles, &settings)?)?;
        let [_, p50_us, mean_us, _, count, _lost] = numbers(last_line(&driver))?;
        let figures = Figures::small(p50_us / 2.0, 2.0 * count);
        Ok(Figures { average_us: Some(mean_us / 2.0), ..figures })
    }

    fn copy(&self) -> io::Result<Figures> {
        let side = &self.place.sides.driver;
        let nowhere = SocketAddr::new(side.bind, 0);
        let settings = [COPY_BYTES, millis(self.duration)];
        let text = self.runner.single(side_command(side, "copy", nowhere, &settings)?)?;
        let [bytes, seconds] = numbers(last_line(&text))?;
        Ok(Figures::bulk(gbps(bytes, seconds), bytes))
    }

    /// `fairway perf`, with the target as the place's listener.
    fn fairway(&self, native: Native, carrier: Carrier) -> io::Result<Figures> {
        let datapath = match carrier {
            Carrier::Fairway | Carrier::Roce => "udp",
            Carrier::SharedMemory => "shm",
            Carrier::Frames => "xdp",
        };
        let Sides { listener, driver } = &self.place.sides;
        let perf = |side: &Side| {
            let mut command = command(&self.tool, side.namespace.as_deref());
            command.args(["perf", "--datapath", datapath, "--pin", &side.core.to_string()]);
            command
        };
        let mut server = perf(listener);
        server.args(["--server", "--bind", &with_port(listener.bind, 0)]);
        server.args(["--parent", &std::process::id().to_string()]);
        let mut client = perf(driver);
        client.args(native_arguments(native)).args(["--json", "--duration"]);
        client.arg(format!("{}ms", self.duration.as_millis()));
        client.args(["--bind", &driver.bind.to_string(), "--connect"]);
        let client = move |address: &str| {
            client.arg(address);
            Ok(client)
        };
        let pair =
            Pair { server, ready: Ready::Prints, end: End::Stopped, client: Box::new(client) };
        let [_, text] = self.runner.pair(pair)?;
        native_figures(native, datapath, &text)
    }

    /// A command of this side, pinned to its core.
    pub fn pinned(&self, side: &Side) -> Command {
        let mut command = command("taskset".as_ref(), side.namespace.as_deref());
        command.args(["-c", &side.core.to_string()]);
        command
    }
}

/// A listener and a driver of the raw peers.
fn raw_pair(sides: &Sides, roles: [&str; 2], settings: &[u64]) -> io::Result<Pair> {
    let anywhere = SocketAddr::new(sides.driver.bind, 0);
    let server = side_command(&sides.listener, roles[0], anywhere, settings)?;
    let (driver, role) = (sides.driver.clone(), roles[1].to_owned());
    let settings = settings.to_vec();
    let client = move |address: &str| {
        let address = address.parse().map_err(|_| io::Error::other("no address of a listener"))?;
        side_command(&driver, &role, address, &settings)
    };
    Ok(Pair { server, ready: Ready::Prints, end: End::Itself, client: Box::new(client) })
}

fn with_port(address: IpAddr, port: u16) -> String {
    SocketAddr::new(address, port).to_string()
}

fn last_line(text: &str) -> &str {
    text.trim().lines().next_back().unwrap_or_default()
}

/// The operation and its options. Bulk uses as much memory on each side as the raw peers do.
fn native_arguments(native: Native) -> &'static [&'static str] {
    match native {
        Native::BulkMebibyte => &["write", "--size", "1M", "--depth", "16", "--buffer", "64M"],
        Native::Bulk64K => &["write", "--size", "64K", "--depth", "128", "--buffer", "64M"],
        Native::SendHalf => &["send", "--size", "64", "--latency", "--ping-pong"],
        Native::WriteRoundTrip => &["write", "--size", "64", "--latency"],
        Native::Write8 => &["write", "--size", "8", "--depth", "512"],
        Native::Write64 => &["write", "--size", "64", "--depth", "512"],
    }
}

/// The figures of the row that `fairway perf --json` printed.
fn native_figures(native: Native, datapath: &str, text: &str) -> io::Result<Figures> {
    let row = text.lines().find(|line| line.starts_with('{'));
    let row: Value = serde_json::from_str(row.unwrap_or_default())
        .map_err(|_| io::Error::other(format!("no JSON: {}", super::parse::last_line(text))))?;
    let number = |value: &Value| {
        value.as_f64().ok_or_else(|| io::Error::other("a figure of fairway perf is missing"))
    };
    if row["verified"].as_u64().unwrap_or_default() == 0 {
        return Err(io::Error::other("fairway perf verified nothing"));
    }
    // Long trains of frames take the sockets.
    let used = row["datapath"].as_str().unwrap_or_default();
    if used != datapath && (datapath, used) != ("xdp", "xdp and udp") {
        return Err(io::Error::other(format!("it used the datapath {used}")));
    }
    let iterations = number(&row["iterations"])?;
    match native {
        Native::BulkMebibyte | Native::Bulk64K => {
            Ok(Figures::bulk(number(&row["gbps"])?, iterations * number(&row["size"])?))
        }
        Native::Write8 | Native::Write64 => Ok(Figures::small(number(&row["mops"])?, iterations)),
        Native::SendHalf | Native::WriteRoundTrip => {
            let times = &row["latency_us"];
            // A ping-pong has two messages for each measured time.
            let messages = if native == Native::SendHalf { 2.0 } else { 1.0 };
            Ok(Figures {
                average_us: Some(number(&times["avg"])?),
                tail_us: Some(number(&times["p999"])?),
                ..Figures::small(number(&times["p50"])?, messages * iterations)
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of `fairway perf send --size 64 --latency --ping-pong --json`, shortened.
    const SEND: &str = r#"{"datapath":"shm","iterations":28539,"latency_us":{"avg":4.97,"max":834.8,
        "min":3.01,"p50":4.04,"p99":21.4,"p999":48.2},"mops":0.095,"size":64,"verified":3912600}"#;

    #[test]
    fn half_round_trip_counts_two_messages() {
        let line = SEND.replace('\n', "");
        let figures = native_figures(Native::SendHalf, "shm", &line).expect("figures");
        assert_eq!(figures.value, 4.04);
        assert_eq!(figures.work, Some(0.057078));
        assert_eq!((figures.average_us, figures.tail_us), (Some(4.97), Some(48.2)));
    }

    #[test]
    fn figures_of_another_datapath_and_unverified_ones_are_refused() {
        let line = SEND.replace('\n', "");
        assert!(native_figures(Native::SendHalf, "udp", &line).is_err());
        let line = line.replace("3912600", "0");
        assert!(native_figures(Native::SendHalf, "shm", &line).is_err());
        assert!(native_figures(Native::SendHalf, "shm", "error: no peer\n").is_err());
    }
}
