//! Reads this machine. Sockets are tested by opening them; the rest is read from `/proc` and
//! `/sys`.

use std::net::{Ipv4Addr, UdpSocket};

use fairway_port::rnic::FoundPort;

use super::readings::{PeerReading, RdmaPort, Readings};

pub(super) mod peer;
mod processors;
mod programs;
mod sockets;
mod system;

/// All readings of this machine, in addition to those of a named peer.
pub(super) fn gather(peer: Option<PeerReading>) -> Readings {
    Readings {
        kernel: system::line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
        udp: sockets::udp().map_err(|error| error.to_string()),
        af_xdp: fairway_port::xdp::check().map_err(|error| error.to_string()),
        shared_memory: sockets::shared_memory().map_err(|error| error.to_string()),
        rdma_devices: system::entries("/sys/class/infiniband"),
        rdma_ports: rdma_ports().map_err(|error| error.to_string()),
        interfaces: system::interfaces(),
        routes: system::routes(&system::text("/proc/net/route").unwrap_or_default()),
        clock: processors::clock(),
        processors: processors::processors(),
        permissions: system::permissions(),
        tcp: system::tcp(),
        verbs: programs::verbs(),
        roce_port: programs::roce_port(),
        environment: environment(),
        peer,
    }
}

fn environment() -> Vec<(String, String)> {
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let variables = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    let mut ours: Vec<_> = variables.filter(|(name, _)| name.starts_with("FAIRWAY_")).collect();
    ours.sort();
    ours
}

fn rdma_ports() -> std::io::Result<Vec<RdmaPort>> {
    let ports = fairway_port::rnic::ports()?;
    let reading = |port: FoundPort| RdmaPort {
        name: format!("{}:{}", port.device, port.number),
        is_active: port.is_active,
        addresses: port.addresses().map(|address| address.to_string()).collect(),
    };
    Ok(ports.into_iter().map(reading).collect())
}

/// A socket for queries to the kernel, bound to the loopback interface.
fn plain_socket() -> std::io::Result<UdpSocket> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
}
