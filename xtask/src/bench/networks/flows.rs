//! A flow of a cell: TCP or Fairway, alone or beside a TCP flow from another host.

use std::fmt;
use std::io;
use std::time::Duration;

use serde_json::Value;

use super::TCP_CONTROLLERS;
use super::cells::Cell;
use super::emulator::Emulator;
use super::running::Running;
use crate::peers;
use crate::programs::{command, ended_cpu_seconds, fairway};

/// Bytes that both programs write at once.
const WRITE_BYTES: u64 = 32 << 10;
/// Longest excess over the planned time of a measurement.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time that the TCP flow of a pair runs before and after its measurement, so that Fairway begins
/// within the first and ends within the second.
const BEFORE: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_secs(2);
/// Fairway begins its measurement at most this much sooner, so the TCP flow beside it ends sooner.
const SOONER: Duration = Duration::from_millis(500);
/// Warm-up as a fraction (1 / 10) of a measurement's duration, and its maximum, as in `fairway
/// perf`.
const WARM_UP_PART: u32 = 10;
const WARM_UP_MAX: Duration = Duration::from_millis(300);
/// Hosts: the sender, the sender of the other flow, and the receiver. Cores: of senders, of
/// receivers.
const SENDER: usize = 0;
const NEIGHBOUR: usize = 1;
const RECEIVER: usize = 3;
const CORES: [usize; 2] = [0, 1];

/// A flow to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    pub controller: Controller,
    /// Whether a TCP flow of another host shares the receiver's link.
    pub beside_tcp: bool,
}

/// Congestion control of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Controller {
    /// That of the TCP flow with which all others are compared, and which runs beside them.
    Tcp,
    /// The kernel's, by its index in [`TCP_CONTROLLERS`].
    Kernel(usize),
    /// One of Fairway's, by its name or as the text of a policy.
    Fairway(String),
}

impl Controller {
    /// Parses a congestion control: one of Fairway's, or one of the kernel's after `tcp:`. `None`
    /// if the kernel's is unknown.
    pub fn parse(text: &str) -> Option<Controller> {
        match text.strip_prefix("tcp:") {
            Some(name) => TCP_CONTROLLERS
                .iter()
                .position(|controller| *controller == name)
                .map(Controller::Kernel),
            None => Some(Controller::Fairway(text.to_owned())),
        }
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Controller::Tcp => f.write_str("TCP"),
            Controller::Kernel(number) => write!(f, "tcp:{}", TCP_CONTROLLERS[*number]),
            Controller::Fairway(name) => f.write_str(name),
        }
    }
}

/// Results of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    pub mbps: f64,
    /// Rate of the TCP flow beside it.
    pub beside_mbps: Option<f64>,
    /// Number of packets with data.
    pub packets: u64,
    /// Number of retransmitted packets.
    pub again: u64,
    /// Number of retransmitted packets that the receiver already had.
    pub for_nothing: u64,
    /// CPU time of both sides; `None` if there are two flows.
    pub cpu_seconds: Option<f64>,
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beside = if self.beside_tcp { " beside TCP" } else { "" };
        write!(f, "{}{beside}", self.controller)
    }
}

impl Flow {
    /// Runs the flow once for `duration`.
    ///
    /// # Errors
    /// A program failed, or took far too long.
    pub fn run(
        &self,
        emulator: &Emulator,
        cell: Cell,
        tcp_controller: usize,
        duration: Duration,
    ) -> io::Result<Sample> {
        let before = ended_cpu_seconds();
        let beside = self.beside_tcp.then(|| {
            let measured = duration.saturating_sub(SOONER).max(SOONER);
            let times = TcpTimes { warm_up: BEFORE, measured, after: AFTER };
            Tcp::start(emulator, NEIGHBOUR, tcp_controller, &times)
        });
        let beside = beside.transpose()?;
        let mut sample = match &self.controller {
            Controller::Tcp | Controller::Kernel(_) => {
                let controller = if let Controller::Kernel(number) = self.controller {
                    number
                } else {
                    tcp_controller
                };
                let warm_up = (duration / WARM_UP_PART).min(WARM_UP_MAX);
                let warm_up = if self.beside_tcp { BEFORE } else { warm_up };
                let times = TcpTimes { warm_up, measured: duration, after: Duration::ZERO };
                Tcp::start(emulator, SENDER, controller, &times)?.finish()?
            }
            Controller::Fairway(controller) => fairway_flow(emulator, cell, controller, duration)?,
        };
        match beside {
            Some(tcp) => {
                sample.beside_mbps = Some(tcp.finish()?.mbps);
                sample.cpu_seconds = None;
            }
            None => sample.cpu_seconds = Some(ended_cpu_seconds() - before),
        }
        Ok(sample)
    }
}

/// The text of the policy; `None` for the built-in default.
fn policy(controller: &str, cell: Cell) -> Option<String> {
    let rate = format!("{}Mbps", cell.megabits);
    match controller {
        "default" => None,
        "eqds" => Some(format!("cc=eqds:line={rate}")),
        text if text.contains('=') => Some(text.replace("RATE", &rate)),
        name => Some(format!("cc={name}")),
    }
}

