//! The measurements, each of which yields one number.

use std::io;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::place::Place;
use crate::peers::{self, Side};
use crate::programs::{Server, command, fairway, json};

/// Payload of a packet in bytes, for Fairway and for the raw peer.
const PACKET_BYTES: usize = 4096;
/// Packets in one call of the raw peer, as many as fit the length of a datagram.
const PACKETS: usize = 15;
/// Bytes that the TCP peer writes at once.
const TCP_BYTES: usize = 256 << 10;
const SMALL_BYTES: usize = 64;

/// Options for bulk WRITEs, with as much memory on each side as the raw peers use.
const BULK: &[&str] = &["write", "--size", "1M", "--depth", "16", "--buffer", "64M"];

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measurement {
    UdpBlast,
    TcpStream,
    Write,
    WriteLoss,
    WriteReorder,
    UdpPing,
    WriteLatency,
    ReadLatency,
    SmallWrites,
}

impl Measurement {
    /// All measurements, in the order in which they alternate: compared ones are adjacent.
    pub const ALL: &'static [Measurement] = &[
        Measurement::UdpBlast,
        Measurement::Write,
        Measurement::TcpStream,
        Measurement::WriteLoss,
        Measurement::WriteReorder,
        Measurement::WriteLatency,
        Measurement::UdpPing,
        Measurement::ReadLatency,
        Measurement::SmallWrites,
    ];

    /// Takes one sample, in Gb/s, microseconds or millions per second.
    pub fn run(self, place: &Place, duration: Duration) -> io::Result<f64> {
        let sides = &place.sides;
        let small = SMALL_BYTES.to_string();
        let latency = ["--size", &small, "--latency"];
        match self {
            Measurement::UdpBlast => {
                let rate = peers::udp_blast(sides, PACKET_BYTES, PACKETS, duration)?;
                Ok(rate.received_gbps)
            }
            Measurement::TcpStream => {
                Ok(peers::tcp_stream(sides, TCP_BYTES, duration)?.received_gbps)
            }
            Measurement::UdpPing => Ok(peers::udp_ping_pong(sides, SMALL_BYTES, duration)?.p50_us),
            Measurement::Write => number(&perf(place, BULK, None, duration)?, "gbps"),
            Measurement::WriteLoss => {
                number(&perf(place, BULK, Some("loss=1%"), duration)?, "gbps")
            }
            Measurement::WriteReorder => {
                number(&perf(place, BULK, Some("reorder=64"), duration)?, "gbps")
            }
            Measurement::WriteLatency => {
                let arguments = [&["write"], &latency[..]].concat();
                number(&perf(place, &arguments, None, duration)?["latency_us"], "p50")
            }
            Measurement::ReadLatency => {
                let arguments = [&["read"], &latency[..]].concat();
                number(&perf(place, &arguments, None, duration)?["latency_us"], "p50")
            }
            Measurement::SmallWrites => {
                let arguments = ["write", "--size", &small, "--depth", "512"];
                number(&perf(place, &arguments, None, duration)?, "mops")
            }
        }
    }
}

/// Runs `fairway perf` with the target as the place's listener, and returns its row.
fn perf(
    place: &Place,
    arguments: &[&str],
    emulate: Option<&str>,
    duration: Duration,
) -> io::Result<Value> {
    let program = fairway()?;
    let start = |side: &Side| -> Command {
        let mut command = command(&program, side.namespace.as_deref());
        command.args(["perf", "--datapath", "udp", "--pin"]).arg(side.core.to_string());
        command.args(emulate.map(|spec| format!("--emulate={spec}")));
        command
    };
    let listener = &place.sides.listener;
    let mut server = start(listener);
    server.args(["--server", "--bind"]).arg(format!("{}:0", listener.bind));
    server.arg("--parent").arg(std::process::id().to_string());
    let server = Server::start(&mut server)?;
    let driver = &place.sides.driver;
    let mut client = start(driver);
    client.args(arguments).arg("--json").arg("--duration");
    client.arg(format!("{}ms", duration.as_millis()));
    client.arg("--bind").arg(driver.bind.to_string()).arg("--connect").arg(&server.address);
    let row = json(&mut client)?;
    if row["verified"].as_u64().unwrap_or_default() == 0 {
        return Err(io::Error::other("a measurement compared nothing"));
    }
    Ok(row)
}

fn number(row: &Value, name: &str) -> io::Result<f64> {
    row[name].as_f64().ok_or_else(|| io::Error::other(format!("no {name} in {row}")))
}
