//! Reads this machine. Sockets are tested by opening them; the rest is read from `/proc` and
//! `/sys`.

use std::net::{Ipv4Addr, UdpSocket};

use super::readings::{PeerReading, Readings};

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
        interfaces: system::interfaces(),
        routes: system::routes(&system::text("/proc/net/route").unwrap_or_default()),
        clock: processors::clock(),
        processors: processors::processors(),
        permissions: system::permissions(),
        tcp: system::tcp(),
        verbs: programs::verbs(),
        roce_port: programs::roce_port(),
        peer,
    }
}

/// A socket for queries to the kernel, bound to the loopback interface.
fn plain_socket() -> std::io::Result<UdpSocket> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
}
