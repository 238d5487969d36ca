//! Raw peers: the capacity of this machine and this link without Fairway.
//!
//! Each measurement runs two processes, pinned to a core each: one that listens and one that
//! drives. They are this same program, started with [`SUBCOMMAND`], and use only sockets, so that
//! Fairway can be compared with their results. They check no data, because they only show what is
//! possible.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

mod roles;
pub(crate) mod sockets;
mod tcp;
#[cfg(test)]
mod tests;

/// The hidden subcommand under which this program runs one side: it calls [`peer_main`] with the
/// arguments that follow.
pub const SUBCOMMAND: &str = "raw-peer";

/// Place of one side of a measurement.
#[derive(Clone, Debug)]
pub struct Side {
    /// Local address of the side.
    pub bind: IpAddr,
    /// Core to which the side is pinned.
    pub core: usize,
    /// Network namespace of the side (entered by `ip netns exec`); `None` for this program's.
    pub namespace: Option<String>,
}

/// The two sides of a measurement.
#[derive(Clone, Debug)]
pub struct Sides {
    /// The passive side, which receives, or answers.
    pub listener: Side,
    /// The active side.
    pub driver: Side,
}

impl Sides {
    /// Both sides on `address` of this machine, on cores 0 and 1.
    pub fn local(address: IpAddr) -> Self {
        let side = |core| Side { bind: address, core, namespace: None };
        Sides { listener: side(0), driver: side(1) }
    }
}

/// Results of a one-way transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Rate at which the driver passed payload to its kernel, in Gb/s.
    pub sent_gbps: f64,
    /// Rate at which the listener received payload, in Gb/s, from its first to its last arrival.
    pub received_gbps: f64,
    /// Number of bytes passed to the kernel.
    pub sent_bytes: u64,
    /// Number of bytes received.
    pub received_bytes: u64,
}

/// Round-trip times, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundTrip {
    /// Minimum.
    pub min_us: f64,
    /// Median.
    pub p50_us: f64,
    /// Mean.
    pub mean_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Number of measured round trips.
    pub count: u64,
    /// Number of repetitions because no answer arrived.
    pub lost: u64,
}

/// Sends `segments` packets of `segment_bytes` per call, as fast as possible, with segmentation and
/// receive offload, and with 64 MiB of memory on each side.
///
/// # Errors
/// A side could not be started, or reported an error.
pub fn udp_blast(
    sides: &Sides,
    segment_bytes: usize,
    segments: usize,
    duration: Duration,
) -> io::Result<Rate> {
    let settings = [segment_bytes as u64, segments as u64, millis(duration)];
    rate(sides, ["udp-sink", "udp-blast"], &settings)
}

/// Measures one TCP connection, written to in pieces of `write_bytes` (256 KiB is usual).
///
/// # Errors
/// As [`udp_blast`].
pub fn tcp_stream(sides: &Sides, write_bytes: usize, duration: Duration) -> io::Result<Rate> {
    rate(sides, ["tcp-sink", "tcp-stream"], &[write_bytes as u64, millis(duration)])
}

/// Sends one packet of `bytes` back and forth. Both sides poll without sleeping.
///
/// # Errors
/// As [`udp_blast`].
pub fn udp_ping_pong(sides: &Sides, bytes: usize, duration: Duration) -> io::Result<RoundTrip> {
    let settings = [bytes as u64, millis(duration)];
    let (_, line) = run(sides, ["udp-echo", "udp-ping"], &settings)?;
    let [min_us, p50_us, mean_us, p99_us, count, lost] = numbers(&line)?;
    let (count, lost) = (count as u64, lost as u64);
    Ok(RoundTrip { min_us, p50_us, mean_us, p99_us, count, lost })
}

/// Runs one side: the arguments are a role and its settings, as this module passes them.
///
/// On an error it prints the reason and exits, instead of returning.
pub fn peer_main(args: &[String]) {
    let mut out = io::stdout();
    if let Err(error) = roles::run(args, &mut out) {
        eprintln!("raw peer {}: {error}", args.join(" "));
        std::process::exit(1);
    }
}

fn rate(sides: &Sides, roles: [&str; 2], settings: &[u64]) -> io::Result<Rate> {
    let (listener, driver) = run(sides, roles, settings)?;
    let [received_bytes, received_seconds] = numbers(&listener)?;
    let [sent_bytes, sent_seconds] = numbers(&driver)?;
    Ok(Rate {
        sent_gbps: gbps(sent_bytes, sent_seconds),
        received_gbps: gbps(received_bytes, received_seconds),
        sent_bytes: sent_bytes as u64,
        received_bytes: received_bytes as u64,
    })
}

/// Starts both sides and waits for both. Returns the last line of each.
fn run(sides: &Sides, roles: [&str; 2], settings: &[u64]) -> io::Result<(String, String)> {
    let anywhere = SocketAddr::new(sides.driver.bind, 0);
    let mut listener = Peer::start(&sides.listener, roles[0], anywhere, settings)?;
    let address: SocketAddr = parse(&listener.line()?)?;
    let mut driver = Peer::start(&sides.driver, roles[1], address, settings)?;
    let driver_line = driver.line()?;
    let listener_line = listener.line()?;
    driver.finish()?;
    listener.finish()?;
    Ok((listener_line, driver_line))
}

/// A running side. Killed if it is dropped before it has ended.
struct Peer {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    role: String,
}

/// The command of one side: a role of this module, and the address of the other side. A listener
/// prints its own address first; its port in `to` is 0.
///
/// # Errors
/// The path of this program is not known.
pub fn side_command(
    side: &Side,
    role: &str,
    to: SocketAddr,
    settings: &[u64],
) -> io::Result<Command> {
    let program = std::env::current_exe()?;
    let mut command = crate::programs::command(&program, side.namespace.as_deref());
    command.args([SUBCOMMAND, role]).arg(side.core.to_string());
    command.arg(side.bind.to_string()).arg(to.to_string());
    command.args(settings.iter().map(u64::to_string));
    Ok(command)
}

impl Peer {
    fn start(side: &Side, role: &str, to: SocketAddr, settings: &[u64]) -> io::Result<Self> {
        let mut command = side_command(side, role, to, settings)?;
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        Ok(Peer { child, output: BufReader::new(output), role: role.to_owned() })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            let role = &self.role;
            return Err(io::Error::other(format!("the raw peer '{role}' ended without a result")));
        }
        Ok(line.trim().to_owned())
    }

    fn finish(mut self) -> io::Result<()> {
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("{}: {status}", self.role)))
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The process may have ended by itself; then these calls have no effect.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Parses the numbers of a line, which must be exactly `N`.
pub fn numbers<const N: usize>(line: &str) -> io::Result<[f64; N]> {
    let parsed: Result<Vec<f64>, io::Error> = line.split_whitespace().map(parse).collect();
    parsed?.try_into().map_err(|_| io::Error::other(format!("not {N} numbers: '{line}'")))
}

fn parse<T: FromStr>(text: &str) -> io::Result<T> {
    text.parse().map_err(|_| io::Error::other(format!("a raw peer can't make sense of '{text}'")))
}

/// Gb/s of this number of bytes in this time; 0 if the time is 0.
pub fn gbps(bytes: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes * 8.0 / seconds / 1e9 } else { 0.0 }
}

/// The duration in milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Prints a line for the other process.
fn say(out: &mut dyn Write, line: std::fmt::Arguments<'_>) -> io::Result<()> {
    writeln!(out, "{line}")?;
    out.flush()
}