fn fairway_flow(
    emulator: &Emulator,
    cell: Cell,
    controller: &str,
    duration: Duration,
) -> io::Result<Sample> {
    let program = fairway()?;
    let policy = policy(controller, cell);
    let start = |host: usize, core: usize| {
        let mut command = command(&program, Some(&emulator.namespace(host)));
        command.args(["perf", "--pin", &core.to_string()]);
        command.args(policy.iter().flat_map(|policy| ["--policy", policy]));
        command.arg("--bind").arg(Emulator::address(host).to_string());
        command
    };
    let mut server = start(RECEIVER, CORES[1]);
    server.args(["--server", "--parent", &std::process::id().to_string()]);
    let server = Running::start(&mut server, "fairway perf --server")?;
    let line = server.line(TIMEOUT)?.unwrap_or_default();
    let address = line.trim().rsplit(' ').next().unwrap_or_default();
    let mut client = start(SENDER, CORES[0]);
    let millis = format!("{}ms", duration.as_millis());
    // Twice the capacity of link and queue, so that only the congestion control limits the window.
    let held = cell.product_bytes() * (100 + u64::from(cell.queue_percent)) / 100;
    let depth = (2 * held / WRITE_BYTES).clamp(32, 1024).to_string();
    client.args(["write", "--json", "--connect", address, "--duration", &millis]);
    client.args(["--size", &WRITE_BYTES.to_string(), "--depth", &depth]);
    let client = Running::start(&mut client, "fairway perf write")?;
    let row: Value = serde_json::from_str(&client.last_line(duration + TIMEOUT)?)?;
    if row["verified"].as_u64().unwrap_or_default() == 0 {
        return Err(io::Error::other("fairway perf compared nothing"));
    }
    let count = |name: &str| {
        let missing = || io::Error::other(format!("fairway perf: no {name} in {row}"));
        row[name].as_u64().ok_or_else(missing)
    };
    let gbps = row["gbps"].as_f64().ok_or_else(|| io::Error::other(format!("no rate in {row}")))?;
    Ok(Sample {
        mbps: gbps * 1000.0,
        packets: count("packets_sent")?,
        again: count("packets_resent")?,
        for_nothing: count("packets_duplicate")?,
        ..Sample::default()
    })
}

/// Times of a TCP flow's phases.
struct TcpTimes {
    warm_up: Duration,
    measured: Duration,
    after: Duration,
}

/// A running TCP flow.
struct Tcp {
    meter: Running,
    flow: Running,
    limit: Duration,
    measured: Duration,
}

impl Tcp {
    fn start(
        emulator: &Emulator,
        from: usize,
        controller: usize,
        times: &TcpTimes,
    ) -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let peer = |host: usize, core: usize, role: &str, to: &str| {
            let mut command = command(&program, Some(&emulator.namespace(host)));
            command.args([peers::SUBCOMMAND, role, &core.to_string()]);
            command.arg(Emulator::address(host).to_string()).arg(to);
            let spans = [times.warm_up, times.measured, times.after];
            command.arg(WRITE_BYTES.to_string());
            command
                .args(spans.map(|span| span.as_millis().to_string()))
                .arg(controller.to_string());
            command
        };
        let nowhere = format!("{}:0", Emulator::address(from));
        let mut meter = peer(RECEIVER, CORES[1], "tcp-meter", &nowhere);
        let meter = Running::start(&mut meter, "the TCP receiver")?;
        let address = meter.line(TIMEOUT)?.unwrap_or_default();
        let mut flow = peer(from, CORES[0], "tcp-flow", &address);
        let flow = Running::start(&mut flow, "the TCP sender")?;
        let limit = times.warm_up + times.measured + times.after + TIMEOUT;
        Ok(Tcp { meter, flow, limit, measured: times.measured })
    }

    fn finish(self) -> io::Result<Sample> {
        let sent = self.flow.last_line(self.limit)?;
        let received = self.meter.last_line(TIMEOUT)?;
        let [packets, again, for_nothing] = peers::numbers(&sent)?;
        let [bytes] = peers::numbers(&received)?;
        Ok(Sample {
            mbps: bytes * 8.0 / 1e6 / self.measured.as_secs_f64(),
            packets: packets as u64,
            again: again as u64,
            for_nothing: for_nothing as u64,
            ..Sample::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Controller;

    #[test]
    fn name_behind_tcp_is_a_kernel_controller_and_any_other_is_fairways() {
        for name in ["tcp:cubic", "tcp:bbr", "cubic", "cc=fixed:512K"] {
            let controller = Controller::parse(name).unwrap();
            assert_eq!(controller.to_string(), name);
            assert_eq!(
                matches!(controller, Controller::Kernel(_)),
                name.starts_with("tcp:"),
                "{name}"
            );
        }
        assert_eq!(Controller::parse("tcp:swift"), None);
    }
}
